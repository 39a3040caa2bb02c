//! Ways that a balloon goes without being asked: nobody else's doing, as long as that may be.

use counters::Bytes;

/// Less movement than this is none.
pub(super) const PROGRESS: Bytes = Bytes::mib(1);
/// A balloon that was told something else on its way may have gone on meanwhile, and comes back
/// within this: its guest may have to wait for a CPU first.
pub(super) const TURNING_MS: u64 = 15_000;

/// A difference that means nothing: balloons come to rest a little off their targets.
pub(super) fn slack(size: Bytes) -> Bytes {
    PROGRESS.max(size.permille(4))
}

pub(super) fn distance(a: Bytes, b: Bytes) -> Bytes {
    Bytes(a.0.abs_diff(b.0))
}

/// A balloon's record of such ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stray {
    /// The size that it was asked for last: a driver that was away goes to that when it comes.
    asked: Option<Bytes>,
    /// It has more than at rest since then, and its guest has not said why.
    pub rose_ms: Option<u64>,
    /// The size to which it has come on its way back to what was asked, and when.
    pub back: Option<(Bytes, u64)>,
    /// When a change was unexplained, and until when it was another manager's, before that way.
    pub before: Option<(Option<u64>, Option<u64>)>,
}

/// A size, as one of those on the way back to what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// It is none of them.
    No,
    /// It may be.
    OnItsWay,
    /// It is what was asked.
    There,
}

impl Stray {
    /// Its hypervisor has this size for it from now on.
    pub fn told(&mut self, size: Bytes) {
        self.asked = Some(size);
    }

    /// Returns whether it goes back from all memory to what it was asked for, as a driver does that
    /// was away (kexec, suspend). One that stops before it is there was sent by somebody else.
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

    /// Returns whether it is not known yet why it has another size than at rest.
    pub fn is_open(&self) -> bool {
        self.rose_ms.is_some() || self.back.is_some()
    }
}
