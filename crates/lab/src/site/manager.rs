//! `pinhead host` over the guests of one site, and nobody else's.

use super::{LOOK, Site, Tools, end, start, wait};
use crate::Error;
use manager::control::{Answer, Ask, Ps, ask};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use vm::{Deadline, Process};

/// How long the manager may take to be there, and to answer while the machine is full.
const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(20);

/// What a manager is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What the guests may use together, in MiB: a machine with more memory plays a host that is
    /// full. `None`: all there is.
    pub budget_mib: Option<u64>,
    /// What of it is to be free, in MiB.
    pub set_point_mib: u64,
    /// Whether it records what it sees.
    pub records: bool,
    /// More lines for its settings.
    pub more: String,
}

/// A manager. Dropping it ends it; the guests get their memory back.
#[derive(Debug)]
pub struct Manager {
    process: Process,
    socket: PathBuf,
    records: PathBuf,
}

impl Manager {
    /// Starts one over a site's guests and waits until it knows all of them.
    pub fn start(tools: &Tools, site: &Site, settings: &Settings) -> Result<Manager, Error> {
        let dir = site.dir();
        let (socket, records) = (dir.join("host.sock"), dir.join("records"));
        let config = dir.join("host.toml");
        let text = text(settings, site.sockets(), dir, &socket);
        fs::write(&config, text).map_err(|source| Error::File {
            what: "write",
            path: config.clone(),
            source,
        })?;
        let mut command = Command::new(&tools.program);
        command.arg("host").arg("--config").arg(&config);
        let mut manager = Manager { process: start(command)?, socket, records };
        let deadline = Deadline::after(PATIENCE);
        loop {
            manager.check()?;
            let known = manager.ps().map_or(0, |ps| ps.guests.len());
            if known >= site.guests().len() {
                return Ok(manager);
            }
            if deadline.remaining().is_none() {
                return Err(Error::Failed(format!(
                    "The manager knows {known} of {} guests after {} s: {}",
                    site.guests().len(),
                    PATIENCE.as_secs(),
                    manager.process.stderr().trim_end()
                )));
            }
            wait(LOOK);
        }
    }

    /// The guests as it sees them.
    pub fn ps(&self) -> Result<Ps, Error> {
        match ask(&self.socket, &Ask::Ps, ANSWER) {
            Ok(Answer::Ps(ps)) => Ok(ps),
            Ok(_) => Err(Error::Failed("The manager answers something else".into())),
            Err(error) => Err(Error::Failed(base::chain(&error))),
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where it records, if it does.
    pub fn records(&self) -> &Path {
        &self.records
    }

    /// The error of a manager that is no more.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Error::Failed(format!(
                "The manager has ended with {status}: {}",
                self.process.stderr().trim_end()
            ))),
            Err(error) => Err(Error::Failed(format!("The manager's state is not known: {error}"))),
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn text(settings: &Settings, sockets: &Path, dir: &Path, socket: &Path) -> String {
    let quoted = |path: PathBuf| format!("{:?}", path.display().to_string());
    let budget = settings.budget_mib.map(|mib| format!("budget = \"{mib} MiB\"\n"));
    let monitor = match settings.records {
        true => format!("[monitor]\nrecord = true\ndir = {}\n", quoted(dir.join("records"))),
        false => "[monitor]\nrecord = false\n".to_owned(),
    };
    let set_point = settings.set_point_mib;
    format!(
        "[host]\n{}set_point = \"{set_point} MiB\"\nhysteresis = \"{} MiB\"\n\
         reserve = \"{} MiB\"\n[sources]\nqmp = [{}]\nlibvirt = []\n[journal]\npath = {}\n\
         [control]\nsocket = {}\n{monitor}{}",
        budget.unwrap_or_default(),
        set_point / 4,
        set_point / 3,
        quoted(sockets.join("*.qmp")),
        quoted(dir.join("journal.db")),
        quoted(socket.to_path_buf()),
        settings.more
    )
}
