//! The hosts that the pages show: this one, or those of an engine.
//!
//! ```text
//!   LocalHost ─► manager::control, recorded::local, backtest::tune, farm::running
//!   Engine    ─► recorded::engine, metrics::fleet
//! ```

use farm::running::Farms;
use manager::control::{Answer, Ask};
use metrics::fleet::{Fleet, Glance, Steps};
use model::{HostField, Over};
use recorded::Wanted;
use reports::HostData;
use std::collections::BTreeMap;
use std::path::PathBuf;
use store::Records;
use why::when::Now;

/// A reason why a source gives nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("No manager is asked: only what was recorded is shown")]
    NoManager,
    #[error("There is no host {0:?} here")]
    NoHost(String),
    #[error("The manager's answer is to another question")]
    OtherAnswer,
    #[error(transparent)]
    Manager(#[from] manager::control::Error),
    #[error(transparent)]
    Recorded(#[from] recorded::Error),
    #[error(transparent)]
    Tune(#[from] backtest::Error),
    #[error(transparent)]
    Farm(#[from] farm::Error),
    #[error(transparent)]
    Engine(#[from] metrics::Error),
}

/// Fields of hosts over time, by the hosts' names.
pub type Lines = BTreeMap<String, Vec<Over<HostField>>>;

/// Hosts that the pages show. By default a source has no manager, journal, findings, farms or
/// fleet.
pub trait Source: Send + Sync {
    /// Reads recordings of one host, or of all.
    fn recorded(&self, host: Option<&str>, wanted: &Wanted) -> Result<Vec<HostData>, Error>;

    /// Returns true if there is a manager.
    fn has_manager(&self) -> bool {
        false
    }

    /// Sends a request to the manager.
    fn ask(&self, _question: &Ask) -> Result<Answer, Error> {
        Err(Error::NoManager)
    }

    /// Returns the place of the journal of decisions.
    fn journal(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the findings of `tune` between two times.
    fn tune(&self, _times_ms: (i64, i64)) -> Option<Result<Vec<backtest::Advised>, Error>> {
        None
    }

    /// Returns the farms that run.
    fn farms(&self) -> Option<Result<Farms, Error>> {
        None
    }

    /// Returns all hosts at a glance, where there may be several.
    fn glance(&self, _asked: &Glance) -> Option<Result<Fleet, Error>> {
        None
    }

    /// Returns fields of some of these hosts over time.
    fn lines(&self, _: Steps, _hosts: &[&str], _fields: &[HostField]) -> Result<Lines, Error> {
        Ok(Lines::new())
    }

    /// Returns the time, and the zone in which it is shown.
    fn now(&self) -> Now {
        why::now()
    }
}

/// This host: its manager, recordings, journal and farms.
#[derive(Clone, Debug, Default)]
pub struct LocalHost {
    /// The manager's socket, if not the usual one.
    pub socket: Option<PathBuf>,
    /// The recordings, if not those that the manager makes by itself.
    pub dir: Option<PathBuf>,
    /// The journal, if it is not next to the recordings.
    pub journal: Option<PathBuf>,
    /// The host's name, if it is to be shown under another one.
    pub name: Option<String>,
}

impl Source for LocalHost {
    fn recorded(&self, _host: Option<&str>, wanted: &Wanted) -> Result<Vec<HostData>, Error> {
        Ok(recorded::local(self.dir.as_deref(), self.name.as_deref(), wanted)?)
    }

    fn has_manager(&self) -> bool {
        true
    }

    fn ask(&self, question: &Ask) -> Result<Answer, Error> {
        Ok(manager::control::ask_manager(self.socket.as_deref(), question)?)
    }

    fn journal(&self) -> Option<PathBuf> {
        let usual = || recorded::journal_of(self.dir.as_deref());
        Some(self.journal.clone().unwrap_or_else(usual))
    }

    fn tune(&self, times_ms: (i64, i64)) -> Option<Result<Vec<backtest::Advised>, Error>> {
        let found = || {
            let dir = recorded::dir(self.dir.as_deref())?;
            let records = Records::open(&dir).map_err(backtest::Error::from)?;
            let enough_ms = whatif::Options::USUAL.enough_ms;
            Ok(backtest::tune(&records, times_ms, enough_ms)?.all)
        };
        Some(found())
    }

    fn farms(&self) -> Option<Result<Farms, Error>> {
        Some(farm::running::tables().map_err(Error::from))
    }
}

/// The hosts of an engine that speaks Prometheus' interface.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The engine's address.
    pub url: metrics::Url,
    /// The only host that is shown, if not all are.
    pub host: Option<String>,
}

impl Source for Engine {
    fn recorded(&self, host: Option<&str>, wanted: &Wanted) -> Result<Vec<HostData>, Error> {
        let host = match (self.host.as_deref(), host) {
            (Some(only), Some(other)) if only != other => {
                return Err(Error::NoHost(other.to_owned()));
            }
            (only, asked) => only.or(asked),
        };
        Ok(recorded::engine(&self.url, host, wanted)?)
    }

    fn glance(&self, asked: &Glance) -> Option<Result<Fleet, Error>> {
        let glance = || metrics::fleet::glance(&self.url, asked).map_err(Error::from);
        // A single host is no fleet.
        self.host.is_none().then(glance)
    }

    fn lines(&self, steps: Steps, hosts: &[&str], fields: &[HostField]) -> Result<Lines, Error> {
        Ok(metrics::fleet::lines(&self.url, steps, hosts, fields)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use axum::http::StatusCode;

    #[test]
    fn host_is_not_found_when_another_one_is_the_only_one() {
        // Nobody listens there: a request would fail otherwise.
        let url = metrics::Url::parse("http://127.0.0.1:1").unwrap();
        let engine = Engine { url, host: Some("a".into()) };
        let wanted = Wanted { from_ms: 0, to_ms: 1, step_ms: 1, needs: reports::Needs::default() };
        let error = engine.recorded(Some("b"), &wanted).unwrap_err();
        assert_eq!(error.to_string(), "There is no host \"b\" here");
        assert_eq!(Fault::from(error).status, StatusCode::NOT_FOUND);
        let own = engine.recorded(Some("a"), &wanted).unwrap_err();
        assert_eq!(Fault::from(own).status, StatusCode::SERVICE_UNAVAILABLE);
    }
}
