//! Recorded data of this host from its disk.

use crate::HostData;
use crate::gather::end_of;
use crate::recorded::{Error, Wanted, dir};
use base::duration::MINUTE_MS;
use model::{Interval, Parts};
use std::ops::ControlFlow;
use std::path::Path;
use store::{Pick, Records, Span};

const QUARTER_MS: i64 = 15 * MINUTE_MS;

fn kernel(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Returns facts about this host besides its counters.
fn facts() -> Vec<(String, String)> {
    let known = [("kernel", kernel("osrelease")), ("processor", processor())];
    known.into_iter().filter_map(|(what, how)| Some((what.to_owned(), how?))).collect()
}

/// Returns the model of this host's processor.
pub fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Reads the recordings of a directory, by default the recordings of this host's manager.
pub fn local(
    named: Option<&Path>,
    name: Option<&str>,
    wanted: &Wanted,
) -> Result<Vec<HostData>, Error> {
    let records = Records::open(&dir(named)?)?;
    let own = || kernel("hostname").unwrap_or_else(|| "localhost".into());
    let name = name.map_or_else(own, str::to_owned);
    let mut host = HostData { name, ..HostData::default() };
    // Recordings in another directory may be of another host.
    if named.is_none() {
        host.facts = facts();
    }
    let Wanted { from_ms, to_ms, step_ms, .. } = *wanted;
    let span = Span { from_ms, to_ms, step_ms };
    let pick =
        Pick { guests: Some(wanted.needs.guests.clone()), processes: None, ..Parts::ALL.into() };
    // Two threads share the work. One thread reads the processes, which takes as long as reading
    // all other data. Without processes, each thread reads one half of the time.
    let read = |span: Span| -> Result<Vec<Interval>, store::Error> {
        let mut intervals = Vec::new();
        records.visit(span, pick.clone(), |interval| {
            intervals.push(interval);
            ControlFlow::Continue(())
        })?;
        Ok(intervals)
    };
    let fields = &wanted.needs.processes;
    let (intervals, processes) = std::thread::scope(|scope| {
        let other = scope.spawn(|| match fields.is_empty() {
            true => Ok((read(halves(span).1)?, None)),
            false => Ok((Vec::new(), Some(records.processes(span, fields)?))),
        });
        let own = read(if fields.is_empty() { halves(span).0 } else { span });
        let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (mut intervals, (later, processes)) = (own?, other?);
        intervals.extend(later);
        Ok::<_, store::Error>((intervals, processes))
    })?;
    host.intervals = intervals;
    if let (Some(processes), Some(first)) = (processes, host.intervals.first_mut()) {
        first.processes = processes;
    }
    host.gaps = wanted.within(records.gaps(from_ms, to_ms)?);
    host.recorded = sampled(&records, &host)?;
    host.only_sampled(host.recorded);
    Ok(vec![host])
}

/// Returns the times of the first and the last sample of all recordings.
fn sampled(records: &Records, host: &HostData) -> Result<Option<(i64, i64)>, store::Error> {
    let Some((first_ms, end_ms)) = records.extent()? else {
        // Without an extent, the first minute is still running.
        let end_ms = host.intervals.last().map(end_of);
        let covered_ms: u64 = host.intervals.iter().map(|one| one.host.covered_ms).sum();
        return Ok(end_ms.map(|end_ms| (end_ms.saturating_sub_unsigned(covered_ms), end_ms)));
    };
    let covered = |from_ms: i64, to_ms: i64, step_ms: i64| -> Result<Vec<Interval>, store::Error> {
        let parts = Parts { guests: false, tiers: false, processes: false };
        let mut found = Vec::new();
        records.visit(Span { from_ms, to_ms, step_ms }, parts, |interval| {
            found.push(interval);
            ControlFlow::Continue(())
        })?;
        found.retain(|interval| interval.host.covered_ms > 0);
        Ok(found)
    };
    // A known gap belongs to the recording, even at the recording's start or end.
    let lost_ms = |minute: &Interval| {
        let (from_ms, to_ms) = (minute.from_ms, end_of(minute));
        let inside = host.gaps.iter().filter(|gap| gap.from_ms < to_ms && gap.to_ms > from_ms);
        let known = inside.map(|gap| gap.to_ms.min(to_ms).abs_diff(gap.from_ms.max(from_ms)));
        minute.length_ms.saturating_sub(minute.host.covered_ms + known.sum::<u64>())
    };
    // Older recordings have only quarters of an hour.
    let minutes = covered(first_ms, first_ms.saturating_add(QUARTER_MS), MINUTE_MS)?;
    let first = minutes.first().map(|one| one.from_ms.saturating_add_unsigned(lost_ms(one)));
    // The current minute follows the finished minutes.
    let to_ms = host.intervals.last().map_or(end_ms, end_of).max(end_ms.saturating_add(MINUTE_MS));
    let last = match covered(end_ms, to_ms, to_ms.saturating_sub(end_ms))?.last() {
        Some(running) => Some(end_of(running)),
        None => {
            let minutes = covered(end_ms.saturating_sub(QUARTER_MS), end_ms, MINUTE_MS)?;
            minutes.last().map(|one| end_of(one).saturating_sub_unsigned(lost_ms(one)))
        }
    };
    Ok(Some((first.unwrap_or(first_ms), last.unwrap_or(end_ms))))
}

/// Returns both halves of a time range. Each half begins on a whole step.
fn halves(span: Span) -> (Span, Span) {
    let steps = span.to_ms.saturating_sub(span.from_ms).max(0) / span.step_ms.max(1);
    let middle_ms = span.from_ms.saturating_add(steps / 2 * span.step_ms);
    (Span { to_ms: middle_ms, ..span }, Span { from_ms: middle_ms, ..span })
}
