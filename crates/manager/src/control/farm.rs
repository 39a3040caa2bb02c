//! Answers of a farm.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A farm and its guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FarmTable<G = FarmGuest> {
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
pub struct FarmGuest {
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

/// A port of a guest, and where it is reached on the host's 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedPort {
    /// The port in the guest.
    pub guest: u16,
    /// The port on the host.
    pub host: u16,
}

impl FarmGuest {
    /// Returns one word for how it is: up only when its services have answered.
    pub fn shown_state(&self) -> &str {
        match self.state.as_str() {
            "up" | "unmanaged" | "managed" if !self.ready => "starting",
            // Up without a daemon is what was asked for where there is none.
            "unmanaged" => "up",
            state => state,
        }
    }

    /// Returns the address at which a port of the guest is reached, or its first one.
    pub fn reached_at(&self, port: Option<u16>) -> Option<SocketAddr> {
        let found = self.ports.iter().find(|one| port.is_none_or(|port| one.guest == port))?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, found.host)))
    }
}

/// The last output of a guest's console.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleLog {
    /// The output.
    pub text: String,
    /// Bytes before it that are no longer kept.
    pub lost_bytes: u64,
}

/// The files that a guest's rules look at, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Their contents.
    pub files: BTreeMap<String, String>,
}

/// Guests that a manager has, with ports and balloons, for as long as its connection is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lent {
    /// The class of each guest, by the guest's name.
    pub classes: BTreeMap<String, String>,
}
