//! Responses of a farm.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A farm and its guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FarmTable<G = FarmGuest> {
    /// Name of the farm; `None` without a farm's file.
    pub farm: Option<String>,
    /// Process id of the farm.
    pub pid: u32,
    /// Time since the farm's start, in milliseconds.
    pub uptime_ms: u64,
    /// Guests, in the order of the farm's file.
    pub guests: Vec<G>,
}

/// A guest, as reported by its farm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FarmGuest {
    pub name: String,
    pub class: String,
    /// Process id of the guest's QEMU, while QEMU runs.
    pub pid: Option<u32>,
    /// State, in one word.
    pub state: String,
    /// True if all services of the guest have answered.
    pub ready: bool,
    /// Reason for the guest's end; `None` while the guest has not ended.
    pub reason: Option<String>,
    /// Forwarded ports.
    pub ports: Vec<ServedPort>,
    /// Network address of the guest, if it has one.
    pub address: Option<String>,
    pub arch: String,
    /// Accelerator that executes the guest's instructions.
    pub accelerator: String,
    /// Maximum number of CPUs.
    pub cpus: u32,
    /// Maximum memory, in MiB.
    pub memory_mib: u64,
    /// Weight relative to other guests.
    pub shares: u32,
    /// CPU usage of the guest's virtual CPUs, in percent of one host CPU.
    pub cpu_percent: Option<f64>,
}

/// A port of a guest, and the port of 127.0.0.1 on the host that is forwarded to the port of the
/// guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedPort {
    /// Port in the guest.
    pub guest: u16,
    /// Port on the host.
    pub host: u16,
}

impl FarmGuest {
    /// Returns the state in one word. It is `up` only after all services have answered.
    pub fn shown_state(&self) -> &str {
        match self.state.as_str() {
            "up" | "unmanaged" | "managed" if !self.ready => "starting",
            // A guest that is configured without a daemon counts as up.
            "unmanaged" => "up",
            state => state,
        }
    }

    /// Returns the address for access to the guest's given port, or to the guest's first port if no
    /// port is given.
    pub fn reached_at(&self, port: Option<u16>) -> Option<SocketAddr> {
        let found = self.ports.iter().find(|one| port.is_none_or(|port| one.guest == port))?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, found.host)))
    }
}

/// Last output of a guest's console.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleLog {
    /// Text of the output.
    pub text: String,
    /// Number of earlier bytes that are no longer kept.
    pub lost_bytes: u64,
}

/// Name of the file with the pool's size in [`Captured`], for any kind of pool.
pub const POOL: &str = "proc/sys/vm/cmm_pages";

/// Files that a guest's rules read, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Contents of the files.
    pub files: BTreeMap<String, String>,
}

impl Captured {
    /// Returns the files of a daemon, with the pool's size from its status.
    pub fn new(captured: &agent::Captured, status: Option<&wire::Status>) -> Captured {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let files = captured.files.iter();
        let mut files: BTreeMap<String, String> = files
            .map(|(file, bytes)| (file.path().unwrap_or("rules").to_owned(), text(bytes)))
            .collect();
        let pool_pages = status.map_or(0, |status| status.pool_pages);
        files.insert(POOL.to_owned(), format!("{pool_pages}\n"));
        Captured { files }
    }
}

/// Request of a farm for the next timer of a lent guest. It is sent on the manager's connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskNextTimer {
    /// Name of the guest.
    pub next_timer_of: String,
}

/// Response of the manager, once the guest's daemon has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextTimer {
    /// Name of the guest.
    pub next_timer_of: String,
    /// Time until the guest's next timer, in milliseconds; `None` without a timer.
    pub in_ms: Option<u64>,
}

/// Guests lent to a manager, with ports and balloons, while the manager's connection is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lent {
    /// Class of each guest, by the guest's name.
    pub classes: BTreeMap<String, String>,
}
