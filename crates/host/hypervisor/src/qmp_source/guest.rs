//! A guest that was found: the requests to it, and its events.

use std::path::Path;

use base::Bytes;
use model::{GuestField as G, Row};
use qmp::{Command, Failure, Reply, Value};

use super::devices::{DeviceLook, Devices};
use super::link::{Link, Purpose};
use super::probe::{Probed, own_threads, within};
use super::state;
use crate::process::ThreadNumbers;
use crate::ram::RamPace;
use crate::stats_question::{LookPace, StatsCall, StatsQuestion};
use crate::{BALLOON_MIN, BlockStats, Event, Id, Machine, ProcessId, RunState, balloon_row};

/// Timeout of a response. A QEMU responds within milliseconds, so a slower QEMU is stopped or
/// hangs.
const SILENT_MS: u64 = 5_000;
/// Interval of requests for the machine, because QEMU has no event for a plugged DIMM or vCPU.
const MACHINE_MS: u64 = 60_000;
/// Interval of requests for the machine after a sign of a change. The interval is not 0, because a
/// QEMU could show such signs all the time.
const CHANGED_MS: u64 = 10_000;
/// Longest text of QEMU that is passed on.
const WORDS_BYTES_MAX: usize = 200;
/// Pace of polls for statistics. A poll is one command on a socket of this guest alone, with a
/// response in a fraction of a millisecond.
const STATS_PACE: LookPace = LookPace { first_ms: 4, most_ms: 250 };
/// Statistics of a balloon, by their names in QEMU.
const STATS: [(G, &str); 7] = [
    (G::BalloonTotal, "stat-total-memory"),
    (G::BalloonFree, "stat-free-memory"),
    (G::BalloonAvailable, "stat-available-memory"),
    (G::BalloonCached, "stat-disk-caches"),
    (G::BalloonSwapIn, "stat-swap-in"),
    (G::BalloonSwapOut, "stat-swap-out"),
    (G::BalloonMajorFaults, "stat-major-faults"),
];

#[derive(Debug, Default)]
struct News {
    actual: Option<Bytes>,
    memory: Option<Bytes>,
    ram: Option<Vec<Bytes>>,
    beside: Option<Bytes>,
    vcpu_tids: Option<Vec<u32>>,
    blocks: Option<BlockStats>,
    is_new_boot: bool,
    /// Recent statistics that were requested again, and must be reported again.
    repeated: Option<Row<G>>,
}

/// The parts of a guest's machine that QEMU may change without an event.
#[derive(Debug)]
struct Watched {
    machine: Machine,
    /// Last size of the balloon, without the memory that the balloon does not count.
    balloon: Bytes,
    beside: Bytes,
    ram_pace: RamPace,
    numbers: ThreadNumbers,
    asked_ms: u64,
    /// True if the machine may have changed.
    is_due: bool,
    /// True if QEMU reported the balloon's size at the last request.
    has_balloon: bool,
}

/// A guest. Several changes in a turn are reported once, with the last value. A QEMU that floods
/// pinhead with events therefore does not flood the manager.
#[derive(Debug)]
pub(super) struct QmpGuest {
    pub(super) id: Id,
    pub(super) process: Option<ProcessId>,
    devices: Devices,
    /// Device probe under way.
    look: Option<Box<DeviceLook>>,
    run: RunState,
    is_moving: bool,
    reported: RunState,
    news: News,
    watched: Watched,
    /// The newest target, while QEMU works on an older target.
    wanted: Option<Bytes>,
    question: StatsQuestion,
    is_silent: bool,
    last_words: Option<String>,
}

