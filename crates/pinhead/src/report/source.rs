//! Where a report's data come from.

use crate::Error;
use crate::why::default_recordings;
use model::{Gap, Interval, Parts};
use reports::{HostData, Needs};
use std::ops::ControlFlow;
use std::path::Path;
use store::{Pick, Records, Span};

/// What is asked of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// From when, in milliseconds since 1970.
    pub from_ms: i64,
    /// Until when.
    pub to_ms: i64,
    /// How long an interval is.
    pub step_ms: i64,
    /// What of everything is needed.
    pub needs: Needs,
}

/// What hosts have recorded.
pub type Recorded = Vec<HostData>;

/// A line of /proc/sys/kernel.
fn kernel(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// What is known of this host besides its counters.
fn facts() -> Vec<(String, String)> {
    let known = [("kernel", kernel("osrelease")), ("processor", processor())];
    known.into_iter().filter_map(|(what, how)| Some((what.to_owned(), how?))).collect()
}

/// The model of this host's processor.
pub(crate) fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// What is recorded in a directory, or where this host's manager does so by itself.
pub fn recordings(
    dir: Option<&Path>,
    name: Option<String>,
    wanted: &Wanted,
) -> Result<Recorded, Error> {
    let path = dir.map_or_else(default_recordings, Path::to_path_buf);
    if dir.is_none() && !path.exists() {
        return Err(Error::Message(format!(
            "There are no recordings in {}: `pinhead host` makes them; if yours are \
                 elsewhere, name them with --dir",
            path.display()
        )));
    }
    let records = Records::open(&path)?;
    let own = || kernel("hostname").unwrap_or_else(|| "localhost".into());
    let mut host = HostData { name: name.unwrap_or_else(own), ..HostData::default() };
    // Of another directory nothing is known but what is in it.
    if dir.is_none() {
        host.facts = facts();
    }
    let Wanted { from_ms, to_ms, step_ms, .. } = *wanted;
    let span = Span { from_ms, to_ms, step_ms };
    let pick =
        Pick { guests: Some(wanted.needs.guests.clone()), processes: None, ..Parts::ALL.into() };
    // Processes are as much work as all the rest, and one half of the time as the other: two
    // threads share it.
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
    host.gaps = gaps(records.gaps(from_ms, to_ms)?, wanted);
    Ok(vec![host])
}

/// Both halves of a time, of whole steps each but for the end.
fn halves(span: Span) -> (Span, Span) {
    let steps = span.to_ms.saturating_sub(span.from_ms).max(0) / span.step_ms.max(1);
    let middle_ms = span.from_ms.saturating_add(steps / 2 * span.step_ms);
    (Span { to_ms: middle_ms, ..span }, Span { from_ms: middle_ms, ..span })
}

/// What an engine that speaks Prometheus' interface holds; of all its hosts, or of one.
pub fn engine(url: &str, host: Option<String>, wanted: &Wanted) -> Result<Recorded, Error> {
    let url = metrics::Url::parse(url)?;
    let ask = metrics::read::Ask {
        from_ms: wanted.from_ms,
        to_ms: wanted.to_ms,
        step_ms: wanted.step_ms,
        host,
        parts: Parts { processes: !wanted.needs.processes.is_empty(), ..Parts::ALL },
    };
    let hosts = metrics::pasts(&url, &ask)?;
    if hosts.is_empty() {
        return Err(Error::Message(
            "The engine knows nothing of this time: is it the right one, and does a manager \
                 push to it?"
                .into(),
        ));
    }
    let of_host = |past: metrics::read::Past| {
        let gaps = gaps(past.gaps, wanted);
        let mut host = HostData { name: past.host, gaps, ..HostData::default() };
        past.intervals.into_iter().for_each(|interval| host.add(interval));
        host
    };
    Ok(hosts.into_iter().map(of_host).collect())
}

/// Gaps as far as they lie in the time that is asked for.
fn gaps(all: Vec<Gap>, wanted: &Wanted) -> Vec<Gap> {
    let within = |gap: Gap| Gap {
        from_ms: gap.from_ms.max(wanted.from_ms),
        to_ms: gap.to_ms.min(wanted.to_ms),
        ..gap
    };
    all.into_iter().map(within).collect()
}
