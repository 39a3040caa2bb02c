//! The connection to libvirt's daemon, and the wait for the next attempt.

use std::path::PathBuf;

use super::link::Link;
use super::search::Search;
use crate::Owner;

/// First and longest wait after a lost connection or a failed attempt.
pub(super) const BACKOFF_MIN_MS: u64 = 1_000;
const BACKOFF_MAX_MS: u64 = 30_000;

/// An open connection.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) link: Link,
    pub(super) search: Search,
    /// User that runs the daemon and owns its guests.
    pub(super) owner: Owner,
    pub(super) socket: PathBuf,
    /// True if the domains were listed, or if their list is late and the last list is used instead.
    /// While this is false, no guest gets a request.
    pub(super) is_listed: bool,
    /// Time of the next list.
    pub(super) list_ms: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) up: Option<Up>,
    /// Time of the next attempt.
    pub(super) again_ms: u64,
    pub(super) backoff_ms: u64,
}

impl Default for Connection {
    fn default() -> Connection {
        Connection { up: None, again_ms: 0, backoff_ms: BACKOFF_MIN_MS }
    }
}

impl Connection {
    pub(super) fn back_off(&mut self, now_ms: u64) {
        self.again_ms = now_ms.saturating_add(self.backoff_ms);
        self.backoff_ms = (self.backoff_ms * 2).min(BACKOFF_MAX_MS);
    }
}
