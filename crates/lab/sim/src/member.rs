//! A guest from the manager's view. Samples may arrive late or never, and needs are reported
//! immediately.

use crate::guest::{Guest, STEP_MS};
use base::Bytes;
use policy::arbiter::{GuestSample, Key, Limits, Memory, Mode, Process, Usable};
use std::collections::VecDeque;

/// Waiting time in the last second from which a guest counts as starved: 1 %.
const STARVED_US: u64 = 10_000;
const WINDOW_STEPS: usize = 10;
/// Waiting time in a step from which the kernel wakes the daemon.
const NEED_US: u64 = 10_000;
/// The manager's estimate for the part of a hypervisor's own memory that cannot be measured.
const OWN_ESTIMATE: Bytes = Bytes::mib(32);
/// Least time between two reports of a need.
const NEED_MS: u64 = 500;

/// The loss and delay of a guest's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Lost samples, in thousandths.
    pub lost_permille: u64,
    /// Late samples, in thousandths.
    pub late_permille: u64,
    /// Delay of a late sample.
    pub late_ms: u64,
    /// Time between a sample and the pass after it.
    pub before_ms: u64,
}

/// Another manager of the same balloon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Start time.
    pub from_ms: u64,
    /// End time.
    pub until_ms: u64,
    /// Interval of its actions.
    pub period_ms: u64,
    /// Sizes that the rival sets, one after the other.
    pub sizes_kib: [u64; 2],
}

/// A guest, and the manager's data about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The manager's name for the guest.
    pub key: Key,
    /// Guest.
    pub guest: Guest,
    /// Loss and delay of its samples.
    pub line: Line,
    /// Another manager that moves its balloon.
    pub rival: Option<Rival>,
    /// Time since which the guest is really starved, whatever its samples say.
    pub starved_ms: Option<u64>,
    /// Last target that the policy gave the guest.
    pub target: Option<Bytes>,
    delivered: Option<Memory>,
    flight: VecDeque<(u64, Memory)>,
    waits: VecDeque<u64>,
    ran_ms: u64,
    need_ms: Option<u64>,
    urgent: bool,
}

impl Member {
    /// Creates a guest that was just found.
    pub fn new(key: Key, guest: Guest, line: Line) -> Member {
        Member {
            key,
            guest,
            line,
            rival: None,
            starved_ms: None,
            target: None,
            delivered: None,
            flight: VecDeque::new(),
            waits: VecDeque::new(),
            ran_ms: 0,
            need_ms: None,
            urgent: false,
        }
    }

    /// Runs one step of the guest. Returns true if the guest reports a need.
    pub fn step(&mut self, now_ms: u64) -> bool {
        if let Some(rival) = self.rival
            && (rival.from_ms..rival.until_ms).contains(&now_ms)
            && now_ms.is_multiple_of(rival.period_ms.max(STEP_MS))
        {
            let turn = (now_ms / rival.period_ms.max(STEP_MS)) as usize % 2;
            self.guest.balloon.set_target(rival.sizes_kib[turn]);
        }
        self.guest.step(now_ms);
        if !self.guest.is_asleep(now_ms) {
            self.ran_ms = now_ms;
        }
        self.waits.push_back(self.guest.wait_us);
        if self.waits.len() > WINDOW_STEPS {
            self.waits.pop_front();
        }
        match self.waits.iter().sum::<u64>() >= STARVED_US {
            true => self.starved_ms = self.starved_ms.or(Some(now_ms)),
            false => self.starved_ms = None,
        }
        let reported_lately = self.need_ms.is_some_and(|at| now_ms < at + NEED_MS);
        let traits = self.guest.spec.traits;
        let needs = traits.daemon && (self.guest.wait_us >= NEED_US || traits.lies);
        if !needs || reported_lately {
            return false;
        }
        self.need_ms = Some(now_ms);
        self.urgent = true;
        self.take(now_ms, now_ms);
        true
    }

    /// Takes a sample, which the manager gets at `due_ms`. An honest guest is sampled only if it
    /// has run since the last delivered sample.
    pub fn sample(&mut self, now_ms: u64, due_ms: u64) {
        if self.guest.spec.traits.lies || self.delivered.is_none_or(|m| self.ran_ms > m.at_ms) {
            self.take(now_ms, due_ms);
        }
    }

