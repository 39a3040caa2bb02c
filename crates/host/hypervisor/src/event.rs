//! Events of a source of guests.

use base::{Bytes, PAGE_BYTES};
use model::{GuestField, Row};
use std::path::{Path, PathBuf};

use crate::{Owner, PortAccess};

const NS_PER_S: u64 = 1_000_000_000;

/// Identifies a guest across all sources as long as its process lives. An id is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// Identity of a process that survives the reuse of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    pub pid: u32,
    /// Start time, in clock ticks since the host's boot (/proc/PID/stat, field 22).
    pub start_ticks: u64,
}

/// Capabilities of a guest, as its hypervisor reported them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// True if the guest has a balloon device. Only use of the device shows if a driver responds.
    pub balloon: bool,
    /// True if the balloon reports statistics.
    pub statistics: bool,
    /// True if the guest's kernel deflates the balloon before an OOM kill; `None` if unknown.
    pub deflate_on_oom: Option<bool>,
    /// True if the guest reports free pages; `None` if unknown.
    pub page_reporting: Option<bool>,
    /// True if the guest has a port for a daemon.
    pub port: bool,
    /// Reason why the guest's memory stays resident on the host; `None` if no reason was found.
    pub pinned: Option<Pinned>,
}

/// Reason why a guest's memory stays resident on the host although its balloon inflates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// A passed-through device may access all of the memory at any time.
    Device,
    /// The memory is locked.
    Locked,
    /// The memory is in reserved huge pages.
    HugePages,
}

impl Pinned {
    /// Returns the reason in words.
    pub fn why(self) -> &'static str {
        match self {
            Pinned::Device => {
                "its balloon frees nothing on the host: a passed-through device uses its memory"
            }
            Pinned::Locked => "its balloon frees nothing on the host: its memory is locked",
            Pinned::HugePages => {
                "its balloon frees nothing on the host: its memory is in huge pages"
            }
        }
    }
}

/// Properties of a guest at its discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Name of the guest. It is untrusted: escape it.
    pub name: String,
    /// UUID of the guest; all zeroes if the guest has none.
    pub uuid: [u8; 16],
    /// Owner of the guest.
    pub owner: Owner,
    /// User that the guest's process runs as, from the credentials of its monitor's socket.
    pub user: Option<Owner>,
    /// Process of the guest on this host, if it could be identified.
    pub process: Option<ProcessId>,
    /// Maximum memory: the memory that the guest was started with.
    pub memory: Bytes,
    /// Sizes of the blocks that the memory consists of, if known.
    pub ram: Vec<Bytes>,
    /// Current memory of the guest.
    pub actual: Bytes,
    /// Host threads of the vCPUs.
    pub vcpu_tids: Vec<u32>,
    /// Capabilities of the guest.
    pub can: Capabilities,
    /// Path of the daemon's port on the host.
    pub port: Option<PathBuf>,
    /// Run state of the guest.
    pub state: RunState,
    /// True if the guest was restored from a saved state, with the memory size that it had when it
    /// was saved.
    pub is_restored: bool,
    /// Place where the guest was found: a socket's path, or a libvirt URI.
    pub source: String,
}

impl Found {
    /// Returns true if the guest was found through its monitor's socket, not through libvirt.
    pub fn has_monitor(&self) -> bool {
        self.source.starts_with('/')
    }

    /// Returns the rules for the sockets that may be opened as the guest's port.
    pub fn port_access(&self) -> PortAccess {
        let monitor = Some(Path::new(&self.source)).filter(|_| self.has_monitor());
        let monitor = monitor.map(Path::to_path_buf);
        PortAccess { owner: self.owner, user: self.user, monitor }
    }
}

/// Run state of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The vCPUs run when they have work.
    Running,
    /// The guest is paused and receives no requests.
    Paused(Pause),
    /// The guest migrates to another host. The manager leaves the guest's memory unchanged.
    Migrating,
    /// The guest has crashed or shut down, and its process still exists.
    Dead,
}

/// Reason why a guest is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A user has paused the guest, or its hypervisor reports no reason.
    ByHand,
    /// One of the guest's disks has failed or has no space left.
    DiskError,
    /// The guest's watchdog has fired.
    Watchdog,
    /// The guest's own system has suspended it.
    Suspended,
    /// The guest was started paused and has not run yet.
    NotStarted,
    /// The guest's state is being saved or restored.
    Saved,
    /// A debugger has stopped the guest.
    Debugger,
}

impl Pause {
    /// Returns the cause, and the remedy if a user must act.
    pub fn words(self) -> &'static str {
        match self {
            Pause::ByHand => {
                "a user or a tool has paused it: resume it (virsh resume, or cont at its monitor)"
            }
            Pause::DiskError => {
                "one of its disks has failed, or is full: repair the disk, then resume the guest \
                 (virsh resume, or cont at its monitor)"
            }
            Pause::Watchdog => {
                "its watchdog has stopped it because its system hangs: check its console, then \
                 reset it (virsh reset, or system_reset and cont at its monitor)"
            }
            Pause::Suspended => {
                "its own system has suspended it: wake it up (virsh dompmwakeup, or \
                 system_wakeup at its monitor)"
            }
            Pause::NotStarted => {
                "it was started paused: resume it (virsh resume, or cont at its monitor)"
            }
            Pause::Saved => "its state is being saved or restored: it runs again after that",
            Pause::Debugger => "a debugger has stopped it: continue it in the debugger",
        }
    }
}

