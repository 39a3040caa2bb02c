//! Numbers with a unit, as people write them.
//!
//! A unit is always written, so that a number cannot be taken for another: `4` could be bytes,
//! MiB or GiB, and `4G` two different amounts.

use std::fmt;

/// Digits of a number as it is typed; more are a mistake, and would overflow.
const DIGITS_MAX: usize = 15;

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// What is wrong with it.
    pub kind: Kind,
    /// What would be right.
    pub help: String,
}

/// What is wrong with a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It begins with no number, or with one that is too long or too fine.
    Number,
    /// Its unit is missing or unknown.
    Unit,
    /// It does not fit.
    Overflow,
    /// More than all of it.
    MoreThanAll,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Number => "no number",
            Kind::Unit => "no unit that is known",
            Kind::Overflow => "more than any machine has",
            Kind::MoreThanAll => "more than all of it",
        })
    }
}

impl std::error::Error for Bad {}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.help)
    }
}

/// The number at the start of a text, and what follows it.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// A number in thousandths, with at most so many digits behind its point.
pub fn thousandths(number: &str, places: usize) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) || whole.len() > DIGITS_MAX || part.len() > places {
        return None;
    }
    let padded = format!("{part:0<3}");
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(padded.parse().ok()?)
}
