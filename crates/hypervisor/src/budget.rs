//! What a guest may cost its host: so much a second, and so much at once.

/// A budget that fills again as time passes.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    a_second: u64,
    burst: u64,
    refilled_ms: u64,
}

impl Budget {
    /// A full one.
    pub fn new(a_second: u64, burst: u64, now_ms: u64) -> Budget {
        Budget { left: burst, a_second, burst, refilled_ms: now_ms }
    }

    /// What may be spent now.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Spends, down to nothing.
    pub fn spend(&mut self, cost: u64) {
        self.left = self.left.saturating_sub(cost);
    }

    /// Adds what the time that has passed is worth.
    pub fn refill(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.refilled_ms);
        self.refilled_ms = now_ms;
        self.left = self.burst.min(self.left + passed * self.a_second / 1000);
    }
}
