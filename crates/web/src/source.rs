//! Where what is shown comes from. The pages know no file and no socket: they are given these.

use manager::control::{Answer, Ask as Question};
use model::{GuestField, ProcessField};
use reports::HostData;
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

/// Asks the manager.
pub type Ask = Box<dyn Fn(&Question) -> Result<Answer, String> + Send + Sync>;
/// Reads recordings.
type Recorded = Box<dyn Fn(&Wanted) -> Result<Vec<HostData>, String> + Send + Sync>;
/// What deserves doing between two times, as JSON.
type Tune = Box<dyn Fn(i64, i64) -> Result<String, String> + Send + Sync>;

/// Tells the time.
type Clock = Box<dyn Fn() -> Now + Send + Sync>;

/// Where everything comes from. What cannot be had is told in a sentence, which the page shows.
pub struct Sources {
    /// The manager; without one only the past is shown.
    pub manager: Option<Ask>,
    /// Recordings, of this host or of several.
    pub recorded: Recorded,
    /// The journal of decisions, of one host.
    pub journal: Option<PathBuf>,
    /// What deserves doing, where that can be told.
    pub tune: Option<Tune>,
    /// What time it is, and in which zone it is shown.
    pub clock: Clock,
}
