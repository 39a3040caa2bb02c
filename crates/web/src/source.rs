//! Where what is shown comes from. The pages know no file and no socket: they are given these.

use manager::control::{Answer, Ask as Question};
use model::{GuestField, GuestIdentity, HostField, Over, ProcessField};
use reports::HostData;
use std::collections::BTreeMap;
use std::path::PathBuf;
use why::when::Now;

/// Which part of recordings is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// From when, in milliseconds since 1970.
    pub from_ms: i64,
    /// Until when.
    pub to_ms: i64,
    /// How long an interval is.
    pub step_ms: i64,
    /// Only this host, where there are several.
    pub host: Option<String>,
    /// What of guests.
    pub guests: Vec<GuestField>,
    /// What of processes; nothing for none.
    pub processes: Vec<ProcessField>,
}

/// What is wanted of several hosts at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// From when, in milliseconds since 1970.
    pub from_ms: i64,
    /// Until when.
    pub to_ms: i64,
    /// Fields of hosts.
    pub hosts: Vec<HostField>,
    /// Fields of guests that are added up for their host.
    pub together: Vec<GuestField>,
    /// So many guests, those with most of the sum of `by`.
    pub most: usize,
    pub by: Vec<GuestField>,
    /// Only those whose name or class has this in it.
    pub like: String,
    /// Their fields.
    pub guests: Vec<GuestField>,
}

/// A host at a glance.
#[derive(Clone, Debug, Default)]
pub struct Glanced {
    /// Its name.
    pub name: String,
    /// When it was heard of last in the time.
    pub last_ms: i64,
    /// How far apart it was heard of.
    pub spacing_ms: i64,
    /// How many guests it had.
    pub guests: u64,
    /// Its own fields.
    pub over: Over<HostField>,
    /// Those of its guests, added up.
    pub together: Over<GuestField>,
    /// Those of its guests that are among the loudest.
    pub loudest: Vec<(GuestIdentity, Over<GuestField>)>,
}

/// Several hosts at a glance.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// By name.
    pub hosts: Vec<Glanced>,
    /// How many guests there are like those that were asked for.
    pub found: u64,
}

/// Fields of some hosts over time, in steps of so many milliseconds that end at the second of the
/// times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    pub times_ms: (i64, i64),
    pub step_ms: i64,
    pub hosts: Vec<String>,
    pub fields: Vec<HostField>,
}

/// Several hosts, of which an engine adds up what is shown at once.
pub trait Hosts: Send + Sync {
    /// All of them.
    fn glance(&self, wanted: &Glance) -> Result<Fleet, String>;
    /// Some of them over time.
    fn lines(&self, wanted: &Lines) -> Result<BTreeMap<String, Vec<Over<HostField>>>, String>;
}

/// Asks the manager.
pub type Ask = Box<dyn Fn(&Question) -> Result<Answer, String> + Send + Sync>;
/// Reads recordings.
type Recorded = Box<dyn Fn(&Wanted) -> Result<Vec<HostData>, String> + Send + Sync>;
/// What deserves doing between two times, as JSON.
type Tune = Box<dyn Fn(i64, i64) -> Result<String, String> + Send + Sync>;
/// The farms that run, as a JSON list of what each tells of itself.
type Farms = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Tells the time.
type Clock = Box<dyn Fn() -> Now + Send + Sync>;

/// Where everything comes from. What cannot be had is told in a sentence, which the page shows.
pub struct Sources {
    /// The manager; without one only the past is shown.
    pub manager: Option<Ask>,
    /// Recordings, of this host or of several.
    pub recorded: Recorded,
    /// Several hosts at once, where they can be asked for.
    pub hosts: Option<Box<dyn Hosts>>,
    /// The journal of decisions, of one host.
    pub journal: Option<PathBuf>,
    /// What deserves doing, where that can be told.
    pub tune: Option<Tune>,
    /// The farms of this host, where they can be asked.
    pub farms: Option<Farms>,
    /// What time it is, and in which zone it is shown.
    pub clock: Clock,
}
