//! A farm for an experiment, made by the product itself: `pinhead up` as a child, `pinhead host`
//! beside it if there is to be a manager.
//!
//! ```text
//!   FARM.toml ─► pinhead up (child) ─► PID/control ─► guests, exec
//!                      │                PID/*.qmp, *.port ◄── pinhead host (child)
//!                      └─► QEMUs, tiers ─► meter: what they use
//! ```
//!
//! The children die with us, however we end; the host's settings come back when `pinhead up`
//! ends in peace, which a dropped [`Site`] waits for, or else with the next start of anything.

mod child;
pub mod held;
pub mod inside;
pub mod jobs;
mod manager;
pub mod meter;

pub use ::manager::control::FarmGuest as Guest;
pub use manager::{ASLEEP_AFTER, Manager, NO_PAGE_OUT, RIVALS, Settings, has_page_out};

use crate::Error;
use crate::clock::wait;
use child::Child;
use farm::service::{self, SOCKET};
use load::{ExecError, ExecOutput, Target};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vm::{Deadline, Monitor, Output, Scratch};

/// Pages a second that come back from a disk, as some with heads together or a small volume of a
/// cloud give them: the hosts of the studies paged to disks. Compressed memory gives one back in
/// 0.01 ms, beside 40 ms of an emulated CPU that a transaction takes: what paging costs is not seen
/// there. With 200, guests that nobody manages do not get through their start.
pub const DISK_READS: u32 = 1000;
/// How a result calls that.
pub const HOST_DISK: &str = "pages from the host's disk, 1/s";
/// How often is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(50);
/// After this a guest that reboots has left its old life, also on a busy machine.
const GONE: Duration = Duration::from_secs(3);
/// A monitor answers at once; on a full machine it takes some.
const ANSWER: Duration = Duration::from_secs(10);

/// Where the product is, and where its farms put their sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// The `pinhead` program.
    pub program: PathBuf,
    /// The directory with one directory for each running farm.
    pub farms: PathBuf,
}

/// A farm that is up. Dropping it ends it and waits until the host is as it was.
#[derive(Debug)]
pub struct Site {
    process: Child,
    dir: Scratch,
    socket: PathBuf,
    guests: Vec<Guest>,
    /// How long it took until the last guest answered.
    pub ready_s: f64,
}

impl Site {
    /// Starts the farm that a `FARM.toml` describes, and waits until all of its guests are ready.
    pub fn up(tools: &Tools, farm: &str, limit: Duration) -> Result<Site, Error> {
        let mut site = Site::begin(tools, farm)?;
        let deadline = Deadline::after(limit);
        while !site.look()? {
            crate::stop::check_stop()?;
            if deadline.remaining().is_none() {
                return Err(Error::Failed(format!(
                    "The guests are not ready after {} s{}",
                    limit.as_secs(),
                    site.unready()
                )));
            }
            wait(LOOK);
        }
        site.ready_s = deadline.elapsed().as_secs_f64();
        Ok(site)
    }

    /// Starts the farm, and waits for nothing: [`Site::look`] tells how far it is.
    pub fn begin(tools: &Tools, farm: &str) -> Result<Site, Error> {
        let all = std::env::temp_dir();
        let dir = Scratch::new("lab").map_err(Error::file("make a directory in", &all))?;
        let file = dir.join("FARM.toml");
        fs::write(&file, farm).map_err(Error::file("write", &file))?;
        let process = Child::start("The farm", &tools.program, ["up".as_ref(), file.as_os_str()])?;
        let socket = tools.farms.join(process.id().to_string()).join(SOCKET);
        Ok(Site { process, dir, socket, guests: Vec::new(), ready_s: 0.0 })
    }

    /// The guests, in the order of the farm's file.
    pub fn guests(&self) -> &[Guest] {
        &self.guests
    }

    /// The guests of a class.
    pub fn class<'a>(&'a self, class: &'a str) -> impl Iterator<Item = &'a Guest> {
        self.guests.iter().filter(move |guest| guest.class == class)
    }

    /// CPU time of the farm's own process, in seconds.
    pub fn own_cpu_s(&self) -> f64 {
        meter::cpu_s(self.process.id())
    }

