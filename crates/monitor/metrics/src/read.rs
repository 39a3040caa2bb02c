//! Past of a fleet, from any Prometheus-compatible server.
//!
//! ```text
//!   metric[5m] at a time, for 5 minutes after 5 ─► rebuild: Moments ─► Folder ─► Intervals
//! ```
//!
//! The queries fetch raw samples instead of rates. The same code sums these samples and a host's
//! own recordings. A report is therefore the same to its last digit from both sources.

use crate::rebuild::Wrong;
use crate::select::quoted;
use crate::{Error, Url, ask, rebuild};
use base::duration::MINUTE_MS;
use model::{Folder, Gap, GuestIdentity, Interval, Moment, Parts};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Request for the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Start in milliseconds since 1970. A minute belongs to the step in which it begins.
    pub from_ms: i64,
    /// End, in milliseconds since 1970.
    pub to_ms: i64,
    /// Length of an interval, at least a minute.
    pub step_ms: i64,
    /// Name of the host, or `None` for all.
    pub host: Option<String>,
    /// Requested parts. Other parts need not be fetched.
    pub parts: Parts,
}

/// Initial time span of a query, in which 100 guests push about 20 MB.
const WINDOW_MS: i64 = 300_000;
/// Minimum time span of a query. If a response is too large, the span is halved.
const WINDOW_MIN_MS: i64 = 5_000;
/// Length of the period before the span that is read as well. Values that are reported rarely are
/// therefore known at the start of the span.
const LEAD_MS: i64 = 150_000;
/// Time after which a minute no longer changes.
const TAIL_MS: i64 = 75_000;
/// Maximum number of intervals of a host: a month of minutes.
const STEPS_MAX: i64 = 50_000;
/// Memory for the intervals of all hosts, in MiB. A day of a thousand guests in intervals of five
/// minutes needs four fifths of this memory.
const ROOM_MIB: usize = 256;
/// Size of a host in bytes, without its name and its intervals.
const HOST_BYTES: usize = 4_096;
/// Size of an interval in bytes, in a growing list.
const INTERVAL_BYTES: usize = 2 * size_of::<Interval>();
/// Size of a guest in an interval in bytes, without its names.
const GUEST_BYTES: usize = 768;
/// Size of a process or a tier in an interval in bytes.
const THING_BYTES: usize = 384;

/// Past of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Name of the host in its metrics.
    pub host: String,
    /// Intervals in order, from the first to the last data. Steps without data between them have a
    /// covered time of 0.
    pub intervals: Vec<Interval>,
    /// Times between samples that are too far apart. A gap may extend beyond the span.
    pub gaps: Vec<Gap>,
    /// Time of the first sample, which may be shortly before the span.
    pub first_ms: Option<i64>,
}

/// Returns the past of every host with data in the span, from the server at `url`.
pub fn pasts(url: &Url, ask: &Ask) -> Result<Vec<Past>, Error> {
    check(ask)?;
    let mut hosts: BTreeMap<String, Steps<'_>> = BTreeMap::new();
    let mut room = ROOM_MIB << 20;
    moments(url, ask, &mut |host, moments| {
        if !hosts.contains_key(host) {
            room = room.checked_sub(HOST_BYTES + 2 * host.len())?;
        }
        let steps = hosts.entry(host.to_owned()).or_insert_with(|| Steps::new(ask));
        steps.feed(moments, &mut room)
    })?;
    let pasts: Option<Vec<Past>> =
        hosts.into_iter().map(|(host, steps)| steps.finish(host, &mut room)).collect();
    let mut pasts = pasts.ok_or_else(|| too_much(url))?;
    pasts.retain(|past| !past.intervals.is_empty());
    Ok(pasts)
}

fn check(ask: &Ask) -> Result<(), Error> {
    let reason = match ask {
        Ask { from_ms, to_ms, .. } if from_ms >= to_ms => "the end is before the start",
        Ask { from_ms, .. } if *from_ms < LEAD_MS => "it begins in 1970: begin it later",
        Ask { step_ms, .. } if *step_ms < MINUTE_MS => "an interval must be at least a minute",
        Ask { from_ms, to_ms, step_ms, .. } if (to_ms - from_ms) / step_ms > STEPS_MAX => {
            "it has too many intervals: choose longer intervals"
        }
        _ => return Ok(()),
    };
    Err(Error::Span { reason })
}

