//! Handling of a guest's replies and events.

use base::Bytes;
use virtrpc::{Domain, Failure, Info, Lifecycle, Reply};

use super::describe::{self, Description};
use super::guest::{Ask, CHANGED_MS, Came, PROBE_MS};
use super::numbers::{self, Life};
use super::search::Outcome;
use super::{Libvirt, trouble};
use crate::{Event, Found, Id, Machine, Pause, ProcessId, RunState};

/// libvirt's control state of a domain that may have an open command, but answers queries.
const CONTROL_JOB: u32 = 1;

/// Detail of the event `Started` for a domain that existed before and woke up.
const STARTED_AWAKE: i32 = 4;

impl Libvirt {
    pub(super) fn guest_done(
        &mut self,
        id: Id,
        ask: Ask,
        outcome: Result<Reply, Failure>,
        now_ms: u64,
    ) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        guest.is_open = false;
        if outcome.as_ref().is_err_and(|failure| failure.code == Some(Failure::NO_DOMAIN)) {
            return self.gone(id, "libvirt does not know the domain any more");
        }
        if guest.reach.is_stuck {
            match &outcome {
                Ok(Reply::Control { state }) if *state > CONTROL_JOB => {
                    guest.due_ms = Some(now_ms + PROBE_MS);
                }
                Ok(_) => self.answers_again(id),
                // The failure may come from libvirt itself, which has given up waiting for the
                // guest.
                Err(_) => guest.due_ms = Some(now_ms + PROBE_MS),
            }
        }
        match outcome {
            Ok(reply) => self.guest_replied(id, ask, reply, now_ms),
            Err(failure) => self.guest_failed(id, ask, failure, now_ms),
        }
        self.report_if_ready(id, now_ms);
        self.guests.queue(id);
    }

    fn guest_replied(&mut self, id: Id, ask: Ask, reply: Reply, now_ms: u64) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        match (ask, reply) {
            (Ask::Xml, Reply::Xml(text)) if guest.is_reported && guest.reach.is_known => {
                self.renewed(id, &text, now_ms);
            }
            (Ask::Xml, Reply::Xml(text)) => match Description::parse(&text) {
                Ok(description) => self.is_described(id, description, now_ms),
                Err(reason) => self.is_not_described(id, &reason, now_ms),
            },
            (Ask::Configured, Reply::Xml(text)) => {
                guest.turn.came = None;
                let size = describe::configured_memory(&text);
                self.out.extend(size.map(|size| Event::Configured(id, size)));
            }
            (Ask::State, Reply::State { state, reason }) => match numbers::life(state, reason) {
                Life::Off => self.gone(id, "it is off"),
                Life::In(state) => self.is_now(id, state),
            },
            (Ask::Info, Reply::Info(info)) => {
                self.is_machine(id, info, now_ms);
                self.has_now(id, info.memory_kib, now_ms);
            }
            (Ask::Target(target), _) => self.out.push(Event::Taken(id, target)),
            // An event follows. The state is also requested, in case the event is lost.
            (Ask::Running(_), _) => guest.wants.state = true,
            (Ask::Period(seconds), _) => guest.question.period_is_set(seconds, now_ms),
            (Ask::Stats, Reply::MemoryStats(list)) => {
                let memory = guest.description.as_ref().map_or(Bytes::ZERO, |it| it.memory);
                let stats = numbers::stats(&list, memory);
                let answer = guest.question.known(stats, now_ms);
                self.out.extend(answer.map(|stats| Event::Stats(id, stats)));
            }
            _ => {}
        }
    }

    fn guest_failed(&mut self, id: Id, ask: Ask, failure: Failure, now_ms: u64) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        match ask {
            Ask::Xml if guest.is_reported && guest.reach.is_known => {}
            Ask::Xml => self.is_not_described(id, &failure.message, now_ms),
            // These calls are only repeated after a wait. An immediate retry would flood a daemon
            // that refuses the calls.
            Ask::State | Ask::Info => guest.due_ms = Some(now_ms + PROBE_MS),
            Ask::Target(_) => self.out.push(Event::Refused(id, failure.message)),
            Ask::Running(_) => self.out.push(Event::Stays(id, failure.message)),
            Ask::Period(_) | Ask::Stats => guest.question.failed(),
            Ask::Configured => guest.turn.came = None,
            Ask::Control => {}
        }
    }

    /// Handles a guest's description. The first description is stored. On a new connection, the
    /// description shows whether the domain is still the same.
    fn is_described(&mut self, id: Id, description: Description, now_ms: u64) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        if !guest.reach.is_known {
            let Some(number) = description.number else { return self.gone(id, "it is off") };
            let domain = Domain { id: number, ..guest.domain.clone() };
            if !guest.is_same(&domain) {
                return self.restarted(id, domain, now_ms);
            }
        }
        if guest.description.is_none() {
            guest.question.found(u32::try_from(description.period_seconds).unwrap_or(0));
            guest.description = Some(description);
        }
        if !guest.reach.is_known {
            self.is_back(id, now_ms);
        }
    }

    /// Ignores a guest without a valid description, and reports the reason. A guest that was
    /// described before is retried.
    fn is_not_described(&mut self, id: Id, reason: &str, now_ms: u64) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        if guest.description.is_some() {
            guest.due_ms = Some(now_ms + PROBE_MS);
            return;
        }
        let sentence = trouble::no_description(&guest.domain.name, reason);
        guest.ignored = Some(sentence.clone());
        self.out.push(Event::Trouble(sentence));
    }

    /// Handles a guest's call that has been open for too long.
    pub(super) fn guest_is_late(&mut self, id: Id) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        guest.reach.is_stuck = true;
        guest.question.give_up();
        let why = trouble::SILENT.to_owned();
        // This event comes first, because all later data about the guest is stale.
        if std::mem::take(&mut guest.reach.answers) && guest.is_reported {
            self.out.push(Event::Answers(id, false));
        }
        if guest.wants.target.take().is_some() {
            self.out.push(Event::Refused(id, why.clone()));
        }
        if guest.wants.running.take().is_some() {
            self.out.push(Event::Stays(id, why));
        }
        self.guests.queue(id);
    }

    fn answers_again(&mut self, id: Id) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        guest.reach.is_stuck = false;
        if !guest.reach.is_known {
            guest.wants.xml = true;
            return;
        }
        guest.wants.info = true;
        guest.wants.state = true;
        if !std::mem::replace(&mut guest.reach.answers, true) && guest.is_reported {
            self.out.push(Event::Answers(id, true));
        }
    }

    pub(super) fn look_at_due(&mut self, now_ms: u64) {
        while let Some(guest) = self.guests.next_due(now_ms) {
            let id = guest.id;
            guest.question.due(now_ms);
            if guest.due_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                guest.due_ms = None;
                guest.wants.control = guest.reach.is_stuck;
                guest.wants.xml |= !guest.reach.is_known;
                guest.wants.state |= guest.state.is_none();
                guest.wants.info |= guest.actual.is_none();
                if guest.turn.is_stale {
                    guest.describe_in_time(now_ms);
                }
                self.report_if_ready(id, now_ms);
            }
            self.guests.queue(id);
        }
    }

    fn is_now(&mut self, id: Id, state: RunState) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        if guest.state.replace(state) != Some(state) && guest.is_reported {
            self.out.push(Event::State(id, state));
        }
        guest.look_at_configuration();
    }

    /// Handles a new description, and reports a changed balloon, port or memory. An invalid
    /// description is ignored.
    fn renewed(&mut self, id: Id, text: &str, now_ms: u64) {
        let (Some(guest), Ok(now)) = (self.guests.get_mut(id), Description::parse(text)) else {
            return;
        };
        let Some(known) = &mut guest.description else { return };
        let mut ram = known.ram.clone();
        let is_other_ram = guest.turn.ram_pace.renew(&mut ram, now.ram, now_ms);
        let before = std::mem::replace(known, Description { vcpus: known.vcpus, ram, ..now });
        if (before.can, &before.port) != (known.can, &known.port) {
            self.out.push(Event::Devices(id, known.can, known.port.clone()));
        }
        if is_other_ram || before.memory != known.memory {
            self.report_machine(id);
        }
    }

    /// Handles the counts of memory and vCPUs, and reports changed vCPUs. The description has the
    /// details of changed memory.
    fn is_machine(&mut self, id: Id, info: Info, now_ms: u64) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        let Some(description) = &mut guest.description else { return };
        let had_vcpus = description.vcpus.replace(info.vcpus);
        if info.max_memory_kib.checked_mul(1024) != Some(description.total.0) {
            guest.has_changed(now_ms);
        }
        if guest.is_reported && had_vcpus.is_some_and(|had| had != info.vcpus) {
            self.report_machine(id);
        }
    }

    fn report_machine(&mut self, id: Id) {
        let (Some(guest), Some(up)) = (self.guests.get_mut(id), &mut self.connection.up) else {
            return;
        };
        let Some(Description { memory, ram, .. }) = &guest.description else { return };
        let vcpu_tids = guest.process.map_or(Vec::new(), |it| up.search.vcpu_tids(it));
        let machine = Machine { memory: *memory, ram: ram.clone(), vcpu_tids };
        self.out.push(Event::Machine(id, machine));
    }

    fn has_now(&mut self, id: Id, actual_kib: u64, now_ms: u64) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        let Some(told) = actual_kib.checked_mul(1024).map(Bytes) else { return };
        let mut actual = told;
        if let Some(description) = &guest.description {
            if !description.can.balloon {
                // Without a balloon, libvirt's size includes the maximum of all virtio-mem devices.
                actual = told.min(description.memory);
            }
            // The change may come from virtio-mem.
            if description.has_virtio_mem() && guest.actual != Some(actual) {
                guest.has_changed(now_ms);
            }
        }
        guest.actual = Some(actual);
        if guest.is_reported {
            self.out.push(Event::Actual(id, actual));
        }
    }

    /// Reports a guest as found once its description is complete.
    fn report_if_ready(&mut self, id: Id, now_ms: u64) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        let (false, Some(description), Some(state), Some(actual)) =
            (guest.is_reported, &guest.description, guest.state, guest.actual)
        else {
            return;
        };
        if state == RunState::Paused(Pause::NotStarted) {
            // The domain is still arriving. libvirt reports it again when it is complete.
            guest.state = None;
            guest.due_ms = Some(now_ms + PROBE_MS);
            return;
        }
        let Some(up) = &mut self.connection.up else { return };
        let domain = &guest.domain;
        guest.process = match up.search.find(&domain.name, domain.uuid, guest.since_ms, now_ms) {
            Outcome::Is(process) => Some(process),
            Outcome::Nobody => None,
            Outcome::AskAgain(at_ms) => {
                guest.due_ms = Some(at_ms);
                return;
            }
        };
        guest.is_reported = true;
        let found = Found {
            name: domain.name.clone(),
            uuid: domain.uuid,
            owner: up.owner,
            user: guest.process.and_then(ProcessId::user),
            process: guest.process,
            memory: description.memory,
            ram: description.ram.clone(),
            actual,
            vcpu_tids: guest.process.map_or(Vec::new(), |it| up.search.vcpu_tids(it)),
            can: description.can,
            port: description.port.clone(),
            state,
            is_restored: guest.turn.came == Some(Came::Restored),
            source: self.uri.clone(),
        };
        guest.look_at_configuration();
        self.out.push(Event::Found(id, Box::new(found)));
    }

    pub(super) fn event(&mut self, event: virtrpc::Event, now_ms: u64) {
        match event {
            virtrpc::Event::Lifecycle { domain, what, detail } => {
                self.lifecycle(domain, what, detail, now_ms);
            }
            virtrpc::Event::Reboot(domain) => self.rebooted(&domain),
            virtrpc::Event::BalloonChange { domain, actual_kib } => {
                if let Some(id) = self.id_of(&domain) {
                    self.has_now(id, actual_kib, now_ms);
                    self.guests.queue(id);
                }
            }
            virtrpc::Event::MigrationIteration(domain) => {
                if let Some(id) = self.id_of(&domain) {
                    self.is_now(id, RunState::Migrating);
                }
            }
            virtrpc::Event::JobCompleted(domain) => self.look_at_state(&domain),
            virtrpc::Event::MemoryDeviceSize(domain) => self.has_other_memory(&domain, now_ms),
        }
    }

    /// Handles the event of a domain's start that arrives after the domain was listed.
    fn has_started(&mut self, id: Id, detail: i32) {
        if let Some(guest) = self.guests.get_mut(id)
            && !guest.is_reported
        {
            guest.turn.came = numbers::came(detail);
        }
    }

    fn lifecycle(&mut self, domain: Domain, what: Lifecycle, detail: i32, now_ms: u64) {
        match what {
            Lifecycle::Started if detail == STARTED_AWAKE => self.look_at_state(&domain),
            Lifecycle::Started => match self.guests.by_uuid(&domain.uuid) {
                Some(guest) if guest.domain.id == domain.id => {
                    let id = guest.id;
                    self.has_started(id, detail);
                    self.look_at_state(&domain);
                }
                Some(guest) => {
                    let id = guest.id;
                    self.gone(id, "it was restarted");
                    self.came(domain, numbers::came(detail), now_ms);
                }
                None => self.came(domain, numbers::came(detail), now_ms),
            },
            Lifecycle::Stopped => {
                if let Some(id) = self.id_of(&domain) {
                    let is_reported =
                        self.guests.get_mut(id).is_some_and(|guest| guest.is_reported);
                    if is_reported && numbers::is_in_order(detail) {
                        self.out.push(Event::State(id, RunState::Dead));
                    }
                    self.gone(id, numbers::why_stopped(detail));
                }
            }
            Lifecycle::Suspended
            | Lifecycle::Resumed
            | Lifecycle::Shutdown
            | Lifecycle::PmSuspended
            | Lifecycle::Crashed => self.look_at_state(&domain),
            Lifecycle::Defined | Lifecycle::Undefined | Lifecycle::Other(_) => {}
        }
    }

    /// Requests a guest's description after a change of virtio-mem, as soon as the interval allows.
    fn has_other_memory(&mut self, domain: &Domain, now_ms: u64) {
        if let Some(id) = self.id_of(domain)
            && let Some(guest) = self.guests.get_mut(id)
        {
            guest.has_changed(now_ms);
            guest.wants.info = true;
            if guest.turn.is_stale {
                let at_ms = guest.turn.described_ms + CHANGED_MS;
                guest.due_ms = Some(guest.due_ms.map_or(at_ms, |due_ms| due_ms.min(at_ms)));
            }
            self.guests.queue(id);
        }
    }

    fn look_at_state(&mut self, domain: &Domain) {
        if let Some(id) = self.id_of(domain)
            && let Some(guest) = self.guests.get_mut(id)
        {
            guest.wants.state = true;
            self.guests.queue(id);
        }
    }

    fn rebooted(&mut self, domain: &Domain) {
        let Some(id) = self.id_of(domain) else { return };
        let Some(guest) = self.guests.get_mut(id) else { return };
        guest.question.give_up();
        guest.question.forget();
        guest.wants.info = true;
        if guest.is_reported {
            self.out.push(Event::Rebooted(id));
        }
        self.guests.queue(id);
    }

    /// Returns the guest of an event. A domain that has just stopped no longer has a number.
    fn id_of(&mut self, domain: &Domain) -> Option<Id> {
        let guest = self.guests.by_uuid(&domain.uuid)?;
        (domain.id < 0 || guest.domain.id == domain.id).then_some(guest.id)
    }
}