    /// The directory of the guests' sockets, for a manager.
    pub fn sockets(&self) -> &Path {
        self.socket.parent().unwrap_or(Path::new("/"))
    }

    /// A directory of the site's own, which goes with it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What a guest's balloon leaves it in MiB, asked at its second monitor. Nobody else may have
    /// that: a manager has.
    pub fn balloon_mib(&self, guest: &Guest) -> Option<f64> {
        let path = self.sockets().join(format!("{}.qmp", guest.name));
        let mut monitor = Monitor::new(UnixStream::connect(path).ok()?);
        match monitor.call(qmp::Command::QueryBalloon, Deadline::after(ANSWER)).ok()? {
            qmp::Reply::Balloon { actual_bytes } => Some(actual_bytes as f64 / 1_048_576.0),
            _ => None,
        }
    }

    /// A page of every guest of a class, at its port of this number, for the load.
    pub fn targets(&self, class: &str, port: u16, path: &str) -> Vec<Target> {
        self.class(class).filter_map(|guest| self.target(guest, port, path)).collect()
    }

    /// A page of one of them.
    pub fn target(&self, guest: &Guest, port: u16, path: &str) -> Option<Target> {
        Some(Target {
            name: guest.name.clone(),
            class: guest.class.clone(),
            address: guest.reached_at(Some(port))?,
            path: path.to_owned(),
        })
    }

    /// Runs a command in a guest and returns its output. A status that is not 0 is an error.
    pub fn sh(&self, guest: &str, line: &str, limit: Duration) -> Result<String, Error> {
        let output = self.run(guest, line, limit)?;
        match output.code {
            0 => Ok(output.text),
            code => Err(Error::Failed(format!(
                "In {guest} `{line}` ended with status {code}: {}",
                output.text.trim_end().chars().take(400).collect::<String>()
            ))),
        }
    }

    fn run(&self, guest: &str, line: &str, limit: Duration) -> Result<ExecOutput, Error> {
        let deadline = Deadline::after(limit);
        let output = service::run(&self.socket, guest, line, deadline);
        let Output { code, text } = output.map_err(|e| Error::Failed(base::chain(&e)))?;
        Ok(ExecOutput { code, text })
    }

    /// Reboots a guest from inside, and waits until it serves its page again. A command that is
    /// under way while a guest goes has no end, so it is not asked by one.
    pub fn restart(&self, guest: &str, page: &Target, limit: Duration) -> Result<(), Error> {
        self.sh(guest, "(sleep 1; reboot -f) < /dev/null > /dev/null 2>&1 &", limit)?;
        wait(GONE);
        let deadline = Deadline::after(limit);
        while deadline.remaining().is_some() {
            crate::stop::check_stop()?;
            if jobs::answers(page)? {
                return Ok(());
            }
            wait(LOOK);
        }
        Err(Error::Failed(format!("{guest} is not back after {} s", limit.as_secs())))
    }

    /// Asks the farm how its guests are. Gives whether every one is ready; a farm or a guest that
    /// has ended is an error.
    pub fn look(&mut self) -> Result<bool, Error> {
        self.process.check()?;
        if !self.socket.exists() {
            return Ok(false);
        }
        let Some(guests) = self.ask() else { return Ok(false) };
        if let Some(row) = guests.iter().find(|row| row.state == "ended") {
            let reason = row.reason.as_deref().unwrap_or("not known");
            return Err(Error::Failed(format!("Guest {:?} has ended: {reason}", row.name)));
        }
        self.guests = guests;
        Ok(!self.guests.is_empty() && self.guests.iter().all(|row| row.ready))
    }

    /// The guests as the farm sees them now.
    fn ask(&self) -> Option<Vec<Guest>> {
        Some(service::table(&self.socket).ok()?.guests)
    }

    fn unready(&self) -> String {
        let Some(guests) = self.ask() else { return ", and the farm does not answer".into() };
        let count = guests.iter().filter(|row| !row.ready).count();
        format!(": {count} of {} are not", guests.len())
    }
}

impl load::Exec for Site {
    fn exec(&self, guest: &str, line: &str, timeout: Duration) -> Result<ExecOutput, ExecError> {
        Ok(self.run(guest, line, timeout)?)
    }
}
