//! The host and its guests during a pass.

use super::assess::Assessment;
use super::guest::GuestHistory;
use super::reason::{Action, Bound, Clause, Inputs, Outcome};
use super::regime::Urgency;
use super::sample::{GuestSample, Mode, RuleVerdicts};
use base::Bytes;

/// Smallest move that is worth waking a guest for.
pub const MOVE_MIN: Bytes = Bytes::mib(2);

/// A guest during a pass.
pub struct GuestState<'a> {
    pub sample: &'a GuestSample,
    pub history: Box<GuestHistory>,
    pub assessment: Assessment,
    pub verdicts: RuleVerdicts,
    /// Decided size of the guest, once there is a decision.
    pub to: Option<(Bytes, Action, Clause)>,
    /// Share of the host's memory for guests.
    pub share: Bytes,
    pub bounds: Vec<Bound>,
    /// Size to request if the balloon stopped or was moved by others.
    pub cap: Option<Bytes>,
    pub outcome: Option<Outcome>,
}

impl GuestState<'_> {
    /// Returns true if nothing is decided about the guest yet, and nothing holds it.
    pub fn is_open(&self) -> bool {
        self.to.is_none() && self.assessment.held.is_none()
    }

    /// Returns true if the arbiter may decide about the guest in this pass.
    pub fn is_open_and_managed(&self) -> bool {
        self.is_open() && self.sample.limits.mode == Mode::Managed
    }

    /// Returns the host memory of the guest above its share.
    pub fn beyond_share(&self) -> Bytes {
        self.assessment.touched.less(self.share)
    }

    /// Returns the obstacle to a shrink of the guest. A past wait does not protect a guest above
    /// its share from another guest in need.
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
    /// Free memory less promises, grants that have not arrived, reservations and the reserve.
    pub free: Bytes,
    /// Free memory beyond the host's own target. Guests share this memory and their resident
    /// memory.
    pub divisible: Bytes,
    pub coming: Bytes,
    /// Expected gain of page-out, for which balloons wait.
    pub page_out: Bytes,
    pub promised: Bytes,
    /// Needs that free memory does not cover.
    pub unmet: Bytes,
    /// Memory missing to the host's set point.
    pub lack: Bytes,
    /// True if the host lacks memory because its tasks wait for it, not because of its set point.
    pub relieves: bool,
    /// Memory missing for reservations.
    pub reserve_lack: Bytes,
    pub emergency: bool,
    /// Memory missing to a level slightly above the host's reserve.
    pub deficit: Bytes,
    /// True if the host is half-way from its set point to its reserve.
    pub low: bool,
    /// Free memory beyond the host's own target.
    pub beyond: Bytes,
    /// Memory that must be freed before there is a surplus.
    pub to_beyond: Bytes,
    /// Memory to be freed for refaulting guests.
    pub refaults: Bytes,
}

impl HostBudget {
    /// Adds the host's numbers to the numbers of a decision. `fall` is the fall of free memory in a
    /// second.
    pub fn note(&self, fall: Bytes, inputs: &mut Inputs) {
        inputs.host_coming = Some(self.coming);
        inputs.host_promised = Some(self.promised);
        inputs.host_unmet = Some(self.unmet);
        inputs.host_fall = Some(fall);
        inputs.host_page_out = Some(self.page_out);
    }

    /// Records memory that a guest will return.
    pub fn comes(&mut self, size: Bytes) {
        self.coming = self.coming.plus(size);
        self.lack = self.lack.less(size);
        self.reserve_lack = self.reserve_lack.less(size);
    }
}
