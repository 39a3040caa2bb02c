//! Carries out effects: requests to hypervisors, the lease, the journal, responses to clients, and
//! events from one owner to another.

use super::Manager;
use crate::attach::{Answers, farms_to_ask, run_dir};
use crate::effect::{Effect, GuestEvent, Now, ScanEvent};
use crate::pageout::{Job, JobResult, PageOutEvent, Report};
use crate::scan;
use hypervisor::{Hypervisor, Id};
use std::collections::BTreeSet;
use std::path::Path;

impl Manager {
    pub(super) fn perform(&mut self, effects: Vec<Effect>, now: Now) {
        effects.into_iter().for_each(|effect| self.carry_out(effect, now));
    }

    fn carry_out(&mut self, effect: Effect, now: Now) {
        match effect {
            Effect::Guests(event) => self.step_guests(event, now),
            Effect::Memory(event) => self.step_memory(event, now),
            Effect::Requests(event) => self.step_requests(event, now),
            Effect::Parking(event) => self.step_parking(event, now),
            Effect::Park(guest) => {
                if let Some(guest) = self.guests.get(guest) {
                    self.devices.lease.park(guest, &self.settings);
                }
            }
            Effect::Awake(guest) => self.devices.lease.awake(guest),
            Effect::SetRunning { guest, runs } => {
                self.ask_source(guest, |source| source.set_running(guest, runs, now.ms));
            }
            Effect::SetTarget { guest, size } => {
                self.step_guests(GuestEvent::Target { guest, size }, now);
                self.ask_source(guest, |source| source.set_target(guest, size, now.ms));
            }
            Effect::AskActual { guest, source } => {
                if let Some(source) = self.devices.sources.get(source) {
                    source.ask_actual(guest, now.ms);
                }
            }
            Effect::AskStats { guest, source } => {
                if let Some(source) = self.devices.sources.get(source) {
                    source.ask_stats(guest, now.ms);
                }
            }
            Effect::AskBlocks(id) => self.ask_source(id, |source| source.ask_blocks(id, now.ms)),
            Effect::Attach(found) => {
                let answers = self.devices.attachments.attach(&found, now.ms);
                self.attached(answers, now);
            }
            Effect::TellTimer(dir, timer) => self.devices.attachments.tell_timer(&dir, &timer),
            Effect::Scanned(id, scan) => {
                let Some(guest) = self.guests.get(id) else { return };
                let host = scan::host_side(guest.found.process, &guest.found.vcpu_tids);
                self.step_scans(ScanEvent::Answered { guest: id, scan, host }, now);
            }
            Effect::Hold { guest, size } => {
                if let Some(guest) = self.guests.get(guest) {
                    self.devices.lease.hold(guest, size, &self.settings);
                }
            }
            Effect::Release(id, process) => self.devices.lease.drop_guest(id, process),
            Effect::NewBoot(id) => self.step_page_outs(PageOutEvent::Rebooted(id), now),
            Effect::PageOut(job) => {
                if !self.devices.page_out.send(job) {
                    let Job { guest, process, .. } = job;
                    let report = Report { guest, process, result: JobResult::Gone };
                    self.step_page_outs(PageOutEvent::Reported(Box::new(report)), now);
                }
            }
            Effect::CutPageOut => self.devices.page_out.cut(),
            Effect::SetReserve(reserve) => self.devices.lease.set_reserve(reserve),
            Effect::Note { kind, text, guest } => {
                self.devices.journal.note(kind, text, guest.as_ref(), now);
            }
            Effect::Decided { guest, who, row, moves } => {
                self.devices.journal.decided(guest, &who, *row, moves);
            }
            Effect::GoesOn(guest) => self.devices.journal.goes_on(guest),
            Effect::Outcome { guest, row } => self.devices.journal.outcome(guest, row),
            Effect::Notify(text) => self.notices.push(text),
            Effect::Complain(text) => {
                self.devices.journal.note("trouble", text.clone(), None, now);
                self.notices.push(text);
            }
            Effect::Answer { to, answer } => {
                self.devices.control.answer(to.client, to.id, &answer, now.ms);
            }
            Effect::Passed(pass) => self.recorder.passed(*pass),
            Effect::Hurry => {
                self.schedule.hurry(now.ms);
                self.timers.rest_until_ms = now.ms;
            }
            Effect::AllAnswered => self.schedule.all_answered(now.ms),
        }
    }

    /// Repeats requests for the guests of `pinhead up`. Also requests guests that were not found,
    /// because the manager in `pinhead up` holds their monitors.
    pub(super) fn attach(&mut self, now: Now) {
        let unclaimed = match self.run.options.dry_run {
            true => BTreeSet::new(),
            false => self.devices.sources.unclaimed(),
        };
        for (dir, owner) in farms_to_ask(&unclaimed) {
            let answers = self.devices.attachments.attach_dir(dir, *owner, now.ms);
            self.attached(answers, now);
        }
        let guests = self.guests.iter().filter_map(|guest| run_dir(&guest.found));
        let dirs: BTreeSet<&Path> =
            guests.chain(unclaimed.iter().map(|(dir, _)| dir.as_path())).collect();
        let answers = self.devices.attachments.tick(|dir| dirs.contains(dir), now.ms);
        self.attached(answers, now);
    }

    /// Handles results of the handover by `pinhead up`.
    pub(super) fn attached(&mut self, answers: Answers, now: Now) {
        for (dir, lent) in answers.lent {
            self.step_guests(GuestEvent::Lent(dir, lent), now);
        }
        for (dir, classes) in answers.classes {
            self.step_guests(GuestEvent::Classes(dir, classes), now);
        }
        for (dir, guest) in answers.timers {
            self.step_guests(GuestEvent::AskTimer(dir, guest), now);
        }
        self.perform(answers.complaints.into_iter().map(Effect::Complain).collect(), now);
    }

    fn ask_source(&mut self, guest: Id, ask: impl FnOnce(&mut dyn Hypervisor)) {
        let source = self.guests.get(guest).map(|guest| guest.source);
        if let Some(source) = source.and_then(|source| self.devices.sources.get(source)) {
            ask(source);
        }
    }
}