    fn take(&mut self, now_ms: u64, due_ms: u64) {
        let memory = self.memory(now_ms);
        self.flight.push_back((due_ms, memory));
    }

    /// Returns the guest's present numbers as it reports them, true or not.
    fn memory(&self, now_ms: u64) -> Memory {
        let memory = self.true_memory(now_ms);
        match self.guest.spec.traits.lies {
            true => Memory {
                free: Some(Bytes::ZERO),
                available: Some(Bytes::ZERO),
                cached: Some(Bytes::ZERO),
                active_file: Some(Bytes::ZERO),
                swap_in: Some(now_ms),
                psi_some_us: Some(now_ms * 1000),
                ..memory
            },
            false => memory,
        }
    }

    /// Returns the guest's numbers as its kernel shows them.
    fn true_memory(&self, now_ms: u64) -> Memory {
        let guest = &self.guest;
        let counters = guest.counters;
        let kib = |kib: u64| Bytes(kib << 10);
        let daemon = guest.spec.traits.daemon;
        let inside = |value: u64| daemon.then_some(value);
        Memory {
            at_ms: now_ms,
            clock_ms: guest.clock_ms(now_ms),
            actual: kib(guest.actual_kib()),
            free: Some(kib(guest.free_kib())),
            available: Some(kib(guest.available_kib())),
            cached: Some(kib(guest.cache_kib())),
            active_file: inside(guest.held.hot_kib).map(kib),
            swap_free: inside(guest.swap_free_kib()).map(kib),
            swap_in: Some(counters.swap_in),
            swap_out: Some(counters.swap_out),
            refaults: inside(counters.refaults),
            stalls: inside(counters.stalls),
            major_faults: Some(counters.major_faults),
            oom_kills: inside(counters.oom_kills),
            psi_some_us: inside(counters.psi_us),
        }
    }

    /// Returns the guest's sample for a pass. The sample is urgent once for each need.
    pub fn report(&mut self, now_ms: u64) -> GuestSample {
        while self.flight.front().is_some_and(|(due_ms, _)| *due_ms <= now_ms) {
            let arrived = self.flight.pop_front().map(|(_, memory)| memory);
            // A sample that arrives after a newer sample is ignored.
            if arrived.map(|m| m.at_ms) >= self.delivered.map(|m| m.at_ms) {
                self.delivered = arrived;
            }
        }
        let spec = &self.guest.spec;
        let kib = |kib: u64| Bytes(kib << 10);
        GuestSample {
            key: self.key,
            limits: Limits {
                min: kib(spec.min_kib),
                ordered: false,
                max: kib(spec.max_kib),
                shares: spec.shares,
                mode: Mode::Managed,
            },
            actual: Some(kib(self.guest.actual_kib())),
            resident: spec.traits.resident_seen.then(|| kib(self.guest.seen_kib())),
            doubtful: if spec.own_kib > 0 { OWN_ESTIMATE } else { Bytes::ZERO },
            process: Process {
                private: spec.traits.resident_seen.then(|| kib(self.guest.seen_kib())),
                reports: spec.traits.reports,
                ..Process::default()
            },
            // The model's host swaps out no memory of a guest.
            swapped: Some(Bytes::ZERO),
            runs: Some(true),
            memory: self.delivered,
            idle_since_sample: !spec.traits.lies
                && self.delivered.is_some_and(|m| self.ran_ms <= m.at_ms),
            usable: Usable::Yes,
            request: None,
            asks: false,
            urgent: std::mem::take(&mut self.urgent),
            deflates_on_oom: spec.traits.deflates_on_oom,
        }
    }

    /// Restarts the guest in the same process. Its balloon is empty, and only its kernel is
    /// resident on the host.
    pub fn reboot(&mut self, now_ms: u64) {
        let spec = crate::guest::Spec { actual_kib: self.guest.spec.max_kib, ..self.guest.spec };
        self.guest = Guest::boot(spec, now_ms);
        (self.delivered, self.starved_ms, self.target) = (None, None, None);
        self.flight.clear();
        self.waits.clear();
        self.ran_ms = now_ms;
    }
}
