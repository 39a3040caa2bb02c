//! The host and the owners of its memory, for display.

use serde::{Deserialize, Serialize};

/// Owners of the host's memory. Each byte counts once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnersRow {
    /// Memory in use, which is the sum of the fields from `guests_bytes` to `other_bytes`. Used
    /// memory that counts as available is included: shared memory of guests in files, and ZFS's
    /// shrinkable cache.
    pub used_bytes: Option<u64>,
    /// Memory of guests, without shared memory.
    pub guests_bytes: u64,
    /// Own memory of hypervisors.
    pub hypervisors_bytes: u64,
    /// Memory that guests share, counted once, such as templates and programs.
    pub shared_bytes: u64,
    /// Memory of compressed swap.
    pub compressed_bytes: Option<u64>,
    /// Memory of the manager.
    pub manager_bytes: Option<u64>,
    /// Reserved huge pages, including guests' huge pages.
    #[serde(default)]
    pub huge_pages_bytes: u64,
    /// Memory of ZFS's cache.
    #[serde(default)]
    pub zfs_bytes: u64,
    /// All other memory in use.
    pub other_bytes: Option<u64>,
    /// Memory of guests that KSM saves. The rows of the guests contain this memory, and
    /// `guests_bytes` does not.
    #[serde(default)]
    pub saved_bytes: u64,
}

/// Memory of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// Sentence about a manager that changes nothing, with the remedy if a setting is the reason.
    #[serde(default)]
    pub watching: Option<String>,
    /// MemTotal, with reserved huge pages.
    pub total_bytes: Option<u64>,
    /// Memory available without swapping, within the budget if there is one.
    pub available_bytes: Option<u64>,
    /// Memory available without swapping on the whole machine, with or without a budget.
    #[serde(default)]
    pub machine_available_bytes: Option<u64>,
    /// Owners of the memory in use.
    #[serde(default)]
    pub owners: Box<OwnersRow>,
    /// Set point: the free memory to keep.
    pub set_point_bytes: u64,
    /// Tolerance of the set point.
    pub hysteresis_bytes: u64,
    /// Free memory that no grant touches.
    pub reserve_bytes: u64,
    /// Budget of all guests together, if there is one.
    pub budget_bytes: Option<u64>,
    /// Memory that is granted to guests, but that the guests do not use yet.
    pub promised_bytes: Option<u64>,
    /// Memory of reservations.
    pub reserved_bytes: Option<u64>,
    /// Share of time in which some task waited for memory, in thousandths.
    pub psi_permille: Option<f64>,
    /// Pages swapped in per second.
    pub swap_in_pages_s: Option<f64>,
    /// Pages swapped out per second.
    pub swap_out_pages_s: Option<f64>,
}
