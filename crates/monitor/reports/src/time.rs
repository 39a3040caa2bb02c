//! Times as reports show them, in a time zone that is an argument.

use base::duration::{DAY_MS, MINUTE_MS};

/// Longest unrecorded part of an interval that does not count as a gap. Sampling is not exact to
/// the millisecond.
pub(crate) const SLACK_MS: u64 = 1_500;

/// Time zone of the times shown.
pub trait Zone {
    /// Returns the offset of local time from UTC at a moment, in minutes.
    fn offset_min(&self, at_ms: i64) -> i64;
}

impl<F: Fn(i64) -> i64> Zone for F {
    fn offset_min(&self, at_ms: i64) -> i64 {
        self(at_ms)
    }
}

/// Universal time.
#[derive(Clone, Copy, Debug)]
pub struct Utc;

impl Zone for Utc {
    fn offset_min(&self, _at_ms: i64) -> i64 {
        0
    }
}

fn civil(local_ms: i64) -> (i64, i64, i64, i64, i64, i64, i64) {
    let (day, ms) = (local_ms.div_euclid(DAY_MS), local_ms.rem_euclid(DAY_MS));
    let (year, month, of_month) = base::civil::date(day);
    let second = ms / 1000;
    (year, month, of_month, second / 3600, second / 60 % 60, second % 60, ms % 1000)
}

fn local(at_ms: i64, zone: &dyn Zone) -> i64 {
    at_ms.saturating_add(zone.offset_min(at_ms).saturating_mul(MINUTE_MS))
}

/// Formats the day: `2026-11-21`.
pub fn date_text(at_ms: i64, zone: &dyn Zone) -> String {
    let (year, month, day, ..) = civil(local(at_ms, zone));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Formats the time of day: `14:05`, or `14:05:20` if the minute is not full.
pub fn clock_text(at_ms: i64, zone: &dyn Zone) -> String {
    let (_, _, _, hour, minute, second, ms) = civil(local(at_ms, zone));
    match (second, ms) {
        (0, 0) => format!("{hour:02}:{minute:02}"),
        _ => format!("{hour:02}:{minute:02}:{second:02}"),
    }
}

/// Formats a day with a time of day: `2026-11-21 14:05`.
pub fn moment_text(at_ms: i64, zone: &dyn Zone) -> String {
    format!("{} {}", date_text(at_ms, zone), clock_text(at_ms, zone))
}

/// Formats a moment for programs: `2026-11-21T14:05:20+01:00`.
pub fn rfc3339(at_ms: i64, zone: &dyn Zone) -> String {
    let (year, month, day, hour, minute, second, ms) = civil(local(at_ms, zone));
    let offset = zone.offset_min(at_ms);
    let fraction = if ms == 0 { String::new() } else { format!(".{ms:03}") };
    let sign = if offset < 0 { '-' } else { '+' };
    let place = match offset.abs() {
        0 => "Z".to_owned(),
        ahead => format!("{sign}{:02}:{:02}", ahead / 60, ahead % 60),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{place}")
}

/// Formatted starts and ends of lines, cached. The lines of all guests in an interval follow each
/// other, so each time is formatted once instead of a hundred times.
pub(crate) struct Spans<'a> {
    zone: &'a dyn Zone,
    from: (i64, String),
    to: (i64, String),
}

impl<'a> Spans<'a> {
    pub(crate) fn new(zone: &'a dyn Zone) -> Spans<'a> {
        let known = || (0, rfc3339(0, zone));
        Spans { zone, from: known(), to: known() }
    }

    pub(crate) fn of(&mut self, from_ms: i64, length_ms: u64) -> (&str, &str) {
        let to_ms = from_ms.saturating_add(i64::try_from(length_ms).unwrap_or(i64::MAX));
        for (known, at_ms) in [(&mut self.from, from_ms), (&mut self.to, to_ms)] {
            if known.0 != at_ms {
                *known = (at_ms, rfc3339(at_ms, self.zone));
            }
        }
        (&self.from.1, &self.to.1)
    }
}

/// Formats a duration: `45 s`, `12 min`, `2 h 5 min`.
pub(crate) fn span_text(ms: u64) -> String {
    let two = |large: u64, name: &str, small: u64, of: &str| match small {
        0 => format!("{large} {name}"),
        _ => format!("{large} {name} {small} {of}"),
    };
    match ms / 1000 {
        0 => format!("{ms} ms"),
        s @ 1..60 => format!("{s} s"),
        s @ 60..3600 => two(s / 60, "min", s % 60, "s"),
        s @ 3600..86_400 => two(s / 3600, "h", s / 60 % 60, "min"),
        s => two(s / 86_400, "d", s / 3600 % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        let check = |at_ms, expected: &str| assert_eq!(rfc3339(at_ms, &Utc), expected);
        check(0, "1970-01-01T00:00:00Z");
        check(-1, "1969-12-31T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00Z");
        check(1_795_219_200_000, "2026-11-21T00:00:00Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00Z");
    }

    #[test]
    fn times_are_local() {
        let at_ms = 1_795_219_200_000 - 30 * MINUTE_MS;
        let ahead = |minutes: i64| move |_: i64| minutes;
        assert_eq!(rfc3339(at_ms, &ahead(60)), "2026-11-21T00:30:00+01:00");
        assert_eq!(rfc3339(at_ms, &ahead(-150)), "2026-11-20T21:00:00-02:30");
        assert_eq!(clock_text(at_ms + 20_000, &Utc), "23:30:20");
        assert_eq!(date_text(at_ms, &ahead(60)), "2026-11-21");
        assert_eq!(span_text(7_500_000), "2 h 5 min");
    }
}
