//! The time of the next pass.

/// Time for which a pass waits for requested samples.
const PATIENCE_MS: u64 = 200;
/// Shortest interval between passes that an urgent need brings forward.
const URGENT_MS: u64 = 100;
/// Time after the start in which no memory is moved, because the guests' state must be known first.
const SETTLE_MS: u64 = 2_000;

/// The times of requests to guests and of passes.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    start_ms: u64,
    next_ask_ms: u64,
    pass_ms: Option<u64>,
    last_pass_ms: u64,
    passes: u64,
    /// Duration of the last pass.
    pass_us: Option<u64>,
}

impl Schedule {
    pub(crate) fn new(now_ms: u64) -> Schedule {
        Schedule {
            start_ms: now_ms,
            next_ask_ms: now_ms,
            last_pass_ms: now_ms,
            ..Schedule::default()
        }
    }

    /// Returns the time of the next requests to guests or of the next pass, whichever is earlier.
    pub(crate) fn next_ms(&self) -> u64 {
        self.next_ask_ms.min(self.pass_ms.unwrap_or(u64::MAX))
    }

    /// Returns true if requests to guests are due, and then sets the next time an interval later.
    pub(crate) fn is_time_to_ask(&mut self, interval_ms: u64, now_ms: u64) -> bool {
        let is_time = now_ms >= self.next_ask_ms;
        if is_time {
            self.next_ask_ms = now_ms + interval_ms;
        }
        is_time
    }

    /// Notes that requests were sent. A pass follows, after a wait for the expected responses.
    pub(crate) fn asked(&mut self, are_answers_open: bool, now_ms: u64) {
        let at = if are_answers_open { now_ms + PATIENCE_MS } else { now_ms };
        self.pass_ms = Some(self.pass_ms.map_or(at, |due| due.min(at)));
    }

    /// Brings the next pass forward as far as possible.
    pub(crate) fn hurry(&mut self, now_ms: u64) {
        let at = (self.last_pass_ms + URGENT_MS).max(now_ms);
        self.pass_ms = Some(self.pass_ms.map_or(at, |due| due.min(at)));
    }

    /// Starts a waiting pass, because all requests are answered.
    pub(crate) fn all_answered(&mut self, now_ms: u64) {
        self.pass_ms = self.pass_ms.map(|_| now_ms);
    }

    /// Returns true if a pass is due. No pass is made before the guests are known.
    pub(crate) fn is_time_to_pass(&mut self, now_ms: u64) -> bool {
        if self.pass_ms.is_none_or(|due| now_ms < due) {
            return false;
        }
        self.pass_ms = None;
        self.last_pass_ms = now_ms;
        now_ms.saturating_sub(self.start_ms) >= SETTLE_MS
    }

    pub(crate) fn passed(&mut self, took_us: u64) {
        self.passes += 1;
        self.pass_us = Some(took_us);
    }

    /// Returns the number of passes and the duration of the last one.
    pub(crate) fn count_and_cost(&self) -> (u64, Option<u64>) {
        (self.passes, self.pass_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_waits_for_answers_and_for_needs_a_little() {
        let mut schedule = Schedule::new(0);
        assert!(schedule.is_time_to_ask(1_000, 0) && !schedule.is_time_to_ask(1_000, 999));
        schedule.asked(true, 5_000);
        assert!(!schedule.is_time_to_pass(5_199));
        schedule.all_answered(5_100);
        assert!(schedule.is_time_to_pass(5_100));
        schedule.hurry(5_120);
        assert!(!schedule.is_time_to_pass(5_199));
        assert!(schedule.is_time_to_pass(5_200));
        assert!(!schedule.is_time_to_pass(9_000), "no pass is due");
    }

    #[test]
    fn nothing_is_decided_before_the_guests_are_known() {
        let mut schedule = Schedule::new(0);
        schedule.asked(false, 0);
        assert!(!schedule.is_time_to_pass(1_999));
        schedule.asked(false, 2_000);
        assert!(schedule.is_time_to_pass(2_000));
    }
}
