//! Hosts that the pages show: this host, or the hosts of a metrics server.
//!
//! ```text
//!   LocalHost ─► manager::control, recorded::local, backtest::tune, farm::running
//!   Engine    ─► recorded::engine, metrics::fleet
//! ```

use farm::running::Farms;
use manager::control::{Answer, Ask};
use metrics::fleet::{Fleet, Glance, Steps};
use model::{HostField, Over};
use reports::HostData;
use reports::recorded::{self, Wanted};
use std::collections::BTreeMap;
use std::path::PathBuf;
use store::Records;
use whatif::{Sources, backtest};
use why::when::Now;

/// A reason why a source has no data.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("There is no manager to query")]
    NoManager,
    #[error("There is no host {0:?}")]
    NoHost(String),
    #[error("The manager's response does not match the request: check the manager's version")]
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

/// Fields of hosts over time, by host name.
pub type Lines = BTreeMap<String, Vec<Over<HostField>>>;

/// Hosts that the pages show. By default a source has no manager, journal, findings, farms or
/// fleet.
pub trait Source: Send + Sync {
    /// Reads recordings of one host, or of all hosts.
    fn recorded(&self, host: Option<&str>, wanted: &Wanted) -> Result<Vec<HostData>, Error>;

    /// Returns true if there is a manager.
    fn has_manager(&self) -> bool {
        false
    }

    /// Sends a request to the manager.
    fn ask(&self, _question: &Ask) -> Result<Answer, Error> {
        Err(Error::NoManager)
    }

    /// Returns the path of the journal of decisions.
    fn journal(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the findings of `tune` for a time range.
    fn tune(&self, _times_ms: (i64, i64)) -> Option<Result<backtest::Findings, Error>> {
        None
    }

    /// Returns the sources of the guests that run now.
    fn guest_sources(&self) -> Sources {
        // Findings are also useful without a manager or a farm.
        let rows = match self.ask(&Ask::Ps) {
            Ok(Answer::Ps(ps)) => ps.guests,
            Ok(_) | Err(_) => Vec::new(),
        };
        let farms = self.farms().and_then(Result::ok).unwrap_or_default().farms;
        let names = farms.iter().flat_map(|table| &table.guests).map(|guest| guest.name.as_str());
        Sources::new(&rows, names)
    }

    /// Returns the running farms.
    fn farms(&self) -> Option<Result<Farms, Error>> {
        None
    }

    /// Returns a summary of all hosts, if the source can have several.
    fn glance(&self, _asked: &Glance) -> Option<Result<Fleet, Error>> {
        None
    }

    /// Returns fields of these hosts over time.
    fn lines(&self, _: Steps, _hosts: &[&str], _fields: &[HostField]) -> Result<Lines, Error> {
        Ok(Lines::new())
    }

    /// Returns the current time, and the time zone for displayed times.
    fn now(&self) -> Now {
        why::now()
    }
}

/// This host: its manager, recordings, journal and farms.
#[derive(Clone, Debug, Default)]
pub struct LocalHost {
    /// Socket of the manager, if it is not the default.
    pub socket: Option<PathBuf>,
    /// Directory of the recordings, if it is not the manager's default.
    pub dir: Option<PathBuf>,
    /// Path of the journal, if it is not next to the recordings.
    pub journal: Option<PathBuf>,
    /// Name of the host on the pages, if it is not the host's own.
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

    fn tune(&self, times_ms: (i64, i64)) -> Option<Result<backtest::Findings, Error>> {
        let found = || {
            let dir = recorded::dir(self.dir.as_deref())?;
            let records = Records::open(&dir).map_err(backtest::Error::from)?;
            let enough_ms = whatif::Options::USUAL.enough_ms;
            Ok(backtest::tune(&records, times_ms, enough_ms)?)
        };
        Some(found())
    }

    fn farms(&self) -> Option<Result<Farms, Error>> {
        Some(farm::running::tables().map_err(Error::from))
    }
}

/// Hosts of a Prometheus-compatible metrics server.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Address of the metrics server.
    pub url: metrics::Url,
    /// Name of the only host to show; `None` for all hosts.
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
        // If only one host is shown, there is no summary of hosts.
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
    fn hosts_other_than_the_chosen_one_are_not_found() {
        // No server listens at this address, so a request would fail.
        let url = metrics::Url::parse("http://127.0.0.1:1").unwrap();
        let engine = Engine { url, host: Some("a".into()) };
        let wanted = Wanted { from_ms: 0, to_ms: 1, step_ms: 1, needs: reports::Needs::default() };
        let error = engine.recorded(Some("b"), &wanted).unwrap_err();
        assert_eq!(error.to_string(), "There is no host \"b\"");
        assert_eq!(Fault::from(error).status, StatusCode::NOT_FOUND);
        let own = engine.recorded(Some("a"), &wanted).unwrap_err();
        assert_eq!(Fault::from(own).status, StatusCode::SERVICE_UNAVAILABLE);
    }
}
