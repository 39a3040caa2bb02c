//! What is not done every pass: KSM, the lease's beat, the journal's age, new settings, the end.

use crate::config::{self, Place};
use crate::control::{Failure, Reloaded};
use crate::guest::Guest;
use crate::ksm::Around;
use crate::manager::Manager;
use crate::monitor::Monitor;
use crate::pass::engines;
use counters::Bytes;
use policy::arbiter::Limits;
use std::collections::BTreeMap;
use store::kinds;

/// How often the processes of guests that run are looked at, beyond what decisions need.
const LOOK_MS: u64 = 5_000;
/// How often what is too old is taken out of the journal.
const PRUNE_MS: u64 = 60_000;

impl Manager {
    /// Once a second.
    pub(crate) fn slow(&mut self, now: u64) {
        self.lease.beat(now);
        if let Some(trouble) = self.lease.take_trouble() {
            self.say(trouble);
        }
        let available = self.machine.map_or(Bytes::ZERO, |(machine, _)| machine.available);
        let around = Around {
            guests: self.guests.len(),
            arrivals: self.arrivals,
            available,
            set_point: self.engine.config.set_point,
            hysteresis: self.engine.config.hysteresis,
        };
        self.ksm.turn(&around, now);
        if let Some(note) = self.ksm.take_note() {
            self.say(note);
        }
        self.scan_turn(now);
        self.arrive(now);
        self.observe(now);
        if now >= self.next_look_ms {
            self.next_look_ms = now + LOOK_MS;
            let awake = |guest: &&mut Guest| !guest.is_asleep(now);
            self.guests.values_mut().filter(awake).for_each(|guest| guest.outside.look(now));
        }
        if now >= self.next_prune_ms {
            let has_more = self.prune();
            // What comes faster than it goes would outgrow any bound.
            self.next_prune_ms = now + if has_more { 0 } else { PRUNE_MS };
        }
    }

    /// Says, once, that nobody is there, and where was looked.
    fn arrive(&mut self, now: u64) {
        if self.greeted || now.saturating_sub(self.start_ms) < 3_000 {
            return;
        }
        self.greeted = true;
        let text = match self.guests.len() {
            0 => {
                let patterns = &self.settings.sources.qmp;
                let place = |name: String| if name == "qmp" { patterns.join(", ") } else { name };
                let places: Vec<String> = self.sources.iter().map(|s| place(s.name())).collect();
                let places = match places.is_empty() {
                    true => "nowhere: [sources] names nothing".to_owned(),
                    false => places.join(", "),
                };
                format!("No guest is there yet; looked at {places}. Guests are taken as they come")
            }
            1 => "Managing 1 guest".to_owned(),
            count => format!("Managing {count} guests"),
        };
        self.said.push(text);
    }

    /// Takes a part of what is too old or too much out of the journal. True if there is more.
    fn prune(&mut self) -> bool {
        let keep = i64::try_from(self.settings.journal.keep_ms).unwrap_or(i64::MAX);
        let before_ms = self.clock.wall_ms().saturating_sub(keep);
        match self.journal.prune(before_ms, self.settings.journal.max_size.0) {
            Ok(pruned) => pruned.more,
            Err(error) => {
                self.say(format!("The journal's old entries cannot be removed: {error}"));
                false
            }
        }
    }

    /// Reads the settings again: all of them are taken, or none.
    pub(crate) fn reload(&mut self, now: u64) -> Result<Reloaded, Failure> {
        let total = self.machine.map(|(machine, _)| machine.total);
        let place = Place { host_total: total, ..self.place.clone() };
        let loaded =
            config::load(self.config_path.as_deref(), &place).map_err(|error| refused(&error))?;
        let (mut engine, shadow) = engines(&loaded, self.options, total.unwrap_or(Bytes::ZERO))
            .map_err(|error| refused(&error))?;
        // What is known of the guests stays known: only how it is judged changes.
        std::mem::swap(&mut engine.arbiter, &mut self.engine.arbiter);
        self.engine = engine;
        self.shadow = shadow;
        let notes = needs_restart(&self.settings, &loaded.settings);
        self.settings = loaded.settings;
        let before: BTreeMap<_, Limits> =
            self.guests.iter().map(|(id, guest)| (*id, guest.limits)).collect();
        self.configure();
        let changed = |(id, guest): (&hypervisor::Id, &crate::guest::Guest)| {
            before.get(id) != Some(&guest.limits)
        };
        let changed_guests = self.guests.iter().filter(|entry| changed(*entry)).count();
        self.note(kinds::RELOAD, "the settings were read again", None);
        self.hurry(now);
        let config = self.config_path.as_ref().map(|path| path.display().to_string());
        Ok(Reloaded { config, changed_guests, notes })
    }

    /// Reads the settings again because a signal said so, and tells of the outcome.
    pub fn reload_and_tell(&mut self) {
        let now = self.clock.ms();
        match self.reload(now) {
            Ok(reloaded) => {
                self.said.push(format!(
                    "The settings were read again; {} guests have other limits",
                    reloaded.changed_guests
                ));
                self.said.extend(reloaded.notes);
            }
            Err(failure) => {
                self.say(format!("The settings were not taken, the old ones hold: {failure}"));
            }
        }
    }

    /// The end: the journal is written, KSM is as it was found, and the keeper gives back what
    /// was taken. Gives what there is to say.
    pub fn finish(mut self) -> Vec<String> {
        let text = match self.engine.acts() {
            true => "the manager ends and gives all memory back",
            false => "the manager ends; it had only looked on",
        };
        self.note(kinds::MANAGER_STOP, text, None);
        for (path, error) in self.ksm.restore() {
            self.said.push(format!("{} could not be put back: {error}", path.display()));
        }
        if let Some(news) = self.journal.flush() {
            self.said.push(crate::requests::journal_news(&news));
        }
        let Manager { lease, sources, guests, attachments, control, monitor, mut said, .. } = self;
        // A monitor serves one client: the keeper needs ours to be closed.
        drop((sources, guests, attachments, control));
        said.extend(lease.finish());
        // Last, for a disk may be slow.
        said.extend(monitor.into_iter().flat_map(Monitor::finish));
        said
    }
}

/// An error with its causes, for a client.
fn refused(error: &dyn std::error::Error) -> Failure {
    Failure::new(base::chain(error))
}

/// What of new settings takes a restart.
fn needs_restart(old: &config::Settings, new: &config::Settings) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |changed: bool, what: &str| {
        if changed {
            notes.push(format!("{what} takes effect when the manager starts again"));
        }
    };
    note(old.sources != new.sources, "[sources]");
    note(old.control != new.control, "[control]");
    note(old.ksm != new.ksm, "[ksm]");
    note(old.journal.path != new.journal.path, "[journal] path");
    note(old.monitor != new.monitor, "[monitor]");
    notes
}