impl QmpGuest {
    pub(super) fn new(id: Id, probed: &Probed, now_ms: u64) -> QmpGuest {
        let found = &probed.found;
        QmpGuest {
            id,
            process: found.process,
            devices: Devices {
                balloon: probed.balloon.clone(),
                can: found.can,
                port: found.port.clone(),
            },
            look: None,
            run: probed.run,
            is_moving: probed.is_moving,
            reported: found.state,
            news: News::default(),
            watched: Watched {
                machine: Machine {
                    memory: found.memory,
                    ram: found.ram.clone(),
                    vcpu_tids: found.vcpu_tids.clone(),
                },
                balloon: found.actual.less(probed.beside),
                beside: probed.beside,
                ram_pace: RamPace::default(),
                numbers: probed.numbers.clone(),
                asked_ms: now_ms,
                is_due: false,
                has_balloon: found.can.balloon,
            },
            wanted: None,
            question: StatsQuestion::new(STATS_PACE),
            is_silent: false,
            last_words: None,
        }
    }

    /// Requests a size, now or once QEMU has responded to the last request. An error contains the
    /// reason for the refusal.
    pub(super) fn set_target(
        &mut self,
        target: Bytes,
        link: &mut Link,
        now_ms: u64,
    ) -> Result<(), String> {
        if !self.devices.can.balloon {
            return Err("it has no balloon device".into());
        }
        let is_target = |purpose: &Purpose| matches!(purpose, Purpose::Target(_));
        let of_balloon = target.less(self.watched.beside).max(BALLOON_MIN);
        let command = Command::Balloon { value_bytes: of_balloon.0 };
        let is_asked =
            !link.waits_for(is_target) && link.ask(Purpose::Target(target), command, now_ms);
        self.wanted = (!is_asked).then_some(target);
        Ok(())
    }

    /// Pauses or resumes the vCPUs. The error is the reason why no request can be sent.
    pub(super) fn set_running(
        &mut self,
        runs: bool,
        link: &mut Link,
        now_ms: u64,
    ) -> Result<(), String> {
        let command = if runs { Command::Continue } else { Command::Stop };
        match link.ask(Purpose::Running(runs), command, now_ms) {
            true => Ok(()),
            false => Err("too many requests to QEMU are unanswered".into()),
        }
    }

    /// Requests statistics, unless a request is under way, a response has just arrived, or no
    /// driver would respond.
    pub(super) fn ask_stats(&mut self, link: &mut Link, now_ms: u64) {
        let runs = self.reported == RunState::Running && !self.is_silent;
        let can = self.devices.balloon.is_some() && self.devices.can.statistics;
        let is_ours = |purpose: &Purpose| {
            matches!(purpose, Purpose::StatsPeriod | Purpose::StatsKnown | Purpose::StatsSet(_))
        };
        if can && runs && !link.waits_for(is_ours) {
            self.news.repeated = self.question.begin(now_ms).or(self.news.repeated.take());
            self.make_calls(link, now_ms);
        }
    }

    /// Makes the calls of the request, as far as there is room for them.
    fn make_calls(&mut self, link: &mut Link, now_ms: u64) {
        let Some(device) = &self.devices.balloon else { return };
        let get = |property| Command::QomGet { path: device.clone(), property };
        while let Some(call) = self.question.next() {
            let (purpose, command) = match call {
                StatsCall::Period => (Purpose::StatsPeriod, get("guest-stats-polling-interval")),
                StatsCall::Known => (Purpose::StatsKnown, get("guest-stats")),
                StatsCall::SetPeriod(interval_seconds) => {
                    let device_path = device.clone();
                    let command = Command::SetStatsInterval { device_path, interval_seconds };
                    (Purpose::StatsSet(interval_seconds), command)
                }
            };
            if !link.ask(purpose, command, now_ms) {
                self.question.failed();
            }
        }
    }

