//! A guest's place in a fleet.

use vm::GuestSpec;

use super::grant::Floor;

/// A guest's place in a fleet.
#[derive(Clone, Debug)]
pub struct Seat {
    /// How it is started.
    pub spec: GuestSpec,
    /// What it keeps whatever it asks for.
    pub floor: Floor,
    /// Whether a daemon will say that it is up.
    pub daemon: Daemon,
}

/// Whether a guest has the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// The guest is up when its daemon has said hello.
    Expected,
    /// The guest is up when its console says so.
    Missing,
    /// The guest is not one of ours, and says nothing that we know: it is taken for up when its
    /// QEMU runs.
    Foreign,
}
