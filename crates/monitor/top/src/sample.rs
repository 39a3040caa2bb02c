//! State of the manager at one time, with the fields of the reports.

use crate::error::{Error, Trouble};
use manager::control::{Answer, Ask, GuestRow, GuestRunState, Ps, Whose};
use model::{GuestField, GuestIdentity, HostField, Interval, Over, ProcessField, ProcessName};
use reports::Single;

/// Function that sends a request to the manager.
pub type Manager = Box<dyn Fn(&Ask) -> Result<Answer, Trouble> + Send>;

/// Requests all data of the screens, and the processes of one guest.
pub(super) fn ask(manager: &Manager, processes: Whose) -> Result<Sample, Error> {
    let Answer::Interval(passed) = manager(&Ask::Interval { processes })? else {
        return Err(Error::Unexpected);
    };
    let Answer::Ps(ps) = manager(&Ask::Ps)? else { return Err(Error::Unexpected) };
    Ok(Sample::new(passed.interval(), ps, Some(passed.round_us)))
}

/// Data of the last second, or of an interval of a recording. Each guest has its state at the end
/// of this time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) single: Single,
    pub(super) ps: Ps,
    /// Time that the monitor needed to take the sample. Missing in a recording.
    pub(super) round_us: Option<u64>,
}

impl Sample {
    /// Creates the sample, and computes the sums on the screens.
    pub(super) fn new(interval: Interval, ps: Ps, round_us: Option<u64>) -> Sample {
        Sample { single: Single::new(interval, Some(ps.guests.len())), ps, round_us }
    }

    pub(super) fn interval(&self) -> &Interval {
        self.single.interval()
    }

    /// Returns true for a sample of a recording. Such a sample lacks the values that only a manager
    /// has.
    pub(super) fn is_recorded(&self) -> bool {
        self.round_us.is_none()
    }

    pub(super) fn at_ms(&self) -> i64 {
        self.single.to_ms()
    }

    /// Returns a report field of the host.
    pub(super) fn host(&self, id: &str) -> Option<f64> {
        self.single.host(id)
    }

    /// Returns the memory that bounds the guests: the budget if there is one, else the host's
    /// memory.
    pub(super) fn bound(&self) -> Bound {
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        let budget = self.ps.host.budget_bytes.map(mib);
        let (all_mib, free_mib) = match budget {
            Some(_) => (budget, self.ps.host.available_bytes.map(mib)),
            None => (self.host("total_mib"), self.host("available_mib")),
        };
        let used_mib = all_mib.zip(free_mib).map(|(all, free)| (all - free).max(0.0));
        Bound { is_budget: budget.is_some(), all_mib, free_mib, used_mib }
    }

    pub(super) fn raw(&self, field: HostField) -> Option<u64> {
        self.interval().host.get(field)
    }

    /// Returns a guest of `ps` together with the monitor's data about it.
    pub(super) fn seen<'a>(&'a self, row: &'a GuestRow) -> Seen<'a> {
        let found = self.interval().guests.iter().find(|(who, _)| row.is_of(who));
        let (who, over) = found.unzip();
        Seen { row, who, over, sample: self }
    }
}

/// Memory that all guests together may use, and its use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// True for a budget, false for the memory of the host.
    pub(super) is_budget: bool,
    pub(super) all_mib: Option<f64>,
    pub(super) free_mib: Option<f64>,
    pub(super) used_mib: Option<f64>,
}

/// A guest together with the monitor's data about it.
#[derive(Clone, Debug)]
pub(super) struct Seen<'a> {
    pub(super) row: &'a GuestRow,
    who: Option<&'a GuestIdentity>,
    over: Option<&'a Over<GuestField>>,
    sample: &'a Sample,
}

impl Seen<'_> {
    /// Returns a report field, or `None` if the monitor did not sample the guest.
    pub(super) fn field(&self, id: &str) -> Option<f64> {
        self.sample.single.guest(self.over?, id)
    }

    /// Returns true if the manager cannot decide about the guest, or if the guest does not respond.
    pub(super) fn is_out_of_reach(&self) -> bool {
        let is_silent = matches!(self.row.state, GuestRunState::Silent | GuestRunState::Dead);
        !self.sample.is_recorded() && (is_silent || self.row.unusable.is_some())
    }

    pub(super) fn state(&self) -> &'static str {
        match self.row.state {
            GuestRunState::Running | GuestRunState::Parked => self.row.state_name(),
            // Recordings do not contain the state.
            _ if self.sample.is_recorded() => "-",
            _ => self.row.state_name(),
        }
    }

    /// Returns the guest's mode. The mode of a guest in a recording is `recorded`.
    pub(super) fn mode(&self) -> &'static str {
        if self.sample.is_recorded() { "recorded" } else { self.row.mode.name() }
    }

    /// Returns a size. In a recording a zero means a missing value, so the result is `None`.
    pub(super) fn known(&self, bytes: u64) -> Option<u64> {
        (!self.sample.is_recorded() || bytes > 0).then_some(bytes)
    }

    /// Returns the guest's processes in any order, with their activity between the daemon's last
    /// two reports.
    pub(super) fn processes(&self) -> Vec<Process> {
        let all = self.who.and_then(|who| self.sample.interval().processes.get(who));
        let none = Over::default();
        let of = |process: &Over<ProcessField>, id| {
            self.sample.single.process(self.over.unwrap_or(&none), process, id)
        };
        let row = |(name, process): (&ProcessName, &Over<ProcessField>)| Process {
            name: name.name.clone(),
            pid: name.pid,
            cpu_ms: of(process, "own_cpu_ms_per_min"),
            wakes: of(process, "wakes_per_min"),
            wake_ms: of(process, "wake_cpu_ms"),
            mib: of(process, "resident_mib"),
        };
        all.into_iter().flatten().map(row).collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Process {
    pub(super) name: String,
    /// Process id in the guest. The id is 0 for a group of all processes with the same name.
    pub(super) pid: u32,
    /// CPU time of the process and its ended children by the guest's count, in milliseconds per
    /// minute.
    pub(super) cpu_ms: Option<f64>,
    /// Dispatches of the process's threads per minute.
    pub(super) wakes: Option<f64>,
    /// CPU time per dispatch, in milliseconds.
    pub(super) wake_ms: Option<f64>,
    /// Resident memory in MiB.
    pub(super) mib: Option<f64>,
}
