//! Inputs, orders and results of page-out.

use base::{Bytes, named};

use crate::arbiter::Key;

/// The settings of page-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Idle time of the virtual CPUs after which a guest counts as asleep.
    pub after_ms: u64,
    /// Fill level of swap, in thousandths, above which the remaining swap is left for urgent needs.
    pub swap_max_permille: u64,
    /// Maximum time in which tasks of the host may wait for memory, in hundredths of a percent.
    pub pressure_max: u64,
    /// True if running guests may be paged out while the host is short of memory.
    pub takes_running: bool,
}

/// A sample of the host. An unknown value is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// Size of the host's swap.
    pub swap_total: Option<Bytes>,
    /// Fill level of swap or of the compressed memory behind it, whichever is fuller, in
    /// thousandths.
    pub swap_full_permille: Option<u64>,
    /// Time in which some task waited for memory, in hundredths of a percent: the higher value of
    /// the last 10 and 60 s.
    pub pressure: Option<u64>,
    /// Free memory that the host lacks.
    pub lack: Bytes,
}

impl HostSample {
    /// Returns true if the host has less free memory than its target.
    pub fn is_short(&self) -> bool {
        self.lack > Bytes::ZERO
    }
}

/// A sample of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestSample {
    /// Identifier.
    pub key: Key,
    /// Time for which its virtual CPUs have hardly run; `None` if they run, or if that is unknown.
    /// The largest value means that the guest was parked on request.
    pub asleep_ms: Option<u64>,
    /// CPU time of its virtual CPUs, in percent of one CPU.
    pub busy_percent: u64,
    /// Memory resident on the host.
    pub held: Option<Bytes>,
    /// True if the guest waits for memory.
    pub is_in_need: bool,
    /// True while its balloon is changing its size.
    pub is_moving: bool,
    /// True if the settings exclude the guest, or nothing may be done to it.
    pub is_excepted: bool,
}

/// The memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Private memory resident on the host.
    pub own: Bytes,
    /// Memory in the host's swap, compressed or not.
    pub swapped: Bytes,
}

/// The result of a page-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Memory before.
    pub before: Held,
    /// Memory after.
    pub after: Held,
    /// Memory stored in compressed swap during the page-out, and its compressed size; `None` if
    /// swap is not compressed.
    pub stored: Option<(Bytes, Bytes)>,
    /// Duration.
    pub took_ms: u64,
    /// True if the page-out was ended early, for example because the guest woke or needs memory.
    pub is_cut: bool,
    /// Address at which the next part begins, if one part was paged out and more memory follows.
    pub next: Option<u64>,
}

/// A part of a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Start address.
    pub from: u64,
    /// Gain at which the part ends.
    pub most: Bytes,
}

/// An order of page-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Page out all memory of a sleeping guest.
    Take(Key),
    /// Page out a part of the memory of a running guest.
    TakePart(Key, Part),
    /// Measure the memory of a guest.
    Look(Key),
}

/// A result for a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Memory that is no longer resident.
    Gained(Bytes),
    /// The working set, measured a minute after the page-out.
    WorkingSet {
        /// Resident memory.
        size: Bytes,
        /// Part of the working set that had been paged out.
        came_back: Bytes,
    },
    /// Memory of a part that became resident again.
    CameBack(Bytes),
    /// Memory that became resident again later.
    Promoted(Bytes),
    /// The memory compresses too badly, so the guest is not paged out any more.
    Incompressible {
        /// Bytes stored in each compressed byte, in thousandths.
        ratio_permille: u64,
    },
    /// Too little memory could be paged out, so the guest is not paged out any more.
    Barren(Bytes),
}

named! {
    /// The state of page-out on this host.
    #[derive(Default)]
    pub enum Lever {
        /// Nothing is known of the host.
        #[default]
        Unknown = "unknown",
        /// Page-out is possible.
        Ready = "ready",
        /// There is no swap.
        NoSwap = "no-swap",
        /// Swap is nearly full.
        SwapFull = "swap-full",
        /// Tasks of the host wait for memory, and page-out would make them wait longer.
        Pressure = "pressure",
    }
}

named! {
    /// The state of a guest for page-out.
    pub enum Standing {
        /// The guest runs, or its sleep cannot be detected, and the host is not short of memory.
        Awake = "awake",
        /// The guest has not slept long enough.
        Waiting = "waits",
        /// The guest needs memory, or its balloon is changing its size.
        InNeed = "in-need",
        /// The settings or its state exclude the guest.
        Excepted = "excepted",
        /// The guest has hardly any resident memory.
        Small = "small",
        /// The guest may be paged out.
        Ready = "ready",
        /// The guest is being paged out, or its working set is being measured.
        Measured = "measured",
        /// The guest was paged out, and little of its memory has become resident again.
        Out = "out",
        /// The guest is not paged out for a time, because it woke or its last page-out ended early.
        Resting = "rests",
        /// The memory does not compress.
        Incompressible = "incompressible",
        /// Little of the memory can be paged out.
        Barren = "barren",
    }
}

impl GuestSample {
    /// Returns true if the guest was parked on request, so nobody needs its memory.
    pub(super) fn is_parked(&self) -> bool {
        self.asleep_ms == Some(u64::MAX)
    }

    /// Returns true if the virtual CPUs have hardly run for long enough.
    pub(super) fn sleeps(&self, config: &Config) -> bool {
        self.asleep_ms.is_some_and(|asleep_ms| asleep_ms >= config.after_ms)
    }
}
