//! Data of the screens: the newest sample, the past of the host and its guests, and the decisions.

use super::sample::{Sample, Seen};
use super::value::Column;
use super::vcpus::Vcpus;
use manager::control::{GuestRow, SizeAction};
use model::clause::Clause;
use std::collections::{BTreeMap, VecDeque};

/// Number of points in a graph of the past: three minutes, or as many steps of a recording.
pub(super) const HISTORY: usize = 180;
/// Columns with a graph of the past, the most important first, with the graphs' labels.
pub(super) const KEPT: [(Column, &str); 6] = [
    (Column::Cpu, "CPU %"),
    (Column::Has, "HAS MiB"),
    (Column::Available, "AVAIL MiB"),
    (Column::Resident, "PRIV MiB"),
    (Column::Pressure, "PSI %"),
    (Column::Wait, "STL %"),
];
/// Maximum number of decisions kept. Users do not scroll further.
pub(super) const DECISIONS_MAX: usize = 1_000;

/// A decision at its first appearance.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decided {
    /// Time of the decision. The time is missing if the decision was made before the display began.
    pub(super) at_ms: Option<i64>,
    pub(super) id: u64,
    pub(super) guest: String,
    pub(super) class: String,
    pub(super) action: String,
    pub(super) clause: String,
    pub(super) target_bytes: Option<u64>,
    pub(super) reason: String,
}

/// Key that distinguishes decisions. The texts cannot be used, because they contain numbers that
/// change with every sample.
type Mark = (Option<SizeAction>, Option<Clause>, Option<u64>);

/// Position in a recording.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Replay {
    /// Start of the interval shown, in milliseconds since 1970.
    pub(super) from_ms: i64,
    /// Length of the interval.
    pub(super) length_ms: i64,
    /// Reason why data are missing, if any.
    pub(super) nothing: Option<String>,
    /// Notice that the last step reached an end of the recording.
    pub(super) at_end: Option<&'static str>,
    /// True if there is a journal of decisions.
    pub(super) has_journal: bool,
}

/// Values of a guest over time, oldest first, in the order of `KEPT`.
pub(super) type Past = VecDeque<[Option<f32>; KEPT.len()]>;

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) sample: Option<Sample>,
    /// The host's busy share and used memory, oldest first.
    pub(super) busy: VecDeque<Option<f32>>,
    pub(super) used: VecDeque<Option<f32>>,
    /// Past of each guest.
    pub(super) pasts: BTreeMap<u64, Past>,
    /// Decisions, newest first.
    pub(super) decisions: VecDeque<Decided>,
    marks: BTreeMap<u64, Mark>,
    /// vCPUs of the guest on the screen.
    pub(super) vcpus: Vcpus,
    /// Position in the recording, if a recording is shown.
    pub(super) replay: Option<Replay>,
    /// Reason why new data are missing, if any.
    pub(super) trouble: Option<String>,
}

impl Model {
    /// Creates a model with earlier decisions only, newest first.
    pub(super) fn after(decisions: VecDeque<Decided>) -> Model {
        Model { decisions, ..Model::default() }
    }

    pub(super) fn take(&mut self, sample: Sample) {
        // Two requests may return the same sample of the manager.
        let is_new = self.sample.as_ref().is_none_or(|old| old.at_ms() != sample.at_ms());
        if is_new {
            self.remember(&sample);
        }
        let mut marks = BTreeMap::new();
        for row in &sample.ps.guests {
            let mark = (row.action, row.clause, row.target_bytes);
            let is_news = self.marks.get(&row.id) != Some(&mark) && !self.is_journalled(row);
            if row.action.is_some() && is_news {
                let at_ms = self.sample.as_ref().map(|_| sample.at_ms());
                self.decisions.push_front(decided(row, at_ms));
            }
            marks.insert(row.id, mark);
        }
        self.marks = marks;
        self.decisions.truncate(DECISIONS_MAX);
        self.sample = Some(sample);
        self.trouble = None;
    }

    /// Adds a sample to the past, and drops the past of guests that are gone.
    pub(super) fn remember(&mut self, sample: &Sample) {
        push(&mut self.busy, sample.host("busy_percent").map(|busy| busy as f32));
        push(&mut self.used, sample.bound().used_mib.map(|used| used as f32));
        let mut before = std::mem::take(&mut self.pasts);
        for row in &sample.ps.guests {
            let mut past = before.remove(&row.id).unwrap_or_default();
            push(&mut past, values(&sample.seen(row)));
            self.pasts.insert(row.id, past);
        }
    }

    /// Returns a guest's number in a column. For a column with a graph, this is the graph's last
    /// value, so the number is not computed twice.
    pub(super) fn number(&self, column: Column, guest: &Seen<'_>) -> Option<f64> {
        let kept = KEPT.iter().position(|(kept, _)| *kept == column);
        let newest = self.pasts.get(&guest.row.id).and_then(VecDeque::back);
        match (newest.zip(kept), &self.replay) {
            (Some((values, index)), None) => values[index].map(f64::from),
            _ => column.number(guest),
        }
    }

    /// Returns true if the first decision seen for a guest equals the last decision in the journal.
    fn is_journalled(&self, row: &GuestRow) -> bool {
        let is_first = !self.marks.contains_key(&row.id);
        let last = self.decisions.iter().find(|one| one.id == row.id);
        let same = |one: &Decided| {
            Some(one.clause.as_str()) == row.clause.map(Clause::name)
                && one.target_bytes == row.target_bytes
        };
        is_first && last.is_some_and(same)
    }
}

fn values(guest: &Seen<'_>) -> [Option<f32>; KEPT.len()] {
    KEPT.map(|(column, _)| column.number(guest).map(|value| value as f32))
}

fn push<T>(line: &mut VecDeque<T>, value: T) {
    line.push_back(value);
    while line.len() > HISTORY {
        line.pop_front();
    }
}

fn decided(row: &GuestRow, at_ms: Option<i64>) -> Decided {
    Decided {
        at_ms,
        id: row.id,
        guest: row.name.clone(),
        class: row.class.clone().unwrap_or_default(),
        action: row.action.map_or_else(String::new, |action| action.to_string()),
        clause: row.clause.map_or_else(String::new, |clause| clause.name().to_owned()),
        target_bytes: row.target_bytes,
        reason: row.reason.clone().unwrap_or_default(),
    }
}
