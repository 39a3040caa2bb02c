//! Recorded data of this host from its disk.

use crate::{Error, Wanted, dir};
use model::{Interval, Parts};
use reports::HostData;
use std::ops::ControlFlow;
use std::path::Path;
use store::{Pick, Records, Span};

/// Returns a value of /proc/sys/kernel.
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

/// Reads the recordings of a directory; by default those of this host's manager.
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
    // Two threads share the work. Reading processes takes as long as reading all the rest; without
    // processes, each thread reads one half of the time.
    let read = |span: Span| -> Result<Vec<Interval>, store::Error> {
        let mut intervals = Vec::new();
        records.visit_fields(span, &pick, |interval| {
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
    Ok(vec![host])
}

/// Returns both halves of a time range. Each begins on a whole step.
fn halves(span: Span) -> (Span, Span) {
    let steps = span.to_ms.saturating_sub(span.from_ms).max(0) / span.step_ms.max(1);
    let middle_ms = span.from_ms.saturating_add(steps / 2 * span.step_ms);
    (Span { to_ms: middle_ms, ..span }, Span { from_ms: middle_ms, ..span })
}
