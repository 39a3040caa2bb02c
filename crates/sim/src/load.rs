//! What the programs of a guest want over time.

/// A curve of anonymous memory, in KiB, over the time since the guest's boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Always the same.
    Steady {
        /// How much.
        kib: u64,
    },
    /// One step up, and for a time only.
    Burst {
        /// Before and after.
        low_kib: u64,
        /// In between.
        high_kib: u64,
        /// From then.
        from_ms: u64,
        /// Until then.
        until_ms: u64,
    },
    /// A slow, straight rise, which then stays.
    Ramp {
        /// At the start.
        low_kib: u64,
        /// At the end.
        high_kib: u64,
        /// From then.
        from_ms: u64,
        /// Until then.
        until_ms: u64,
    },
    /// A rise and a sudden fall, again and again.
    Sawtooth {
        /// After each fall.
        low_kib: u64,
        /// Before each fall.
        high_kib: u64,
        /// From fall to fall.
        period_ms: u64,
    },
    /// Nearly nothing happens: its virtual CPUs do not run.
    Idle {
        /// What its programs hold all the same.
        kib: u64,
    },
    /// It took a lot once, gave it back to its kernel, and sleeps since.
    Hoarder {
        /// What it took.
        high_kib: u64,
        /// What it keeps.
        low_kib: u64,
        /// From then on.
        from_ms: u64,
    },
}

impl Load {
    /// What is wanted at this time since the boot.
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

    /// Whether its virtual CPUs rest at this time, as far as programs go.
    pub fn rests(&self, ms: u64) -> bool {
        match *self {
            Load::Idle { .. } => ms > SETTLE_MS,
            Load::Hoarder { from_ms, .. } => ms > from_ms + SETTLE_MS,
            _ => false,
        }
    }
}

/// A guest comes to rest so long after its last work.
const SETTLE_MS: u64 = 5_000;

/// What a guest reads from its disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// What it reads again and again.
    pub hot_kib: u64,
    /// What it reads once, a second.
    pub cold_kib_s: u64,
    /// The most that such reading leaves in the cache, where memory allows.
    pub cold_kib_max: u64,
}
