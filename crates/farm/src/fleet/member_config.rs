//! How a guest joins a fleet.

use std::path::PathBuf;

use counters::Bytes;
use vm::GuestSpec;

use super::park_clock::ParkRule;

/// How a guest joins a fleet.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// How it is started.
    pub spec: GuestSpec,
    /// What it keeps whatever it asks for.
    pub floor: Bytes,
    /// Whether a daemon will report that it is up.
    pub daemon: Daemon,
    /// When it is parked.
    pub park: ParkRule,
    /// The file that it is parked in, if that is on disk: its QEMU ends then.
    pub park_file: Option<PathBuf>,
}

impl MemberConfig {
    /// A guest with the daemon that keeps as much as any, and is never parked.
    pub fn new(spec: GuestSpec) -> MemberConfig {
        MemberConfig {
            floor: agent::floor(Bytes::mib(spec.memory_mib)),
            spec,
            daemon: Daemon::Expected,
            park: ParkRule::default(),
            park_file: None,
        }
    }
}

/// Whether a guest has the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// The guest is up when its daemon has sent its hello.
    Expected,
    /// The guest is up when its console has the marker.
    Missing,
    /// The guest is not one of ours, and its console has no marker: it is taken for up when its
    /// QEMU runs.
    Foreign,
}
