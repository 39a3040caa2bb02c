//! Entries of an answer: decisions and events of a time, with holds folded, and decisions in force
//! before this time.

use super::who::{Chosen, places};
use super::words::is_hold;
use crate::Error;
use std::collections::HashMap;
use std::ops::ControlFlow;
use store::{Decided, Event, Fate, GuestKey, Journal, Policy, Query, Range};

/// Maximum number of entries in an answer. More entries would be unreadable and fill the memory.
pub const ENTRIES_MAX: usize = 10_000;
/// Maximum number of events in an answer.
const EVENTS_MAX: u32 = 1_000;

/// Entries of an answer.
#[derive(Debug)]
pub struct Gathered {
    /// Decisions made before the time and in force at its start, oldest first. If such a decision
    /// was a hold, the move before it is included.
    pub before: Vec<Entry>,
    /// Entries in the time, oldest first.
    pub entries: Vec<Entry>,
    /// True if there are more than [`ENTRIES_MAX`] entries.
    pub is_cut: bool,
    /// Times of the selected guests' first and last decisions, independent of the requested time.
    pub span: Option<Range>,
}

/// A line of an answer.
#[derive(Debug)]
pub struct Entry {
    /// Time or start of the entry.
    pub at_ms: i64,
    /// Index of the selected guest; `None` for the manager and its host.
    pub guest: Option<usize>,
    /// Content of the entry.
    pub what: What,
}

/// The content of an entry.
#[derive(Debug)]
pub enum What {
    /// One decision.
    Decision(Box<Decided>),
    /// Consecutive holds for the same reason.
    Holds {
        /// Number of holds.
        times: u64,
        /// Smallest and largest size held.
        bytes: (u64, u64),
        /// Number of times that the guest's kernel took memory back from its balloon.
        took_back: usize,
        /// Last of the holds.
        last: Box<Decided>,
    },
    /// Another event.
    Event(Event),
}

/// Reads the entries about these guests.
pub fn gather(
    journal: &Journal,
    chosen: &[Chosen],
    policy: Policy,
    range: Range,
    history: History,
) -> Result<Gathered, Error> {
    let whose = places(chosen);
    let keys: Vec<GuestKey> = chosen.iter().flat_map(|guest| guest.keys.clone()).collect();
    let mut fold = Fold::default();
    let query = Query { guests: keys.clone(), range, policy: Some(policy) };
    journal.decisions(&query, |decided| match whose.get(&decided.guest) {
        Some(guest) => fold.add(*guest, decided),
        None => ControlFlow::Continue(()),
    })?;
    let Fold { mut entries, is_cut, .. } = fold;
    let mut before = Vec::new();
    for (at, guest) in chosen.iter().enumerate() {
        let has_decisions = entries.iter().any(|entry| entry.guest == Some(at));
        if has_decisions && matches!(history, History::IfEmpty) {
            continue;
        }
        before.extend(in_force(journal, at, guest, policy, range.from_ms)?);
    }
    before.sort_by_key(|entry| entry.at_ms);
    entries.extend(journal.events(&keys, range, EVENTS_MAX)?.into_iter().map(|found| Entry {
        at_ms: found.event.at_ms,
        guest: found.guest.and_then(|key| whose.get(&key).copied()),
        what: What::Event(found.event),
    }));
    // The sort is stable, so entries of the same millisecond stay in the journal's order.
    entries.sort_by_key(|entry| entry.at_ms);
    Ok(Gathered { before, entries, is_cut, span: journal.span(&keys, Some(policy))? })
}

/// Condition for including decisions that were made before the time and in force at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Always, for a question about a moment.
    Always,
    /// For guests without a decision in the time.
    IfEmpty,
}

/// Returns the last decision before a time. If the last decision is not a move, the last move
/// precedes the decision in the result.
fn in_force(
    journal: &Journal,
    at: usize,
    guest: &Chosen,
    policy: Policy,
    from_ms: i64,
) -> Result<Vec<Entry>, Error> {
    let until = from_ms.saturating_sub(1);
    let Some(last) = journal.in_force(&guest.keys, policy, until)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    if last.decision.from_bytes == last.decision.to_bytes {
        found.extend(journal.last_move(&guest.keys, policy, until)?);
    }
    found.push(last);
    let entry = |decided: Decided| Entry {
        at_ms: decided.decision.at_ms,
        guest: Some(at),
        what: What::Decision(Box::new(decided)),
    };
    Ok(found.into_iter().map(entry).collect())
}

/// Folding of consecutive holds.
#[derive(Default)]
struct Fold {
    entries: Vec<Entry>,
    /// Index of each guest's last entry.
    open: HashMap<usize, usize>,
    is_cut: bool,
}

impl Fold {
    fn add(&mut self, guest: usize, decided: Decided) -> ControlFlow<()> {
        let open = self.open.get(&guest).and_then(|at| self.entries.get_mut(*at));
        if let Some(Entry { what: What::Holds { times, bytes, took_back, last }, .. }) = open
            && is_same_hold(last, &decided)
        {
            *times += 1;
            *took_back += taken_back(&decided);
            *bytes = widen(*bytes, decided.decision.from_bytes);
            **last = decided;
            return ControlFlow::Continue(());
        }
        if self.entries.len() >= ENTRIES_MAX {
            self.is_cut = true;
            return ControlFlow::Break(());
        }
        let at_ms = decided.decision.at_ms;
        let size = decided.decision.from_bytes;
        let what = if is_hold(&decided.decision) {
            let took_back = taken_back(&decided);
            What::Holds { times: 1, bytes: (size, size), took_back, last: Box::new(decided) }
        } else {
            What::Decision(Box::new(decided))
        };
        self.open.insert(guest, self.entries.len());
        self.entries.push(Entry { at_ms, guest: Some(guest), what });
        ControlFlow::Continue(())
    }
}

fn is_same_hold(a: &Decided, b: &Decided) -> bool {
    is_hold(&b.decision)
        && a.guest == b.guest
        && a.decision.clause == b.decision.clause
        && a.decision.detail == b.decision.detail
}

/// Returns the number of a decision's outcomes in which the guest's kernel deflated the balloon.
fn taken_back(decided: &Decided) -> usize {
    decided.outcomes.iter().filter(|outcome| outcome.fate == Fate::TookBack).count()
}

fn widen(bytes: (u64, u64), size: u64) -> (u64, u64) {
    (bytes.0.min(size), bytes.1.max(size))
}
