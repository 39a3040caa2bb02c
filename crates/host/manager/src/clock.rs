//! The only place where the manager reads a clock.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock for decisions, together with the wall clock.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
    hand: Option<Rc<Cell<u64>>>,
}

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
impl Clock {
    pub fn start() -> Clock {
        Clock { start: Instant::now(), hand: None }
    }

    /// Returns a manual clock for tests, set in milliseconds. A wait on a manual clock returns at
    /// once.
    pub fn by_hand(hand: Rc<Cell<u64>>) -> Clock {
        Clock { start: Instant::now(), hand: Some(hand) }
    }

    pub(crate) fn is_by_hand(&self) -> bool {
        self.hand.is_some()
    }

    /// Returns milliseconds since this clock was started.
    pub fn ms(&self) -> u64 {
        match &self.hand {
            Some(hand) => hand.get(),
            None => self.start.elapsed().as_millis() as u64,
        }
    }

    /// Returns microseconds since this clock was started, to measure a pass.
    pub fn us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Returns the CPU time of this process with all its threads, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let ns = used.tv_sec.saturating_mul(1_000_000_000).saturating_add(used.tv_nsec);
        u64::try_from(ns).unwrap_or(0)
    }

    /// Returns milliseconds since 1970; 0 if the machine's clock shows an earlier time.
    pub fn wall_ms(&self) -> i64 {
        if let Some(hand) = &self.hand {
            return i64::try_from(hand.get()).unwrap_or(i64::MAX);
        }
        wall_ms()
    }
}

/// Returns milliseconds since 1970; 0 if the machine's clock shows an earlier time.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the CPU time of the calling thread, in microseconds.
pub(crate) fn thread_cpu_us() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let us = used.tv_sec.saturating_mul(1_000_000).saturating_add(used.tv_nsec / 1000);
    u64::try_from(us).unwrap_or(0)
}
