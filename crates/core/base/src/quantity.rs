//! Numbers with a unit, as users write them.
//!
//! A unit is always required, so that a number is unambiguous: `4` could be bytes, MiB or GiB, and
//! `4G` two different amounts.

use std::fmt;

/// Maximum number of digits of a typed number. More digits are a mistake, and would overflow.
const DIGITS_MAX: usize = 15;

/// The error of an invalid quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// The kind of error.
    pub kind: Kind,
    /// A correction.
    pub help: String,
}

/// The kind of error in a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The number is missing, too long or too precise.
    Number,
    /// The number's unit is missing or unknown.
    Unit,
    /// The value is too large.
    Overflow,
    /// The share is more than the whole.
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

/// Splits a text into the number at its start and the rest.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// Parses a number in thousandths, with a limited number of decimal places.
pub fn thousandths(number: &str, places: usize) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) || whole.len() > DIGITS_MAX || part.len() > places {
        return None;
    }
    let padded = format!("{part:0<3}");
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(padded.parse().ok()?)
}
