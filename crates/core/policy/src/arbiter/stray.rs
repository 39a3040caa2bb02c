//! Unrequested moves of a balloon that do not come from another manager.

use super::balloon::Trust;
use base::Bytes;

/// Smallest change that counts as movement.
pub(super) const PROGRESS: Bytes = Bytes::mib(1);
/// Time in which a balloon may still follow a target that was replaced. The guest may first have to
/// wait for a CPU.
pub(super) const TURNING_MS: u64 = 15_000;

/// Returns the difference that is ignored, because balloons stop slightly off their targets.
pub(super) fn slack(size: Bytes) -> Bytes {
    PROGRESS.max(size.permille(4))
}

pub(super) fn distance(a: Bytes, b: Bytes) -> Bytes {
    Bytes(a.0.abs_diff(b.0))
}

/// A balloon's record of unrequested moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stray {
    /// Last requested size. A driver that was unloaded moves to this size when it is loaded again.
    asked: Option<Bytes>,
    /// Time since which the size exceeds the size at rest, for a reason not yet reported.
    pub rose_ms: Option<u64>,
    /// Smallest size on the way back to the requested size, and the time of its measurement.
    pub back: Option<(Bytes, u64)>,
    /// Attribution of changes before the balloon moved back.
    pub before: Option<Trust>,
}

/// The position of a size on the way back to the requested size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// Not on the way back.
    No,
    /// Possibly on the way back.
    OnItsWay,
    /// At the requested size.
    There,
}

impl Stray {
    /// Records the size that the hypervisor has as its target.
    pub fn told(&mut self, size: Bytes) {
        self.asked = Some(size);
    }

    /// Classifies a size between the guest's whole memory and the requested size. A balloon passes
    /// through such sizes after its driver was unloaded (kexec, suspend). If the balloon stops at
    /// such a size, another manager has moved it.
    pub fn goes_back(&mut self, rest: Bytes, actual: Bytes, was_away: bool, now_ms: u64) -> Back {
        let least = |asked: &Bytes| asked.less(slack(*asked));
        let is_between = |asked: &Bytes| was_away && least(asked) <= actual && actual < rest;
        let Some(asked) = self.asked.filter(is_between) else {
            self.back = None;
            return Back::No;
        };
        if distance(actual, asked) <= slack(asked) {
            self.back = None;
            return Back::There;
        }
        let seen = self.back.filter(|(size, _)| *size < actual.plus(PROGRESS));
        let (_, since_ms) = *self.back.insert(seen.unwrap_or((actual, now_ms)));
        if now_ms.saturating_sub(since_ms) < TURNING_MS {
            return Back::OnItsWay;
        }
        (self.asked, self.back) = (None, None);
        Back::No
    }

    /// Returns true while a size differs from the size at rest for an unknown reason.
    pub fn is_open(&self) -> bool {
        self.rose_ms.is_some() || self.back.is_some()
    }
}
