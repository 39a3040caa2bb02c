//! Raw fields of one report row, from which derived fields are computed.

use crate::states::{States, both, states};
use model::{Field, GuestField, HostField, Over, ProcessField, TierField};
use std::sync::LazyLock;

/// A second and a minute in milliseconds, for rates.
const SECOND: f64 = 1e3;
const MINUTE: f64 = 60e3;

pub(crate) const MIB: f64 = 1_048_576.0;
pub(crate) const PAGE: f64 = 4_096.0;
/// A tick of a guest's kernel in nanoseconds, at 100 Hz.
pub(crate) const TICK_NS: f64 = 10_000_000.0;

/// Everything that a row of a report is derived from. In a host's row, `guest` is the sum of all
/// guests and `tier` the sum of all tiers. In a process's row, `guest` is the guest that runs the
/// process.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Fields of the host.
    pub host: &'a Over<HostField>,
    /// Fields of a guest, or sums of several guests' fields.
    pub guest: &'a Over<GuestField>,
    /// Fields of a tier, or sums of all tiers' fields.
    pub tier: &'a Over<TierField>,
    /// Fields of a process, or of several processes with the same name.
    pub process: &'a Over<ProcessField>,
    /// Values calculated for each guest and then summed.
    pub added: &'a Added,
    /// Mean number of guests present.
    pub on: Option<f64>,
    /// Mean number of active guests.
    pub active: Option<f64>,
    /// CPU time of unlisted processes, as the guest counted it.
    pub unlisted_ns: Option<f64>,
    /// Wake-ups of guests that were not active.
    pub idle_wakes: Option<f64>,
}

impl Default for Facts<'_> {
    fn default() -> Self {
        static HOST: LazyLock<Over<HostField>> = LazyLock::new(Over::default);
        static GUEST: LazyLock<Over<GuestField>> = LazyLock::new(Over::default);
        static TIER: LazyLock<Over<TierField>> = LazyLock::new(Over::default);
        static PROCESS: LazyLock<Over<ProcessField>> = LazyLock::new(Over::default);
        static ADDED: LazyLock<Added> = LazyLock::new(Added::default);
        Facts {
            host: &HOST,
            guest: &GUEST,
            tier: &TIER,
            process: &PROCESS,
            added: &ADDED,
            on: None,
            active: None,
            unlisted_ns: None,
            idle_wakes: None,
        }
    }
}

/// Values calculated for each guest and then summed, because guests differ in the counters they
/// have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Added {
    /// CPU time that the guests received: guest time, or run time under emulation.
    pub virtual_ns: Option<u64>,
    /// Wake-ups: halts that ended, or dispatches where halts are not counted.
    pub wakes: Option<u64>,
    /// CPU time of guests that count CPU time themselves, in nanoseconds: the time received, and
    /// the time counted.
    pub own_time: Option<OwnTime>,
    /// Time of the virtual CPUs by state, in nanoseconds.
    pub states: Option<States>,
}

/// CPU time as guests count it and as the host measured it, in nanoseconds.
///
/// A daemon reports processes now and then, together with the run time of all tasks as the guest's
/// kernel counts it. The CPU times of processes are parts of this run time. Between the same two
/// reports, the host measures the CPU time that the guest received. The host's value is the true
/// value. The busy ticks of the guest's CPUs are less exact, because the guest's kernel loses some
/// of the stolen ticks. The ticks are used only if processes are not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnTime {
    /// CPU time received over the whole time.
    pub virtual_ns: u64,
    /// CPU time received between the reports of processes, and the guest's count of that CPU time.
    pub reported: Option<(u64, u64)>,
    /// CPU time received over the whole time, and the busy ticks that the guest counted.
    pub ticked: Option<(u64, u64)>,
}

impl OwnTime {
    fn of(guest: &Over<GuestField>, virtual_ns: u64) -> Option<OwnTime> {
        use GuestField as G;
        let ran_ns = guest.get(G::VcpuRun).unwrap_or(0);
        // With KVM, part of the run time is the host's own work.
        let of_run = |ns: u64| match ran_ns {
            0 => 0,
            _ => u128::from(ns) * u128::from(virtual_ns) / u128::from(ran_ns),
        };
        let then_ns = guest.get(G::RunThen).map(|ns| u64::try_from(of_run(ns)).unwrap_or(u64::MAX));
        let reported = then_ns.zip(guest.get(G::OwnRun));
        let busy = guest.get(G::OwnBusy);
        let ticked = busy.map(|ticks| (virtual_ns, ticks.saturating_mul(TICK_NS as u64)));
        (reported.is_some() || ticked.is_some()).then_some(OwnTime { virtual_ns, reported, ticked })
    }

