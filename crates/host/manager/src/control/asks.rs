//! Requests. A manager serves requests about a host's memory, a farm serves requests about its
//! guests, and both serve `park`, `wake` and `capture`.

use serde::{Serialize, Serializer};

use super::Whose;
use crate::config::Share;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Ask {
    /// List the guests.
    Ps,
    /// Change a guest's limits, until the guest or the manager ends.
    Set {
        /// Name or UUID of the guest.
        guest: String,
        /// Change of the limits.
        #[serde(flatten)]
        change: Change,
    },
    /// Stop a guest's virtual CPUs and have its memory paged out, until it is woken.
    Park {
        /// Name or UUID of the guest.
        guest: String,
    },
    /// Resume a parked guest.
    Wake {
        /// Name or UUID of the guest.
        guest: String,
    },
    /// Free memory for a guest that is about to start. The response is sent when the memory is
    /// free, or after the timeout.
    Reserve {
        /// Size of the memory.
        mib: u64,
        /// Timeout of the request.
        timeout_ms: u64,
        /// Time for which the freed memory is reserved.
        hold_ms: u64,
    },
    /// Cancel a reservation, because the memory was used or is not needed.
    Unreserve {
        /// Number of the reservation, from the response to `reserve`.
        reservation: u64,
    },
    /// Return the inputs of the last decisions about a guest.
    Inputs {
        /// Name or UUID of the guest.
        guest: String,
    },
    /// Return a guest's tasks. The request to the daemon wakes the guest.
    Scan {
        /// Name or UUID of the guest.
        guest: String,
    },
    /// Return the activity of the last second.
    Interval {
        /// Guests to report with their processes. Processes are the largest part of a response.
        #[serde(skip_serializing_if = "Whose::is_everybody")]
        processes: Whose,
    },
    /// Return the gain and cost of each lever on the host's memory.
    Levers,
    /// Return the status of the manager.
    Status,
    /// Read the settings again.
    Reload,
    /// End the manager of a `pinhead up`, because another manager takes over its guests.
    Yield,
    /// List a farm and its guests.
    Farm,
    /// Return the last output of a guest's console.
    Logs {
        /// Name of the guest.
        guest: String,
    },
    /// Attach to a guest's console.
    Console {
        /// Name of the guest.
        guest: String,
    },
    /// Run a line in a guest's shell.
    Exec {
        /// Name of the guest.
        guest: String,
        /// Line to run.
        command: String,
    },
    /// Return the files that a guest's rules read. The request to the daemon wakes the guest.
    Capture {
        /// Name of the guest. A manager also accepts the guest's UUID, or the path of its monitor.
        guest: String,
    },
    /// Hand over the ports and balloons of all guests to a manager.
    Lend,
    /// End the farm.
    Down,
}

impl Ask {
    /// Returns the value of `do` in JSON.
    pub fn verb(&self) -> String {
        let request = serde_json::json!(self);
        request["do"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns true if the request changes something. Members of the socket's group need a right
    /// for such a request.
    pub(super) fn is_order(&self) -> bool {
        match self {
            Ask::Set { .. }
            | Ask::Park { .. }
            | Ask::Wake { .. }
            | Ask::Reserve { .. }
            | Ask::Unreserve { .. }
            | Ask::Reload
            | Ask::Yield
            | Ask::Console { .. }
            | Ask::Exec { .. }
            | Ask::Lend
            | Ask::Down => true,
            Ask::Ps
            | Ask::Inputs { .. }
            | Ask::Scan { .. }
            | Ask::Capture { .. }
            | Ask::Interval { .. }
            | Ask::Levers
            | Ask::Status
            | Ask::Farm
            | Ask::Logs { .. } => false,
        }
    }
}

/// A change of a guest's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", content = "value", rename_all = "kebab-case")]
pub enum Change {
    /// Lower limit of the guest's memory.
    Min(#[serde(serialize_with = "as_text")] Share),
    /// Upper limit of the guest's memory.
    Max(#[serde(serialize_with = "as_text")] Share),
    /// Weight of the guest.
    Shares(u32),
    /// Fixed size of the guest.
    Pin(#[serde(serialize_with = "as_text")] Share),
    /// End of the guest's management.
    Release,
    /// Return to management by the guest's class.
    Manage,
}

fn as_text<S: Serializer>(share: &Share, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(share)
}