    /// Requests the size and the migration state. QEMU reports migrations only to a client that has
    /// enabled the event.
    pub(super) fn ask_actual(&mut self, link: &mut Link, now_ms: u64) {
        if self.devices.can.balloon {
            ask_once(Purpose::Actual, Command::QueryBalloon, link, now_ms);
        }
        ask_once(Purpose::Migration, Command::QueryMigrate, link, now_ms);
        let watched = &mut self.watched;
        let wait_ms = if watched.is_due { CHANGED_MS } else { MACHINE_MS };
        if now_ms.saturating_sub(watched.asked_ms) >= wait_ms {
            (watched.asked_ms, watched.is_due) = (now_ms, false);
            ask_once(Purpose::Memory, Command::QueryMemory, link, now_ms);
            ask_once(Purpose::Memdevs, Command::QueryMemdev, link, now_ms);
            ask_once(Purpose::Beside, Command::QueryMemoryDevices, link, now_ms);
            ask_once(Purpose::Vcpus, Command::QueryCpusFast, link, now_ms);
            // A response to an earlier probe would be mistaken for a response to the new probe.
            if !link.waits_for(DeviceLook::is_ours) {
                ask_once(Purpose::Actual, Command::QueryBalloon, link, now_ms);
                self.look = Some(Box::new(DeviceLook::begin(link, now_ms)));
            }
        }
    }

    pub(super) fn ask_blocks(&mut self, link: &mut Link, now_ms: u64) {
        ask_once(Purpose::Blocks, Command::QueryBlockstats, link, now_ms);
    }

    pub(super) fn ask_status(&mut self, link: &mut Link, now_ms: u64) {
        ask_once(Purpose::Status, Command::QueryStatus, link, now_ms);
    }

    pub(super) fn answer(
        &mut self,
        purpose: Purpose,
        outcome: Result<Reply, Failure>,
        link: &mut Link,
        now_ms: u64,
        events: &mut Vec<Event>,
    ) {
        if std::mem::take(&mut self.is_silent) {
            events.push(Event::Answers(self.id, true));
        }
        if DeviceLook::is_ours(&purpose) {
            if let (Some(look), Ok(reply)) = (&mut self.look, outcome) {
                look.answer(purpose, reply, link, now_ms);
            }
            return;
        }
        match (purpose, outcome) {
            (Purpose::Target(target), outcome) => {
                events.push(match outcome {
                    Ok(_) => Event::Taken(self.id, target),
                    Err(failure) => Event::Refused(self.id, cut(&failure.desc).to_owned()),
                });
                if let Some(wanted) = self.wanted.take() {
                    // The guest has a balloon. Otherwise it would have no pending target.
                    let _ = self.set_target(wanted, link, now_ms);
                }
            }
            (Purpose::Running(_), Err(failure)) => {
                events.push(Event::Stays(self.id, cut(&failure.desc).to_owned()));
            }
            // The event alone does not contain the reason why a guest is stopped.
            (Purpose::Running(_), Ok(_)) => self.ask_status(link, now_ms),
            (Purpose::Actual, Ok(Reply::Balloon { actual_bytes })) => {
                self.news.actual = Some(Bytes(actual_bytes));
                self.watched.has_balloon = true;
            }
            (Purpose::Actual, Err(_)) => self.watched.has_balloon = false,
            (Purpose::Memory, Ok(Reply::Memory { base_bytes, plugged_bytes })) => {
                let memory = base_bytes.checked_add(plugged_bytes.unwrap_or(0));
                self.news.memory = memory.map(Bytes);
            }
            (Purpose::Memdevs, Ok(Reply::Memdevs(sizes))) => {
                self.news.ram = Some(sizes.into_iter().map(Bytes).collect());
            }
            (Purpose::Beside, Ok(Reply::MemoryDevices { virtio_mem_bytes })) => {
                self.news.beside = Some(Bytes(virtio_mem_bytes));
            }
            (Purpose::Vcpus, Ok(Reply::Vcpus(threads))) => {
                self.news.vcpu_tids = Some(threads.iter().map(|thread| thread.tid).collect());
            }
            (Purpose::Blocks, Ok(Reply::Blocks(sum))) => self.news.blocks = Some(sum),
            (Purpose::Migration, Ok(Reply::Migration(status))) => {
                self.is_moving = status.is_some_and(|status| state::is_moving(&status));
            }
            (Purpose::Status, Ok(Reply::Status(status))) => self.run = state::of_status(&status),
            (Purpose::StatsKnown, outcome) => {
                // An older QEMU has no statistics before the guest has sent some.
                let stats = match &outcome {
                    Ok(Reply::Value(value)) => stats_of(value, self.watched.machine.memory),
                    _ => None,
                };
                let answer = self.question.known(stats, now_ms);
                events.extend(answer.map(|stats| Event::Stats(self.id, stats)));
            }
            (Purpose::StatsPeriod, Ok(Reply::Value(value))) => {
                let period_s = value.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
                match period_s {
                    Some(period_s) => self.question.period_is(period_s),
                    None => self.question.failed(),
                }
            }
            (Purpose::StatsSet(period_s), Ok(_)) => self.question.period_is_set(period_s, now_ms),
            (Purpose::StatsPeriod | Purpose::StatsSet(_), _) => self.question.failed(),
            _ => {}
        }
        self.make_calls(link, now_ms);
    }

