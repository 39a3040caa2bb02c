//! What the manager told at one time, and the numbers of it: those of the reports.

use crate::Error;
use crate::manage::{SocketArg, ask_manager, unexpected};
use counters::series::{
    Field, GuestField, HostField, Interval, Over, ProcessField, TierField, Who,
};
use host::control::{Answer, Ask, GuestRow, Ps};
use reports::{Added, Facts, Scope, shown};

/// Asks the manager for everything that the screens show.
pub(super) fn ask(socket: &SocketArg) -> Result<Sample, Error> {
    let Answer::Interval(passed) = ask_manager(socket, &Ask::Interval)? else {
        return Err(unexpected());
    };
    let Answer::Ps(ps) = ask_manager(socket, &Ask::Ps)? else { return Err(unexpected()) };
    Ok(Sample::new(passed.interval(), ps, passed.round_us))
}

/// The last second, and how guests are at its end.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) interval: Interval,
    pub(super) ps: Ps,
    /// How long the monitor's look at everything took.
    pub(super) round_us: u64,
    guests: Over<GuestField>,
    tiers: Over<TierField>,
    added: Added,
}

impl Sample {
    /// Sums up what is shown of all together.
    pub(super) fn new(interval: Interval, ps: Ps, round_us: u64) -> Sample {
        let covered_ms = interval.host.covered_ms;
        let guests = together(interval.guests.values(), covered_ms);
        let tiers = together(interval.tiers.values(), covered_ms);
        let each = interval.guests.values().map(Added::of);
        let added = each.reduce(|one, other| one.plus(&other)).unwrap_or_default();
        Sample { interval, ps, round_us, guests, tiers, added }
    }

    /// The end of the time that it tells of.
    pub(super) fn at_ms(&self) -> i64 {
        let length_ms = i64::try_from(self.interval.length_ms).unwrap_or(i64::MAX);
        self.interval.from_ms.saturating_add(length_ms)
    }

    fn host_facts<'a>(&'a self, process: &'a Over<ProcessField>) -> Facts<'a> {
        Facts {
            host: &self.interval.host,
            guest: &self.guests,
            tier: &self.tiers,
            process,
            added: &self.added,
            on: Some(self.ps.guests.len() as f64),
            active: None,
            unlisted_ns: None,
        }
    }

    /// A field of the reports, of the host.
    pub(super) fn host(&self, id: &str) -> Option<f64> {
        reports::field(Scope::Host, id)?.value(&self.host_facts(&Over::default()))
    }

    /// A field of all guests together.
    pub(super) fn all_guests(&self, id: &str) -> Option<f64> {
        reports::field(Scope::Guest, id)?.value(&self.host_facts(&Over::default()))
    }

    /// A field of a tier of memory.
    pub(super) fn tier(&self, tier: &Over<TierField>, id: &str) -> Option<f64> {
        let none = Over::default();
        reports::field(Scope::Tier, id)?.value(&Facts { tier, ..self.host_facts(&none) })
    }

    /// A raw field of the host.
    pub(super) fn raw(&self, field: HostField) -> Option<u64> {
        self.interval.host.get(field)
    }

    /// A guest of `ps` with what the monitor saw of it.
    pub(super) fn seen<'a>(&'a self, row: &'a GuestRow) -> Seen<'a> {
        // A name alone may be two guests'.
        let same = |who: &&Who| {
            who.name == row.name
                && who.pid == row.pid
                && (who.uuid == row.uuid || who.pid.is_some())
        };
        let who = self.interval.guests.keys().find(same);
        let over = who.and_then(|who| self.interval.guests.get(who));
        Seen { row, who, over, added: over.map(Added::of).unwrap_or_default(), sample: self }
    }
}

/// All of them as one: here gauges are summed as counters are.
fn together<'a, F: Field>(all: impl Iterator<Item = &'a Over<F>>, covered_ms: u64) -> Over<F> {
    let mut sum = Over { covered_ms, ..Over::default() };
    for one in all {
        for field in F::ALL {
            let value = match (sum.get(*field), one.get(*field)) {
                (None, value) | (value, None) => value,
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
            };
            sum.row.set(*field, value);
        }
    }
    sum
}

/// One guest.
#[derive(Clone, Debug)]
pub(super) struct Seen<'a> {
    pub(super) row: &'a GuestRow,
    who: Option<&'a Who>,
    over: Option<&'a Over<GuestField>>,
    added: Added,
    sample: &'a Sample,
}

impl Seen<'_> {
    /// A field of the reports; missing if the monitor did not look at the guest.
    pub(super) fn field(&self, id: &str) -> Option<f64> {
        let none = Over::default();
        let facts =
            Facts { guest: self.over?, added: &self.added, ..self.sample.host_facts(&none) };
        reports::field(Scope::Guest, id)?.value(&facts)
    }

    /// The same as it is shown.
    pub(super) fn text(&self, id: &str) -> String {
        let decimals = reports::field(Scope::Guest, id).map_or(0, |field| field.decimals);
        shown(self.field(id), decimals)
    }

    /// How it is, in a word.
    pub(super) fn state(&self) -> &str {
        match (self.row.state.as_str(), self.row.mode.as_str()) {
            ("running", "managed") if self.row.asleep => "asleep",
            ("running", "managed") => "running",
            ("running", mode) => mode,
            (state, _) => state,
        }
    }

    /// Its processes: name, CPU time as it counts (ms a minute), dispatches a minute, memory.
    pub(super) fn processes(&self) -> Vec<(&str, [Option<f64>; 3])> {
        let all = self.who.and_then(|who| self.sample.interval.processes.get(who));
        let none = Over::default();
        let of = |process: &Over<ProcessField>, id| {
            // A process is told of over a time of its own.
            let guest = Over { covered_ms: process.covered_ms, ..Over::default() };
            let facts = Facts { guest: &guest, process, ..self.sample.host_facts(&none) };
            reports::field(Scope::Process, id)?.value(&facts)
        };
        let ids = ["own_cpu_ms_per_min", "wakes_per_min", "resident_mib"];
        let each = all.into_iter().flatten();
        let mut rows: Vec<_> = each
            .map(|(name, process)| (name.name.as_str(), ids.map(|id| of(process, id))))
            .collect();
        rows.sort_by(|a, b| b.1[0].unwrap_or(-1.0).total_cmp(&a.1[0].unwrap_or(-1.0)));
        rows
    }
}
