//! What a derived field is made from: the raw fields of one row of a report.

use crate::states::{States, both, states};
use model::{Field, GuestField, HostField, Over, ProcessField, TierField};

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
    /// What was calculated guest by guest and then summed.
    pub added: &'a Added,
    /// How many guests were there, on average.
    pub on: Option<f64>,
    /// How many of them were active, on average.
    pub active: Option<f64>,
    /// CPU time that the guest counted and no process of the report's list has.
    pub unlisted_ns: Option<f64>,
}

/// What is calculated guest by guest, because guests differ in what is known of them, and then
/// summed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Added {
    /// CPU time that they themselves got: guest time, or run time under emulation.
    pub virtual_ns: Option<u64>,
    /// Wake-ups: halts that ended, or dispatches where halts are not counted.
    pub wakes: Option<u64>,
    /// Of guests that count CPU time themselves: the CPU time that they got, what of it their
    /// count is of, and that count, all in nanoseconds.
    pub own_time: Option<OwnTime>,
    /// Where the time of their virtual CPUs went, in nanoseconds.
    pub states: Option<States>,
}

/// CPU time that guests count themselves, and what it was in truth. In nanoseconds.
///
/// A daemon reports processes now and then, and with them what all tasks ran by its guest's count:
/// that is what the times of processes are parts of, and the host's count of the same moment is
/// what it was in truth. Ticks in which the guest's CPUs were busy are neither: of those that
/// were stolen its kernel loses some. They stand for it where nothing better is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnTime {
    /// What they got in the whole time.
    pub virtual_ns: u64,
    /// What they got, and what they counted, between the reports of their processes.
    pub reported: Option<(u64, u64)>,
    /// What they got, and the ticks that they counted as busy, in the whole time.
    pub ticked: Option<(u64, u64)>,
}

impl OwnTime {
    fn of(guest: &Over<GuestField>, virtual_ns: u64) -> Option<OwnTime> {
        use GuestField as G;
        let ran_ns = guest.get(G::VcpuRun).unwrap_or(0);
        // With KVM some of the run time is the host's own work.
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

    /// What was got, and what was counted of it.
    fn best(&self) -> Option<(u64, u64)> {
        self.reported.filter(|(_, own_ns)| *own_ns > 0).or(self.ticked)
    }
}

impl Added {
    /// Of one guest.
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

    /// Both together.
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
        self.host.a_second(field)
    }

    /// A counter of the guest, a second.
    pub(crate) fn g_s(&self, field: GuestField) -> Option<f64> {
        self.guest.a_second(field)
    }

    /// A counter of the tier, a second.
    pub(crate) fn t_s(&self, field: TierField) -> Option<f64> {
        self.tier.a_second(field)
    }

    /// Nanoseconds of the guest as a share of the time that is known of it, in hundredths.
    pub(crate) fn g_share(&self, ns: f64) -> Option<f64> {
        share(ns, self.guest.covered_ms)
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

    /// CPU time that the guest counts itself, as far as the times of its processes are of it.
    pub(crate) fn own_ns(&self) -> Option<f64> {
        self.added.own_time?.best().map(|(_, own_ns)| own_ns as f64)
    }

    /// What one second of the guest's own count was in truth; of several, of those that report
    /// what they count.
    pub(crate) fn factor(&self) -> Option<f64> {
        let (got_ns, own_ns) = self.added.own_time?.best()?;
        crate::number::over(got_ns as f64, own_ns as f64)
    }

    /// What a second of the times of processes stands for: all that the guest got is shared out
    /// among them, also what it got before the first report of them and after the last one.
    pub(crate) fn scale(&self) -> Option<f64> {
        crate::number::over(self.added.own_time?.virtual_ns as f64, self.own_ns()?)
    }

    /// CPU time of the process by the guest's count.
    pub(crate) fn process_ns(&self) -> Option<f64> {
        if self.unlisted_ns.is_some() {
            return self.unlisted_ns;
        }
        let parts = self.p(ProcessField::User).zip(self.p(ProcessField::System));
        // z/VM's monitor has both in one.
        parts.map(|(user, system)| user + system).or_else(|| self.p(ProcessField::Run))
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

/// Nanoseconds as a share of the time that is known of something, in hundredths.
pub(crate) fn share(ns: f64, covered_ms: u64) -> Option<f64> {
    crate::number::over(ns * 100.0, covered_ms as f64 * 1e6)
}

/// Values a minute of something that is known for so long.
pub(crate) fn per_min(count: f64, covered_ms: u64) -> Option<f64> {
    crate::number::over(count * MINUTE, covered_ms as f64)
}

/// Values a second of something that is known for so long.
pub(crate) fn per_s(count: f64, covered_ms: u64) -> Option<f64> {
    crate::number::over(count * SECOND, covered_ms as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::GuestField as G;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A guest's minute: seconds that its virtual CPUs ran, in which its processes were reported,
    /// what it counted in those, and what its ticks say.
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
        // The first report of processes is not known yet; the second minute has one.
        let minutes = [minute(30, None, None, 40), minute(30, Some(25), Some(50), 40)];
        let sum = minutes.into_iter().fold(None, |sum, next| both(sum, next, OwnTime::plus));
        let added = Added { own_time: sum, ..Added::default() };
        let (host, guest) = (Over::default(), Over::default());
        let (tier, process) = (Over::default(), Over::default());
        let facts = Facts {
            host: &host,
            guest: &guest,
            tier: &tier,
            process: &process,
            added: &added,
            on: None,
            active: None,
            unlisted_ns: None,
        };
        assert_eq!(facts.factor(), Some(0.5));
        // What was counted is all that is known of where those sixty seconds went.
        assert_eq!(facts.own_ns().zip(facts.scale()).map(|(ns, scale)| ns * scale), Some(60e9));
        // A guest that never reports processes has its ticks.
        let added = Added { own_time: minutes[0], ..Added::default() };
        assert_eq!(Facts { added: &added, ..facts }.factor(), Some(0.75));
    }
}
