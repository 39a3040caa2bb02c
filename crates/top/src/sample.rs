//! The manager's answer at one time, and the numbers of it: those of the reports.

use crate::error::{Error, Trouble};
use manager::control::{Answer, Ask, GuestRow, GuestRunState, Ps, Whose};
use model::{
    GuestField, GuestIdentity, HostField, Interval, Over, ProcessField, ProcessName, TierField,
};
use reports::Single;

/// Asks the manager a question.
pub type Manager = Box<dyn Fn(&Ask) -> Result<Answer, Trouble> + Send>;

/// Asks the manager for everything that the screens show, with the processes of one guest.
pub(super) fn ask(manager: &Manager, processes: Whose) -> Result<Sample, Error> {
    let Answer::Interval(passed) = manager(&Ask::Interval { processes })? else {
        return Err(Error::Unexpected);
    };
    let Answer::Ps(ps) = manager(&Ask::Ps)? else { return Err(Error::Unexpected) };
    Ok(Sample::new(passed.interval(), ps, Some(passed.round_us)))
}

/// The last second, or an interval of a recording, and how guests are at its end.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    single: Single,
    pub(super) ps: Ps,
    /// How long the monitor's look at everything took; missing in a recording.
    pub(super) round_us: Option<u64>,
}

impl Sample {
    /// Sums up what is shown of all together.
    pub(super) fn new(interval: Interval, ps: Ps, round_us: Option<u64>) -> Sample {
        Sample { single: Single::new(interval, Some(ps.guests.len())), ps, round_us }
    }

    /// What happened.
    pub(super) fn interval(&self) -> &Interval {
        self.single.interval()
    }

    /// Whether it is the past: what only a manager knows is not in it.
    pub(super) fn is_recorded(&self) -> bool {
        self.round_us.is_none()
    }

    /// The end of the time that it covers.
    pub(super) fn at_ms(&self) -> i64 {
        self.single.to_ms()
    }

    /// A field of the reports, of the host.
    pub(super) fn host(&self, id: &str) -> Option<f64> {
        self.single.host(id)
    }

    /// A field of all guests together.
    pub(super) fn all_guests(&self, id: &str) -> Option<f64> {
        self.single.all_guests(id)
    }

    /// A field of a tier of memory.
    pub(super) fn tier(&self, tier: &Over<TierField>, id: &str) -> Option<f64> {
        self.single.tier(tier, id)
    }

    /// A raw field of the host.
    pub(super) fn raw(&self, field: HostField) -> Option<u64> {
        self.interval().host.get(field)
    }

    /// A guest of `ps` with what the monitor saw of it.
    pub(super) fn seen<'a>(&'a self, row: &'a GuestRow) -> Seen<'a> {
        let found = self.interval().guests.iter().find(|(who, _)| row.is_of(who));
        let (who, over) = found.unzip();
        Seen { row, who, over, sample: self }
    }
}

/// One guest.
#[derive(Clone, Debug)]
pub(super) struct Seen<'a> {
    pub(super) row: &'a GuestRow,
    who: Option<&'a GuestIdentity>,
    over: Option<&'a Over<GuestField>>,
    sample: &'a Sample,
}

impl Seen<'_> {
    /// A field of the reports; missing if the monitor did not look at the guest.
    pub(super) fn field(&self, id: &str) -> Option<f64> {
        self.sample.single.guest(self.over?, id)
    }

    /// How it is, in a word.
    pub(super) fn state(&self) -> &'static str {
        match self.row.state {
            GuestRunState::Running | GuestRunState::Parked => self.row.state_name(),
            // Nothing was recorded of it at that time.
            _ if self.sample.is_recorded() => "-",
            _ => self.row.state_name(),
        }
    }

    /// Who decides about it; about one of a recording nobody does any more.
    pub(super) fn mode(&self) -> &'static str {
        if self.sample.is_recorded() { "recorded" } else { self.row.mode.name() }
    }

    /// What it is entitled to, where that is known: a recording has only what was recorded.
    pub(super) fn known(&self, bytes: u64) -> Option<u64> {
        (!self.sample.is_recorded() || bytes > 0).then_some(bytes)
    }

    /// Its processes between the last two reports of its daemon, in no order.
    pub(super) fn processes(&self) -> Vec<Process> {
        let all = self.who.and_then(|who| self.sample.interval().processes.get(who));
        let none = Over::default();
        let of = |process: &Over<ProcessField>, id| {
            self.sample.single.process(self.over.unwrap_or(&none), process, id)
        };
        let row = |(name, process): (&ProcessName, &Over<ProcessField>)| Process {
            name: name.name.clone(),
            pid: name.pid,
            own_ms: of(process, "own_cpu_ms_per_min"),
            wakes: of(process, "wakes_per_min"),
            wake_ms: of(process, "wake_cpu_ms"),
            mib: of(process, "resident_mib"),
        };
        all.into_iter().flatten().map(row).collect()
    }
}

/// A process of a guest.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Process {
    pub(super) name: String,
    /// Its number in the guest; 0 for all of one name.
    pub(super) pid: u32,
    /// CPU time as the guest counts it, in milliseconds a minute.
    pub(super) own_ms: Option<f64>,
    /// Dispatches of its threads a minute.
    pub(super) wakes: Option<f64>,
    /// CPU time of each of these, in milliseconds.
    pub(super) wake_ms: Option<f64>,
    /// Its memory.
    pub(super) mib: Option<f64>,
}

/// A field of the reports, of the host in some interval.
pub(super) fn host_field(interval: &Interval, id: &str) -> Option<f64> {
    let host = Interval { host: interval.host.clone(), ..Interval::default() };
    Single::new(host, None).host(id)
}
