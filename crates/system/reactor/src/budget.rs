//! Budget for the costs that a guest causes on its host: an amount per second, and a burst.

/// A budget that is refilled as time passes.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    a_second: u64,
    burst: u64,
    refilled_ms: u64,
}

impl Budget {
    /// Creates a full budget.
    pub fn new(a_second: u64, burst: u64, now_ms: u64) -> Budget {
        Budget { left: burst, a_second, burst, refilled_ms: now_ms }
    }

    /// Returns the amount that may be spent now.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Spends from the budget, down to 0.
    pub fn spend(&mut self, cost: u64) {
        self.left = self.left.saturating_sub(cost);
    }

    /// Adds the amount for the elapsed time.
    pub fn refill(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.refilled_ms);
        let worth = passed.saturating_mul(self.a_second) / 1000;
        if worth == 0 {
            // Time that is worth less than one unit is kept for the next call, so that frequent
            // calls lose no time.
            return;
        }
        self.refilled_ms += worth * 1000 / self.a_second;
        self.left = self.burst.min(self.left.saturating_add(worth));
        if self.left == self.burst {
            self.refilled_ms = now_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_fills_as_fast_when_refilled_often_or_seldom() {
        for step in [1, 7, 100, 1000] {
            let mut budget = Budget::new(50, 100, 0);
            budget.spend(100);
            for now_ms in (0..=1000).step_by(step) {
                budget.refill(now_ms);
            }
            let left = budget.left();
            assert!((49..=50).contains(&left), "{left} after looks each {step} ms");
        }
    }

    #[test]
    fn budget_is_never_fuller_than_full() {
        let mut budget = Budget::new(50, 100, 0);
        budget.refill(1_000_000);
        budget.spend(100);
        budget.refill(1_000_010);
        assert_eq!(budget.left(), 0);
        budget.refill(u64::MAX);
        assert_eq!(budget.left(), 100);
    }
}
