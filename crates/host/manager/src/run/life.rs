//! Start and end of a manager, and new settings.

use super::parts::{Options, Parts};
use super::timers::Timers;
use super::{Devices, Manager, Run};
use crate::attach::Attachments;
use crate::config::{DEFAULT_PATH, Place};
use crate::control::{Answer, Failure, Reloaded};
use crate::effect::{Effect, GuestEvent, Now};
use crate::guest::ManagedGuest;
use crate::guests::Guests;
use crate::journal::JournalWriter;
use crate::machine::HostMeter;
use crate::memory::{Memory, Schedule, engines};
use crate::monitor::Monitor;
use crate::pageout::PageOuts;
use crate::parking::Parking;
use crate::recorder::Recorder;
use crate::requests::Requests;
use crate::scan::Scans;
use crate::scrape::{ScrapeServer, host_name};
use crate::sources::Sources;
use crate::{Error, start};
use base::Bytes;
use std::path::{Path, PathBuf};
use store::kinds;

/// Time after the start at which the number of guests is reported.
const GREETING_MS: u64 = 3_000;

impl Manager {
    /// Starts a manager with the given file of settings, or the default file.
    pub fn start(config_path: Option<PathBuf>, options: Options) -> Result<Manager, Error> {
        let (parts, mut notices) = start::parts(config_path, options)?;
        let mut manager = Manager::new(parts)?;
        manager.notices.append(&mut notices);
        Ok(manager)
    }

    /// Returns a manager that has read the host's state and has no guests yet.
    pub fn new(parts: Parts) -> Result<Manager, Error> {
        let Parts { clock, options, place, config_path, loaded, .. } = parts;
        let options = options.with(&loaded.settings);
        let (engine, shadow) = engines(&loaded, !options.dry_run, Bytes::ZERO)?;
        let now_ms = clock.ms();
        let (scrape, trouble) = ScrapeServer::of(&loaded.settings.metrics);
        let is_recorded = parts.monitor.as_ref().is_some_and(|monitor| monitor.records);
        let host_name = host_name(&loaded.settings.metrics);
        let left = parts.lease.left();
        let mut manager = Manager {
            run: Run {
                clock,
                options,
                place,
                config_path,
                config_in_force: loaded.path.clone(),
                start_ms: now_ms,
                has_yielded: false,
            },
            settings: loaded.settings,
            devices: Devices {
                sources: Sources::new(parts.sources),
                attachments: Attachments::default(),
                reader: parts.reader,
                control: parts.control,
                scrape,
                journal: JournalWriter::new(parts.journal, now_ms),
                lease: parts.lease,
                ksm: parts.ksm,
                page_out: parts.page_out,
                monitor: parts.monitor,
            },
            host: HostMeter::default(),
            guests: Guests::new(parts.users, host_name),
            memory: Memory::new(engine, shadow, is_recorded),
            schedule: Schedule::new(now_ms),
            requests: Requests::default(),
            parking: Parking::after(&left),
            scans: Scans::new(is_recorded),
            page_outs: PageOuts::default(),
            recorder: Recorder::default(),
            timers: Timers::due(now_ms),
            watcher: reactor::Watcher::default(),
            notices: trouble.into_iter().collect(),
        };
        if !left.is_empty() {
            let text = format!(
                "Guests that stayed parked after their manager and its keeper were killed: {}. \
                 This manager wakes each guest that it finds",
                left.len()
            );
            manager.notices.push(text);
        }
        let now = manager.now();
        manager.read_host(now);
        manager.configure(now);
        let started = Effect::note(kinds::MANAGER_START, "the manager has started", None);
        manager.perform(vec![started], now);
        Ok(manager)
    }

    /// Reports the number of guests at the start and after changes. Without guests at the start,
    /// the places that were searched are reported.
    pub(super) fn greet(&mut self, now: Now) {
        let is_early = now.ms.saturating_sub(self.run.start_ms) < GREETING_MS;
        let is_first = self.timers.crowd.is_first();
        let count = self.guests.len();
        if is_early || !self.timers.crowd.is_news(count, GREETING_MS, now.ms) {
            return;
        }
        self.notices.push(match count {
            0 if !is_first => "No guest is left; guests are added when they start".into(),
            0 => {
                let places = self.devices.sources.places(&self.settings.sources.qmp);
                format!("No guest found yet in {places}. Guests are added when they start")
            }
            count => match self.watching() {
                Some(text) => format!("Dry run: {text}"),
                None => format!("Managing {}", base::counted(count as u64, "guest")),
            },
        });
    }

    /// Returns a sentence about a manager that changes nothing, with the remedy if a setting is the
    /// reason.
    pub(super) fn watching(&self) -> Option<String> {
        if !self.run.options.dry_run {
            return None;
        }
        let guests = base::counted(self.guests.len() as u64, "guest");
        let mut text = format!("watching {guests}, changing nothing");
        if !self.settings.policy.act {
            let path = self.run.config_in_force.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
            let restart = match path == Path::new(DEFAULT_PATH) {
                true => "run `systemctl restart pinhead-host`",
                false => "start the manager again",
            };
            text += &format!("; set `act = true` in {} and {restart}", path.display());
        }
        Some(text)
    }

