//! The input and the orders of rivals, and the arithmetic that they share.

use crate::arbiter::{GuestSample, HostSample, Key};
use base::Bytes;

/// The inputs of a rival's decision.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Current time.
    pub now_ms: u64,
    /// Host, if it could be read.
    pub host: Option<&'a HostSample>,
    /// Time in which some task on the host waits for memory, in thousandths, if known.
    pub host_psi_permille: Option<u64>,
    /// Guests.
    pub samples: &'a [GuestSample],
}

/// A target for one balloon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Guest.
    pub key: Key,
    /// Size that the guest should have.
    pub target: Bytes,
    /// Time for which the guest's tasks waited for memory, if the rules use this time.
    pub stall_ms: Option<u64>,
}

/// Returns the part of a host that is in use, in thousandths.
pub(super) fn used_permille(host: &HostSample) -> u64 {
    1000 - part(host.available, host.total, 1000).min(1000)
}

/// Returns `size` as a part of `of`, in parts of `whole`.
pub(super) fn part(size: Bytes, of: Bytes, whole: u64) -> u64 {
    (u128::from(size.0) * u128::from(whole) / u128::from(of.0.max(1))) as u64
}

/// A regular beat, which is due at the first pass of each interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beat(u64);

impl Beat {
    pub(super) fn is_due(&mut self, every_ms: u64, now_ms: u64) -> bool {
        let before = std::mem::replace(&mut self.0, now_ms / every_ms);
        before != self.0
    }
}
