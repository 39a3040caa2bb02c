//! What a guest asks for: a size for its rules, and memory at once.

use counters::Bytes;
use reactor::Budget;

/// Passes a second that a guest's reports may bring forward, besides those that come anyway, and
/// how many at once: a guest that grows fast reports it some times, and one that never stops would
/// have all others looked at ten times a second.
const HURRIES_A_SECOND: u64 = 2;
const HURRIES_BURST: u64 = 20;

/// What a guest asks for.
#[derive(Debug)]
pub struct GuestDemand {
    /// The size that its own rules are content with.
    pub request: Option<Bytes>,
    /// The number of a request of its rules, until it is answered.
    pub sequence: Option<u32>,
    /// Whether it reported that it waits for memory, since the last pass.
    pub is_urgent: bool,
    hurries: Budget,
}

impl GuestDemand {
    /// It asks for nothing yet.
    pub fn new(now_ms: u64) -> GuestDemand {
        let hurries = Budget::new(HURRIES_A_SECOND, HURRIES_BURST, now_ms);
        GuestDemand { request: None, sequence: None, is_urgent: false, hurries }
    }

    /// Its rules have ended, and ask for nothing.
    pub fn withdraw(&mut self) {
        (self.request, self.sequence) = (None, None);
    }

    /// Whether it may have the next pass at once.
    pub fn may_hurry(&mut self, now_ms: u64) -> bool {
        self.hurries.refill(now_ms);
        let may = self.hurries.left() > 0;
        self.hurries.spend(1);
        may
    }

    /// Another boot asks for nothing yet.
    pub fn rebooted(&mut self) {
        self.withdraw();
        self.is_urgent = false;
    }
}
