//! The host as it is shown, and who has what of its memory.

use serde::{Deserialize, Serialize};

/// Who has what of the host's memory: each byte once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnersRow {
    /// Memory in use, in the next ones together: total less available, and what of that counts as
    /// available all the same: guests' shared memory in files, ZFS's cache that gives way.
    pub used_bytes: Option<u64>,
    /// Memory of guests, each for itself.
    pub guests_bytes: u64,
    /// Their hypervisors' own.
    pub hypervisors_bytes: u64,
    /// What guests have together, once: templates, programs.
    pub shared_bytes: u64,
    /// What compressed swap takes.
    pub compressed_bytes: Option<u64>,
    /// The manager's own.
    pub manager_bytes: Option<u64>,
    /// Huge pages that are set aside, guests' among them.
    #[serde(default)]
    pub huge_pages_bytes: u64,
    /// ZFS's cache.
    #[serde(default)]
    pub zfs_bytes: u64,
    /// Everything else.
    pub other_bytes: Option<u64>,
}

/// The host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// MemTotal, with the huge pages that are set aside.
    pub total_bytes: Option<u64>,
    /// What could be handed out without swapping, within the budget if there is one.
    pub available_bytes: Option<u64>,
    /// Who has what of it.
    #[serde(default)]
    pub owners: OwnersRow,
    /// What it is to have free.
    pub set_point_bytes: u64,
    /// How far that may be missed.
    pub hysteresis_bytes: u64,
    /// What no grant touches.
    pub reserve_bytes: u64,
    /// What guests may use together, if that is bounded.
    pub budget_bytes: Option<u64>,
    /// What was granted and has not been taken up yet.
    pub promised_bytes: Option<u64>,
    /// What reservations hold.
    pub reserved_bytes: Option<u64>,
    /// Time in which some task waited for memory, in thousandths.
    pub psi_permille: Option<f64>,
    /// Pages a second from swap.
    pub swap_in_pages_s: Option<f64>,
    /// Pages a second to swap.
    pub swap_out_pages_s: Option<f64>,
}
