//! The arbiter's input: the host and its guests at one moment.

use counters::Bytes;

/// Names a guest from when it is found until it is gone; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

/// How the host wants to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The free memory (MemAvailable) that the host is to have.
    pub set_point: Bytes,
    /// How far it may be missed in each direction before anything is done.
    pub hysteresis: Bytes,
    /// The free memory that no grant may touch.
    pub reserve: Bytes,
    /// How much more costly idle memory is than memory in use, in thousandths of its owner's
    /// shares, as the idle memory tax of VMware ESX: 750 makes it four times as costly.
    pub idle_tax_permille: u64,
    /// The largest part of its memory that a guest gives in one pass, in thousandths.
    pub step_permille: u64,
    /// A sample older than this decides nothing, unless its guest has slept since.
    pub stale_ms: u64,
}

/// What a guest is entitled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// It never gets less.
    pub min: Bytes,
    /// The operator has set this minimum for this guest: it is given whatever the guest uses.
    pub ordered: bool,
    /// It never gets more; at most what it was started with.
    pub max: Bytes,
    /// Its weight against other guests.
    pub shares: u32,
    /// Whether it is managed at all.
    pub mode: Mode,
}

/// Who decides about a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The arbiter.
    Managed,
    /// The operator: it has this much.
    Pinned(Bytes),
    /// Nobody: it has its maximum.
    Released,
}

/// The host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSample {
    /// When it was read.
    pub at_ms: u64,
    /// MemTotal, or what guests may use together.
    pub total: Bytes,
    /// What could be handed out now without swapping.
    pub available: Bytes,
    /// It swaps, or something on it waits for memory, whatever it reports as available.
    pub strained: bool,
    /// What the host's own reclaim is expected to gain of guests soon, if the host is short, and
    /// without anything being asked of them.
    pub page_out: Bytes,
}

/// A guest's memory as it reported it: sizes, and counters since its boot. What it did not
/// report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// When it came, on the manager's clock.
    pub at_ms: u64,
    /// The guest's own clock, which its counters go with.
    pub clock_ms: u64,
    /// What it had, by its balloon, when it reported.
    pub actual: Bytes,
    /// MemFree.
    pub free: Option<Bytes>,
    /// MemAvailable. Without it nothing can be decided.
    pub available: Option<Bytes>,
    /// Page cache.
    pub cached: Option<Bytes>,
    /// Page cache that was used again.
    pub active_file: Option<Bytes>,
    /// Free swap space.
    pub swap_free: Option<Bytes>,
    /// Pages read from swap.
    pub swap_in: Option<u64>,
    /// Pages written to swap.
    pub swap_out: Option<u64>,
    /// Pages that were needed again soon after they had been dropped.
    pub refaults: Option<u64>,
    /// Allocations that had to reclaim memory themselves.
    pub stalls: Option<u64>,
    /// Faults that had to read.
    pub major_faults: Option<u64>,
    /// Processes killed because memory ran out.
    pub oom_kills: Option<u64>,
    /// Microseconds in which some task waited for memory.
    pub psi_some_us: Option<u64>,
}

/// Whether anything may be asked of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usable {
    /// It runs and has a balloon.
    Yes,
    /// It does not, and why, in a few words.
    No(&'static str),
}

/// A guest's process, as the host sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Memory that it has in the host's beside its guest's: what others have as well (its template,
    /// programs), and the hypervisor's own part. A balloon takes none of it.
    pub beside: Bytes,
    /// All that it has there for itself, its hypervisor's own part with it.
    pub private: Option<Bytes>,
    /// The reason for which its memory stays in the host's, whatever the balloon takes.
    pub pinned: Option<&'static str>,
    /// The most that its guest may have by the bounds of control groups, if those bound it.
    pub group_max: Option<Bytes>,
}

/// A guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestSample {
    /// Which.
    pub key: Key,
    /// What it is entitled to.
    pub limits: Limits,
    /// The memory that it has now, by its balloon.
    pub actual: Option<Bytes>,
    /// What of it is in the host's memory, and nobody else's.
    pub resident: Option<Bytes>,
    /// What of that may be its hypervisor's own, which could not be told apart but by an estimate.
    pub doubtful: Bytes,
    /// Its process on the host.
    pub process: Process,
    /// What of it is in the host's swap.
    pub swapped: Option<Bytes>,
    /// Whether its virtual CPUs have run of late; `None` where that cannot be seen.
    pub runs: Option<bool>,
    /// Its newest sample.
    pub memory: Option<Memory>,
    /// Its virtual CPUs have hardly run since that sample, which holds however old it is.
    pub idle_since_sample: bool,
    /// Whether anything may be asked of it.
    pub usable: Usable,
    /// The size that its own rules are content with, if they have named one.
    pub request: Option<Bytes>,
    /// It has asked for that size since the last pass.
    pub asks: bool,
    /// It reported that its tasks wait for memory, after its newest sample or with it.
    pub urgent: bool,
    /// Its kernel takes memory back before it kills.
    pub deflates_on_oom: bool,
}

impl GuestSample {
    /// The most that it may have. What it has its control groups take from nobody.
    pub fn most(&self) -> Bytes {
        let group_max =
            self.process.group_max.map(|most| most.max(self.actual.unwrap_or(Bytes::ZERO)));
        group_max.map_or(self.limits.max, |most| most.min(self.limits.max))
    }
}

/// The verdicts of the operator's rules about a guest. `None` where there is no such rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleVerdicts {
    /// Replaces the test whether it gives.
    pub shrink: Option<bool>,
    /// Replaces the test whether it needs.
    pub grow: Option<bool>,
    /// False: it is not to be shrunk.
    pub may_shrink: Option<bool>,
    /// False: it is not to be grown.
    pub may_grow: Option<bool>,
    /// The size of a step down.
    pub shrink_size: Option<Bytes>,
    /// The size of a step up.
    pub grow_size: Option<Bytes>,
}

impl Config {
    /// Usual values for a host of this size: 10 % free, and never less than 3 %.
    pub fn of_host(total: Bytes) -> Config {
        Config {
            set_point: total.permille(100),
            hysteresis: total.permille(10),
            reserve: total.permille(30),
            idle_tax_permille: 750,
            step_permille: 125,
            stale_ms: 1500,
        }
    }

    /// What idle memory costs its owner, where memory in use costs a thousand.
    pub fn idle_price_permille(&self) -> u64 {
        1_000_000 / (1000 - self.idle_tax_permille.min(990))
    }
}
