//! Recorded needs of guests, and the resulting sizes.

use crate::backtest::Error;
use crate::{Advice, Options, Past};
use base::{duration, glob};
use std::ops::ControlFlow;
use std::path::Path;
use store::{Pick, Records, STEPS_MAX, Span};

/// Default retention of rows of minutes. Longer times are read from rows of quarters of an hour,
/// which are kept longer.
pub const MINUTES_MS: i64 = 3 * 1440 * duration::MINUTE_MS;
const QUARTER_MS: i64 = 15 * duration::MINUTE_MS;

/// Time range of the recordings, and the options for sizes.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Time range, and the length of its steps.
    pub span: Span,
    /// Options for sizes.
    pub options: Options,
}

impl Question {
    /// Creates a question about a time range in milliseconds since 1970. The end is exclusive.
    /// Steps are minutes, or quarters of an hour if the range is longer than three days.
    pub fn new(from_ms: i64, to_ms: i64, options: Options) -> Result<Question, Error> {
        let length_ms = to_ms.saturating_sub(from_ms);
        let step_ms = if length_ms > MINUTES_MS { QUARTER_MS } else { duration::MINUTE_MS };
        if length_ms / step_ms > STEPS_MAX {
            return Err(Error::TooLong);
        }
        // Steps of a quarter of an hour begin at round times, like the recorded rows.
        let from_ms = from_ms - from_ms.rem_euclid(step_ms);
        Ok(Question { span: Span { from_ms, to_ms, step_ms }, options })
    }
}

/// The recorded needs, and the resulting advice.
#[derive(Debug)]
pub struct Sizes {
    /// The question.
    pub question: Question,
    /// Start of the first step.
    pub from_ms: i64,
    /// Recorded needs of the guests that existed at the end.
    pub past: Past,
    /// Number of selected guests that had ended before the end.
    pub gone: usize,
    /// Resulting advice.
    pub advice: Advice,
}

impl Sizes {
    /// Reads the recordings of a directory. `guests` are names or patterns of names. An empty list
    /// means all guests.
    pub fn of(dir: &Path, question: Question, guests: &[String]) -> Result<Sizes, Error> {
        let pick = Pick { guests: Some(crate::FIELDS.to_vec()), tiers: None, processes: None };
        let mut past = Past::new(question.span.step_ms.unsigned_abs());
        let mut first_ms = None;
        Records::open(dir)?.visit(question.span, pick, |interval| {
            first_ms.get_or_insert(interval.from_ms);
            past.add(&interval);
            ControlFlow::Continue(())
        })?;
        let unknown =
            |pattern: &&String| !past.guests().any(|guest| glob::matches(pattern, &guest.name));
        if let Some(nobody) = guests.iter().find(unknown) {
            let names = past.guests().map(|guest| guest.name.as_str());
            return Err(Error::no_guest(nobody, names));
        }
        let fits = |name: &str| guests.iter().any(|pattern| glob::matches(pattern, name));
        past.retain(|guest| guests.is_empty() || fits(&guest.name));
        let gone = past.retain_present();
        let from_ms = first_ms.filter(|_| past.guests().next().is_some()).ok_or(Error::Nobody)?;
        let advice = crate::size(&past, &question.options);
        Ok(Sizes { question, from_ms, past, gone, advice })
    }

    /// Converts a number of steps to minutes.
    pub fn minutes(&self, steps: u64) -> u64 {
        steps.saturating_mul(self.past.step_ms) / 60_000
    }
}
