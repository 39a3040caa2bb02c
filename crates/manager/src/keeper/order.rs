//! The manager's messages to its keeper: a line of JSON for each change.
//!
//! ```text
//!   {"manager":{"pid":7,"start_ticks":9}}  {"guest":{...}}  {"drop":3}  {"beat":12}
//!   {"parked":{...}}  {"awake":3}  {"reserve":1048576}  {"ksm":[["run","0"]]}  {"done":true}
//! ```

use counters::Bytes;
use hypervisor::{Found, Id, ProcessId};
use serde::{Deserialize, Serialize};

use crate::ksm::Saved;

/// The longest line: a guest's has a path, which the kernel bounds to 4096 bytes, twice.
pub const LINE_MAX: usize = 32 * 1024;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The sender: the process that is ended if it hangs.
    Manager {
        /// Its number.
        pid: u32,
        /// When it started, so that no other process is taken for it.
        start_ticks: u64,
    },
    /// A guest has less than it had, or is about to.
    Guest(Held),
    /// A guest has what it had, or is gone.
    Drop(u64),
    /// A guest is parked, or about to be: its virtual CPUs are to run again.
    Parked(Held),
    /// A guest is parked no longer, or is gone.
    Awake(u64),
    /// The manager lives. The number only makes lines differ.
    Beat(u64),
    /// Free memory of the host that is not given to anyone.
    Reserve(u64),
    /// KSM's settings as they were found; null if they need no restoring.
    Ksm(Option<Saved>),
    /// The manager ends in order: with `true` it has put everything back itself, with `false` the
    /// keeper is to do it as soon as the pipe is closed.
    Done(bool),
}

/// Where a guest is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The path of a QMP socket.
    Qmp(String),
    /// libvirt.
    Libvirt {
        /// Such as `qemu:///system`.
        uri: String,
        /// Its socket, where it is not the usual one.
        socket: Option<String>,
    },
    /// Special messages to the kernel of a user of z/VM, by the guest's name.
    Messages {
        /// What sends them.
        program: String,
    },
}

/// A guest that has given memory up, or is parked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its number in the manager.
    pub id: u64,
    /// Its name, for messages.
    pub name: String,
    /// Where it is reached.
    pub place: Place,
    /// Whose guest it is.
    pub owner: u32,
    /// Its UUID, to find it in libvirt.
    pub uuid: [u8; 16],
    /// Its process: one that was started since has its memory already.
    pub process: Option<(u32, u64)>,
    /// What it is to have, in bytes.
    pub restore: u64,
    /// The target of its balloon, in bytes.
    pub held: u64,
    /// What of the rest the manager took from it, by what the host had seen it hold. Whatever
    /// else it lacks it lacks by its own word.
    #[serde(default)]
    pub taken: u64,
}

impl Held {
    /// A guest as it was found, from which nothing was taken yet; a socket is named where
    /// libvirt's is not the usual one.
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

    /// Its process.
    pub fn process(&self) -> Option<ProcessId> {
        self.process.map(|(pid, start_ticks)| ProcessId { pid, start_ticks })
    }
}

/// The line, with its end.
pub fn encode(order: &Order) -> Vec<u8> {
    // Nothing in an order can fail to be written: it has no maps with odd keys.
    let mut line = serde_json::to_vec(order).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Reads a line, without its end. What is no order is nothing.
pub fn decode(line: &[u8]) -> Option<Order> {
    if line.len() > LINE_MAX {
        return None;
    }
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
impl Held {
    /// A guest with so many bytes to have again, to have now, and taken.
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
            Order::Done(true),
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
