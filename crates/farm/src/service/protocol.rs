//! The requests to a farm, one line of JSON a connection, and the table of its guests.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ServedPort;

/// The longest question. Most of it is a command for a guest's shell.
pub(super) const QUESTION_MAX: usize = 64 * 1024;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub enum Question {
    /// All guests.
    Ps,
    /// The output of a guest's console.
    Logs(String),
    /// A guest's console, both ways.
    Console(String),
    /// A line for a guest's shell.
    Exec {
        /// The guest.
        guest: String,
        /// The line.
        command: String,
    },
    /// The files that a guest's rules look at.
    Capture(String),
    /// A guest is to be parked; the answer comes when it is.
    Park(String),
    /// A guest is to run; the answer comes when it does.
    Wake(String),
    /// All guests, for a host manager.
    Manage,
    /// The farm's end.
    Down,
}

const HELP: &str = "Ask {\"ps\": true}, {\"logs\": GUEST}, {\"console\": GUEST}, \
                    {\"exec\": GUEST, \"command\": LINE}, {\"capture\": GUEST}, \
                    {\"park\": GUEST}, {\"wake\": GUEST}, {\"manage\": true} or {\"down\": true}";

/// Reads a question.
pub fn question(line: &str) -> Result<Question, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("This is no JSON: {e}"))?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let is_true = |key: &str| value.get(key).and_then(Value::as_bool) == Some(true);
    if is_true("ps") {
        return Ok(Question::Ps);
    }
    if is_true("down") {
        return Ok(Question::Down);
    }
    if is_true("manage") {
        return Ok(Question::Manage);
    }
    if let Some(guest) = text("logs") {
        return Ok(Question::Logs(guest));
    }
    if let Some(guest) = text("console") {
        return Ok(Question::Console(guest));
    }
    if let Some(guest) = text("capture") {
        return Ok(Question::Capture(guest));
    }
    if let Some(guest) = text("park") {
        return Ok(Question::Park(guest));
    }
    if let Some(guest) = text("wake") {
        return Ok(Question::Wake(guest));
    }
    match (text("exec"), text("command")) {
        (Some(_), Some(command)) if command.contains(['\n', '\r', '\0']) => {
            Err("A command is one line".to_owned())
        }
        (Some(guest), Some(command)) => Ok(Question::Exec { guest, command }),
        _ => Err(HELP.to_owned()),
    }
}

/// A farm and its guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FarmTable<G = GuestRow> {
    /// Its name; none of guests without a farm's file.
    pub farm: Option<String>,
    /// Its process.
    pub pid: u32,
    /// How long it has run.
    pub uptime_ms: u64,
    /// Its guests, in the order of its file.
    pub guests: Vec<G>,
}

/// A guest as its farm sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestRow {
    /// Its name.
    pub name: String,
    /// The class that it is of.
    pub class: String,
    /// Its QEMU's process, while it runs.
    pub pid: Option<u32>,
    /// One word for how it is.
    pub state: String,
    /// Whether all of its services have answered.
    pub ready: bool,
    /// Why it has ended, if it has.
    pub reason: Option<String>,
    /// Its ports on the host.
    pub ports: Vec<ServedPort>,
    /// Its own address.
    pub address: Option<String>,
    /// Its architecture.
    pub arch: String,
    /// How its instructions are executed.
    pub accelerator: String,
    /// How many CPUs it has at most.
    pub cpus: u32,
    /// How much memory it has at most.
    pub memory_mib: u64,
    /// Its weight against others.
    pub shares: u32,
    /// What its virtual CPUs use, in percent of one of the host's.
    pub cpu_percent: Option<f64>,
}

impl GuestRow {
    /// Where a port of the guest is reached, or its first one.
    pub fn reached_at(&self, port: Option<u16>) -> Option<SocketAddr> {
        let found = self.ports.iter().find(|one| port.is_none_or(|port| one.guest == port))?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, found.host)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions() {
        assert_eq!(question("{\"ps\": true}"), Ok(Question::Ps));
        assert_eq!(question("{\"manage\": true}"), Ok(Question::Manage));
        assert_eq!(question("{\"logs\": \"a1\"}"), Ok(Question::Logs("a1".into())));
        assert_eq!(question("{\"capture\": \"g1\"}"), Ok(Question::Capture("g1".into())));
        assert_eq!(question("{\"park\": \"g1\"}"), Ok(Question::Park("g1".into())));
        assert_eq!(question("{\"wake\": \"g1\"}"), Ok(Question::Wake("g1".into())));
        let exec = question("{\"exec\": \"a1\", \"command\": \"ls\"}");
        assert_eq!(exec, Ok(Question::Exec { guest: "a1".into(), command: "ls".into() }));
        for wrong in [
            "",
            "{}",
            "[]",
            "{\"ps\": 1}",
            "{\"manage\": false}",
            "{\"manage\": 1}",
            "manage",
            "{\"exec\": \"a1\"}",
            "{\"exec\": \"a1\", \"command\": \"a\\nb\"}",
        ] {
            assert!(question(wrong).is_err(), "{wrong}");
        }
    }
}
