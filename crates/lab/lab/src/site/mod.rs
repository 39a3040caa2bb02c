//! A farm for an experiment, started with pinhead's own commands: `pinhead up` as a child, and
//! `pinhead host` if the case has a manager.
//!
//! ```text
//!   FARM.toml ─► pinhead up (child) ─► PID/control ─► guests, exec
//!                      │                PID/*.qmp, *.port ◄── pinhead host (child)
//!                      └─► QEMUs, tiers ─► meter: what they use
//! ```
//!
//! The children end with this process, whatever ends it. `pinhead up` restores the host's settings
//! when it ends in order. Dropping a [`Site`] waits for `pinhead up` to end. After any other end,
//! the next start of pinhead restores the settings.

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
use crate::load::{self, ExecError, Target};
use child::Child;
use farm::service::{self, SOCKET};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vm::{Deadline, Monitor, Output, Scratch};

/// Number of pages per second that can be read back from the host's disk. Several drives, or a
/// small cloud volume, are as fast. The hosts of the studies paged to disks. Compressed memory
/// returns a page in 0.01 ms, while a transaction takes 40 ms of an emulated CPU. Paging to
/// compressed memory would therefore have no visible cost. With a limit of 200 pages per second,
/// guests without a manager do not finish their start.
pub const DISK_READS: u32 = 1000;
/// Name of the setting [`DISK_READS`] in a result.
pub const HOST_DISK: &str = "pages from the host's disk, 1/s";
/// Interval of polls.
const LOOK: Duration = Duration::from_millis(50);
/// Time after which a rebooting guest no longer serves pages from before the reboot, also on a busy
/// machine.
const GONE: Duration = Duration::from_secs(3);
/// Time limit for a monitor's response, which is immediate except on a full machine.
const ANSWER: Duration = Duration::from_secs(10);

/// Paths of `pinhead`, and of the farms' sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// The `pinhead` program.
    pub program: PathBuf,
    /// The directory with one directory for each running farm.
    pub farms: PathBuf,
}

/// A running farm. Dropping this value ends the farm, and waits until the host is restored.
#[derive(Debug)]
pub struct Site {
    process: Child,
    dir: Scratch,
    socket: PathBuf,
    guests: Vec<Guest>,
    /// Time until the last guest responded.
    pub ready_s: f64,
}

impl Site {
    /// Starts the farm described by a `FARM.toml`, and waits until all of its guests are ready.
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

    /// Starts the farm without waiting: [`Site::look`] shows its progress.
    pub fn begin(tools: &Tools, farm: &str) -> Result<Site, Error> {
        let all = std::env::temp_dir();
        let dir = Scratch::new("lab").map_err(Error::file("make a directory in", &all))?;
        let file = dir.join("FARM.toml");
        fs::write(&file, farm).map_err(Error::file("write", &file))?;
        // An experiment starts its managers itself, with its settings.
        let up = ["up".as_ref(), "--no-manager".as_ref(), file.as_os_str()];
        let process = Child::start("The farm", &tools.program, up)?;
        let socket = tools.farms.join(process.id().to_string()).join(SOCKET);
        Ok(Site { process, dir, socket, guests: Vec::new(), ready_s: 0.0 })
    }

    /// Returns the guests, in the order of the farm's file.
    pub fn guests(&self) -> &[Guest] {
        &self.guests
    }

    /// Returns the guests of a class.
    pub fn class<'a>(&'a self, class: &'a str) -> impl Iterator<Item = &'a Guest> {
        self.guests.iter().filter(move |guest| guest.class == class)
    }

    /// Returns the CPU time of the farm's own process, in seconds.
    pub fn own_cpu_s(&self) -> f64 {
        meter::cpu_s(self.process.id())
    }

    /// Returns the directory of the guests' sockets, for a manager.
    pub fn sockets(&self) -> &Path {
        self.socket.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the site's directory, which is removed with the site.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the memory that the balloon leaves a guest, in MiB. The guest's second monitor
    /// reports this memory. No manager may run, because a manager would own this monitor.
    pub fn balloon_mib(&self, guest: &Guest) -> Option<f64> {
        let path = self.sockets().join(format!("{}.qmp", guest.name));
        let mut monitor = Monitor::new(UnixStream::connect(path).ok()?);
        match monitor.call(qmp::Command::QueryBalloon, Deadline::after(ANSWER)).ok()? {
            qmp::Reply::Balloon { actual_bytes } => Some(actual_bytes as f64 / 1_048_576.0),
            _ => None,
        }
    }

    /// Returns a target for every guest of a class: the page `path` at this port.
    pub fn targets(&self, class: &str, port: u16, path: &str) -> Vec<Target> {
        self.class(class).filter_map(|guest| self.target(guest, port, path)).collect()
    }

    /// Returns the target for one guest: the page `path` at this port.
    pub fn target(&self, guest: &Guest, port: u16, path: &str) -> Option<Target> {
        Some(Target {
            name: guest.name.clone(),
            class: guest.class.clone(),
            address: guest.reached_at(Some(port))?,
            path: path.to_owned(),
        })
    }

    /// Runs a command in a guest and returns its output. A status other than 0 is an error.
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

    fn run(&self, guest: &str, line: &str, limit: Duration) -> Result<Output, Error> {
        let output = service::run(&self.socket, guest, line, Deadline::after(limit));
        output.map_err(|e| Error::Failed(base::chain(&e)))
    }

    /// Reboots a guest from inside, and waits until it serves its page again. The reboot runs in
    /// the background, because a command that runs during the reboot never ends.
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
        Err(Error::Failed(format!("{guest} has not come up again after {} s", limit.as_secs())))
    }

    /// Queries the farm for its guests, and returns true if all are ready. A farm or a guest that
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
    fn exec(&self, guest: &str, line: &str, timeout: Duration) -> Result<Output, ExecError> {
        Ok(self.run(guest, line, timeout)?)
    }
}
