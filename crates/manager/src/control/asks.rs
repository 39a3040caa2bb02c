//! Requests. A manager serves those about a host's memory, a farm those about the guests that it
//! runs, and both serve `park` and `wake`.

use serde::{Serialize, Serializer};

use super::Whose;
use crate::config::Share;

/// A question, or an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Ask {
    /// The guests.
    Ps,
    /// Change what a guest is entitled to, until it or the manager ends.
    Set {
        /// Its name or UUID.
        guest: String,
        /// What is changed.
        #[serde(flatten)]
        change: Change,
    },
    /// Stop a guest's virtual CPUs and have its memory paged out, until it is woken.
    Park {
        /// Its name or UUID.
        guest: String,
    },
    /// Let a parked guest run again.
    Wake {
        /// Its name or UUID.
        guest: String,
    },
    /// Free memory for a guest that is about to start. The answer comes when it is there, or when
    /// the time is over.
    Reserve {
        /// How much.
        mib: u64,
        /// How long to wait for it.
        timeout_ms: u64,
        /// How long it is held, once it is there.
        hold_ms: u64,
    },
    /// The memory was used, or is not needed.
    Unreserve {
        /// The number that the answer to `reserve` gave.
        reservation: u64,
    },
    /// The numbers that the last passes saw of a guest.
    Inputs {
        /// Its name or UUID.
        guest: String,
    },
    /// A guest's tasks. Its daemon is asked, which wakes it.
    Scan {
        /// Its name or UUID.
        guest: String,
    },
    /// What happened in the last second.
    Interval {
        /// Whose processes are in the answer: they are most of it.
        #[serde(skip_serializing_if = "Whose::is_everybody")]
        processes: Whose,
    },
    /// What each lever on the host's memory gained and cost.
    Levers,
    /// The manager itself.
    Status,
    /// Read the settings again.
    Reload,
    /// A farm and its guests, as it sees them.
    Farm,
    /// The last output of a guest's console.
    Logs {
        /// Its name.
        guest: String,
    },
    /// A guest's console, both ways.
    Console {
        /// Its name.
        guest: String,
    },
    /// Run a line in a guest's shell.
    Exec {
        /// Its name.
        guest: String,
        /// The line.
        command: String,
    },
    /// The files that a guest's rules look at.
    Capture {
        /// Its name.
        guest: String,
    },
    /// Leave the ports and balloons of all guests to a manager.
    Lend,
    /// End the farm.
    Down,
}

impl Ask {
    /// The word under `do`, as it is written.
    pub fn verb(&self) -> String {
        let request = serde_json::json!(self);
        request["do"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns whether it changes something: a member of the socket's group may not ask for it.
    pub(super) fn is_order(&self) -> bool {
        match self {
            Ask::Set { .. }
            | Ask::Park { .. }
            | Ask::Wake { .. }
            | Ask::Reserve { .. }
            | Ask::Unreserve { .. }
            | Ask::Reload
            | Ask::Console { .. }
            | Ask::Exec { .. }
            | Ask::Capture { .. }
            | Ask::Lend
            | Ask::Down => true,
            Ask::Ps
            | Ask::Inputs { .. }
            | Ask::Scan { .. }
            | Ask::Interval { .. }
            | Ask::Levers
            | Ask::Status
            | Ask::Farm
            | Ask::Logs { .. } => false,
        }
    }
}

/// A change of what a guest is entitled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", content = "value", rename_all = "kebab-case")]
pub enum Change {
    /// It never gets less.
    Min(#[serde(serialize_with = "as_text")] Share),
    /// It never gets more.
    Max(#[serde(serialize_with = "as_text")] Share),
    /// Its weight.
    Shares(u32),
    /// It has this much.
    Pin(#[serde(serialize_with = "as_text")] Share),
    /// It is not managed any more.
    Release,
    /// It is managed again, by its class.
    Manage,
}

fn as_text<S: Serializer>(share: &Share, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(share)
}