    /// Applies the settings to the host's size and to all guests.
    pub(super) fn configure(&mut self, now: Now) {
        if let Some(machine) = self.host.machine() {
            self.memory.resize(&self.settings, machine.total);
        }
        self.step_guests(GuestEvent::Settings, now);
    }

    /// Reads the settings again. Either all of them take effect, or none.
    pub(super) fn reload(&mut self, now: Now) -> Result<Reloaded, Failure> {
        let total = self.host.machine().map(|machine| machine.total);
        let place = Place { host_total: total, ..self.run.place.clone() };
        let path = self.run.config_path.as_deref();
        let loaded = start::in_force(path, &place, self.run.options);
        let loaded = loaded.map_err(|error| refused(&error))?;
        let acts = !self.run.options.dry_run;
        let (engine, shadow) = engines(&loaded, acts, total.unwrap_or(Bytes::ZERO))
            .map_err(|error| refused(&error))?;
        self.memory.replace(engine, shadow);
        let mut notes = start::needs_restart(&self.settings, &loaded.settings);
        notes.extend(start::other_rules(&loaded.settings));
        let act = self.settings.policy.act;
        self.settings = loaded.settings;
        // A start with the new value decides about the keeper, so a reload keeps the old value.
        self.settings.policy.act = act;
        self.run.config_in_force = loaded.path;
        let before = self.guests.limits();
        self.configure(now);
        let after = self.guests.limits();
        let changed_guests = after.iter().filter(|(id, now)| before.get(id) != Some(now)).count();
        let note = Effect::note(kinds::RELOAD, "the settings were reloaded", None);
        self.perform(vec![note, Effect::Hurry], now);
        let config = self.run.config_in_force.as_ref().map(|path| path.display().to_string());
        Ok(Reloaded { config, changed_guests, notes })
    }

    /// Lets the manager of a `pinhead up` end, so that a `pinhead host` can take over the guests.
    pub(super) fn yield_to_another(&mut self) -> Result<Answer, Failure> {
        if !self.run.options.for_farms {
            let text = format!("This manager is a `pinhead host`, process {}", std::process::id());
            return Err(Failure::new(text).help("end it first"));
        }
        self.run.has_yielded = true;
        Ok(Answer::Yield {})
    }

    /// Returns true if this manager has agreed to end for another manager.
    pub fn has_yielded(&self) -> bool {
        self.run.has_yielded
    }

    /// Reads the settings again after a signal, and reports the outcome.
    pub fn reload_and_report(&mut self) {
        let now = self.now();
        match self.reload(now) {
            Ok(reloaded) => {
                self.notices.push(format!(
                    "The settings were reloaded; guests with changed limits: {}",
                    reloaded.changed_guests
                ));
                self.notices.extend(reloaded.notes);
            }
            Err(failure) => {
                let text = format!(
                    "The new settings are refused, the old settings stay in force: {failure}"
                );
                self.perform(vec![Effect::Complain(text)], now);
            }
        }
    }

    /// Returns messages for the terminal or the log, each once.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Returns the statuses that daemons of farms' guests have reported since the last call. Each
    /// status comes with the directory of the farm and the guest's name there.
    pub fn take_statuses(&mut self) -> Vec<(PathBuf, String, wire::Status)> {
        self.guests.iter_mut().filter_map(ManagedGuest::take_status).collect()
    }

    /// Returns true if the given run time is over.
    pub fn is_over(&self) -> bool {
        let ran_ms = self.run.clock.ms().saturating_sub(self.run.start_ms);
        self.run.options.for_ms.is_some_and(|for_ms| ran_ms >= for_ms)
    }

    pub fn guests(&self) -> usize {
        self.guests.len()
    }

    /// Ends the manager. It writes the journal, restores KSM's settings, and lets the keeper
    /// restore the guests. Returns messages to the operator.
    pub fn finish(mut self) -> Vec<String> {
        let text = match self.run.options.dry_run {
            false => "the manager ends, returns all memory and wakes its parked guests",
            true => "the manager ends after a dry run, which changed nothing",
        };
        let now = self.now();
        self.perform(vec![Effect::note(kinds::MANAGER_STOP, text, None)], now);
        for (path, error) in self.devices.ksm.restore() {
            self.notices.push(format!("{} could not be restored: {error}", path.display()));
        }
        self.notices.extend(self.devices.journal.flush());
        if self.run.options.dry_run {
            let summary = self.memory.dry_run.summary(self.guests.len());
            self.notices.extend(summary);
        }
        let Manager { devices, guests, mut notices, .. } = self;
        let Devices { lease, sources, attachments, control, monitor, journal, .. } = devices;
        // A QEMU monitor serves one client, so the manager's connections must be closed before the
        // keeper opens its own.
        drop((sources, guests, attachments));
        notices.extend(lease.finish());
        // The monitor and the journal come last, because a disk may be slow, and a copy of a locked
        // journal takes time. The socket stays until then, so that no other manager writes to these
        // files.
        notices.extend(monitor.into_iter().flat_map(Monitor::finish));
        notices.extend(journal.finish());
        drop(control);
        notices
    }
}

/// Returns an error with its causes, for a client.
fn refused(error: &dyn std::error::Error) -> Failure {
    Failure::new(base::chain(error))
}
