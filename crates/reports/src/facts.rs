//! What a derived field is made from: the raw fields of one row of a report.

use crate::shares::{States, states};
use counters::series::{Field, GuestField, HostField, Over, ProcessField, TierField};

/// A second and a minute in milliseconds, as rates need them.
const SECOND: f64 = 1e3;
const MINUTE: f64 = 60e3;

/// A mebibyte in bytes, and a page.
pub(crate) const MIB: f64 = 1_048_576.0;
pub(crate) const PAGE: f64 = 4_096.0;
/// A tick of a guest's kernel, in nanoseconds: there are a hundred a second.
pub(crate) const TICK_NS: f64 = 10_000_000.0;

/// Everything that a row of a report is derived from. In the row of a host, the guest is the
/// sum of all guests, and the tier that of all tiers; in that of a process, the guest is its
/// own.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The host.
    pub host: &'a Over<HostField>,
    /// A guest, or several.
    pub guest: &'a Over<GuestField>,
    /// A tier, or all of them.
    pub tier: &'a Over<TierField>,
    /// A process, or several of one name.
    pub process: &'a Over<ProcessField>,
    /// What was reckoned guest by guest and then summed.
    pub added: &'a Added,
    /// How many guests were there, on average.
    pub on: Option<f64>,
    /// How many of them were active, on average.
    pub active: Option<f64>,
    /// CPU time that the guest counted and no process of the report's list has.
    pub unlisted_ns: Option<f64>,
}

/// What is reckoned guest by guest, because guests differ in what is known of them, and then
/// summed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Added {
    /// CPU time that they themselves got: guest time, or run time under emulation.
    pub virtual_ns: Option<u64>,
    /// Wake-ups: halts that ended, or dispatches where halts are not counted.
    pub wakes: Option<u64>,
    /// Of guests that tell their busy ticks: the CPU time that they got, and those ticks.
    pub told: Option<(u64, u64)>,
    /// Where the time of their virtual CPUs went, in nanoseconds.
    pub states: Option<States>,
}

impl Added {
    /// Of one guest.
    pub fn of(guest: &Over<GuestField>) -> Added {
        use GuestField as G;
        let virtual_ns = guest.get(G::VcpuGuest).or(guest.get(G::VcpuRun));
        Added {
            virtual_ns,
            wakes: guest.get(G::HaltWakeups).or(guest.get(G::VcpuDispatches)),
            told: virtual_ns.zip(guest.get(G::OwnBusy)),
            states: states(guest),
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Added) -> Added {
        let told = |(a, b): (u64, u64), (c, d)| (a.saturating_add(c), b.saturating_add(d));
        Added {
            virtual_ns: both(self.virtual_ns, other.virtual_ns, u64::saturating_add),
            wakes: both(self.wakes, other.wakes, u64::saturating_add),
            told: both(self.told, other.told, told),
            states: both(self.states, other.states, |a, b| a.plus(&b)),
        }
    }
}

fn both<T>(one: Option<T>, other: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (None, value) | (value, None) => value,
        (Some(one), Some(other)) => Some(add(one, other)),
    }
}

fn a_second<F: Field>(over: &Over<F>, field: F) -> Option<f64> {
    over.a_second(field)
}

fn value<F: Field>(over: &Over<F>, field: F) -> Option<f64> {
    over.get(field).map(|value| value as f64)
}

