//! The manager's messages to its keeper: a line of JSON for each change.
//!
//! ```text
//!   {"manager":{"pid":7,"start_ticks":9}}  {"guest":{...}}  {"drop":3}  {"beat":12}
//!   {"parked":{...}}  {"awake":3}  {"reserve":1048576}  {"ksm":[["run","0"]]}  "done"
//! ```

use base::Bytes;
use hypervisor::{Found, Id, ProcessId};
use serde::{Deserialize, Serialize};

use crate::ksm::Saved;

/// Longest line. A guest's line contains a path twice, and the kernel limits a path to 4096 bytes.
pub const LINE_MAX: usize = 32 * 1024;

/// A change that the manager reports to its keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The manager's process, which the keeper kills if it hangs.
    Manager {
        /// Process ID.
        pid: u32,
        /// Start time of the process, so that no other process is mistaken for the manager.
        start_ticks: u64,
    },
    /// A guest has less memory than its full size, or is about to have less.
    Guest(Held),
    /// A guest has its former memory, or is gone.
    Drop(u64),
    /// A guest is parked or about to be parked. Its virtual CPUs must be resumed.
    Parked(Held),
    /// A guest is no longer parked, or is gone.
    Awake(u64),
    /// The manager's heartbeat. The number only makes the lines distinct.
    Beat(u64),
    /// Free memory of the host that no guest gets.
    Reserve(u64),
    /// Settings of KSM to restore. Null if there is nothing to restore.
    Ksm(Option<Saved>),
    /// The manager ends in order. The keeper restores the guests as soon as the pipe is closed.
    Done,
}

/// Address of a guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Path of a QMP socket.
    Qmp(String),
    /// A domain of libvirt.
    Libvirt {
        /// URI, such as `qemu:///system`.
        uri: String,
        /// Path of libvirt's socket, unless it is the default.
        socket: Option<String>,
    },
    /// Special messages to the kernel of a z/VM user, by the guest's name.
    Messages {
        /// Program that sends the messages.
        program: String,
    },
}

/// A guest that has given up memory, or is parked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Number of the guest in the manager.
    pub id: u64,
    /// Name of the guest, for messages.
    pub name: String,
    /// Address of the guest.
    pub place: Place,
    /// User that owns the guest.
    pub owner: u32,
    /// UUID of the guest, to find it in libvirt.
    pub uuid: [u8; 16],
    /// Process of the guest: process ID and start time. A process started later has its full
    /// memory.
    pub process: Option<(u32, u64)>,
    /// Size to restore, in bytes.
    pub restore: u64,
    /// Target of the balloon, in bytes.
    pub held: u64,
    /// Memory reclaimed by the manager, limited to memory that the host had found resident. Any
    /// further difference to `restore` is only claimed by the guest.
    #[serde(default)]
    pub taken: u64,
}

impl Held {
    /// Returns a guest from which no memory was reclaimed so far. `socket` is the path of libvirt's
    /// socket, unless it is the default.
    pub fn of(id: Id, found: &Found, socket: Option<&str>, restore: Bytes, held: Bytes) -> Held {
        let place = if found.has_monitor() {
            Place::Qmp(found.source.clone())
        } else {
            Place::Libvirt { uri: found.source.clone(), socket: socket.map(str::to_owned) }
        };
        Held {
            id: id.0,
            name: found.name.clone(),
            place,
            owner: found.owner.0,
            uuid: found.uuid,
            process: found.process.map(|process| (process.pid, process.start_ticks)),
            restore: restore.0,
            held: held.0,
            taken: 0,
        }
    }

    /// Returns the guest's process.
    pub fn process(&self) -> Option<ProcessId> {
        self.process.map(|(pid, start_ticks)| ProcessId { pid, start_ticks })
    }
}

/// Returns the line with its end.
pub fn encode(order: &Order) -> Vec<u8> {
    // Serialization cannot fail, because an order contains no maps with keys other than strings.
    let mut line = serde_json::to_vec(order).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Reads a line without its end. Returns `None` for anything but an order.
pub fn decode(line: &[u8]) -> Option<Order> {
    if line.len() > LINE_MAX {
        return None;
    }
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
impl Held {
    /// Returns a guest with this size to restore, current target and reclaimed memory, in bytes.
    pub(crate) fn example(id: u64, restore: u64, held: u64, taken: u64) -> Held {
        let place = Place::Qmp("/a".into());
        let (owner, uuid, process) = (0, [0; 16], None);
        Held { id, name: format!("g{id}"), place, owner, uuid, process, restore, held, taken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_back_as_they_were_written() {
        let held = Held {
            id: 3,
            name: "a\n\u{1b}".into(),
            place: Place::Qmp("/run/a.qmp".into()),
            owner: 1000,
            uuid: [7; 16],
            process: Some((4, 5)),
            restore: u64::MAX,
            held: 0,
            taken: 8,
        };
        let place = Place::Libvirt { uri: "qemu:///system".into(), socket: None };
        let orders = [
            Order::Manager { pid: 1, start_ticks: 2 },
            Order::Guest(Held { place, process: None, ..held.clone() }),
            Order::Guest(Held {
                place: Place::Messages { program: "vmcp".into() },
                ..held.clone()
            }),
            Order::Parked(held.clone()),
            Order::Guest(held),
            Order::Drop(3),
            Order::Awake(3),
            Order::Beat(9),
            Order::Reserve(7),
            Order::Ksm(None),
            Order::Ksm(Some(Saved::default())),
            Order::Done,
        ];
        for order in orders {
            let line = encode(&order);
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(decode(line.trim_ascii_end()), Some(order));
        }
        assert_eq!(decode(b"{\"beat\":1"), None, "cut in the middle");
        assert_eq!(decode(b"{\"what\":1}"), None);
    }
}
