//! Explanations of the host manager's decisions, and their comparison with a shadow policy.
//!
//! ```text
//!   journal ─► who.rs (guests) ─► gather (decisions, holds folded) ─► answer (text, JSON)
//!              when (which time) ─────────┘      words, model::clause ───┘
//!                                  diff (two policies as steps in time) ─► text, JSON
//! ```

#![forbid(unsafe_code)]

mod answer;
mod clock;
pub mod diff;
mod error;
mod gather;
pub mod when;
mod who;
mod words;

pub use answer::{Answer, Told};
pub use clock::now;
pub use error::Error;
pub use gather::{ENTRIES_MAX, Entry, Gathered, What};
pub use who::Chosen;

use gather::{History, gather};
use store::{GuestKey, Journal, Policy, Range};
use when::Now;

/// Maximum number of events searched for ends of guests.
const EVENTS_MAX: u32 = 10_000;

/// A question about guests.
#[derive(Clone, Debug)]
pub struct Question {
    /// Name, pattern with `*` and `?`, or UUID.
    pub guest: String,
    /// Time of the decisions.
    pub time: Time,
    /// Policy of the decisions.
    pub policy: Policy,
}

/// Time of a question, in the user's notation.
#[derive(Clone, Debug)]
pub enum Time {
    /// A minute or a second, with the decisions then in force.
    At(String),
    /// A length of time up to now.
    Last(String),
    /// A length of time up to now, without the guests' earlier runs.
    Recent(String),
    /// A range of milliseconds, with the decisions in force at its start.
    Between(Range),
}

/// Answers a question from a journal.
pub fn answer(journal: &Journal, question: &Question, now: Now) -> Result<Answer, Error> {
    let (range, history) = match &question.time {
        Time::At(at) => (when::instant(at, &now)?, History::Always),
        Time::Last(last) | Time::Recent(last) => (when::last(last, &now)?, History::IfEmpty),
        Time::Between(range) => (*range, History::Always),
    };
    let rows = journal.guests()?;
    let all = who::choose(&question.guest, &rows)?;
    let keys: Vec<GuestKey> = all.iter().flat_map(|guest| guest.keys.clone()).collect();
    let ever = Range { from_ms: i64::MIN, to_ms: i64::MAX };
    let ends = who::Ends::of(&journal.events(&keys, ever, EVENTS_MAX)?);
    let mut chosen = who::within(all, &rows, range, &ends);
    let mut earlier_runs = Vec::new();
    if matches!(question.time, Time::Recent(_)) {
        let present = who::present(&chosen, &rows, &ends);
        earlier_runs = left_out(journal, &chosen, &present, question.policy, range)?;
        chosen = present;
    }
    let gathered = gather(journal, &chosen, question.policy, range, history)?;
    Ok(Answer { chosen, policy: question.policy, range, gathered, earlier_runs, now })
}

/// Returns the names of guests with earlier runs that have decisions in the range. `present` lacks
/// these runs.
fn left_out(
    journal: &Journal,
    all: &[Chosen],
    present: &[Chosen],
    policy: Policy,
    range: Range,
) -> Result<Vec<String>, Error> {
    let kept = who::places(present);
    let mut names = Vec::new();
    for guest in all {
        let earlier: Vec<GuestKey> =
            guest.keys.iter().copied().filter(|key| !kept.contains_key(key)).collect();
        let span = journal.span(&earlier, Some(policy))?;
        if span.is_some_and(|span| span.to_ms >= range.from_ms && span.from_ms <= range.to_ms) {
            names.push(guest.name.clone());
        }
    }
    names.dedup();
    Ok(names)
}
