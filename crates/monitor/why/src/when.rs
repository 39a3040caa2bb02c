//! Parsing and formatting of times. The current time and the zone are arguments.

use crate::error::{Error, cut};
use base::duration::{DAY_MS, MINUTE_MS, SECOND_MS, parse_ms};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use store::Range;

/// Default lengths of intervals, in minutes.
const STEPS: [i64; 11] = [1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440];

/// Time and zone of a question.
#[derive(Clone, Debug)]
pub struct Now {
    /// Milliseconds since 1970.
    pub ms: i64,
    /// Zone of the times read and shown.
    pub zone: TimeZone,
}

/// Returns the minute or second named by a text, from its first to its last millisecond. A time of
/// day without a date is the latest such time not in the future. If clocks were set back and a time
/// occurs twice, the first occurrence counts.
pub fn instant(text: &str, now: &Now) -> Result<Range, Error> {
    let text = text.trim();
    let wrong = || Error::Time(cut(text));
    if let Some(ago) = text.strip_suffix("ago") {
        let ago = span(ago).map_err(|_| wrong())?;
        return Ok(second(now.ms.saturating_sub(ago)));
    }
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Ok(second(stamp.as_millisecond()));
    }
    let colons = text.matches(':').count();
    let long = match colons {
        1 => MINUTE_MS,
        2 => SECOND_MS,
        _ => return Err(wrong()),
    };
    let from = |date: Date, time: Time| {
        let zoned = now.zone.to_ambiguous_zoned(date.to_datetime(time)).compatible();
        zoned.map(|zoned| zoned.timestamp().as_millisecond()).map_err(|_| wrong())
    };
    let from_ms = if text.contains('-') {
        let at: DateTime = text.parse().map_err(|_| wrong())?;
        from(at.date(), at.time())?
    } else {
        let time: Time = text.parse().map_err(|_| wrong())?;
        let today = zoned(now.ms, now).ok_or_else(wrong)?.date();
        let at = from(today, time)?;
        if at <= now.ms { at } else { from(today.yesterday().map_err(|_| wrong())?, time)? }
    };
    Ok(Range { from_ms, to_ms: from_ms + long - 1 })
}

/// Returns the first millisecond of the time named by a text. A date alone is the start of the day.
pub fn begin(text: &str, now: &Now) -> Result<i64, Error> {
    let is_day = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let found = if is_day { instant(&format!("{text} 00:00"), now) } else { instant(text, now) };
    found.map(|range| range.from_ms)
}

fn second(ms: i64) -> Range {
    let from_ms = ms.div_euclid(SECOND_MS) * SECOND_MS;
    Range { from_ms, to_ms: from_ms + SECOND_MS - 1 }
}

/// Parses a length of time: `90s`, `5m`, `10 min`, `1h30m`, `2d`, `1w`.
pub fn span(text: &str) -> Result<i64, Error> {
    match parse_ms(text) {
        Ok(ms) => Ok(ms.cast_signed()),
        Err(_) => Err(Error::Span(cut(text))),
    }
}

/// Returns the range of this length that ends now.
pub fn last(text: &str, now: &Now) -> Result<Range, Error> {
    Ok(Range { from_ms: now.ms.saturating_sub(span(text)?), to_ms: now.ms })
}

/// Formats a time. The date is included only if it is not the current date.
pub fn show(ms: i64, now: &Now) -> String {
    let (Some(at), Some(today)) = (zoned(ms, now), zoned(now.ms, now)) else {
        return format!("{ms} ms");
    };
    let form = if at.date() == today.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    at.strftime(form).to_string()
}

/// Formats a time for programs; `None` if the time is outside the calendar.
pub fn rfc3339(ms: i64, now: &Now) -> Option<String> {
    Some(zoned(ms, now)?.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string())
}

/// Returns the offset of a zone from UTC, in minutes.
pub fn offset_min(at_ms: i64, zone: &TimeZone) -> i64 {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    i64::from(zone.to_offset(at).seconds()) / 60
}

