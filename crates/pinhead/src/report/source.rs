//! Where a report's data come from.

use crate::Error;
use reports::{Gap, HostData};
use std::error::Error as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use store::{Parts, Records, Span};

/// What is asked of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// From when, in milliseconds since 1970.
    pub from_ms: i64,
    /// Until when.
    pub to_ms: i64,
    /// How long an interval is.
    pub step_ms: i64,
    /// Processes are needed. They are most of what is recorded.
    pub has_processes: bool,
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
        let path = dir.cloned().unwrap_or_else(default_dir);
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

/// Where the manager records by itself: beside its journal.
pub fn default_dir() -> PathBuf {
    crate::why::default_journal().with_file_name("recordings")
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
        let Wanted { from_ms, to_ms, step_ms, has_processes } = *wanted;
        let mut host =
            HostData { name: self.name.clone(), facts: self.facts.clone(), ..HostData::default() };
        let parts = Parts { processes: has_processes, ..Parts::ALL };
        self.records.visit(Span { from_ms, to_ms, step_ms }, parts, |interval| {
            host.add(interval);
            ControlFlow::Continue(())
        })?;
        host.gaps = gaps(self.records.gaps(from_ms, to_ms)?, wanted);
        Ok(vec![host])
    }
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
            parts: Parts { processes: wanted.has_processes, ..Parts::ALL },
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
fn gaps(all: Vec<store::Gap>, wanted: &Wanted) -> Vec<Gap> {
    let within = |gap: store::Gap| Gap {
        from_ms: gap.from_ms.max(wanted.from_ms),
        to_ms: gap.to_ms.min(wanted.to_ms),
        reason: gap.reason,
    };
    all.into_iter().map(within).collect()
}

/// An error with what is below it.
fn said(error: &metrics::Error) -> Error {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        text.push_str(&format!(": {error}"));
        below = error.source();
    }
    Error::Message(text)
}
