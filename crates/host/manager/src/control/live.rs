//! Activity of the last second, as the control socket reports it.
//!
//! Values have the names of the tables in crate `model`. A counter's value is its growth, and a
//! gauge's value is its mean. Unknown values are left out. A reader skips unknown names, so that
//! the two sides may have different versions.

use std::collections::BTreeMap;

use model::{Field, GuestIdentity, Interval, Over, ProcessName, Row};
use serde::{Deserialize, Serialize};

/// Selection of guests for which processes are reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "serde_json::Value")]
pub enum Whose {
    /// All guests.
    Everybody,
    /// No guest.
    Nobody,
    /// One guest, by name or UUID.
    Guest(String),
}

impl Whose {
    pub(super) fn is_everybody(&self) -> bool {
        *self == Whose::Everybody
    }
}

impl From<Whose> for serde_json::Value {
    fn from(whose: Whose) -> serde_json::Value {
        match whose {
            Whose::Everybody => true.into(),
            Whose::Nobody => false.into(),
            Whose::Guest(guest) => guest.into(),
        }
    }
}

/// Response to `interval`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    /// Start of the interval, in milliseconds since 1970.
    pub from_ms: i64,
    /// Length of the interval.
    pub length_ms: u64,
    /// Duration of the monitor's last round.
    pub round_us: u64,
    pub host: Values,
    pub guests: Vec<GuestPassed>,
    /// Tiers of memory by name.
    pub tiers: BTreeMap<String, Values>,
}

/// Values over a span of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// Time within the span for which values are known.
    pub covered_ms: u64,
    /// Values by the names of their fields.
    pub values: BTreeMap<String, u64>,
}

/// A guest's identity in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "GuestIdentity")]
struct Identity {
    uuid: String,
    name: String,
    class: String,
    pid: Option<u32>,
    start_ticks: Option<u64>,
    boot: String,
}

/// Activity of a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestPassed {
    #[serde(flatten, with = "Identity")]
    pub who: GuestIdentity,
    /// Values of the whole guest.
    pub seen: Values,
    /// Processes of the guest, between the last two reports of its daemon.
    pub processes: Vec<ProcessPassed>,
}

/// Activity of a process in a guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessPassed {
    /// Name of the process, from the guest.
    pub name: String,
    /// Process ID in the guest.
    pub pid: u32,
    /// Values of the process.
    pub seen: Values,
}

impl Values {
    fn of<F: Field>(over: &Over<F>) -> Values {
        let value = |field: &F| Some((field.name().to_owned(), over.get(*field)?));
        Values { covered_ms: over.covered_ms, values: F::ALL.iter().filter_map(value).collect() }
    }

    fn over<F: Field>(&self) -> Over<F> {
        let mut row = Row::default();
        for (name, value) in &self.values {
            if let Some(field) = F::from_name(name) {
                row.set(field, Some(*value));
            }
        }
        Over { covered_ms: self.covered_ms, row }
    }
}

impl Passed {
    /// Returns an interval with all of its processes.
    pub fn of(interval: &Interval, round_us: u64) -> Passed {
        Passed::with(interval, round_us, &Whose::Everybody)
    }

    /// Returns an interval with the selected processes.
    pub fn with(interval: &Interval, round_us: u64, processes: &Whose) -> Passed {
        let is_wanted = |who: &GuestIdentity| match processes {
            Whose::Everybody => true,
            Whose::Nobody => false,
            Whose::Guest(guest) => who.name == *guest || who.uuid == *guest,
        };
        let processes = |who: &GuestIdentity| {
            let all = interval.processes.get(who).filter(|_| is_wanted(who)).into_iter().flatten();
            all.map(|(name, over)| ProcessPassed {
                name: name.name.clone(),
                pid: name.pid,
                seen: Values::of(over),
            })
        };
        let guest = |(who, over): (&GuestIdentity, &Over<_>)| GuestPassed {
            who: who.clone(),
            seen: Values::of(over),
            processes: processes(who).collect(),
        };
        Passed {
            from_ms: interval.from_ms,
            length_ms: interval.length_ms,
            round_us,
            host: Values::of(&interval.host),
            guests: interval.guests.iter().map(guest).collect(),
            tiers: interval.tiers.iter().map(|(n, over)| (n.clone(), Values::of(over))).collect(),
        }
    }

    /// Converts back to an interval.
    pub fn interval(&self) -> Interval {
        let mut interval = Interval {
            from_ms: self.from_ms,
            length_ms: self.length_ms,
            host: self.host.over(),
            tiers: self.tiers.iter().map(|(name, seen)| (name.clone(), seen.over())).collect(),
            ..Interval::default()
        };
        for guest in &self.guests {
            let named = |process: &ProcessPassed| ProcessName {
                name: process.name.clone(),
                pid: process.pid,
            };
            let processes = guest.processes.iter().map(|one| (named(one), one.seen.over()));
            let processes: BTreeMap<_, _> = processes.collect();
            if !processes.is_empty() {
                interval.processes.insert(guest.who.clone(), processes);
            }
            interval.guests.insert(guest.who.clone(), guest.seen.over());
        }
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{GuestField, HostField, ProcessField, TierField};

    fn over<F: Field>(field: F, value: u64) -> Over<F> {
        let mut over = Over { covered_ms: 900, row: Row::default() };
        over.row.set(field, Some(value));
        over
    }

    #[test]
    fn an_interval_comes_back_as_it_was() {
        let who =
            GuestIdentity { name: "web\u{1b}1".into(), pid: Some(7), ..GuestIdentity::default() };
        let init = ProcessName { name: "init".into(), pid: 1 };
        let interval = Interval {
            from_ms: 1000,
            length_ms: 1000,
            host: over(HostField::Idle, u64::MAX),
            guests: [(who.clone(), over(GuestField::VcpuRun, 5))].into(),
            tiers: [("zswap".to_owned(), over(TierField::Used, 0))].into(),
            processes: [(who, [(init, over(ProcessField::Run, 3))].into())].into(),
        };
        let passed = Passed::of(&interval, 12);
        let text = serde_json::to_string(&passed).unwrap();
        assert!(text.contains(r#""vcpu_run_ns":5"#) && !text.contains("exits"), "{text}");
        let read: Passed = serde_json::from_str(&text).unwrap();
        assert_eq!((read.interval(), read.round_us), (interval.clone(), 12));
        let processes = |whose| Passed::with(&interval, 12, &whose).guests[0].processes.len();
        let other = "g\u{1b}1".to_owned();
        let counts = [Whose::Guest("web\u{1b}1".into()), Whose::Guest(other), Whose::Nobody];
        assert_eq!(counts.map(processes), [1, 0, 0]);
    }

    #[test]
    fn a_name_of_another_version_is_skipped() {
        let mut passed = Passed::of(&Interval::default(), 0);
        passed.host.values.insert("of_tomorrow".into(), 1);
        assert_eq!(passed.interval(), Interval::default());
    }
}
