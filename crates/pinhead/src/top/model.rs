//! What is known: the newest sample, the last minute in two lines, and what was decided.

use super::sample::Sample;
use host::control::GuestRow;
use std::collections::{BTreeMap, VecDeque};

/// The lines of the last minute have so many points.
pub(super) const HISTORY: usize = 60;
/// So many decisions are kept: more than anybody scrolls through.
const DECISIONS_MAX: usize = 1_000;

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

/// What tells one decision from the next: sentences with numbers change with every look.
type Mark = (Option<String>, Option<String>, Option<u64>);

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
    /// Why nothing newer is known, if so.
    pub(super) trouble: Option<String>,
}

impl Model {
    /// Takes the newest sample.
    pub(super) fn take(&mut self, sample: Sample) {
        // The manager may be asked twice between two of its looks.
        let is_new = self.sample.as_ref().is_none_or(|old| old.at_ms() != sample.at_ms());
        if is_new {
            push(&mut self.busy, sample.host("busy_percent"));
            push(&mut self.free, sample.host("available_mib"));
        }
        let mut marks = BTreeMap::new();
        for row in &sample.ps.guests {
            let mark = (row.action.clone(), row.clause.clone(), row.target_bytes);
            if row.action.is_some() && self.marks.get(&row.id) != Some(&mark) {
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
        action: row.action.clone().unwrap_or_default(),
        clause: row.clause.clone().unwrap_or_default(),
        target_bytes: row.target_bytes,
        reason: row.reason.clone().unwrap_or_default(),
    }
}
