//! The host and its guests in the middle of a pass.

use super::guest::{Assessment, GuestHistory};
use super::reason::{Action, Bound, Clause, Outcome};
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
    pub bounds: Vec<Bound>,
    /// Its balloon has come to a halt, or was moved: it is asked for what it has.
    pub cap: Option<Bytes>,
    pub outcome: Option<Outcome>,
}

/// The host in the middle of a pass.
pub struct HostBudget {
    /// Free, without what is promised, on its way out, held or to be kept.
    pub free: Bytes,
    pub coming: Bytes,
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
    /// What may be given to mere wishes.
    pub surplus: Bytes,
}
