//! The host and its guests during a pass.

use super::guest::{Assessment, GuestHistory};
use super::reason::{Action, Bound, Clause, Outcome};
use super::regime::Urgency;
use super::sample::{GuestSample, RuleVerdicts};
use counters::Bytes;

/// Smallest move that is worth waking a guest for.
pub const MOVE_MIN: Bytes = Bytes::mib(2);

/// A guest during a pass.
pub struct GuestState<'a> {
    pub sample: &'a GuestSample,
    pub history: Box<GuestHistory>,
    pub assessment: Assessment,
    pub verdicts: RuleVerdicts,
    /// Size that the guest is to have, once decided.
    pub to: Option<(Bytes, Action, Clause)>,
    /// Share of the host's memory for guests.
    pub share: Bytes,
    pub bounds: Vec<Bound>,
    /// Size to request, if the balloon stopped or was moved.
    pub cap: Option<Bytes>,
    pub outcome: Option<Outcome>,
}

impl GuestState<'_> {
    /// Returns the host memory that the guest holds beyond its share.
    pub fn beyond_share(&self) -> Bytes {
        self.assessment.touched.less(self.share)
    }

    /// Returns the reason against taking from the guest. Beyond its share, a wait that is over does
    /// not protect it from a guest in need.
    pub fn against(&self, urgency: Urgency) -> Option<Clause> {
        match urgency {
            Urgency::Need | Urgency::Emergency if self.beyond_share() > Bytes::ZERO => {
                self.assessment.against_now(urgency)
            }
            _ => self.assessment.against(urgency),
        }
    }
}

/// The host during a pass.
pub struct HostBudget {
    /// Free memory without promises, memory on its way, reservations and the reserve.
    pub free: Bytes,
    /// Free memory beyond what the host is to keep. Guests share this and the memory that they
    /// hold.
    pub divisible: Bytes,
    pub coming: Bytes,
    /// Gain of page-out that balloons wait for.
    pub page_out: Bytes,
    pub promised: Bytes,
    /// Needs that free memory does not cover.
    pub unmet: Bytes,
    /// Memory that the host lacks to its set point.
    pub lack: Bytes,
    /// True if the host lacks that because it waits for memory, not because of its set point.
    pub relieves: bool,
    /// Memory that reservations lack.
    pub reserve_lack: Bytes,
    pub emergency: bool,
    /// Memory that the host lacks to a little more than its reserve.
    pub deficit: Bytes,
    /// True if the host is half-way from its set point to its reserve.
    pub low: bool,
    /// Free memory beyond what the host is to keep.
    pub beyond: Bytes,
    /// Memory to be freed before there is any surplus.
    pub to_beyond: Bytes,
    /// Memory to be freed for refaulting guests.
    pub refaults: Bytes,
}

impl HostBudget {
    /// Records that more memory is coming.
    pub fn comes(&mut self, size: Bytes) {
        self.coming = self.coming.plus(size);
        self.lack = self.lack.less(size);
        self.reserve_lack = self.reserve_lack.less(size);
    }
}
