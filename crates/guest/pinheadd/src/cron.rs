//! Due times of cron's tables. The times are parsed, but not the commands. Cron programs differ. A
//! line counts as due in every minute in which any of these programs would run it, because waking a
//! guest for nothing costs little.

use std::ops::RangeInclusive;

pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
pub(crate) const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// A minute of the calendar, in the guest's own time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute {
    /// Minute of the hour, 0 to 59.
    pub minute: u32,
    /// Hour of the day, 0 to 23.
    pub hour: u32,
    /// Day of the month, 1 to 31.
    pub day: u32,
    /// Month of the year, 1 to 12.
    pub month: u32,
    /// Day of the week, 0 to 6, where 0 is Sunday.
    pub weekday: u32,
}

/// Times of a line, with one bit for each value that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Set if both days and weekdays are limited. Then a match of either field is enough. (With a
    /// step over all values, as in `*/5`, some cron programs require both.)
    is_either: bool,
}

/// Bits of all days of a month, and bits of all days of a week.
const DAYS_ALL: u64 = ((1 << 31) - 1) << 1;
const WEEK_ALL: u64 = (1 << 7) - 1;

impl Times {
    /// Parses a line's times and ignores its command. Returns `None` for comments, for settings,
    /// for lines that cron would reject, and for `@reboot`, which does not depend on the clock.
    pub fn of(line: &str) -> Option<Times> {
        // In cronie, a `-` marks a line that is not logged.
        let line = line.trim_start();
        let mut words = line.strip_prefix('-').unwrap_or(line).split_ascii_whitespace();
        let first = words.next()?;
        let fields: Vec<&str> = match first {
            "@hourly" => vec!["0", "*", "*", "*", "*"],
            "@daily" | "@midnight" => vec!["0", "0", "*", "*", "*"],
            "@weekly" => vec!["0", "0", "*", "*", "0"],
            "@monthly" => vec!["0", "0", "1", "*", "*"],
            "@yearly" | "@annually" => vec!["0", "0", "1", "1", "*"],
            _ => std::iter::once(first).chain(words.take(4)).collect(),
        };
        let [minutes, hours, days, months, weekdays] = fields[..] else { return None };
        // Sunday has two numbers, 0 and 7.
        let weekdays = bits(weekdays, 0..=7, &DAYS)?;
        let weekdays = (weekdays | weekdays >> 7) & WEEK_ALL;
        let days = bits(days, 1..=31, &[])?;
        Some(Times {
            minutes: bits(minutes, 0..=59, &[])?,
            hours: bits(hours, 0..=23, &[])?,
            days,
            months: bits(months, 1..=12, &MONTHS)?,
            weekdays,
            is_either: days != DAYS_ALL && weekdays != WEEK_ALL,
        })
    }

    /// Returns times that match in any time zone. Zones differ by multiples of 15 minutes, so only
    /// the minutes of the line limit the result.
    pub fn in_any_zone(self) -> Times {
        let later = |minutes: u32| self.minutes << minutes | self.minutes >> (60 - minutes);
        let minutes = self.minutes | later(15) | later(30) | later(45);
        let all = u64::MAX;
        Times { minutes, hours: all, days: all, months: all, weekdays: all, is_either: false }
    }

    /// Returns true if the line is due in this minute.
    pub fn fits(&self, at: Minute) -> bool {
        let has = |bits: u64, value: u32| bits >> value & 1 == 1;
        let (day, weekday) = (has(self.days, at.day), has(self.weekdays, at.weekday));
        let is_day = if self.is_either { day || weekday } else { day && weekday };
        is_day
            && has(self.minutes, at.minute)
            && has(self.hours, at.hour)
            && has(self.months, at.month)
    }
}

/// Returns the bits of a field's values: `*`, numbers, ranges and steps, between commas.
fn bits(field: &str, range: RangeInclusive<u32>, names: &[&str]) -> Option<u64> {
    let mut bits = 0;
    for part in field.split(',') {
        let (of, step) = match part.split_once('/') {
            Some((of, step)) => (of, Some(step.parse().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let value = |text: &str| {
            let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
            // Numbers and names of months begin with 1, and numbers and names of weekdays begin
            // with 0.
            let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + range.start());
            named.or_else(|| text.parse().ok()).filter(|value| range.contains(value))
        };
        let (from, to) = match (of.split_once('-'), of.split_once('~')) {
            _ if of == "*" => (*range.start(), *range.end()),
            (Some((from, to)), _) => (value(from)?, value(to)?),
            // For a range with `~`, cronie runs the line at one random value, known to cronie only.
            (None, Some((from, to))) => {
                let or = |text: &str, all| if text.is_empty() { Some(all) } else { value(text) };
                let (from, to) = (or(from, *range.start())?, or(to, *range.end())?);
                for value in from..=to {
                    bits |= 1_u64 << value;
                }
                continue;
            }
            (None, None) if step.is_some() => (value(of)?, *range.end()),
            (None, None) => (value(of)?, value(of)?),
        };
        if from > to {
            // In busybox, such a range continues with the field's first value after its last value.
            for value in (from..=*range.end()).chain(*range.start()..=to) {
                bits |= 1_u64 << value;
            }
            continue;
        }
        for value in (from..=to).step_by(step.unwrap_or(1)) {
            bits |= 1_u64 << value;
        }
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tuesday, 24 November, 9:30.
    const AT: Minute = Minute { minute: 30, hour: 9, day: 24, month: 11, weekday: 2 };

    fn fits(line: &str) -> bool {
        Times::of(line).unwrap_or_else(|| panic!("{line}")).fits(AT)
    }

    #[test]
    fn lines_are_due_as_crontab_5_has_it() {
        for line in [
            "* * * * * root true",
            "30 9 * * * x",
            "*/15 * * * * x",
            "0,30 8-10 * nov tue x",
            "10-40/10 9 24 11 * x",
            "30 9 1 * 2 either is enough",
            "30 9 24 * sun either is enough",
            "0/10 9 * * * x",
            "30 22-9 * * * busybox goes on with 0",
            "30 9 */5 * 2 either is enough for some",
            "-30 9 * * * not logged",
            "10~40 9 * * * at some moment",
            "~ * * * * at some moment",
        ] {
            assert!(fits(line), "{line}");
        }
        for line in [
            "31 9 * * * x",
            "30 9 1 * * x",
            "30 9 1 * 3 x",
            "30 9 */5 * 3 neither",
            "30 9 */1 * 3 all days",
            "30 11-8 * * * x",
            "@hourly x",
            "@daily x",
            "@yearly x",
        ] {
            assert!(!fits(line), "{line}");
        }
        let sunday = Minute { weekday: 0, minute: 0, hour: 0, ..AT };
        for line in ["0 0 * * 7 x", "0 0 * * 0 x", "0 0 * * 5-7 x", "@weekly x"] {
            assert!(Times::of(line).unwrap().fits(sunday), "{line}");
        }
    }

    #[test]
    fn lines_without_times_are_skipped() {
        for line in [
            "",
            "# 30 9 * * * x",
            "PATH=/bin",
            "SHELL = /bin/sh of some kind",
            "@reboot x",
            "60 * * * * x",
            "* 24 * * * x",
            "* * 0 * * x",
            "* * * 13 * x",
            "* * * * 8 x",
            "5-x * * * * x",
            "5~60 * * * * x",
            "*/0 * * * * x",
            "1,,2 * * * * x",
            "*/99999999999999999999 * * * * x",
            "* * * *",
            "\u{0}\u{fe} - / , *",
        ] {
            assert_eq!(Times::of(line), None, "{line:?}");
        }
    }
}
