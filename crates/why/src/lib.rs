//! What the host's manager decided about a guest, why, and what came of it; and where its policy
//! and a shadow of it part.
//!
//! ```text
//!   journal ─► who (which guests) ─► gather (decisions, holds folded) ─► answer (text, JSON)
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
use store::{Journal, Policy, Range};
use when::Now;

/// What is asked about guests.
#[derive(Clone, Debug)]
pub struct Question {
    /// A name, a pattern with `*` and `?`, or a UUID.
    pub guest: String,
    /// In which time.
    pub time: Time,
    /// Whose decisions.
    pub policy: Policy,
}

/// The time that is asked about, as people write it.
#[derive(Clone, Debug)]
pub enum Time {
    /// A minute or a second, and what was in force then.
    At(String),
    /// From so long ago until now.
    Last(String),
    /// From one millisecond to another, and what was in force at the first.
    Between(Range),
}

/// Answers from a journal.
pub fn answer(journal: &Journal, question: &Question, now: Now) -> Result<Answer, Error> {
    let (range, history) = match &question.time {
        Time::At(at) => (when::instant(at, &now)?, History::Always),
        Time::Last(last) => (when::last(last, &now)?, History::IfEmpty),
        Time::Between(range) => (*range, History::Always),
    };
    let chosen = who::choose(&question.guest, &journal.guests()?)?;
    let gathered = gather(journal, &chosen, question.policy, range, history)?;
    Ok(Answer { chosen, policy: question.policy, range, gathered, now })
}
