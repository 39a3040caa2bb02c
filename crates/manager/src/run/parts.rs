//! The parts of a manager, and its signals from outside.

use crate::clock::Clock;
use crate::config::{Loaded, Place};
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

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Decide and journal, and touch nothing.
    pub dry_run: bool,
    /// End after so long.
    pub for_ms: Option<u64>,
}

/// What wakes the manager from outside.
#[derive(Clone, Copy, Debug)]
pub struct Signals<'a> {
    /// Readable when it is to end.
    pub stop: BorrowedFd<'a>,
    /// Readable when its configuration is to be read again.
    pub reload: BorrowedFd<'a>,
}

/// What a turn was ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Go on.
    On,
    /// It is to end.
    Stop,
    /// It is to read its configuration again.
    Reload,
}

/// What a manager is made of.
pub struct Parts {
    /// Its clock.
    pub clock: Clock,
    /// How to run.
    pub options: Options,
    /// What defaults depend on.
    pub place: Place,
    /// The file of settings, if one was named.
    pub config_path: Option<PathBuf>,
    /// The settings, with those of a shadow policy.
    pub loaded: Loaded,
    /// Whose guests are managed besides root's and this process's user's.
    pub users: Users,
    /// Where guests come from.
    pub sources: Vec<Box<dyn Hypervisor>>,
    /// The host's counters.
    pub reader: MachineReader,
    /// The record of decisions.
    pub journal: Writer,
    /// The socket.
    pub control: Server,
    /// What holds if this process ends.
    pub lease: Lease,
    /// The kernel's page sharing.
    pub ksm: Ksm,
    /// What hands guests' memory to the kernel.
    pub page_out: PageOutWorker,
    /// What records, if anything does.
    pub monitor: Option<Monitor>,
}
