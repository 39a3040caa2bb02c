//! What sources and daemons have to say, taken in.

use crate::book;
use crate::guest::Guest;
use crate::inside::{Grants, Said};
use crate::manager::Manager;
use counters::Bytes;
use hypervisor::{Event, Found, Id};
use store::{Fate, kinds};

impl Manager {
    /// Takes an event of a source.
    pub(crate) fn take(&mut self, source: usize, event: Event, now: u64) {
        match event {
            Event::Found(id, found) => self.found(source, id, *found, now),
            Event::Rebooted(id) => self.rebooted(id, now),
            Event::State(id, state) => self.with(id, |guest| guest.state = state),
            Event::Actual(id, actual) => self.sized(id, actual),
            Event::Stats(id, stats) => self.with(id, |guest| guest.stats(&stats, now)),
            Event::Blocks(id, blocks) => self.with(id, |guest| guest.blocks = Some(blocks)),
            Event::Taken(..) => {}
            Event::Refused(id, why) => {
                let at_ms = self.clock.wall_ms();
                if let Some(guest) = self.guests.get_mut(&id)
                    && let Some(ticket) = guest.ticket.take()
                {
                    let outcome = book::ended(Fate::Refused, guest, at_ms);
                    self.journal.outcome(ticket, outcome);
                }
                self.note("refused", format!("its hypervisor refused: {why}"), Some(id));
            }
            Event::Answers(id, answers) => {
                let changed = self.guests.get(&id).is_some_and(|g| g.answers != answers);
                self.with(id, |guest| guest.answers = answers);
                if changed {
                    let text = if answers { "it answers again" } else { "it does not answer" };
                    self.note("answers", text, Some(id));
                }
            }
            Event::Gone(id, why) => {
                self.note(kinds::GONE, format!("it is gone: {why}"), Some(id));
                self.lease.drop_guest(id);
                self.overrides.remove(&id);
                let at_ms = self.clock.wall_ms();
                if let Some(mut guest) = self.guests.remove(&id)
                    && let Some(ticket) = guest.ticket.take()
                {
                    self.journal.outcome(ticket, book::ended(Fate::Gone, &guest, at_ms));
                }
            }
            Event::Trouble(text) => {
                self.note("trouble", text.clone(), None);
                self.troubles.insert(source, text.clone());
                self.said.push(text);
            }
        }
    }

    /// A guest has this much now. One that has all that it may have is no longer held.
    fn sized(&mut self, id: Id, actual: Bytes) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        guest.actual = actual.min(guest.found.memory);
        let told = guest.commanded.unwrap_or(guest.actual);
        if guest.actual.min(told) >= guest.limits.max {
            self.lease.drop_guest(id);
        }
    }

    fn found(&mut self, source: usize, id: Id, found: Found, now: u64) {
        let twin = self
            .guests
            .values()
            .find(|guest| found.process.is_some() && guest.found.process == found.process);
        if let Some(twin) = twin {
            let text = format!(
                "{} was found a second time, at {}; it is managed through {}",
                found.name, found.source, twin.found.source
            );
            return self.note("guest-twice", text, None);
        }
        let (limits, class) = self.settings.limits(&found.name, found.memory);
        let class = class.unwrap_or_default().to_owned();
        let grants = if self.engine.acts() { Grants::Yes } else { Grants::No };
        if self.engine.acts() {
            self.attachments.attach(&found);
        }
        self.arrivals += 1;
        let text = format!("it was found at {}", found.source);
        let guest = Guest::new(id, source, found, limits, class, grants, now);
        // What an earlier manager took is this one's to give back.
        if self.engine.acts() && guest.actual < guest.limits.max {
            self.lease.hold(&guest, guest.actual, &self.settings);
        }
        self.guests.insert(id, guest);
        self.note(kinds::FOUND, text, Some(id));
    }

    fn rebooted(&mut self, id: Id, now: u64) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        guest.rebooted();
        let key = guest.key();
        self.engine.arbiter.rebooted(key);
        if let Some((shadow, _)) = &mut self.shadow {
            shadow.arbiter.rebooted(key);
        }
        // It may say so a hundred times a second: the journal is for the others too.
        if self.guests.get_mut(&id).is_some_and(|guest| guest.is_worth_a_note(now)) {
            self.note(kinds::REBOOTED, "it has started anew", Some(id));
        }
    }

    /// Brings the next pass forward for a guest, unless it wants that all the time.
    fn hurry_for(&mut self, id: Id, now: u64) {
        if self.guests.get_mut(&id).is_some_and(|guest| guest.may_hurry(now)) {
            self.hurry(now);
        }
    }

    /// Takes what a daemon said.
    pub(crate) fn heard(&mut self, id: Id, said: Said, now: u64) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        match said {
            Said::Here(boot) => {
                if guest.is_new_boot(boot) {
                    self.rebooted(id, now);
                }
            }
            Said::Memory(told) => {
                guest.told(&told, now);
                if guest.urgent {
                    self.hurry_for(id, now);
                } else if self.guests.values().all(|guest| guest.open_ms.is_none()) {
                    // All that were asked have answered: nothing to wait for.
                    self.pass_ms = self.pass_ms.map(|_| now);
                }
            }
            Said::Request { sequence, keeps } => {
                guest.request = (keeps < guest.found.memory).then_some(keeps);
                guest.asked = Some(sequence);
                self.hurry_for(id, now);
            }
            Said::Scan(scan) => self.scanned(id, *scan, now),
            Said::Need => {
                guest.urgent = true;
                // Its numbers come with the need; if they do not, this brings them.
                guest.inside.ask(now);
                self.hurry_for(id, now);
            }
            Said::Bye => {
                (guest.request, guest.asked) = (None, None);
                self.hurry_for(id, now);
            }
        }
    }

    fn with(&mut self, id: Id, change: impl FnOnce(&mut Guest)) {
        if let Some(guest) = self.guests.get_mut(&id) {
            change(guest);
        }
    }
}
