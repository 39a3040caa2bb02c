//! Timers of the loop.

/// Times at which work is due without any event.
pub(super) struct Timers {
    pub tick_ms: u64,
    pub slow_ms: u64,
    pub look_ms: u64,
    /// End of the manager's rest, if nothing ends the rest sooner.
    pub rest_until_ms: u64,
    pub crowd: Crowd,
}

/// Number of guests, and the number that was reported last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crowd {
    reported: Option<usize>,
    seen: usize,
    since_ms: u64,
}

impl Crowd {
    /// Returns true if no number was reported so far.
    pub fn is_first(&self) -> bool {
        self.reported.is_none()
    }

    /// Returns true if a report of the number is due. The first number is reported at once. A new
    /// number is reported once it has been stable for `steady_ms`.
    pub fn is_news(&mut self, count: usize, steady_ms: u64, now_ms: u64) -> bool {
        if std::mem::replace(&mut self.seen, count) != count {
            self.since_ms = now_ms;
        }
        let is_steady = now_ms.saturating_sub(self.since_ms) >= steady_ms;
        let is_new = self.reported.is_none_or(|before| before != count && is_steady);
        if is_new {
            self.reported = Some(count);
        }
        is_new
    }
}

impl Timers {
    /// Returns timers that are all due now.
    pub fn due(now_ms: u64) -> Timers {
        Timers {
            tick_ms: now_ms,
            slow_ms: now_ms,
            look_ms: now_ms,
            rest_until_ms: now_ms,
            crowd: Crowd::default(),
        }
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
    fn number_of_guests_is_reported_again_once_it_is_steady() {
        let mut crowd = Crowd::default();
        let mut is_news = |count, now_s: u64| crowd.is_news(count, 3_000, now_s * 1_000);
        assert!(is_news(3, 3) && !is_news(3, 4), "the first time at once");
        assert!(!is_news(7, 5) && !is_news(15, 6) && !is_news(15, 8));
        assert!(is_news(15, 9) && !is_news(15, 10));
        assert!(!is_news(14, 11) && !is_news(15, 12) && !is_news(15, 20), "it is back");
    }

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