    fn plus(self, other: OwnTime) -> OwnTime {
        let pairs = |(a, b): (u64, u64), (c, d)| (a.saturating_add(c), b.saturating_add(d));
        OwnTime {
            virtual_ns: self.virtual_ns.saturating_add(other.virtual_ns),
            reported: both(self.reported, other.reported, pairs),
            ticked: both(self.ticked, other.ticked, pairs),
        }
    }

    /// Returns the most exact known pair: CPU time received, and the guest's count of that CPU
    /// time.
    fn best(&self) -> Option<(u64, u64)> {
        self.reported.filter(|(_, own_ns)| *own_ns > 0).or(self.ticked)
    }
}

impl Added {
    /// Returns the values of one guest.
    pub fn of(guest: &Over<GuestField>) -> Added {
        use GuestField as G;
        let virtual_ns = guest.get(G::VcpuGuest).or(guest.get(G::VcpuRun));
        Added {
            virtual_ns,
            wakes: guest.get(G::HaltWakeups).or(guest.get(G::VcpuDispatches)),
            own_time: virtual_ns.and_then(|ns| OwnTime::of(guest, ns)),
            states: states(guest),
        }
    }

    /// Returns the sum of both values.
    pub fn plus(&self, other: &Added) -> Added {
        Added {
            virtual_ns: both(self.virtual_ns, other.virtual_ns, u64::saturating_add),
            wakes: both(self.wakes, other.wakes, u64::saturating_add),
            own_time: both(self.own_time, other.own_time, OwnTime::plus),
            states: both(self.states, other.states, |a, b| a.plus(&b)),
        }
    }
}

fn value<F: Field>(over: &Over<F>, field: F) -> Option<f64> {
    over.get(field).map(|value| value as f64)
}

impl Facts<'_> {
    pub(crate) fn h(&self, field: HostField) -> Option<f64> {
        value(self.host, field)
    }

    pub(crate) fn g(&self, field: GuestField) -> Option<f64> {
        value(self.guest, field)
    }

    pub(crate) fn t(&self, field: TierField) -> Option<f64> {
        value(self.tier, field)
    }

    pub(crate) fn p(&self, field: ProcessField) -> Option<f64> {
        value(self.process, field)
    }

    /// Returns the rate per second of a host counter.
    pub(crate) fn h_s(&self, field: HostField) -> Option<f64> {
        self.host.a_second(field)
    }

    /// Returns the rate per second of a guest counter.
    pub(crate) fn g_s(&self, field: GuestField) -> Option<f64> {
        self.guest.a_second(field)
    }

    /// Returns nanoseconds of the guest as a percentage of the recorded time.
    pub(crate) fn g_share(&self, ns: f64) -> Option<f64> {
        share(ns, self.guest.covered_ms)
    }

    /// Returns nanoseconds of the guest as milliseconds per minute.
    pub(crate) fn g_ms_per_min(&self, ns: f64) -> Option<f64> {
        self.g_per_min(ns / 1e6)
    }

    /// Returns a count of the guest's events per minute.
    pub(crate) fn g_per_min(&self, count: f64) -> Option<f64> {
        per_min(count, self.guest.covered_ms)
    }

    /// Returns the guest's CPU time: its virtual CPUs and the hypervisor's other threads.
    pub(crate) fn cpu_ns(&self) -> Option<f64> {
        Some(self.g(GuestField::VcpuRun)? + self.g(GuestField::OtherRun)?)
    }

    /// Returns the CPU time that the guest itself received. Under emulation, where guest time is
    /// not counted, the run time of the virtual CPUs is used.
    pub(crate) fn virtual_ns(&self) -> Option<f64> {
        self.added.virtual_ns.map(|ns| ns as f64)
    }

    /// Returns the number of times a virtual CPU was woken, or dispatched if halts are not counted.
    pub(crate) fn wakes(&self) -> Option<f64> {
        self.added.wakes.map(|wakes| wakes as f64)
    }

    /// Returns the time in which virtual CPUs had work: run time, CPU waits, and the known waits
    /// for pages and for I/O.
    pub(crate) fn queued_ns(&self) -> Option<f64> {
        let wanted = self.g(GuestField::VcpuRun)? + self.g(GuestField::VcpuDelay)?;
        let waited = [GuestField::PsiMemory, GuestField::VcpuBlockIo];
        Some(wanted + waited.iter().filter_map(|field| self.g(*field)).sum::<f64>())
    }

    /// Returns the guest's count of its CPU time. The CPU times of processes are parts of this
    /// count.
    pub(crate) fn own_ns(&self) -> Option<f64> {
        self.added.own_time?.best().map(|(_, own_ns)| own_ns as f64)
    }

    /// Returns the CPU time by the host's clock per second of CPU time that the guest counted. For
    /// several guests, only guests that count their CPU time contribute.
    pub(crate) fn factor(&self) -> Option<f64> {
        let (got_ns, own_ns) = self.added.own_time?.best()?;
        crate::number::over(got_ns as f64, own_ns as f64)
    }

    /// Returns the factor that converts the CPU time of processes from the guest's clock to the
    /// host's clock. The factor divides all CPU time of the guest among its processes, even the
    /// time before the first report and after the last report.
    pub(crate) fn scale(&self) -> Option<f64> {
        crate::number::over(self.added.own_time?.virtual_ns as f64, self.own_ns()?)
    }

    /// Returns the CPU time of the process, as the guest counted it.
    pub(crate) fn process_ns(&self) -> Option<f64> {
        if self.unlisted_ns.is_some() {
            return self.unlisted_ns;
        }
        let parts = self.p(ProcessField::User).zip(self.p(ProcessField::System));
        // z/VM's monitor reports user and system time as one value.
        parts.map(|(user, system)| user + system).or_else(|| self.p(ProcessField::Run))
    }

    /// Returns the CPU time of the process and of its ended children, as the guest counted it. A
    /// shell, for example, works through its children.
    pub(crate) fn process_and_children_ns(&self) -> Option<f64> {
        let own_ns = self.process_ns()?;
        if self.unlisted_ns.is_some() {
            return Some(own_ns);
        }
        let children = [ProcessField::ChildUser, ProcessField::ChildSystem];
        Some(own_ns + children.iter().filter_map(|field| self.p(*field)).sum::<f64>())
    }

    /// Returns the busy time of the host, guests included.
    pub(crate) fn busy_ns(&self) -> Option<f64> {
        use HostField as H;
        let parts = [H::User, H::System, H::Nice, H::Interrupts, H::SoftInterrupts, H::Guest];
        let known = |field: &H| self.h(*field);
        (self.h(H::User).is_some() && self.h(H::System).is_some())
            .then(|| parts.iter().filter_map(known).sum())
    }

    /// Returns the total time of the host's CPUs.
    pub(crate) fn capacity_ns(&self) -> Option<f64> {
        Some(self.h(HostField::Cpus)? * self.host.covered_ms as f64 * 1e6).filter(|ns| *ns > 0.0)
    }
}

