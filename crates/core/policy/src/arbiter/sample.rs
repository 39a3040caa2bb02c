//! The arbiter's input: the host and its guests at one moment.

use base::Bytes;

/// The identifier of a guest from its discovery to its end. Identifiers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

/// The memory goals of a host, and the limits of the arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Free memory (MemAvailable) to keep on the host.
    pub set_point: Bytes,
    /// Deviation from `set_point` in each direction that is tolerated.
    pub hysteresis: Bytes,
    /// Free memory that no grant may use.
    pub reserve: Bytes,
    /// Tax on idle memory, in thousandths, like the idle memory tax of VMware ESX. With 750, idle
    /// memory has four times the price of memory in use.
    pub idle_tax_permille: u64,
    /// Largest part of its memory that a guest gives up in one pass, in thousandths.
    pub step_permille: u64,
    /// Age above which a sample is ignored, unless its guest has slept since.
    pub stale_ms: u64,
}

/// The memory entitlement of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Minimum memory.
    pub min: Bytes,
    /// True if the operator set this minimum for this guest. The guest then gets its minimum
    /// regardless of use.
    pub ordered: bool,
    /// Maximum memory, at most the size that the guest was started with.
    pub max: Bytes,
    /// Weight against other guests.
    pub shares: u32,
    /// Management mode.
    pub mode: Mode,
}

/// The management mode of a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The arbiter decides.
    Managed,
    /// The operator fixed this size.
    Pinned(Bytes),
    /// The guest has its maximum.
    Released,
}

/// A sample of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSample {
    /// Time of the reading.
    pub at_ms: u64,
    /// MemTotal, or the memory budget of all guests.
    pub total: Bytes,
    /// Memory available now without swapping.
    pub available: Bytes,
    /// True if the host swaps, or if some task on the host waits for memory, regardless of
    /// `available`.
    pub strained: bool,
    /// Memory that page-out is expected to gain soon if the host is short of memory, without a
    /// request to any guest.
    pub page_out: Bytes,
}

/// A guest's memory report: sizes, and counters since its boot. A missing value is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Arrival time on the manager's clock.
    pub at_ms: u64,
    /// Time on the guest's own clock, by which its counters are timed.
    pub clock_ms: u64,
    /// Size by its balloon at the time of the report.
    pub actual: Bytes,
    /// MemFree.
    pub free: Option<Bytes>,
    /// MemAvailable. Without this value, nothing is decided about the guest.
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
    /// Pages that were needed again soon after they were dropped.
    pub refaults: Option<u64>,
    /// Allocations that had to reclaim memory themselves.
    pub stalls: Option<u64>,
    /// Page faults that had to read.
    pub major_faults: Option<u64>,
    /// Processes killed because memory ran out.
    pub oom_kills: Option<u64>,
    /// Microseconds in which some task waited for memory.
    pub psi_some_us: Option<u64>,
}

/// Readiness of a guest for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usable {
    /// The guest runs and has a balloon.
    Yes,
    /// The guest cannot be used, with the reason in a few words.
    No(&'static str),
}

/// A guest's process and its devices, as seen from the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Host memory of the process that does not belong to the guest: shared memory (template,
    /// programs) and the hypervisor's own part. A balloon cannot reclaim any of it.
    pub beside: Bytes,
    /// Private memory, including the hypervisor's own part.
    pub private: Option<Bytes>,
    /// Reason for which the process's memory stays resident even if the balloon inflates.
    pub pinned: Option<&'static str>,
    /// Maximum memory that its control groups allow the guest, if they set a limit.
    pub group_max: Option<Bytes>,
    /// Size of the guest before it was managed; `None` stands for its maximum. A release grows the
    /// guest up to this size.
    pub found: Option<Bytes>,
    /// True if the guest's kernel reports free pages, which return to the host without a balloon.
    pub reports: bool,
}

/// A sample of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestSample {
    /// Identifier.
    pub key: Key,
    /// Memory entitlement.
    pub limits: Limits,
    /// Current size by its balloon.
    pub actual: Option<Bytes>,
    /// Private memory resident on the host.
    pub resident: Option<Bytes>,
    /// Part of `resident` that may belong to the hypervisor, by an estimate.
    pub doubtful: Bytes,
    /// Its process on the host.
    pub process: Process,
    /// Memory in the host's swap.
    pub swapped: Option<Bytes>,
    /// True if its virtual CPUs have run lately; `None` if unknown.
    pub runs: Option<bool>,
    /// Newest memory report.
    pub memory: Option<Memory>,
    /// True if the guest's virtual CPUs have hardly run since the newest report. The report is then
    /// valid at any age.
    pub idle_since_sample: bool,
    /// Readiness for requests.
    pub usable: Usable,
    /// Size requested by the guest's own rules, if any.
    pub request: Option<Bytes>,
    /// True if the guest sent `request` since the last pass.
    pub asks: bool,
    /// True if the guest reported waiting tasks, with its newest report or after it.
    pub urgent: bool,
    /// True if the guest's kernel deflates the balloon before it kills processes.
    pub deflates_on_oom: bool,
}

impl GuestSample {
    /// Returns the most memory that the guest may have. Control groups never reduce it below the
    /// current size.
    pub fn most(&self) -> Bytes {
        let group_max =
            self.process.group_max.map(|most| most.max(self.actual.unwrap_or(Bytes::ZERO)));
        group_max.map_or(self.limits.max, |most| most.min(self.limits.max))
    }
}

/// Results of the operator's rules for a guest. `None` means that there is no such rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleVerdicts {
    /// True if the guest should shrink; replaces the built-in test.
    pub shrink: Option<bool>,
    /// True if the guest needs memory; replaces the built-in test.
    pub grow: Option<bool>,
    /// False if the guest must not shrink.
    pub may_shrink: Option<bool>,
    /// False if the guest must not grow.
    pub may_grow: Option<bool>,
    /// Size of a step down.
    pub shrink_size: Option<Bytes>,
    /// Size of a step up.
    pub grow_size: Option<Bytes>,
}

impl Config {
    /// Returns the usual values for a host of this size: 10 % free, and never less than 3 %.
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

    /// Returns the price of idle memory, where memory in use costs 1000.
    pub fn idle_price_permille(&self) -> u64 {
        1_000_000 / (1000 - self.idle_tax_permille.min(990))
    }
}
