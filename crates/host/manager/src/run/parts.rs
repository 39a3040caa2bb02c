//! The parts of a manager, and its signals from outside.

use crate::clock::Clock;
use crate::config::{Loaded, Place, Settings, Share};
use crate::control::Server;
use crate::ksm::Ksm;
use crate::lease::Lease;
use crate::machine::MachineReader;
use crate::monitor::Monitor;
use crate::pageout::PageOutWorker;
use crate::users::Users;
use hypervisor::Hypervisor;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use store::Writer;

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// True if decisions are only written to the journal, by an option or by `[policy] act`.
    pub dry_run: bool,
    /// Time after which the manager ends.
    pub for_ms: Option<u64>,
    /// Memory that the guests may use together, in place of the file's `[host] budget`.
    pub budget: Option<Share>,
    /// True if the manager is part of a `pinhead up`. Such a manager has only guests of its user's
    /// farms, does not change KSM, and ends when a `pinhead host` starts.
    pub for_farms: bool,
}

impl Options {
    /// Returns the options of a run with these settings, which may order a dry run as well.
    #[must_use]
    pub fn with(self, settings: &Settings) -> Options {
        Options { dry_run: self.dry_run || !settings.policy.act, ..self }
    }
}

/// Signals that wake the manager from outside.
#[derive(Clone, Copy, Debug)]
pub struct Signals<'a> {
    /// Readable when the manager must end.
    pub stop: BorrowedFd<'a>,
    /// Readable when the configuration must be read again.
    pub reload: BorrowedFd<'a>,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Continue with the next turn.
    On,
    /// End the manager.
    Stop,
    /// Read the configuration again.
    Reload,
}

/// Parts of a manager.
pub struct Parts {
    /// Clock of the manager.
    pub clock: Clock,
    /// Options of the run.
    pub options: Options,
    /// Properties of the host and the user that defaults depend on.
    pub place: Place,
    /// Path of the settings file, if given.
    pub config_path: Option<PathBuf>,
    /// The settings, and the settings of a shadow policy.
    pub loaded: Loaded,
    /// Users with managed guests, besides root and this process's user.
    pub users: Users,
    /// Sources of guests.
    pub sources: Vec<Box<dyn Hypervisor>>,
    /// Reader of the host's counters.
    pub reader: MachineReader,
    /// Journal of decisions.
    pub journal: Writer,
    /// Control socket.
    pub control: Server,
    /// Lease that restores guests if this process ends.
    pub lease: Lease,
    /// Driver of the kernel's page sharing.
    pub ksm: Ksm,
    /// Thread that pages out guests' memory.
    pub page_out: PageOutWorker,
    /// Monitor, if anything is recorded or shown.
    pub monitor: Option<Monitor>,
}
