//! Motion of a balloon: at rest, or on its way to a requested size.

use super::super::gain::Holding;
use base::Bytes;

/// A requested size that has not been reached yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub size: Bytes,
    pub from: Bytes,
    /// The guest's resident memory at its size `from`.
    pub held: Holding,
    /// Size closest to the target so far.
    pub nearest: Bytes,
    pub progress_ms: u64,
    /// True for a released size, which is not promised.
    pub is_released: bool,
}

impl Target {
    pub fn shrinks(&self) -> bool {
        self.size < self.from
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    /// At rest. The size is unknown until the next check after a start or a cancelled request.
    Resting {
        /// Size at rest, to detect unrequested changes.
        at: Option<Bytes>,
        /// Target slightly below the size at rest, to which the balloon may still move.
        ahead: Option<Bytes>,
        /// Target that was cancelled before the balloon reached it.
        cancelled: Option<Target>,
    },
    Moving(Target),
}

impl Default for Motion {
    fn default() -> Motion {
        Motion::Resting { at: None, ahead: None, cancelled: None }
    }
}

impl Motion {
    /// Returns the motion of a balloon that has come to rest at this size.
    pub fn resting(at: Bytes) -> Motion {
        Motion::Resting { at: Some(at), ahead: None, cancelled: None }
    }

    pub fn target(&self) -> Option<&Target> {
        match self {
            Motion::Moving(target) => Some(target),
            Motion::Resting { .. } => None,
        }
    }

    /// Returns the size at rest, if it is known.
    pub fn rest(&self) -> Option<Bytes> {
        match self {
            Motion::Resting { at, .. } => *at,
            Motion::Moving(_) => None,
        }
    }

    pub fn set_rest(&mut self, size: Option<Bytes>) {
        if let Motion::Resting { at, .. } = self {
            *at = size;
        }
    }

    /// Cancels a target that was not reached, and returns it.
    pub fn cancel(&mut self) -> Option<Target> {
        let cancelled = self.target().copied();
        *self = Motion::Resting { at: self.rest(), ahead: None, cancelled };
        cancelled
    }
}
