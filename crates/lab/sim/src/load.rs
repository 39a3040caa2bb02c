//! Memory that the programs of a guest want over time.

/// A curve of anonymous memory, in KiB, over the time since the guest's boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Constant.
    Steady {
        /// Size.
        kib: u64,
    },
    /// One step up, for a limited time.
    Burst {
        /// Size before and after.
        low_kib: u64,
        /// Size in between.
        high_kib: u64,
        /// Start.
        from_ms: u64,
        /// End.
        until_ms: u64,
    },
    /// A slow, straight rise to a lasting size.
    Ramp {
        /// Size at the start.
        low_kib: u64,
        /// Size at the end.
        high_kib: u64,
        /// Start.
        from_ms: u64,
        /// End.
        until_ms: u64,
    },
    /// A repeated rise with a sudden fall.
    Sawtooth {
        /// Size after each fall.
        low_kib: u64,
        /// Size before each fall.
        high_kib: u64,
        /// Time from fall to fall.
        period_ms: u64,
    },
    /// No work: the virtual CPUs do not run.
    Idle {
        /// Memory that its programs hold without using it.
        kib: u64,
    },
    /// A large size at first. Then the programs free most of it, and the guest is idle.
    Hoarder {
        /// Size at first.
        high_kib: u64,
        /// Size that is kept.
        low_kib: u64,
        /// Time at which the memory is freed.
        from_ms: u64,
    },
}

impl Load {
    /// Returns the wanted memory at this time since the boot.
    pub fn at(&self, ms: u64) -> u64 {
        match *self {
            Load::Steady { kib } | Load::Idle { kib } => kib,
            Load::Burst { low_kib, high_kib, from_ms, until_ms } => {
                if (from_ms..until_ms).contains(&ms) { high_kib } else { low_kib }
            }
            Load::Ramp { low_kib, high_kib, from_ms, until_ms } => {
                let span_ms = until_ms.saturating_sub(from_ms).max(1);
                let gone_ms = ms.saturating_sub(from_ms).min(span_ms);
                low_kib + high_kib.saturating_sub(low_kib) * gone_ms / span_ms
            }
            Load::Sawtooth { low_kib, high_kib, period_ms } => {
                let period_ms = period_ms.max(1);
                low_kib + high_kib.saturating_sub(low_kib) * (ms % period_ms) / period_ms
            }
            Load::Hoarder { high_kib, low_kib, from_ms } => {
                if ms < from_ms {
                    high_kib
                } else {
                    low_kib
                }
            }
        }
    }

    /// Returns true if no program keeps the virtual CPUs busy at this time.
    pub fn rests(&self, ms: u64) -> bool {
        match *self {
            Load::Idle { .. } => ms > SETTLE_MS,
            Load::Hoarder { from_ms, .. } => ms > from_ms + SETTLE_MS,
            _ => false,
        }
    }
}

/// Time from a guest's last work until it is idle.
const SETTLE_MS: u64 = 5_000;

/// The files that a guest reads from its disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Files that are read repeatedly.
    pub hot_kib: u64,
    /// Files read once, in KiB per second.
    pub cold_kib_s: u64,
    /// Maximum cold cache that this reading leaves, if memory allows.
    pub cold_kib_max: u64,
}
