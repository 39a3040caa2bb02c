//! A balloon and its faults.

/// The behaviour of a balloon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Moves to its target.
    None,
    /// Does nothing.
    Stuck,
    /// Stops for half of each period.
    Intermittent {
        /// Time from stop to stop.
        period_ms: u64,
    },
}

/// The memory that is taken from a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balloon {
    /// Memory that the balloon holds.
    pub size_kib: u64,
    /// True if the kernel took memory from the balloon after the last target. The balloon then
    /// rests until it gets a different target.
    pub gave_way: bool,
    target_kib: Option<u64>,
}

impl Balloon {
    /// Creates a balloon of this size, at rest.
    pub fn at(size_kib: u64) -> Balloon {
        Balloon { size_kib, target_kib: None, gave_way: false }
    }

    /// Sets the target size of the guest.
    pub fn set_target(&mut self, target_kib: u64) {
        if self.target_kib != Some(target_kib) {
            self.gave_way = false;
        }
        self.target_kib = Some(target_kib);
    }

    /// Returns the memory by which the balloon inflates in a step. If it is negative, the balloon
    /// deflates. `max_kib` is the guest's size without a balloon, and `most_kib` is the largest
    /// change in a step.
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
