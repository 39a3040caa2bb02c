//! Configuration of a guest that joins a fleet.

use std::path::PathBuf;

use base::Bytes;
use vm::GuestSpec;

use super::balloon::BalloonGrants;
use super::park_clock::ParkRule;
use super::refusal::Refusal;
use super::state::Holder;

/// Configuration of a guest that joins a fleet.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// Specification that the guest is started with.
    pub spec: GuestSpec,
    /// Minimum memory of the guest.
    pub floor: Bytes,
    /// Daemon of the guest, which decides when the guest counts as up.
    pub daemon: Daemon,
    /// Rule for parking the guest.
    pub park: ParkRule,
    /// File for parking the guest on disk. The QEMU of a guest parked on disk has ended.
    pub park_file: Option<PathBuf>,
}

impl MemberConfig {
    /// Creates the configuration of a guest with the daemon, the usual floor, and no parking.
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

/// Daemon of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// The guest is up once its daemon has sent its hello.
    Expected,
    /// The guest has no daemon. The guest is up once its console shows the marker.
    Missing,
    /// The guest is a foreign image without a marker on its console. The guest counts as up once
    /// its QEMU runs.
    Foreign,
}

/// Checks that a guest can be parked on disk now.
pub(super) fn may_be_saved(
    config: &MemberConfig,
    holder: Holder,
    balloon: &BalloonGrants,
) -> Result<(), Refusal> {
    if config.spec.restore.is_none() {
        return Err(Refusal::Booted);
    }
    if holder != Holder::Farm {
        return Err(Refusal::Managed);
    }
    match balloon.is_busy() {
        true => Err(Refusal::Balloon),
        false => Ok(()),
    }
}