    /// Ends the request for statistics and restores the guest's period.
    pub(super) fn end_stats(&mut self, link: &mut Link, now_ms: u64) {
        self.question.give_up();
        self.make_calls(link, now_ms);
    }

    pub(super) fn event(&mut self, name: &str, data: &Value, link: &mut Link, now_ms: u64) {
        match name {
            "BALLOON_CHANGE" => {
                let actual = data.get("actual").and_then(Value::as_u64).map(Bytes);
                self.news.actual = actual.or(self.news.actual);
            }
            // Only these events of QEMU show that something was plugged or unplugged.
            "MEMORY_DEVICE_SIZE_CHANGE" | "DEVICE_DELETED" | "ACPI_DEVICE_OST" => {
                self.watched.is_due = true;
            }
            "RESET" => {
                self.news.is_new_boot = true;
                self.question.forget();
                self.ask_status(link, now_ms);
                self.ask_actual(link, now_ms);
            }
            "MIGRATION" => {
                let status = data.get("status").and_then(Value::as_str);
                self.is_moving = status.is_some_and(state::is_moving);
                self.ask_status(link, now_ms);
            }
            "STOP" | "RESUME" | "SUSPEND" | "SUSPEND_DISK" | "WAKEUP" | "SHUTDOWN"
            | "GUEST_PANICKED" => {
                if name == "RESUME" {
                    link.wait_anew(now_ms);
                }
                if name == "SHUTDOWN" {
                    let reason = data.get("reason").and_then(Value::as_str);
                    self.last_words = reason.map(|reason| cut(reason).to_owned());
                }
                self.run = state::of_event(name, self.run).unwrap_or(self.run);
                // The event is not enough, because a guest is also stopped when it has migrated
                // away.
                self.ask_status(link, now_ms);
            }
            _ => {}
        }
    }

    /// Ends a device probe once all responses are there, and reports changes.
    fn end_look(&mut self, link: &Link, events: &mut Vec<Event>) {
        let is_open =
            |purpose: &Purpose| DeviceLook::is_ours(purpose) || matches!(purpose, Purpose::Actual);
        if self.look.is_none() || link.waits_for(is_open) {
            return;
        }
        let Some(look) = self.look.take() else { return };
        let devices = look.finish(self.watched.has_balloon);
        let before = std::mem::replace(&mut self.devices, devices);
        if (before.can, &before.port) != (self.devices.can, &self.devices.port) {
            let Devices { can, port, .. } = self.devices.clone();
            events.push(Event::Devices(self.id, can, port));
        }
    }

    pub(super) fn tick(&mut self, link: &mut Link, now_ms: u64, events: &mut Vec<Event>) {
        self.question.due(now_ms);
        self.make_calls(link, now_ms);
        self.end_look(link, events);
        if self.silent_ms(link).is_some_and(|ms| now_ms >= ms) {
            self.is_silent = true;
            events.push(Event::Answers(self.id, false));
        }
    }

    pub(super) fn next_ms(&self, link: &Link) -> u64 {
        if self.news.repeated.is_some() {
            return 0;
        }
        let stats = self.question.next_ms().unwrap_or(u64::MAX);
        stats.min(self.silent_ms(link).unwrap_or(u64::MAX))
    }

