//! Head of a report: the hosts, gaps in the recordings, and the monitor's own cost.

use crate::facts::per_min;
use crate::gather::{HostData, end_of};
use crate::number::shown;
use crate::plain::plain;
use crate::sums::Timeline;
use crate::time::{SLACK_MS, Zone, clock_text, date_text, span_text};
use model::{Gap, HostField};

/// Maximum number of gaps listed; the others are only counted.
const GAPS_SHOWN: usize = 3;
const FACTS_MAX: usize = 40;

/// Facts about a host shown above its report.
#[derive(Debug)]
pub struct HostHeader {
    /// Name of the host, safe for a terminal.
    pub name: String,
    /// Further facts of the host.
    pub facts: Vec<(String, String)>,
    /// Total unrecorded time.
    pub missing_ms: u64,
    /// Gaps, longest first.
    pub gaps: Vec<Gap>,
    /// CPU time of the manager and monitor, per minute.
    pub own_ms_per_min: Option<f64>,
    /// Memory of the manager and monitor.
    pub own_mib: Option<f64>,
    /// Readings that the monitor postponed because the host was short of CPU or memory.
    pub shed_readings: Option<u64>,
    /// Sampling times that the monitor missed because it was late.
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
        own_ms_per_min: own_ns.and_then(|ns| per_min(ns / 1e6, facts.host.covered_ms)),
        shed_readings: timeline.total.host.get(HostField::ShedReadings),
        missed_moments: timeline.total.host.get(HostField::MissedMoments),
        own_mib: facts.h(HostField::OwnResident).map(|bytes| bytes / crate::facts::MIB),
    }
}

/// Returns the length of the unrecorded time, and its gaps. Gaps are recorded, or detected between
/// intervals.
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
                _ => format!("{} missing", span_text(lost)),
            };
            seen.push(Gap { from_ms, to_ms: end_of(interval), reason });
        }
        before = Some(end_of(interval));
    }
    // A recorded gap has a reason, so it replaces a detected gap.
    let overlaps = |a: &Gap, b: &Gap| a.from_ms < b.to_ms && b.from_ms < a.to_ms;
    seen.retain(|gap| !host.gaps.iter().any(|known| overlaps(known, gap)));
    let plainly = |gap: &Gap| Gap { reason: plain(&gap.reason), ..gap.clone() };
    seen.extend(host.gaps.iter().map(plainly));
    // Times are shown to the second, so a shorter gap would have no length.
    seen.retain(|gap| gap.to_ms.saturating_sub(gap.from_ms) >= 1_000);
    seen.sort_by_key(|gap| (gap.from_ms.saturating_sub(gap.to_ms), gap.from_ms));
    (missing_ms, seen)
}

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
    Some(format!("{} not recorded: {}", span_text(header.missing_ms), shown.join(", ")))
}

pub(crate) fn cost_text(header: &HostHeader) -> String {
    let Some(ms) = header.own_ms_per_min else { return "not recorded".into() };
    // 600 ms per minute are 1 % of a CPU.
    let share = shown(Some(ms / 600.0), 2);
    let mut text = format!("{} ms of CPU a minute ({share} % of a CPU)", shown(Some(ms), 0));
    if let Some(mib) = header.own_mib {
        text.push_str(&format!(", {} MiB", shown(Some(mib), 0)));
    }
    if let Some(shed) = header.shed_readings.filter(|shed| *shed > 0) {
        text.push_str(&format!(", {shed} readings postponed while the host was short of memory"));
    }
    if let Some(missed) = header.missed_moments.filter(|missed| *missed > 0) {
        text.push_str(&format!(", {missed} samples missed"));
    }
    text
}
