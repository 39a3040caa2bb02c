//! Sizes, parts and times as people write them.
//!
//! A unit is always written, so that a number cannot be taken for another: `4` could be bytes,
//! MiB or GiB, and `4G` two different amounts.

use std::fmt;

use counters::Bytes;

/// Digits of a number as it is typed; more are a mistake, and would overflow.
const DIGITS_MAX: usize = 15;

/// A size, or a part of something larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A part, in thousandths.
    Permille(u64),
    /// A size.
    Bytes(Bytes),
}

impl Share {
    /// The size, as a part of `whole`.
    pub fn of(self, whole: Bytes) -> Bytes {
        match self {
            Share::Permille(permille) => whole.permille(permille),
            Share::Bytes(bytes) => bytes,
        }
    }

    /// Reads `25%` or `256 MiB`. A part is at most the whole.
    pub fn parse(text: &str) -> Result<Share, Bad> {
        match text.trim().strip_suffix('%') {
            Some(number) => percent_number(number).map(Share::Permille),
            None => size(text).map(Share::Bytes).map_err(|bad| match bad.kind {
                Kind::Unit if bad.help == SIZE_HELP => Bad { help: SHARE_HELP.to_owned(), ..bad },
                _ => bad,
            }),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Share::Permille(permille) if permille % 10 == 0 => write!(f, "{}%", permille / 10),
            Share::Permille(permille) => write!(f, "{}.{}%", permille / 10, permille % 10),
            Share::Bytes(bytes) => write_size(f, *bytes),
        }
    }
}

fn write_size(f: &mut fmt::Formatter<'_>, size: Bytes) -> fmt::Result {
    let exact = UNITS.iter().rev().find(|(_, unit)| size.0 > 0 && size.0.is_multiple_of(*unit));
    match exact {
        Some((name, unit)) => write!(f, "{} {name}", size.0 / unit),
        None => write!(f, "{} B", size.0),
    }
}

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

const SHARE_HELP: &str = "write a part such as \"25%\" or a size such as \"256 MiB\"";
const SIZE_HELP: &str = "write a size with its unit, such as \"256 MiB\" or \"4 GiB\"";
const PERCENT_HELP: &str = "write a part from \"0%\" to \"100%\", at most to a tenth: \"12.5%\"";
const TIME_HELP: &str =
    "write a time with its unit: \"500ms\", \"1s\", \"10min\", \"12h\", \"30d\"";

const UNITS: [(&str, u64); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// No machine has more memory: 4 PiB, the most that x86-64 can address.
const SIZE_MAX: u64 = 1 << 52;

const TIMES: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// No time here is longer: ten years.
const TIME_MAX_MS: u64 = 3650 * 86_400_000;

/// Reads `4 GiB`.
pub fn size(text: &str) -> Result<Bytes, Bad> {
    let bad = |kind| Bad { kind, help: SIZE_HELP.to_owned() };
    let (number, unit) = split(text);
    let Some((_, unit)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(unit_help(number, unit).unwrap_or(bad(Kind::Unit)));
    };
    let thousandths = thousandths(number, 3).ok_or(bad(Kind::Number))?;
    let bytes = u128::from(thousandths) * u128::from(*unit) / 1000;
    let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes <= SIZE_MAX);
    bytes.map(Bytes).ok_or(bad(Kind::Overflow))
}

/// `4G` and `4 GB` are told what they could mean.
fn unit_help(number: &str, unit: &str) -> Option<Bad> {
    let letter = unit.chars().next()?.to_ascii_uppercase();
    let is_usual = matches!(unit.len(), 1..=3) && !number.is_empty();
    let (name, _) = UNITS.iter().skip(1).find(|(name, _)| name.starts_with(letter))?;
    let help = format!("write \"{number} {name}\": units count in steps of 1024");
    is_usual.then_some(Bad { kind: Kind::Unit, help })
}

/// Reads `12.5%`, in thousandths.
pub fn percent(text: &str) -> Result<u64, Bad> {
    let bad = Bad { kind: Kind::Unit, help: PERCENT_HELP.to_owned() };
    percent_number(text.trim().strip_suffix('%').ok_or(bad)?)
}

fn percent_number(number: &str) -> Result<u64, Bad> {
    let bad = |kind| Bad { kind, help: PERCENT_HELP.to_owned() };
    let permille = thousandths(number.trim_end(), 1).ok_or(bad(Kind::Number))? / 100;
    if permille > 1000 {
        return Err(bad(Kind::MoreThanAll));
    }
    Ok(permille)
}

/// Reads `30d`, in milliseconds.
pub fn time_ms(text: &str) -> Result<u64, Bad> {
    let bad = |kind| Bad { kind, help: TIME_HELP.to_owned() };
    let (number, unit) = split(text);
    let unit = TIMES.iter().find(|(name, _)| *name == unit).ok_or(bad(Kind::Unit))?.1;
    let thousandths = thousandths(number, 3).ok_or(bad(Kind::Number))?;
    let ms = u128::from(thousandths) * u128::from(unit) / 1000;
    let ms = u64::try_from(ms).ok().filter(|ms| *ms <= TIME_MAX_MS);
    ms.ok_or(Bad { kind: Kind::Overflow, help: "the longest is \"3650d\"".to_owned() })
}

/// The number and its unit.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// A number in thousandths, with at most so many digits behind its point.
fn thousandths(number: &str, places: usize) -> Option<u64> {
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
    fn sizes_have_a_unit() {
        let ok = |text: &str| size(text).unwrap().0;
        assert_eq!(ok("4 GiB"), 4 << 30);
        assert_eq!(ok("256MiB"), 256 << 20);
        assert_eq!(ok("1.5 KiB"), 1536);
        assert_eq!(ok("0 B"), 0);
        let bad = |text: &str| size(text).unwrap_err();
        assert_eq!(bad("4").kind, Kind::Unit);
        assert!(bad("4G").help.contains("\"4 GiB\""));
        assert!(bad("4 gb").help.contains("\"4 GiB\""));
        assert_eq!(bad("-4 GiB").kind, Kind::Unit);
        assert_eq!(bad(" GiB").kind, Kind::Number);
        assert_eq!(bad("1.2.3 GiB").kind, Kind::Number);
        assert_eq!(bad("9000000 TiB").kind, Kind::Overflow);
        assert_eq!(bad("9999999999999999999999 B").kind, Kind::Number);
    }

    #[test]
    fn parts_are_at_most_the_whole() {
        assert_eq!(Share::parse("25%"), Ok(Share::Permille(250)));
        assert_eq!(percent("12.5 %"), Ok(125));
        assert_eq!(percent("100%"), Ok(1000));
        assert_eq!(percent("100.1%").unwrap_err().kind, Kind::MoreThanAll);
        assert_eq!(percent("12.55%").unwrap_err().kind, Kind::Number);
        assert_eq!(percent("25").unwrap_err().kind, Kind::Unit);
        assert!(Share::parse("many").unwrap_err().help.contains("part"));
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time_ms("1s"), Ok(1000));
        assert_eq!(time_ms("0.5 s"), Ok(500));
        assert_eq!(time_ms("30d"), Ok(30 * 86_400_000));
        assert_eq!(time_ms("3651d").unwrap_err().kind, Kind::Overflow);
        assert_eq!(time_ms("1m").unwrap_err().kind, Kind::Unit, "minutes or months");
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["25%", "12.5%", "256 MiB", "4 GiB", "1537 B", "0 B"] {
            assert_eq!(Share::parse(text).unwrap().to_string(), text);
        }
    }
}