    /// Returns the time at which the guest is reported as not responding. The QEMU of a parked
    /// guest is stopped, so it is exempt.
    fn silent_ms(&self, link: &Link) -> Option<u64> {
        let may_be_silent = !self.is_silent && !matches!(self.run, RunState::Paused(_));
        link.waits_since_ms().filter(|_| may_be_silent).map(|ms| ms + SILENT_MS)
    }

    pub(super) fn report(&mut self, root: &Path, events: &mut Vec<Event>) {
        let news = std::mem::take(&mut self.news);
        let News { actual, memory, ram, beside, vcpu_tids, blocks, is_new_boot, repeated } = news;
        let watched = &mut self.watched;
        watched.balloon = actual.unwrap_or(watched.balloon);
        let beside = beside.map(|size| within(size, self.process, root));
        let is_resized = beside.is_some_and(|size| size != watched.beside);
        watched.beside = beside.unwrap_or(watched.beside);
        let actual = (actual.is_some() || (is_resized && self.devices.can.balloon))
            .then(|| watched.balloon.plus(watched.beside));
        let machine = &mut watched.machine;
        let memory = memory.map(|memory| within(memory, self.process, root));
        // A size of 0 is ignored, because every machine has memory. A process that is about to end
        // may report 0.
        let memory = memory.filter(|memory| *memory > Bytes::ZERO);
        let tids =
            vcpu_tids.map(|tids| own_threads(&tids, self.process, &mut watched.numbers, root));
        let (pace, asked_ms) = (&mut watched.ram_pace, watched.asked_ms);
        let is_other = ram.is_some_and(|ram| pace.renew(&mut machine.ram, ram, asked_ms))
            || memory.is_some_and(|memory| memory != machine.memory)
            || tids.as_ref().is_some_and(|tids| *tids != machine.vcpu_tids);
        if is_other {
            machine.memory = memory.unwrap_or(machine.memory);
            machine.vcpu_tids = tids.unwrap_or_else(|| machine.vcpu_tids.clone());
            events.push(Event::Machine(self.id, machine.clone()));
        }
        // A balloon larger than the memory is no error of QEMU, but a sign of plugged memory.
        watched.is_due |= actual.is_some_and(|actual| actual > machine.memory);
        if is_new_boot {
            events.push(Event::Rebooted(self.id));
        }
        let state = state::joined(self.run, self.is_moving);
        if state != self.reported {
            self.reported = state;
            events.push(Event::State(self.id, state));
        }
        events.extend(repeated.map(|stats| Event::Stats(self.id, stats)));
        events.extend(actual.map(|actual| Event::Actual(self.id, actual)));
        events.extend(blocks.map(|blocks| Event::Blocks(self.id, blocks)));
    }

    pub(super) fn end(self, reason: &str) -> String {
        match self.last_words {
            Some(words) => format!("{reason}: {words}"),
            None => reason.to_owned(),
        }
    }
}

fn ask_once(purpose: Purpose, command: Command, link: &mut Link, now_ms: u64) {
    if !link.waits_for(|open| *open == purpose) {
        link.ask(purpose, command, now_ms);
    }
}

/// Reads a balloon's `guest-stats`. QEMU shows an unreported statistic as the largest number. An
/// invalid number counts as unreported as well. A guest that has never responded has no statistics.
fn stats_of(value: &Value, most: Bytes) -> Option<Row<G>> {
    let updated_s = value.get("last-update")?.as_u64().filter(|seconds| *seconds > 0)?;
    let stats = value.get("stats")?.as_object()?;
    let number = |name| stats.get(name)?.as_u64().filter(|number| *number != u64::MAX);
    let values = STATS.map(|(field, name)| (field, number(name)));
    Some(balloon_row(updated_s, most, values))
}

fn cut(words: &str) -> &str {
    &words[..words.floor_char_boundary(WORDS_BYTES_MAX)]
}
