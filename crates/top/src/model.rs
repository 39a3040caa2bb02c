//! What is known: the newest sample, what was before it in two lines, and what was decided.

use super::sample::{Sample, host_field};
use super::vcpus::Vcpus;
use manager::control::{GuestRow, SizeAction};
use model::Interval;
use model::clause::Clause;
use std::collections::{BTreeMap, VecDeque};

/// The lines of what was before have so many points: a minute, or so many steps.
pub(super) const HISTORY: usize = 60;
/// So many decisions are kept: more than anybody scrolls through.
pub(super) const DECISIONS_MAX: usize = 1_000;

/// A decision, as it was first seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decided {
    /// Missing if it was decided before anybody looked.
    pub(super) at_ms: Option<i64>,
    pub(super) id: u64,
    pub(super) guest: String,
    pub(super) class: String,
    pub(super) action: String,
    pub(super) clause: String,
    pub(super) target_bytes: Option<u64>,
    pub(super) reason: String,
}

/// What distinguishes one decision from the next: sentences with numbers change with every look.
type Mark = (Option<SizeAction>, Option<Clause>, Option<u64>);

/// The user's place in a recording.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Replay {
    /// When the interval that is shown begins, in milliseconds since 1970.
    pub(super) from_ms: i64,
    /// How long it is.
    pub(super) length_ms: i64,
    /// Why nothing is known of it, if so.
    pub(super) nothing: Option<String>,
    /// That the last step went as far as there is something.
    pub(super) at_end: Option<&'static str>,
    /// Whether there is a journal of what was decided.
    pub(super) has_journal: bool,
}

/// Everything that screens are made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) sample: Option<Sample>,
    /// The host's busy share and its free memory, oldest first.
    pub(super) busy: VecDeque<Option<f64>>,
    pub(super) free: VecDeque<Option<f64>>,
    /// Newest first.
    pub(super) decisions: VecDeque<Decided>,
    marks: BTreeMap<u64, Mark>,
    /// The virtual CPUs of the guest that is looked at.
    pub(super) vcpus: Vcpus,
    /// It is the past that is shown.
    pub(super) replay: Option<Replay>,
    /// Why nothing newer is known, if so.
    pub(super) trouble: Option<String>,
}

impl Model {
    /// Nothing but what was decided before, newest first.
    pub(super) fn after(decisions: VecDeque<Decided>) -> Model {
        Model { decisions, ..Model::default() }
    }

    /// Takes the newest sample.
    pub(super) fn take(&mut self, sample: Sample) {
        // The manager may be asked twice between two of its looks.
        let is_new = self.sample.as_ref().is_none_or(|old| old.at_ms() != sample.at_ms());
        if is_new {
            self.show_host(sample.interval());
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

    /// Adds an interval of the host to the lines of what was before.
    pub(super) fn show_host(&mut self, interval: &Interval) {
        push(&mut self.busy, host_field(interval, "busy_percent"));
        push(&mut self.free, host_field(interval, "available_mib"));
    }

    /// Whether a guest's first decision is the last one that the journal had of it.
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

fn push(line: &mut VecDeque<Option<f64>>, value: Option<f64>) {
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