/// Visits the moments of all hosts in order, several moments of a host at a time. Moments shortly
/// before and after the span are included, because the first and last intervals need them. A
/// visitor returns `None` if it has no room left.
pub fn moments(
    url: &Url,
    ask: &Ask,
    visit: &mut dyn FnMut(&str, &[Moment]) -> Option<()>,
) -> Result<(), Error> {
    let (mut at_ms, end_ms) = (ask.from_ms - LEAD_MS, ask.to_ms.saturating_add(TAIL_MS));
    let mut window_ms = WINDOW_MS;
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    while at_ms < end_ms {
        let until_ms = at_ms.saturating_add(window_ms).min(end_ms);
        let found = match query(url, at_ms, until_ms, ask) {
            Err(error) if is_too_much(&error) && window_ms > WINDOW_MIN_MS => {
                window_ms = (window_ms / 2).max(WINDOW_MIN_MS);
                continue;
            }
            found => found?,
        };
        for (host, moments) in found {
            let last_ms = last.entry(host.clone()).or_insert(i64::MIN);
            // A window may repeat the last sample of the previous window, from another scrape.
            let mut moments: Vec<Moment> = moments.into_values().collect();
            moments.retain(|moment| moment.at_ms > *last_ms);
            *last_ms = moments.last().map_or(*last_ms, |moment| moment.at_ms);
            visit(&host, &moments).ok_or_else(|| too_much(url))?;
        }
        at_ms = until_ms;
    }
    Ok(())
}

fn too_much(url: &Url) -> Error {
    Error::TooMuch { url: url.to_string(), mib: ROOM_MIB }
}

fn is_too_much(error: &Error) -> bool {
    matches!(error, Error::Status { status: 422, .. } | Error::TooMuch { .. })
        || matches!(error, Error::Response { reason, .. } if reason.starts_with("it has more"))
}

/// Fetches the raw samples of a span, with its start excluded and its end included.
fn query(url: &Url, from_ms: i64, to_ms: i64, ask: &Ask) -> Result<rebuild::Moments, Error> {
    let Parts { guests, tiers, processes } = ask.parts;
    let wanted = [(true, "host"), (guests, "guest"), (tiers, "tier"), (processes, "process(es)?")];
    let names: Vec<_> =
        wanted.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| *name).collect();
    let mut selector = format!("{{__name__=~\"pinhead_({})(_.+)?\"", names.join("|"));
    if let Some(host) = &ask.host {
        let _ = write!(selector, ",host={}", quoted(host));
    }
    let _ = write!(selector, "}}[{}ms]", to_ms - from_ms);
    let body = ask::samples(url, &selector, to_ms)?;
    rebuild::moments(&body).map_err(|wrong| match wrong {
        Wrong::NoAnswer(reason) => Error::Answer { url: format!("{url}{}", ask::QUERY), reason },
        Wrong::TooMuch => Error::TooMuch { url: url.to_string(), mib: rebuild::ROOM_MIB },
    })
}

/// Moments of one host, summed to minutes and then to steps.
struct Steps<'a> {
    ask: &'a Ask,
    folder: Folder,
    done: Vec<Interval>,
    gaps: Vec<Gap>,
    first_ms: Option<i64>,
}

