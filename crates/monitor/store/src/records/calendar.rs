//! UTC days and months, and the names of their files.
//!
//! The time of a file is only in its name, so names are strict. `2026-11-21.db` is a day, and
//! `2026-11.db` is a month. A file with any other name is ignored.

use base::civil::{date, days};
use base::duration::DAY_MS;
use std::fmt;

const YEARS: std::ops::RangeInclusive<i64> = 1970..=9999;

/// Time covered by a file of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Period {
    /// A day: year, month and day, from 1.
    Day(i64, i64, i64),
    /// A month: year and month, from 1.
    Month(i64, i64),
}

impl Period {
    /// Returns the day of a moment.
    pub fn day_of(at_ms: i64) -> Period {
        let (year, month, day) = date(at_ms.div_euclid(DAY_MS));
        Period::Day(year, month, day)
    }

    /// Returns the month of a moment.
    pub fn month_of(at_ms: i64) -> Period {
        let (year, month, _) = date(at_ms.div_euclid(DAY_MS));
        Period::Month(year, month)
    }

    /// Returns the start of the period.
    pub fn begin_ms(self) -> i64 {
        match self {
            Period::Day(year, month, day) => days(year, month, day) * DAY_MS,
            Period::Month(year, month) => days(year, month, 1) * DAY_MS,
        }
    }

    /// Returns the start of the next period.
    pub fn end_ms(self) -> i64 {
        match self {
            Period::Day(..) => self.begin_ms() + DAY_MS,
            Period::Month(year, 12) => Period::Month(year + 1, 1).begin_ms(),
            Period::Month(year, month) => Period::Month(year, month + 1).begin_ms(),
        }
    }

    /// Returns the period of a file with this name.
    pub fn of_file(name: &str) -> Option<Period> {
        let stem = name.strip_suffix(".db")?;
        let mut parts = stem.split('-').map(|part| part.parse::<i64>().ok());
        let (year, month) = (parts.next()??, parts.next()??);
        let period = match parts.next() {
            None => Period::Month(year, month),
            Some(day) => Period::Day(year, month, day?),
        };
        // A valid name equals the formatted period. This excludes signs and a 31st of June.
        let is_real = YEARS.contains(&year)
            && (1..=12).contains(&month)
            && match period {
                Period::Day(..) => Period::day_of(period.begin_ms()) == period,
                Period::Month(..) => true,
            };
        (is_real && period.to_string() == stem).then_some(period)
    }

    /// Returns the name of the period's file.
    pub fn file(self) -> String {
        format!("{self}.db")
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Period::Day(year, month, day) => write!(f, "{year:04}-{month:02}-{day:02}"),
            Period::Month(year, month) => write!(f, "{year:04}-{month:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_ends_where_the_next_one_begins() {
        assert_eq!(
            Period::month_of(1_795_269_600_000).end_ms(),
            Period::Month(2026, 12).begin_ms()
        );
        assert_eq!(Period::Month(2026, 12).end_ms(), Period::Month(2027, 1).begin_ms());
    }

    #[test]
    fn only_a_files_own_name_is_its_period() {
        assert_eq!(Period::of_file("2026-11-21.db"), Some(Period::Day(2026, 11, 21)));
        assert_eq!(Period::of_file("2026-11.db"), Some(Period::Month(2026, 11)));
        for name in [
            "2026-02-30.db",
            "2026-2-3.db",
            "raw.db",
            "2026-13.db",
            "-2026-11.db",
            "2026.db",
            "2026-11-21.db-wal",
            "2026-11-21-05.db",
            "+026-11.db",
            "journal.db",
            "99999-11.db",
        ] {
            assert_eq!(Period::of_file(name), None, "{name}");
        }
    }
}
