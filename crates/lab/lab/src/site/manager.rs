//! `pinhead host` as the manager of one site's guests.

use super::child::Child;
use super::{LOOK, Site, Tools};
use crate::Error;
use crate::clock::wait;
use base::Bytes;
use manager::config::Share;
use manager::control::{Answer, Ask, Change, Levers, Ps, ask};
use policy::rivals::Kind;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vm::Deadline;

/// Time limits for the manager's start, and for the manager's response on a full machine.
const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(20);

/// The settings of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Rules that move memory.
    pub rules: Kind,
    /// Memory that the guests may use together, in MiB. With this budget, a machine with more
    /// memory acts as a full host.
    pub budget_mib: u64,
    /// Part of the budget to keep free, in MiB.
    pub set_point_mib: u64,
    /// True if the manager leaves KSM alone, because the farm controls KSM and two controllers
    /// would conflict.
    pub leaves_ksm: bool,
    /// Time after which a guest counts as asleep, and is paged out. While the host is short of
    /// memory, other guests are paged out after the sleeping guests. `None` disables page-out.
    pub page_out_after: Option<Duration>,
}

/// Other managers with rules that a case may use in place of pinhead's rules. Page reporting alone
/// needs no manager.
pub const RIVALS: [Kind; 4] = [Kind::Mom, Kind::Proxmox, Kind::Pi, Kind::Senpai];

/// The manager's default time after which a nearly idle guest counts as asleep.
pub const ASLEEP_AFTER: Duration = Duration::from_secs(30);

/// The reason why a case with page-out cannot be run.
pub const NO_PAGE_OUT: &str = "the measured pinhead has no page-out (section [pageout])";

/// Returns true if this program's manager can page guests out. The manager's settings then accept a
/// section `[pageout]`.
pub fn has_page_out() -> bool {
    let text = page_out(Some(ASLEEP_AFTER));
    manager::config::parse(&text, &manager::config::Place::default()).is_ok()
}

fn page_out(after: Option<Duration>) -> String {
    match after {
        Some(after) => {
            format!("[pageout]\nmode = \"all\"\nafter = \"{} s\"\n", after.as_secs())
        }
        None => "[pageout]\nmode = \"off\"\n".to_owned(),
    }
}

/// A manager. Dropping this value ends the manager, and the guests get their memory back.
#[derive(Debug)]
pub struct Manager {
    process: Child,
    socket: PathBuf,
}

impl Manager {
    /// Starts a manager for a site's guests, and waits until the manager has data of all guests.
    pub fn start(tools: &Tools, site: &Site, settings: &Settings) -> Result<Manager, Error> {
        let dir = site.dir();
        let socket = dir.join("host.sock");
        let config = dir.join("host.toml");
        let text = text(settings, site.sockets(), dir, &socket);
        fs::write(&config, text).map_err(Error::file("write", &config))?;
        let args = ["host".as_ref(), "--config".as_ref(), config.as_os_str()];
        let process = Child::start("The manager", &tools.program, args)?;
        let mut manager = Manager { process, socket };
        let deadline = Deadline::after(PATIENCE);
        loop {
            manager.process.check()?;
            let known = manager.ps().map_or(0, |ps| ps.guests.len());
            if known >= site.guests().len() {
                return Ok(manager);
            }
            if deadline.remaining().is_none() {
                return Err(Error::Failed(format!(
                    "The manager has found only {known} of {} guests within {} s: {}",
                    site.guests().len(),
                    PATIENCE.as_secs(),
                    manager.process.stderr()
                )));
            }
            wait(LOOK);
        }
    }

    /// Returns the average memory that the balloons leave a guest, in MiB.
    pub fn left_mib(&self) -> Result<f64, Error> {
        let ps = self.ps()?;
        let left: u64 = ps.guests.iter().filter_map(|guest| guest.actual_bytes).sum();
        Ok(left as f64 / ps.guests.len().max(1) as f64 / 1_048_576.0)
    }

    /// Sets a guest's memory, whatever the guest and the host need.
    pub fn pin(&self, guest: &str, mib: u32) -> Result<(), Error> {
        let size = Share::Bytes(Bytes::mib(mib.into()));
        match ask(
            &self.socket,
            &Ask::Set { guest: guest.to_owned(), change: Change::Pin(size) },
            ANSWER,
        )? {
            Answer::Set(_) => Ok(()),
            _ => Err(Error::Failed("The manager answers something else".into())),
        }
    }

    /// Returns the manager's CPU time so far, including its page-out, in seconds.
    pub fn cpu_s(&self) -> Result<f64, Error> {
        let levers = self.levers()?;
        let page_out = levers.levers.iter().find(|lever| lever.name == "page-out");
        let page_out_us = page_out.and_then(|lever| lever.cost_us).unwrap_or(0);
        Ok((levers.manager_cpu_us + page_out_us) as f64 / 1e6)
    }

    /// Returns the gain and the cost of each of the manager's mechanisms.
    pub fn levers(&self) -> Result<Levers, Error> {
        match ask(&self.socket, &Ask::Levers, ANSWER)? {
            Answer::Levers(levers) => Ok(*levers),
            _ => Err(Error::Failed("The manager answers something else".into())),
        }
    }

    /// Returns the manager's guests.
    pub fn ps(&self) -> Result<Ps, Error> {
        match ask(&self.socket, &Ask::Ps, ANSWER)? {
            Answer::Ps(ps) => Ok(ps),
            _ => Err(Error::Failed("The manager answers something else".into())),
        }
    }
}

fn text(settings: &Settings, sockets: &Path, dir: &Path, socket: &Path) -> String {
    let quoted = |path: &Path| format!("{:?}", path.display().to_string());
    let Settings { rules, budget_mib, set_point_mib, leaves_ksm, page_out_after } = settings;
    let page_out = if has_page_out() { page_out(*page_out_after) } else { String::new() };
    let ksm = if *leaves_ksm { "[ksm]\nmode = \"leave\"\n" } else { "" };
    format!(
        "[host]\nbudget = \"{budget_mib} MiB\"\nset_point = \"{set_point_mib} MiB\"\n\
         hysteresis = \"{} MiB\"\nreserve = \"{} MiB\"\n\
         [policy]\nkind = \"{rules}\"\n\
         [sources]\nqmp = [{}]\nlibvirt = []\n[journal]\npath = {}\n\
         [control]\nsocket = {}\n[monitor]\nrecord = false\n{ksm}{page_out}",
        set_point_mib / 4,
        set_point_mib / 3,
        quoted(&sockets.join("*.qmp")),
        quoted(&dir.join("journal.db")),
        quoted(socket),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_accepts_the_settings() {
        for page_out_after in [None, Some(Duration::from_secs(10))] {
            let settings = Settings {
                rules: Kind::Proxmox,
                budget_mib: 900,
                set_point_mib: 90,
                leaves_ksm: true,
                page_out_after,
            };
            let path = Path::new("/run/x");
            let text = text(&settings, path, path, &path.join("host.sock"));
            let read = manager::config::parse(&text, &manager::config::Place::default());
            let read = read.map(|read| read.policy.kind);
            assert_eq!(read.ok(), Some(Kind::Proxmox), "{text}");
            assert_eq!(text.contains("\"all\""), has_page_out() && page_out_after.is_some());
        }
    }
}
