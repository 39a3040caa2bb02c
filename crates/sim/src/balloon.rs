//! A balloon and what can be wrong with it.

/// How a balloon behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It goes to its target.
    None,
    /// It does nothing.
    Stuck,
    /// It stops at times: for half of each such period.
    Intermittent {
        /// From stop to stop.
        period_ms: u64,
    },
}

/// The memory that a guest does without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balloon {
    /// Its size.
    pub size_kib: u64,
    /// Whether the kernel took from it since its last new target. It rests until the next.
    pub gave_way: bool,
    /// What the guest is to have.
    target_kib: Option<u64>,
}

impl Balloon {
    /// A balloon of this size, at rest.
    pub fn at(size_kib: u64) -> Balloon {
        Balloon { size_kib, target_kib: None, gave_way: false }
    }

    /// Sets what the guest is to have.
    pub fn set_target(&mut self, target_kib: u64) {
        if self.target_kib != Some(target_kib) {
            self.gave_way = false;
        }
        self.target_kib = Some(target_kib);
    }

    /// The memory that it would take of `max_kib`, or give (negative), in a step that moves no
    /// more than `most_kib`.
    pub fn wants(&self, fault: Fault, max_kib: u64, most_kib: u64, now_ms: u64) -> i64 {
        let Some(target_kib) = self.target_kib.filter(|_| !self.gave_way) else { return 0 };
        let stops = match fault {
            Fault::None => false,
            Fault::Stuck => true,
            Fault::Intermittent { period_ms } => now_ms % period_ms.max(1) < period_ms / 2,
        };
        if stops {
            return 0;
        }
        let most = most_kib as i64;
        let wanted = max_kib.saturating_sub(target_kib) as i64;
        (wanted - self.size_kib as i64).clamp(-most, most)
    }
}
