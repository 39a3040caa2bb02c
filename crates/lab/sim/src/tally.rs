//! The numbers of a run, which show how close the run came to the limits.

/// The numbers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Targets given.
    pub orders: u64,
    /// Targets that give memory.
    pub grows: u64,
    /// Scenarios in which the policy gave any target.
    pub lively: u64,
    /// Scenarios in which the host swapped.
    pub swapping: u64,
    /// Maximum number of turns of a guest within ten minutes.
    pub turns_max: usize,
    /// Processes killed.
    pub oom_kills: u64,
    /// Longest time for which a need was not met although there was memory for it.
    pub need_ms_max: u64,
    /// Maximum memory that the host swapped.
    pub host_swap_kib: u64,
}

impl Tally {
    /// Returns the numbers of both runs together.
    pub fn with(self, other: &Tally) -> Tally {
        Tally {
            orders: self.orders + other.orders,
            grows: self.grows + other.grows,
            lively: self.lively + other.lively,
            swapping: self.swapping + other.swapping,
            turns_max: self.turns_max.max(other.turns_max),
            oom_kills: self.oom_kills + other.oom_kills,
            need_ms_max: self.need_ms_max.max(other.need_ms_max),
            host_swap_kib: self.host_swap_kib.max(other.host_swap_kib),
        }
    }
}
