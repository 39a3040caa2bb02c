//! Timers of the loop.

/// Times at which the clock alone makes something due.
pub(super) struct Timers {
    pub tick_ms: u64,
    pub slow_ms: u64,
    pub look_ms: u64,
    pub is_greeted: bool,
}

impl Timers {
    /// Returns timers that are all due now.
    pub fn due(now_ms: u64) -> Timers {
        Timers { tick_ms: now_ms, slow_ms: now_ms, look_ms: now_ms, is_greeted: false }
    }

    /// Sets the time of the next reading of guests, no later than the work of each second. A turn
    /// with that work also reads the guests, so that the monitor gets new readings.
    pub fn ticked(&mut self, after_ms: u64, now_ms: u64) {
        let tick_ms = now_ms.saturating_add(after_ms);
        let is_ahead = self.slow_ms > now_ms;
        self.tick_ms = if is_ahead { tick_ms.min(self.slow_ms) } else { tick_ms };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_looked_at_no_later_than_all_else() {
        let mut timers = Timers::due(1_000);
        timers.ticked(1_000, 1_000);
        assert_eq!(timers.tick_ms, 2_000, "the work of each second is due in this turn");
        for (slow_ms, tick_ms) in [(1_900, 1_900), (2_000, 2_000), (9_000, 2_000)] {
            timers.slow_ms = slow_ms;
            timers.ticked(1_000, 1_000);
            assert_eq!(timers.tick_ms, tick_ms, "{slow_ms}");
        }
    }
}
