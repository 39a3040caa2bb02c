//! Demand of a guest: the size that its rules request, and urgent need.

use base::Bytes;
use reactor::Budget;

/// Passes per second that a guest's reports may bring forward, and the largest burst. A fast
/// growing guest reports only a few times. Without a limit, a guest that reports all the time would
/// cause ten passes a second over all guests.
const HURRIES_A_SECOND: u64 = 2;
const HURRIES_BURST: u64 = 20;

#[derive(Debug)]
pub struct GuestDemand {
    /// Size requested by the guest's own rules.
    pub request: Option<Bytes>,
    /// Number of the open request of the guest's rules.
    pub sequence: Option<u32>,
    /// True if the guest has reported since the last pass that it waits for memory.
    pub is_urgent: bool,
    hurries: Budget,
}

impl GuestDemand {
    /// Returns the empty demand of a new guest.
    pub fn new(now_ms: u64) -> GuestDemand {
        let hurries = Budget::new(HURRIES_A_SECOND, HURRIES_BURST, now_ms);
        GuestDemand { request: None, sequence: None, is_urgent: false, hurries }
    }

    /// Drops the request of rules that have ended.
    pub fn withdraw(&mut self) {
        (self.request, self.sequence) = (None, None);
    }

    /// Returns true if the guest may bring the next pass forward.
    pub fn may_hurry(&mut self, now_ms: u64) -> bool {
        self.hurries.refill(now_ms);
        let may = self.hurries.left() > 0;
        self.hurries.spend(1);
        may
    }

    /// Drops the demand of an earlier boot.
    pub fn rebooted(&mut self) {
        self.withdraw();
        self.is_urgent = false;
    }
}
