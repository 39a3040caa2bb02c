//! What stands above a report: the hosts, what is not known of the time, and what the
//! monitor itself costs.

use crate::gather::{HostData, end_of};
use crate::number::shown;
use crate::plain::plain;
use crate::sums::Timeline;
use crate::time::{Zone, clock_text, date_text, span_text};
use model::{Gap, HostField};

/// More gaps are counted and not listed.
const GAPS_SHOWN: usize = 3;
/// Facts of a host that are shown at most.
const FACTS_MAX: usize = 40;
/// What of an interval may be missing before it is called a gap: readings are not taken to the
/// millisecond.
const SLACK_MS: u64 = 1_500;

/// What is shown of a host above its report.
#[derive(Debug)]
pub struct HostHeader {
    /// Its name, safe for a terminal.
    pub name: String,
    /// What else is known of it.
    pub facts: Vec<(String, String)>,
    /// How much of the time is not known.
    pub missing_ms: u64,
    /// When that was, the longest first.
    pub gaps: Vec<Gap>,
    /// CPU time of the manager and monitor, a minute.
    pub own_ms_per_min: Option<f64>,
    /// Their memory.
    pub own_mib: Option<f64>,
    /// Readings that the monitor put off because the host was short.
    pub shed_readings: Option<u64>,
    /// Moments that it did not look at because it was late.
    pub missed_moments: Option<u64>,
}

pub(crate) fn headers(hosts: &[HostData], timelines: &[Timeline<'_>]) -> Vec<HostHeader> {
    hosts.iter().zip(timelines).map(|(host, timeline)| header(host, timeline)).collect()
}

fn header(host: &HostData, timeline: &Timeline<'_>) -> HostHeader {
    let facts = timeline.total.facts();
    let own_ns = facts.h(HostField::OwnRun);
    let (missing_ms, gaps) = gaps(host);
    let fact = |(what, how): &(String, String)| (plain(what), plain(how));
    HostHeader {
        name: plain(&host.name),
        facts: host.facts.iter().take(FACTS_MAX).map(fact).collect(),
        missing_ms,
        gaps,
        own_ms_per_min: own_ns.and_then(|ns| facts.h_per_min(ns / 1e6)),
        shed_readings: timeline.total.host.get(HostField::ShedReadings),
        missed_moments: timeline.total.host.get(HostField::MissedMoments),
        own_mib: facts.h(HostField::OwnResident).map(|bytes| bytes / crate::facts::MIB),
    }
}

/// How much is not known, and when: gaps that were recorded, and those that can be seen.
fn gaps(host: &HostData) -> (u64, Vec<Gap>) {
    let mut missing_ms = 0;
    let mut seen = Vec::new();
    let mut before: Option<i64> = None;
    for interval in &host.intervals {
        let from_ms = interval.from_ms;
        if let Some(before) = before.filter(|before| *before < from_ms) {
            seen.push(Gap { from_ms: before, to_ms: from_ms, reason: String::new() });
            missing_ms += u64::try_from(from_ms - before).unwrap_or(0);
        }
        let lost = interval.length_ms.saturating_sub(interval.host.covered_ms);
        if lost > SLACK_MS {
            missing_ms += lost;
            let reason = match interval.host.covered_ms {
                0 => String::new(),
                _ => format!("{} of it", span_text(lost)),
            };
            seen.push(Gap { from_ms, to_ms: end_of(interval), reason });
        }
        before = Some(end_of(interval));
    }
    // What was recorded of a gap says more than what can be seen of it.
    let overlaps = |a: &Gap, b: &Gap| a.from_ms < b.to_ms && b.from_ms < a.to_ms;
    seen.retain(|gap| !host.gaps.iter().any(|known| overlaps(known, gap)));
    let plainly = |gap: &Gap| Gap { reason: plain(&gap.reason), ..gap.clone() };
    seen.extend(host.gaps.iter().map(plainly));
    seen.sort_by_key(|gap| (gap.from_ms.saturating_sub(gap.to_ms), gap.from_ms));
    (missing_ms, seen)
}

/// The gaps in words; `None` if there are none.
pub(crate) fn gaps_text(header: &HostHeader, zone: &dyn Zone) -> Option<String> {
    if header.gaps.is_empty() && header.missing_ms == 0 {
        return None;
    }
    let one = |gap: &Gap| {
        let times = if gap.to_ms.saturating_sub(gap.from_ms) >= 86_400_000 {
            let (from, to) = (date_text(gap.from_ms, zone), date_text(gap.to_ms, zone));
            format!("{from} to {to}")
        } else {
            format!("{}-{}", clock_text(gap.from_ms, zone), clock_text(gap.to_ms, zone))
        };
        if gap.reason.is_empty() { times } else { format!("{times} ({})", gap.reason) }
    };
    let mut shown: Vec<String> = header.gaps.iter().take(GAPS_SHOWN).map(one).collect();
    if header.gaps.len() > GAPS_SHOWN {
        shown.push(format!("{} more", header.gaps.len() - GAPS_SHOWN));
    }
    Some(format!("{} are not known: {}", span_text(header.missing_ms), shown.join(", ")))
}

/// What the monitor costs, in words.
pub(crate) fn cost_text(header: &HostHeader) -> String {
    let Some(ms) = header.own_ms_per_min else { return "not recorded".into() };
    // A minute has 60,000 ms: a percent of a CPU is 600 of them.
    let share = shown(Some(ms / 600.0), 2);
    let mut text = format!("{} ms of CPU a minute ({share} % of a CPU)", shown(Some(ms), 0));
    if let Some(mib) = header.own_mib {
        text.push_str(&format!(", {} MiB", shown(Some(mib), 0)));
    }
    if let Some(shed) = header.shed_readings.filter(|shed| *shed > 0) {
        text.push_str(&format!(", {shed} readings put off while the host was short"));
    }
    if let Some(missed) = header.missed_moments.filter(|missed| *missed > 0) {
        text.push_str(&format!(", {missed} moments missed"));
    }
    text
}
