//! The connection to libvirt's daemon, and the wait for the next one.

use std::path::PathBuf;

use super::link::Link;
use super::search::Search;
use crate::Owner;

/// The first wait after a connection was lost or not had, and the longest.
pub(super) const BACKOFF_MIN_MS: u64 = 1_000;
const BACKOFF_MAX_MS: u64 = 30_000;

/// A connection that is there.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) link: Link,
    pub(super) search: Search,
    /// The user who has the daemon, and these guests.
    pub(super) owner: Owner,
    pub(super) socket: PathBuf,
    /// True if the domains were listed, or those of the last list are taken for them. Before that
    /// no guest is asked anything.
    pub(super) is_listed: bool,
    /// When they are to be listed again.
    pub(super) list_ms: Option<u64>,
}

/// The connection, be it there or not.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) up: Option<Up>,
    /// When the next attempt is made.
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
