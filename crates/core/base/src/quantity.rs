//! Numbers with a unit, as users write them.
//!
//! ```text
//!   size       = number [ " " ] ( "B" | "K" | "M" | "G" | "T" [ "iB" ] )     256M, 1 GiB
//!   percentage = number [ " " ] "%"                                          25%
//!   duration   = see `duration`                                              10m, 1h30m
//! ```
//!
//! A unit is required, because `4` could be bytes, MiB or GiB. Only options that were plain numbers
//! in earlier versions accept a number without a unit.

use std::fmt;

/// Maximum number of digits before the decimal point. More digits are a mistake.
const DIGITS_MAX: usize = 15;

/// The whole (100 %), in thousandths.
pub const WHOLE: u64 = 1000;

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
            Kind::Unit => "no known unit",
            Kind::Overflow => "too large",
            Kind::MoreThanAll => "more than 100 %",
        })
    }
}

impl std::error::Error for Bad {}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.help)
    }
}

/// Parses a percentage such as `12.5%`, and returns thousandths. `most` is the allowed maximum,
/// also in thousandths.
pub fn parse_percent(text: &str, most: u64) -> Result<u64, Bad> {
    let bad = |kind| {
        let help =
            format!("write a percentage from \"0%\" to \"{}%\", at most one decimal", most / 10);
        Bad { kind, help }
    };
    let number = text.trim().strip_suffix('%').ok_or_else(|| bad(Kind::Unit))?.trim_end();
    let permille = thousandths(number, 1).ok_or_else(|| bad(Kind::Number))? / 100;
    let excess = if most == WHOLE { Kind::MoreThanAll } else { Kind::Overflow };
    if permille <= most { Ok(permille) } else { Err(bad(excess)) }
}

/// Splits a text into the number at its start and the rest.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// Parses a number with at most `places` decimal places, and returns thousandths.
pub fn thousandths(number: &str, places: usize) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) || whole.len() > DIGITS_MAX || part.len() > places {
        return None;
    }
    let padded = format!("{part:0<3}");
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(padded.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentage_has_a_sign_and_a_maximum() {
        let percent = |text| parse_percent(text, WHOLE).map_err(|bad| bad.kind);
        assert_eq!((percent("12.5 %"), percent("100%")), (Ok(125), Ok(1000)));
        assert_eq!(percent("100.1%"), Err(Kind::MoreThanAll));
        assert_eq!(percent("12.55%"), Err(Kind::Number));
        assert_eq!(percent("25"), Err(Kind::Unit));
        assert_eq!(parse_percent("1000%", 10_000), Ok(10_000));
        let over = parse_percent("1001%", 10_000).unwrap_err();
        assert!(over.kind == Kind::Overflow && over.help.contains("\"1000%\""), "{over}");
    }
}
