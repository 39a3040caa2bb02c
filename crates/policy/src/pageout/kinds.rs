//! What page-out is asked with, what it orders, and what it finds.

use base::named;
use counters::Bytes;

use crate::arbiter::Key;

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A guest sleeps whose virtual CPUs have hardly run for so long.
    pub after_ms: u64,
    /// Swap that is fuller than this is left for those that need it at once, in thousandths.
    pub swap_max_permille: u64,
    /// The time in which tasks of the host may wait for memory, in hundredths of a percent.
    pub pressure_max: u64,
    /// While the host is short, guests are taken that run.
    pub takes_running: bool,
}

/// The host at one moment. What is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// The size of its swap.
    pub swap_total: Option<Bytes>,
    /// How full that is, or the compressed memory behind it, in thousandths: the fuller counts.
    pub swap_full_permille: Option<u64>,
    /// The higher of the last 10 and 60 s in which some task waited for memory, in hundredths
    /// of a percent.
    pub pressure: Option<u64>,
    /// By so much it has less free than it is to have.
    pub lack: Bytes,
}

impl HostSample {
    /// Whether it has less free than it is to have.
    pub fn is_short(&self) -> bool {
        self.lack > Bytes::ZERO
    }
}

/// A guest at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestSample {
    /// Which.
    pub key: Key,
    /// How long its virtual CPUs have hardly run; `None` where that cannot be seen, or they run.
    pub asleep_ms: Option<u64>,
    /// What of a CPU its virtual CPUs use, in percent.
    pub busy_percent: u64,
    /// What of it is in the host's memory.
    pub held: Option<Bytes>,
    /// It waits for memory.
    pub is_in_need: bool,
    /// Its balloon is on its way.
    pub is_moving: bool,
    /// The settings leave it out, or nothing may be done to it.
    pub is_excepted: bool,
}

/// A process's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// What is in the host's memory and no other's.
    pub own: Bytes,
    /// What is in its swap, compressed or not.
    pub swapped: Bytes,
}

/// What came of a taking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Before.
    pub before: Held,
    /// After.
    pub after: Held,
    /// What compressed memory has stored in that time, and what that takes; `None` where swap is
    /// not compressed.
    pub stored: Option<(Bytes, Bytes)>,
    /// How long it took.
    pub took_ms: u64,
    /// It was ended early: the guest woke, or needs memory.
    pub is_cut: bool,
    /// The address at which the next part begins, where there was one part to take and more is
    /// left behind it.
    pub next: Option<u64>,
}

/// A part of a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The address at which it begins.
    pub from: u64,
    /// It ends where so much was gained.
    pub most: Bytes,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Hand over all memory of a guest that sleeps.
    Take(Key),
    /// Hand over a part of the memory of one that runs.
    TakePart(Key, Part),
    /// Look at what a guest holds.
    Look(Key),
}

/// What was found out about a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// So much of it is no longer in memory.
    Gained(Bytes),
    /// So much came back within a minute, and it holds its working set.
    WorkingSet {
        /// What it holds.
        size: Bytes,
        /// What of that had been taken.
        came_back: Bytes,
    },
    /// So much came back of a part.
    CameBack(Bytes),
    /// So much came back later.
    Promoted(Bytes),
    /// Its memory is not compressed enough: it is left alone from now on.
    Incompressible {
        /// Stored for each byte that it takes, in thousandths.
        ratio_permille: u64,
    },
    /// Little of it can be taken at all: it is left alone from now on.
    Barren(Bytes),
}

named! {
    /// Whether anything is taken on this host now, and why not.
    #[derive(Default)]
    pub enum Lever {
        /// Nothing is known of the host.
        #[default]
        Unknown = "unknown",
        /// It may be.
        Ready = "ready",
        /// There is nowhere to put it.
        NoSwap = "no-swap",
        /// Swap is nearly full.
        SwapFull = "swap-full",
        /// The host's tasks wait for memory: page-out would add to that.
        Pressure = "pressure",
    }
}

named! {
    /// How a guest stands.
    pub enum Standing {
        /// It runs, or cannot be seen to sleep, and the host is not short.
        Awake = "awake",
        /// It has not slept long enough.
        Waiting = "waits",
        /// It needs memory.
        InNeed = "in-need",
        /// The settings or its state leave it out.
        Excepted = "excepted",
        /// It holds next to nothing.
        Small = "small",
        /// It is next.
        Ready = "ready",
        /// It is being taken, or was a moment ago: its working set is measured.
        Measured = "measured",
        /// It was taken and has brought little back.
        Out = "out",
        /// It has woken and is left alone for a time.
        Resting = "rests",
        /// It does not compress.
        Incompressible = "incompressible",
        /// Little of it can be taken.
        Barren = "barren",
    }
}

impl GuestSample {
    /// Whether its virtual CPUs have hardly run for long enough.
    pub(super) fn sleeps(&self, config: &Config) -> bool {
        self.asleep_ms.is_some_and(|asleep_ms| asleep_ms >= config.after_ms)
    }
}
