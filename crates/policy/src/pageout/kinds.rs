//! Inputs, orders and findings of page-out.

use base::named;
use counters::Bytes;

use crate::arbiter::Key;

/// The settings of page-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Idle time of the virtual CPUs after which a guest counts as asleep.
    pub after_ms: u64,
    /// Fill level of swap, in thousandths, above which the rest is left for urgent needs.
    pub swap_max_permille: u64,
    /// Most time in which tasks of the host may wait for memory, in hundredths of a percent.
    pub pressure_max: u64,
    /// True if running guests may be taken while the host is short.
    pub takes_running: bool,
}

/// A sample of the host. An unknown value is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// Size of its swap.
    pub swap_total: Option<Bytes>,
    /// Fill level of swap or of the compressed memory behind it, whichever is fuller, in
    /// thousandths.
    pub swap_full_permille: Option<u64>,
    /// Time in which some task waited for memory, in hundredths of a percent: the higher of the
    /// last 10 and 60 s.
    pub pressure: Option<u64>,
    /// Free memory that the host lacks.
    pub lack: Bytes,
}

impl HostSample {
    /// Returns true if the host has less free memory than it is to have.
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
    pub asleep_ms: Option<u64>,
    /// CPU time of its virtual CPUs, in percent of one CPU.
    pub busy_percent: u64,
    /// Memory resident on the host.
    pub held: Option<Bytes>,
    /// True if the guest waits for memory.
    pub is_in_need: bool,
    /// True while its balloon moves.
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

/// The result of a taking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Memory before.
    pub before: Held,
    /// Memory after.
    pub after: Held,
    /// Memory that compressed swap has stored meanwhile, and the room that it takes; `None` if swap
    /// is not compressed.
    pub stored: Option<(Bytes, Bytes)>,
    /// Duration.
    pub took_ms: u64,
    /// True if it was ended early, for example because the guest woke or needs memory.
    pub is_cut: bool,
    /// Address at which the next part begins, if one part was taken and more is left behind it.
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
    /// Hand over all memory of a sleeping guest.
    Take(Key),
    /// Hand over a part of the memory of a running guest.
    TakePart(Key, Part),
    /// Look at the memory of a guest.
    Look(Key),
}

/// A finding about a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Memory that is no longer resident.
    Gained(Bytes),
    /// The working set, measured a minute after the taking.
    WorkingSet {
        /// Resident memory.
        size: Bytes,
        /// Part of it that had been taken.
        came_back: Bytes,
    },
    /// Memory that came back of a part.
    CameBack(Bytes),
    /// Memory that came back later.
    Promoted(Bytes),
    /// The memory compresses too badly: the guest is left alone from now on.
    Incompressible {
        /// Stored bytes for each byte of room, in thousandths.
        ratio_permille: u64,
    },
    /// Too little memory could be taken: the guest is left alone from now on.
    Barren(Bytes),
}

named! {
    /// The state of page-out on this host.
    #[derive(Default)]
    pub enum Lever {
        /// Nothing is known of the host.
        #[default]
        Unknown = "unknown",
        /// Memory may be taken.
        Ready = "ready",
        /// There is no swap.
        NoSwap = "no-swap",
        /// Swap is nearly full.
        SwapFull = "swap-full",
        /// Tasks of the host wait for memory, and page-out would add to that.
        Pressure = "pressure",
    }
}

named! {
    /// The standing of a guest.
    pub enum Standing {
        /// The guest runs, or cannot be seen to sleep, and the host is not short.
        Awake = "awake",
        /// The guest has not slept long enough.
        Waiting = "waits",
        /// The guest needs memory, or its balloon moves.
        InNeed = "in-need",
        /// The settings or its state exclude the guest.
        Excepted = "excepted",
        /// The guest holds next to nothing.
        Small = "small",
        /// The guest may be taken.
        Ready = "ready",
        /// The guest is being taken, or its working set is being measured.
        Measured = "measured",
        /// The guest was taken and has brought little back.
        Out = "out",
        /// The guest is left alone for a time, because it woke or its taking ended early.
        Resting = "rests",
        /// The memory does not compress.
        Incompressible = "incompressible",
        /// Little of the memory can be taken.
        Barren = "barren",
    }
}

impl GuestSample {
    /// Returns true if the virtual CPUs have hardly run for long enough.
    pub(super) fn sleeps(&self, config: &Config) -> bool {
        self.asleep_ms.is_some_and(|asleep_ms| asleep_ms >= config.after_ms)
    }
}