impl Facts<'_> {
    /// A raw value of the host.
    pub(crate) fn h(&self, field: HostField) -> Option<f64> {
        value(self.host, field)
    }

    /// A raw value of the guest.
    pub(crate) fn g(&self, field: GuestField) -> Option<f64> {
        value(self.guest, field)
    }

    /// A raw value of the tier.
    pub(crate) fn t(&self, field: TierField) -> Option<f64> {
        value(self.tier, field)
    }

    /// A raw value of the process.
    pub(crate) fn p(&self, field: ProcessField) -> Option<f64> {
        value(self.process, field)
    }

    /// A counter of the host, a second.
    pub(crate) fn h_s(&self, field: HostField) -> Option<f64> {
        a_second(self.host, field)
    }

    /// A counter of the guest, a second.
    pub(crate) fn g_s(&self, field: GuestField) -> Option<f64> {
        a_second(self.guest, field)
    }

    /// A counter of the tier, a second.
    pub(crate) fn t_s(&self, field: TierField) -> Option<f64> {
        a_second(self.tier, field)
    }

    /// Nanoseconds of the guest as a share of the time that is known of it, in hundredths.
    pub(crate) fn g_share(&self, ns: f64) -> Option<f64> {
        share(ns, self.guest.covered_ms)
    }

    /// Nanoseconds of the host as a share of the time that is known of it, in hundredths.
    pub(crate) fn h_share(&self, ns: f64) -> Option<f64> {
        share(ns, self.host.covered_ms)
    }

    /// Nanoseconds of the guest as milliseconds a minute.
    pub(crate) fn g_ms_per_min(&self, ns: f64) -> Option<f64> {
        self.g_per_min(ns / 1e6)
    }

    /// What happened so often to the guest, a minute.
    pub(crate) fn g_per_min(&self, count: f64) -> Option<f64> {
        per_min(count, self.guest.covered_ms)
    }

    /// What happened so often to the host, a minute.
    pub(crate) fn h_per_min(&self, count: f64) -> Option<f64> {
        per_min(count, self.host.covered_ms)
    }

    /// CPU time of the guest: of its virtual CPUs, and of what its hypervisor does besides.
    pub(crate) fn cpu_ns(&self) -> Option<f64> {
        Some(self.g(GuestField::VcpuRun)? + self.g(GuestField::OtherRun)?)
    }

    /// CPU time that the guest itself got. Under emulation there is no guest time: then it is
    /// what its virtual CPUs ran for.
    pub(crate) fn virtual_ns(&self) -> Option<f64> {
        self.added.virtual_ns.map(|ns| ns as f64)
    }

    /// How often a virtual CPU was woken. Where halts are not counted, it is how often one was
    /// dispatched.
    pub(crate) fn wakes(&self) -> Option<f64> {
        self.added.wakes.map(|wakes| wakes as f64)
    }

    /// Time that virtual CPUs wanted to run: they ran, or waited for a CPU, and what is known
    /// of their waits for pages and for I/O.
    pub(crate) fn queued_ns(&self) -> Option<f64> {
        let wanted = self.g(GuestField::VcpuRun)? + self.g(GuestField::VcpuDelay)?;
        let waited = [GuestField::PsiMemory, GuestField::VcpuBlockIo];
        Some(wanted + waited.iter().filter_map(|field| self.g(*field)).sum::<f64>())
    }

    /// CPU time that the guest counts itself.
    pub(crate) fn own_busy_ns(&self) -> Option<f64> {
        Some(self.g(GuestField::OwnBusy)? * TICK_NS)
    }

    /// What one second of the guest's own count was in truth; of several, of those that tell
    /// what they count.
    pub(crate) fn factor(&self) -> Option<f64> {
        let (virtual_ns, ticks) = self.added.told?;
        crate::number::over(virtual_ns as f64, ticks as f64 * TICK_NS)
    }

    /// CPU time of the process by the guest's count.
    pub(crate) fn process_ns(&self) -> Option<f64> {
        if self.unlisted_ns.is_some() {
            return self.unlisted_ns;
        }
        Some(self.p(ProcessField::User)? + self.p(ProcessField::System)?)
    }

    /// Busy time of the host, guests and all.
    pub(crate) fn busy_ns(&self) -> Option<f64> {
        use HostField as H;
        let parts = [H::User, H::System, H::Nice, H::Interrupts, H::SoftInterrupts, H::Guest];
        let known = |field: &H| self.h(*field);
        (self.h(H::User).is_some() && self.h(H::System).is_some())
            .then(|| parts.iter().filter_map(known).sum())
    }

    /// All the time that the host's CPUs had.
    pub(crate) fn capacity_ns(&self) -> Option<f64> {
        Some(self.h(HostField::Cpus)? * self.host.covered_ms as f64 * 1e6).filter(|ns| *ns > 0.0)
    }
}

fn share(ns: f64, covered_ms: u64) -> Option<f64> {
    crate::number::over(ns * 100.0, covered_ms as f64 * 1e6)
}

fn per_min(count: f64, covered_ms: u64) -> Option<f64> {
    crate::number::over(count * MINUTE, covered_ms as f64)
}

/// Values a second of something that is known for so long.
pub(crate) fn per_s(count: f64, covered_ms: u64) -> Option<f64> {
    crate::number::over(count * SECOND, covered_ms as f64)
}