/// Returns a balloon's statistics as fields of the guest's record, with sizes capped at its maximum
/// memory. `updated_s` is the time of the guest's response, in seconds since 1970 on the host's
/// clock. A value that the guest did not report is missing. The fields that a daemon would report
/// are set as well, for a guest without a daemon.
pub fn balloon_row(
    updated_s: u64,
    most: Bytes,
    values: impl IntoIterator<Item = (GuestField, Option<u64>)>,
) -> Row<GuestField> {
    use GuestField as G;
    let mut row = Row::default();
    row.set(G::BalloonTime, updated_s.checked_mul(NS_PER_S));
    row.extend(values);
    for size in [G::BalloonTotal, G::BalloonFree, G::BalloonAvailable, G::BalloonCached] {
        row.set(size, row.get(size).map(|bytes| bytes.min(most.0)));
    }
    let of = |field| row.get(field);
    let pages = |field| row.get(field).map(|bytes| bytes / PAGE_BYTES);
    let own = [
        (G::OwnFree, of(G::BalloonFree)),
        // Drivers before Linux 4.6 do not report available memory. Free memory is a lower bound.
        (G::OwnAvailable, of(G::BalloonAvailable).or(of(G::BalloonFree))),
        (G::OwnCached, of(G::BalloonCached)),
        (G::OwnSwapIn, pages(G::BalloonSwapIn)),
        (G::OwnSwapOut, pages(G::BalloonSwapOut)),
        (G::OwnMajorFaults, of(G::BalloonMajorFaults)),
    ];
    row.extend(own);
    row
}

/// The memory that a source's guests share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMemory {
    /// Memory of the kernel that this process runs on.
    OfThisKernel,
    /// Memory of another kernel, of unknown size.
    Unknown,
    /// Memory of another kernel.
    Known {
        /// Total memory for guests.
        total: Bytes,
        /// Unused part of the total.
        available: Bytes,
    },
}

/// The parts of a guest's machine that can change while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Maximum memory, including plugged memory.
    pub memory: Bytes,
    /// Sizes of the blocks that the memory consists of, if known.
    pub ram: Vec<Bytes>,
    /// Host threads of the vCPUs.
    pub vcpu_tids: Vec<u32>,
}

/// An event of a source of guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A guest was found.
    Found(Id, Box<Found>),
    /// The guest has rebooted in the same process. Earlier reports are invalid.
    Rebooted(Id),
    /// The run state has changed.
    State(Id, RunState),
    /// Memory or vCPUs were plugged or unplugged.
    Machine(Id, Machine),
    /// The balloon or the daemon's port was attached or detached.
    Devices(Id, Capabilities, Option<PathBuf>),
    /// Current memory of the guest.
    Actual(Id, Bytes),
    /// Balloon statistics of the guest, by [`balloon_row`].
    Stats(Id, Row<GuestField>),
    /// Disk I/O of the guest.
    Blocks(Id, qmp::BlockStats),
    /// Counters of z/VM for the guest.
    Counted(Id, Box<zmon::hypfs::Guest>),
    /// Memory in the configuration of a guest that was restored or moved here.
    Configured(Id, Bytes),
    /// The last target was accepted, and the guest moves towards it.
    Taken(Id, Bytes),
    /// The last target was refused, with the reason.
    Refused(Id, String),
    /// The vCPUs could not be paused or resumed, with the reason.
    Stays(Id, String),
    /// The hypervisor has stopped responding (`false`) or responds again (`true`).
    Answers(Id, bool),
    /// The guest is gone, with the reason.
    Gone(Id, String),
    /// A problem that concerns no single guest, reported once until it changes.
    Trouble(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use GuestField as G;

    #[test]
    fn balloon_statistics_are_recorded_in_both_sets_of_fields() {
        let values = [
            (G::BalloonTotal, Some(Bytes::mib(95).0)),
            (G::BalloonFree, Some(Bytes::mib(10).0)),
            (G::BalloonAvailable, None),
            (G::BalloonCached, Some(Bytes::mib(20).0)),
            (G::BalloonSwapIn, Some(4096 * 3 + 1)),
        ];
        let expected = [
            (G::OwnFree, Bytes::mib(10).0),
            (G::OwnAvailable, Bytes::mib(10).0),
            (G::OwnCached, Bytes::mib(20).0),
            (G::OwnSwapIn, 3),
            (G::BalloonTime, 1_700_000_000_000_000_000),
            (G::BalloonTotal, Bytes::mib(90).0),
            (G::BalloonFree, Bytes::mib(10).0),
            (G::BalloonCached, Bytes::mib(20).0),
            (G::BalloonSwapIn, 4096 * 3 + 1),
        ];
        let row = balloon_row(1_700_000_000, Bytes::mib(90), values);
        assert_eq!(row.known().collect::<Vec<_>>(), expected, "unreported values are missing");
    }
}
