//! Time range of a page. The range is either a past that ends now and is updated live, or a fixed
//! range.

use crate::fault::Fault;
use base::duration::{DAY_MS, MINUTE_MS};
use serde::Deserialize;
use why::when::{self, Now};

/// Time range if the address contains none.
const USUAL: &str = "1h";
/// Maximum time range of a page.
const LONGEST_MS: i64 = 366 * DAY_MS;
/// Time range in an address.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct TimeQuery {
    /// Length of the past on a live page.
    #[serde(default)]
    pub(crate) last: Option<String>,
    #[serde(default)]
    pub(crate) from: Option<String>,
    #[serde(default)]
    pub(crate) to: Option<String>,
    /// Name of the only host to show, if several are recorded.
    #[serde(default)]
    pub(crate) host: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Start, in milliseconds since 1970.
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
    /// Length of an interval.
    pub(crate) step_ms: i64,
    /// Length of the past on a live page; `None` for a fixed range.
    pub(crate) live: Option<String>,
    /// Host of the page, if several are recorded.
    pub(crate) host: Option<String>,
}

fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

impl Span {
    /// Returns the requested range, divided into at most `points` intervals.
    pub(crate) fn of(query: &TimeQuery, points: i64, now: &Now) -> Result<Span, Fault> {
        let wrong = |error: why::Error| Fault::wrong(error.to_string());
        let (from, to) = (given(&query.from), given(&query.to));
        let (from_ms, to_ms, live) = match (from, to) {
            (None, None) => {
                let last = given(&query.last).unwrap_or(USUAL);
                let range = when::last(last, now).map_err(wrong)?;
                (range.from_ms, range.to_ms, Some(last.to_owned()))
            }
            (from, to) => {
                let at = |text: &str| when::begin(text, now).map_err(wrong);
                let to_ms = to.map(at).transpose()?.unwrap_or(now.ms).min(now.ms);
                let usual = 60 * MINUTE_MS;
                let from_ms = from.map(at).transpose()?.unwrap_or(to_ms.saturating_sub(usual));
                (from_ms.max(0), to_ms, None)
            }
        };
        let length_ms = to_ms.saturating_sub(from_ms);
        if length_ms <= 0 {
            return Err(Fault::wrong("The time ends before it begins"));
        }
        if length_ms > LONGEST_MS {
            return Err(Fault::wrong("A page shows at most a year: choose a shorter time"));
        }
        let step_ms = when::usual_step(length_ms, points);
        let aligned_ms = when::aligned(from_ms, step_ms, now).max(0);
        // The page's links contain the rounded range, so the rounded range must not exceed the
        // maximum range.
        let is_longer = to_ms.saturating_sub(aligned_ms) > LONGEST_MS;
        Ok(Span {
            from_ms: if is_longer { aligned_ms.saturating_add(step_ms) } else { aligned_ms },
            to_ms,
            step_ms,
            live,
            host: given(&query.host).map(str::to_owned),
        })
    }

    /// Returns the range, encoded for an address.
    pub(crate) fn query(&self) -> String {
        match &self.live {
            Some(last) => format!("last={}{}", segment(last), self.keep()),
            None => self.between(self.from_ms, self.to_ms),
        }
    }

    /// Returns another fixed range of the same host, encoded for an address.
    pub(crate) fn between(&self, from_ms: i64, to_ms: i64) -> String {
        format!("from={}&to={}{}", moment(from_ms), moment(to_ms), self.keep())
    }

    /// Returns the part of an address that selects this page's host.
    pub(crate) fn keep(&self) -> String {
        self.host.as_ref().map_or_else(String::new, |host| format!("&host={}", segment(host)))
    }

    /// Returns the same range for another host.
    pub(crate) fn of_host(&self, host: &str) -> Span {
        Span { host: Some(host.to_owned()), ..self.clone() }
    }

    /// Returns the range and the host as hidden values of a form.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = match &self.live {
            Some(last) => vec![("last", last.clone())],
            None => vec![("from", moment(self.from_ms)), ("to", moment(self.to_ms))],
        };
        pairs.extend(self.host.clone().map(|host| ("host", host)));
        pairs
    }
}

/// Formats a time for an address.
pub(crate) fn moment(ms: i64) -> String {
    reports::rfc3339(ms, &reports::Utc)
}

/// Encodes a text as one segment of an address, or as one value in a query.
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz;

    /// Returns 2026-11-21 14:10:20 local time, in a zone one hour east of UTC.
    fn now() -> Now {
        Now { ms: 1_795_266_620_000, zone: tz::offset(1).to_time_zone() }
    }

    fn asked(last: &str, from: &str, to: &str) -> Result<Span, Fault> {
        let text = |text: &str| Some(text.to_owned());
        let query = TimeQuery { last: text(last), from: text(from), to: text(to), host: None };
        Span::of(&query, 120, &now())
    }

    #[test]
    fn a_page_is_live_or_has_a_fixed_range() {
        let usual = Span::of(&TimeQuery::default(), 120, &now()).unwrap();
        assert_eq!((usual.live.as_deref(), usual.step_ms), (Some("1h"), MINUTE_MS));
        assert_eq!(usual.query(), "last=1h");
        assert_eq!(moment(usual.from_ms), "2026-11-21T12:10:00Z");
        let day = asked("1d", "", "").unwrap();
        assert_eq!(
            (day.step_ms / MINUTE_MS, moment(day.from_ms)),
            (15, "2026-11-20T13:00:00Z".into())
        );
        let past = asked("", "2026-11-21T10:00:00Z", "2026-11-21T10:30:00Z").unwrap();
        assert_eq!(past.query(), "from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z");
        assert_eq!(past.live, None);
    }

    #[test]
    fn links_of_a_page_keep_its_host() {
        let query = TimeQuery { host: Some("a&b".into()), ..TimeQuery::default() };
        let span = Span::of(&query, 120, &now()).unwrap();
        assert_eq!(span.query(), "last=1h&host=a%26b");
        assert!(span.between(0, 60_000).ends_with("&to=1970-01-01T00:01:00Z&host=a%26b"));
        assert_eq!(span.of_host("c").keep(), "&host=c");
        assert_eq!(span.pairs(), [("last", "1h".into()), ("host", "a&b".into())]);
    }

    #[test]
    fn wrong_range_is_refused_with_the_right_form() {
        let said = |last, from, to| asked(last, from, to).unwrap_err().message;
        assert!(said("", "2016-11-21 10:00", "2026-11-21 10:00").contains("at most a year"));
        assert!(said("", "2026-11-21 12:00", "2026-11-21 10:00").contains("ends before it begins"));
        assert!(said("", "noon", "").contains(": use 14:03,"));
        assert!(said("long", "", "").contains(": use 90s,"));
        assert!(said("520w", "", "").contains("at most a year"));
    }

    #[test]
    fn a_page_of_a_year_and_its_links_are_valid() {
        let year = asked("", "2025-11-20T10:00:00Z", "2026-11-21T10:00:00Z").unwrap();
        assert!(year.to_ms - year.from_ms <= LONGEST_MS, "{year:?}");
        let link = year.query();
        let (from, to) = link.strip_prefix("from=").unwrap().split_once("&to=").unwrap();
        assert_eq!(asked("", from, to).unwrap().to_ms, year.to_ms);
    }

    #[test]
    fn a_name_in_an_address_is_one_segment() {
        assert_eq!(segment("web1"), "web1");
        assert_eq!(segment("a/b?<é>"), "a%2Fb%3F%3C%C3%A9%3E");
    }
}