/// Returns nanoseconds as a percentage of the recorded time.
pub(crate) fn share(ns: f64, covered_ms: u64) -> Option<f64> {
    crate::number::over(ns * 100.0, covered_ms as f64 * 1e6)
}

pub(crate) fn per_min(count: f64, covered_ms: u64) -> Option<f64> {
    crate::number::over(count * MINUTE, covered_ms as f64)
}

pub(crate) fn per_s(count: f64, covered_ms: u64) -> Option<f64> {
    crate::number::over(count * SECOND, covered_ms as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::GuestField as G;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Returns the times of one minute of a guest. Its virtual CPUs ran for `ran` seconds, and for
    /// `then` seconds between process reports. The guest counted `own` seconds between these
    /// reports, and `ticks` busy seconds in the minute.
    fn minute(ran: u64, then: Option<u64>, own: Option<u64>, ticks: u64) -> Option<OwnTime> {
        let mut guest = Over { covered_ms: 60_000, ..Over::default() };
        let ns = |seconds: Option<u64>| seconds.map(|seconds| seconds * SECOND_NS);
        guest.row.set(G::VcpuRun, ns(Some(ran)));
        guest.row.set(G::RunThen, ns(then));
        guest.row.set(G::OwnRun, ns(own));
        guest.row.set(G::OwnBusy, Some(ticks * 100));
        Added::of(&guest).own_time
    }

    #[test]
    fn processes_are_measured_by_what_was_counted_with_them() {
        // In the first minute, no two reports of processes exist. The second minute has two
        // reports.
        let minutes = [minute(30, None, None, 40), minute(30, Some(25), Some(50), 40)];
        let sum = minutes.into_iter().fold(None, |sum, next| both(sum, next, OwnTime::plus));
        let added = Added { own_time: sum, ..Added::default() };
        let facts = Facts { added: &added, ..Facts::default() };
        assert_eq!(facts.factor(), Some(0.5));
        // All sixty seconds are divided in proportion to the count between the two reports.
        assert_eq!(facts.own_ns().zip(facts.scale()).map(|(ns, scale)| ns * scale), Some(60e9));
        // A guest that never reports processes falls back to its ticks.
        let added = Added { own_time: minutes[0], ..Added::default() };
        assert_eq!(Facts { added: &added, ..facts }.factor(), Some(0.75));
    }
}