/// Returns the shortest default length that divides a time into at most `points` intervals.
pub fn usual_step(length_ms: i64, points: i64) -> i64 {
    let fits = |minutes: &&i64| length_ms / (**minutes * MINUTE_MS) <= points;
    STEPS.iter().find(fits).map_or(7 * DAY_MS, |minutes| minutes * MINUTE_MS)
}

/// Returns the start of the step that contains a time, so that intervals begin at round times.
pub fn aligned(at_ms: i64, step_ms: i64, now: &Now) -> i64 {
    let offset_ms = offset_min(at_ms, &now.zone) * MINUTE_MS;
    let local = at_ms.saturating_add(offset_ms);
    local.saturating_sub(local.rem_euclid(step_ms)).saturating_sub(offset_ms)
}

fn zoned(ms: i64, now: &Now) -> Option<Zoned> {
    Timestamp::from_millisecond(ms).ok().map(|stamp| stamp.to_zoned(now.zone.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz;

    /// Returns 2026-11-21 14:10:00 at UTC+1.
    fn now() -> Now {
        Now { ms: 1_795_266_600_000, zone: tz::offset(1).to_time_zone() }
    }

    fn check(text: &str, from: &str, seconds: i64) {
        let found = instant(text, &now()).unwrap_or_else(|e| panic!("{text}: {e}"));
        let from_ms = rfc3339(found.from_ms, &now()).expect("a time");
        assert_eq!(from_ms, format!("{from}.000+01:00"), "{text}");
        assert_eq!(found.to_ms - found.from_ms + 1, seconds * SECOND_MS, "{text}");
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        check("14:03", "2026-11-21T14:03:00", 60);
        check(" 14:03:20 ", "2026-11-21T14:03:20", 1);
        check("14:10", "2026-11-21T14:10:00", 60);
        check("14:11", "2026-11-20T14:11:00", 60);
        check("2026-11-19 09:30", "2026-11-19T09:30:00", 60);
        check("2026-11-19T09:30:05", "2026-11-19T09:30:05", 1);
        check("2026-11-21T14:03:20+01:00", "2026-11-21T14:03:20", 1);
        check("2026-11-21T13:03:20.5Z", "2026-11-21T14:03:20", 1);
        check("5m ago", "2026-11-21T14:05:00", 1);
        check("1h30m ago", "2026-11-21T12:40:00", 1);
        check("0s ago", "2026-11-21T14:10:00", 1);
    }

    #[test]
    fn a_wrong_time_is_answered_with_the_right_form() {
        for text in [
            "",
            "noon",
            "14",
            "25:00",
            "14:60",
            "ago",
            "5 ago",
            "2026-11-31 10:00",
            "2026-11-21",
            "-1m ago",
            "99999999999999999999s ago",
            "9999w ago",
            "14:03\u{1b}[2J",
            "1:2:3:4",
        ] {
            let error = instant(text, &now()).expect_err(text).to_string();
            assert!(error.contains(": use 14:03,"), "{error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
        for text in ["", "h", "5", "5x", "é", "5é"] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_hour_that_does_not_come_or_comes_twice_is_some_time() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let now = Now { zone, ..now() };
        let first = instant("2026-10-25 02:30", &now).expect("a time");
        assert_eq!(rfc3339(first.from_ms, &now).expect("a time"), "2026-10-25T02:30:00.000+02:00");
        assert!(instant("2026-03-29 02:30", &now).is_ok());
    }

    #[test]
    fn times_are_shown_with_their_date_if_it_is_another() {
        let now = now();
        assert_eq!(show(now.ms, &now), "14:10:00");
        assert_eq!(show(now.ms - DAY_MS, &now), "2026-11-20 14:10:00");
        assert_eq!(show(i64::MAX, &now), format!("{} ms", i64::MAX));
    }
}
