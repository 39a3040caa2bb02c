//! Where a report's data come from.

use crate::Error;
use crate::why::default_recordings;
use model::{Gap, Interval, Parts};
use reports::{HostData, Needs};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
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

/// Something that has recordings.
pub trait Source {
    /// What is recorded of a time, host by host.
    fn recorded(&self, wanted: &Wanted) -> Result<Recorded, Error>;
}

/// A directory of recordings.
#[derive(Debug)]
pub struct Local {
    records: Records,
    name: String,
    facts: Vec<(String, String)>,
}

impl Local {
    /// The recordings of a directory, or those that this host's manager makes.
    pub fn open(dir: Option<&PathBuf>, name: Option<String>) -> Result<Local, Error> {
        let path = dir.cloned().unwrap_or_else(default_recordings);
        if dir.is_none() && !path.exists() {
            return Err(Error::Message(format!(
                "There are no recordings in {}: `pinhead host` makes them; if yours are \
                 elsewhere, name them with --dir",
                path.display()
            )));
        }
        let records = Records::open(&path)?;
        let own = || kernel("hostname").unwrap_or_else(|| "localhost".into());
        // Of another directory nothing is known but what is in it.
        let facts = if dir.is_none() { facts() } else { Vec::new() };
        Ok(Local { records, name: name.unwrap_or_else(own), facts })
    }
}

/// A line of /proc/sys/kernel.
fn kernel(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// What is known of this host besides its counters.
fn facts() -> Vec<(String, String)> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let known = [("kernel", kernel("osrelease")), ("processor", cpu)];
    known.into_iter().filter_map(|(what, how)| Some((what.to_owned(), how?))).collect()
}

impl Source for Local {
    fn recorded(&self, wanted: &Wanted) -> Result<Recorded, Error> {
        let Wanted { from_ms, to_ms, step_ms, .. } = *wanted;
        let span = Span { from_ms, to_ms, step_ms };
        let mut host =
            HostData { name: self.name.clone(), facts: self.facts.clone(), ..HostData::default() };
        let pick = Pick {
            guests: Some(wanted.needs.guests.clone()),
            processes: None,
            ..Parts::ALL.into()
        };
        // Processes are as much work as all the rest, and one half of the time as the other: two
        // threads share it.
        let read = |span: Span| -> Result<Vec<Interval>, store::Error> {
            let mut intervals = Vec::new();
            self.records.visit_fields(span, &pick, |interval| {
                intervals.push(interval);
                ControlFlow::Continue(())
            })?;
            Ok(intervals)
        };
        let fields = &wanted.needs.processes;
        let (intervals, processes) = std::thread::scope(|scope| {
            let other = scope.spawn(|| match fields.is_empty() {
                true => Ok((read(halves(span).1)?, None)),
                false => Ok((Vec::new(), Some(self.records.processes(span, fields)?))),
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
        host.gaps = gaps(self.records.gaps(from_ms, to_ms)?, wanted);
        Ok(vec![host])
    }
}

/// Both halves of a time, of whole steps each but for the end.
fn halves(span: Span) -> (Span, Span) {
    let steps = span.to_ms.saturating_sub(span.from_ms).max(0) / span.step_ms.max(1);
    let middle_ms = span.from_ms.saturating_add(steps / 2 * span.step_ms);
    (Span { to_ms: middle_ms, ..span }, Span { from_ms: middle_ms, ..span })
}

/// An engine that speaks Prometheus' interface.
#[derive(Debug)]
pub struct Engine {
    url: metrics::Url,
    host: Option<String>,
}

impl Engine {
    /// The engine at an address; of all its hosts, or of one.
    pub fn new(url: &str, host: Option<String>) -> Result<Engine, Error> {
        let url = metrics::Url::parse(url).map_err(|error| said(&error))?;
        Ok(Engine { url, host })
    }
}

impl Source for Engine {
    fn recorded(&self, wanted: &Wanted) -> Result<Recorded, Error> {
        let ask = metrics::read::Ask {
            from_ms: wanted.from_ms,
            to_ms: wanted.to_ms,
            step_ms: wanted.step_ms,
            host: self.host.clone(),
            parts: Parts { processes: !wanted.needs.processes.is_empty(), ..Parts::ALL },
        };
        let hosts = metrics::pasts(&self.url, &ask).map_err(|error| said(&error))?;
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

/// An error with what is below it.
fn said(error: &metrics::Error) -> Error {
    Error::Message(base::chain(error))
}