impl<'a> Steps<'a> {
    fn new(ask: &'a Ask) -> Steps<'a> {
        let (done, gaps) = (Vec::new(), Vec::new());
        Steps { ask, folder: Folder::default(), done, gaps, first_ms: None }
    }

    /// Adds moments, or returns `None` if there is no room for the result.
    fn feed(&mut self, moments: &[Moment], room: &mut usize) -> Option<()> {
        if self.folder.last_ms().is_none() {
            self.folder = Folder::spaced(spacing_ms(moments));
            self.first_ms = moments.first().map(|moment| moment.at_ms);
        }
        for moment in moments {
            let fed = self.folder.feed(moment);
            if let Some(minute) = fed.finished {
                self.add(&minute, room)?;
            }
            if let Some((from_ms, to_ms)) = fed.gap
                && from_ms < self.ask.to_ms
                && to_ms > self.ask.from_ms
            {
                *room = room.checked_sub(THING_BYTES)?;
                self.gaps.push(Gap { from_ms, to_ms, reason: "late".to_owned() });
            }
        }
        Some(())
    }

    fn add(&mut self, minute: &Interval, room: &mut usize) -> Option<()> {
        let Ask { from_ms, to_ms, step_ms, .. } = *self.ask;
        if !(from_ms..to_ms).contains(&minute.from_ms) {
            return Some(());
        }
        let begin_ms = minute.from_ms - (minute.from_ms - from_ms) % step_ms;
        match self.done.last_mut() {
            Some(last) if last.from_ms == begin_ms => {
                let before = bytes(last);
                add(last, minute);
                *room = room.checked_sub(bytes(last).saturating_sub(before))?;
            }
            last => {
                let known_ms = last.map_or(begin_ms, |last| last.from_ms + step_ms);
                let step = usize::try_from(step_ms).unwrap_or(usize::MAX);
                *room = room.checked_sub(bytes(minute))?;
                for from_ms in (known_ms..begin_ms).step_by(step) {
                    *room = room.checked_sub(INTERVAL_BYTES)?;
                    let length_ms = step_ms.unsigned_abs();
                    self.done.push(Interval { from_ms, length_ms, ..Interval::default() });
                }
                let length_ms = step_ms.min(to_ms - begin_ms).unsigned_abs();
                let mut first = Interval { from_ms: begin_ms, length_ms, ..Interval::default() };
                add(&mut first, minute);
                self.done.push(first);
            }
        }
        Some(())
    }

    fn finish(mut self, host: String, room: &mut usize) -> Option<Past> {
        if let Some(running) = self.folder.running().cloned() {
            self.add(&running, room)?;
        }
        Some(Past { host, intervals: self.done, gaps: self.gaps, first_ms: self.first_ms })
    }
}

fn bytes(interval: &Interval) -> usize {
    let Interval { guests, tiers, processes, .. } = interval;
    let names = |who: &GuestIdentity| {
        GUEST_BYTES + who.name.len() + who.class.len() + who.uuid.len() + who.boot.len()
    };
    let of_processes = processes.iter().map(|(who, all)| {
        let each = all.keys().map(|process| THING_BYTES + process.name.len());
        names(who) + each.sum::<usize>()
    });
    let of_tiers = tiers.keys().map(|name| THING_BYTES + name.len());
    let of_guests = guests.keys().map(names);
    INTERVAL_BYTES + of_guests.chain(of_tiers).chain(of_processes).sum::<usize>()
}

/// Returns the typical distance between moments.
fn spacing_ms(moments: &[Moment]) -> i64 {
    let pairs = moments.windows(2);
    let mut spans: Vec<i64> = pairs.map(|pair| pair[1].at_ms - pair[0].at_ms).collect();
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied().unwrap_or(0)
}

/// Adds a minute to the sum. The sum's span already contains the minute, and does not change.
fn add(sum: &mut Interval, minute: &Interval) {
    let length_ms = sum.length_ms;
    sum.add(minute);
    sum.length_ms = length_ms;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_whole_minutes() {
        let ask = Ask {
            from_ms: 600_000,
            to_ms: 660_000,
            step_ms: 60_000,
            host: None,
            parts: Parts::ALL,
        };
        assert!(check(&ask).is_ok());
        for bad in [
            Ask { from_ms: 0, ..ask.clone() },
            Ask { to_ms: 600_000, ..ask.clone() },
            Ask { step_ms: 0, ..ask.clone() },
            Ask { step_ms: 59_999, ..ask.clone() },
            Ask { to_ms: i64::MAX, ..ask.clone() },
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn finding2_05_intervals_without_an_end_are_too_much() {
        let ask = Ask {
            from_ms: 600_000,
            to_ms: 600_000 + STEPS_MAX * MINUTE_MS,
            step_ms: MINUTE_MS,
            host: None,
            parts: Parts::ALL,
        };
        let mut moments = Vec::new();
        for begin_ms in [ask.from_ms, ask.to_ms - MINUTE_MS] {
            moments.extend(
                (1..60)
                    .map(|second| Moment { at_ms: begin_ms + second * 1_000, ..Moment::default() }),
            );
        }
        let whole = STEPS_MAX as usize * INTERVAL_BYTES;
        for (mut room, fits) in [(whole + MINUTE_MS as usize, true), (whole / 2, false)] {
            let mut steps = Steps::new(&ask);
            let fed = steps.feed(&moments, &mut room);
            let past = fed.and_then(|()| steps.finish("a".into(), &mut room));
            assert_eq!(past.map(|past| past.intervals.len() as i64), fits.then_some(STEPS_MAX));
        }
    }
}
