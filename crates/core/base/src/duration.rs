//! Lengths of time: one grammar for all input, and one output format.
//!
//! ```text
//!   duration = part { part }     1h30m, 2 h 5 min
//!   part     = number unit       90s, 0.5 s, 10 min
//!   unit     = "ms" | "s" | "m" | "min" | "h" | "d" | "w"
//! ```

use crate::{Bad, Kind, split, thousandths};

/// Milliseconds in a second.
pub const SECOND_MS: i64 = 1_000;
/// Milliseconds in a minute.
pub const MINUTE_MS: i64 = 60 * SECOND_MS;
/// Milliseconds in an hour.
pub const HOUR_MS: i64 = 60 * MINUTE_MS;
/// Milliseconds in a day.
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// Maximum duration: ten years. With this limit, sums of durations do not overflow.
const LONGEST_MS: u64 = 3650 * DAY_MS as u64;

const HELP: &str =
    "write a time with its unit, such as \"500ms\", \"90s\", \"10m\", \"1h30m\" or \"30d\"";

fn unit_ms(name: &str) -> Option<u64> {
    Some(match name {
        "ms" => 1,
        "s" => SECOND_MS as u64,
        "m" | "min" => MINUTE_MS as u64,
        "h" => HOUR_MS as u64,
        "d" => DAY_MS as u64,
        "w" => 7 * DAY_MS as u64,
        _ => return None,
    })
}

/// Parses a duration such as `90s`, `5m`, `10 min`, `1h30m` or `2d`, and returns milliseconds.
pub fn parse_ms(text: &str) -> Result<u64, Bad> {
    let bad = |kind| Bad { kind, help: HELP.to_owned() };
    let mut rest = text.trim();
    let mut sum: u64 = 0;
    loop {
        let (number, behind) = split(rest);
        let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let unit = unit_ms(unit).ok_or(bad(Kind::Unit))?;
        let number = thousandths(number, 3).ok_or(bad(Kind::Number))?;
        let ms = u64::try_from(u128::from(number) * u128::from(unit) / 1000).unwrap_or(u64::MAX);
        sum = sum.saturating_add(ms);
        rest = behind.trim_start();
        if rest.is_empty() {
            break;
        }
    }
    if sum > LONGEST_MS {
        return Err(Bad { kind: Kind::Overflow, help: "the longest is \"3650d\"".to_owned() });
    }
    Ok(sum)
}

/// Parses a duration, and returns milliseconds. A number without a unit means milliseconds.
pub fn parse_bare_ms(text: &str) -> Result<u64, Bad> {
    match text.trim().parse::<u64>() {
        Ok(ms) if ms <= LONGEST_MS => Ok(ms),
        _ => parse_ms(text),
    }
}

/// Parses a duration, and returns whole seconds, rounded up. A number without a unit means seconds.
pub fn parse_seconds(text: &str) -> Result<u64, Bad> {
    match text.trim().parse::<u64>() {
        Ok(seconds) if seconds <= LONGEST_MS / 1000 => Ok(seconds),
        _ => parse_ms(text).map(|ms| ms.div_ceil(1000)),
    }
}

/// Formats a duration as a text that [`parse_ms`] accepts, such as `0.5 s`, `4 min 30 s`,
/// `2 h 5 min` or `3 d 4 h`.
pub fn show(ms: i64) -> String {
    let ms = ms.max(0);
    let two = |large: i64, name: &str, small: i64, of: &str| match small {
        0 => format!("{large} {name}"),
        small => format!("{large} {name} {small} {of}"),
    };
    let seconds = ms / SECOND_MS;
    match seconds {
        0..60 => format!("{}.{} s", seconds, ms % SECOND_MS / 100),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_has_one_grammar() {
        for (text, ms) in [
            ("500ms", 500),
            ("1s", 1000),
            ("0.5 s", 500),
            ("5m", 300_000),
            ("5min", 300_000),
            ("10 min", 600_000),
            ("1h", HOUR_MS as u64),
            ("1h30m", 5_400_000),
            ("2 h 5 min", 7_500_000),
            ("2d", 2 * DAY_MS as u64),
            ("1w", 7 * DAY_MS as u64),
            (" 0s ", 0),
        ] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn invalid_duration_is_refused() {
        for (text, kind) in [
            ("", Kind::Unit),
            ("5", Kind::Unit),
            ("h", Kind::Number),
            ("-1m", Kind::Unit),
            ("5x", Kind::Unit),
            ("5é", Kind::Unit),
            ("1m5", Kind::Unit),
            ("1M", Kind::Unit),
            ("0.1234s", Kind::Number),
            ("99999999999999999999s", Kind::Number),
            ("3651d", Kind::Overflow),
            ("3650d 1s", Kind::Overflow),
            ("999999999999999w", Kind::Overflow),
        ] {
            assert_eq!(parse_ms(text).map_err(|bad| bad.kind), Err(kind), "{text}");
        }
    }

    #[test]
    fn number_alone_may_mean_seconds() {
        assert_eq!((parse_seconds("60"), parse_seconds("2m")), (Ok(60), Ok(120)));
        assert_eq!((parse_seconds("500ms"), parse_seconds("1.5s")), (Ok(1), Ok(2)));
        assert_eq!((parse_bare_ms("60"), parse_bare_ms("2s")), (Ok(60), Ok(2_000)));
        assert!(parse_seconds("many").is_err() && parse_seconds("99999999999").is_err());
    }

    #[test]
    fn shown_duration_can_be_parsed() {
        let spans = [0, 1_250, 60_000, 90_000, 7_500_000, 3 * DAY_MS + 4 * HOUR_MS].map(show);
        assert_eq!(spans, ["0.0 s", "1.2 s", "1 min", "1 min 30 s", "2 h 5 min", "3 d 4 h"]);
        assert!(spans.iter().all(|span| parse_ms(span).is_ok()));
    }
}
