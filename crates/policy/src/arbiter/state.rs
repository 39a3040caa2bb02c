//! The host and its guests in the middle of a pass.

use super::guest::{Assessment, GuestHistory};
use super::reason::{Action, Bound, Clause, Outcome};
use super::regime::Urgency;
use super::sample::{GuestSample, RuleVerdicts};
use counters::Bytes;

/// A move smaller than this is not worth waking a guest for.
pub const MOVE_MIN: Bytes = Bytes::mib(2);

/// A guest in the middle of a pass.
pub struct GuestState<'a> {
    pub sample: &'a GuestSample,
    pub history: Box<GuestHistory>,
    pub assessment: Assessment,
    pub verdicts: RuleVerdicts,
    /// What it is to have, once that is decided.
    pub to: Option<(Bytes, Action, Clause)>,
    /// Its part of what the host has for guests, by shares.
    pub share: Bytes,
    pub bounds: Vec<Bound>,
    /// Its balloon has come to a halt, or was moved: it is asked for what it has.
    pub cap: Option<Bytes>,
    pub outcome: Option<Outcome>,
}

impl GuestState<'_> {
    /// What it holds of the host's memory beyond its share.
    pub fn beyond_share(&self) -> Bytes {
        self.assessment.touched.less(self.share)
    }

    /// What stands against taking from it. Beyond its share, a wait that is over protects it from
    /// nobody who is in need.
    pub fn against(&self, urgency: Urgency) -> Option<Clause> {
        match urgency {
            Urgency::Need | Urgency::Emergency if self.beyond_share() > Bytes::ZERO => {
                self.assessment.against_now(urgency)
            }
            _ => self.assessment.against(urgency),
        }
    }
}

/// The host in the middle of a pass.
pub struct HostBudget {
    /// Free, without what is promised, on its way out, held or to be kept.
    pub free: Bytes,
    /// Free beyond what the host is to keep: with what guests hold, what they share.
    pub divisible: Bytes,
    pub coming: Bytes,
    /// What page-out is expected to gain.
    pub page_out: Bytes,
    pub promised: Bytes,
    /// What guests need and free memory does not cover.
    pub unmet: Bytes,
    /// What the host lacks to its set point.
    pub lack: Bytes,
    /// It lacks that because it waits for memory, not because of its set point.
    pub relieves: bool,
    /// What reservations lack.
    pub reserve_lack: Bytes,
    pub emergency: bool,
    /// What it lacks to a little more than its reserve.
    pub deficit: Bytes,
    /// The host is half-way from its set point to its reserve.
    pub low: bool,
    /// What is free beyond what the host wants to be.
    pub beyond: Bytes,
    /// What is to come free before there is any of that.
    pub to_beyond: Bytes,
    /// What is to come free for guests that read again what they dropped.
    pub refaults: Bytes,
}

impl HostBudget {
    /// So much more is coming.
    pub fn comes(&mut self, size: Bytes) {
        self.coming = self.coming.plus(size);
        self.lack = self.lack.less(size);
        self.reserve_lack = self.reserve_lack.less(size);
    }
}
