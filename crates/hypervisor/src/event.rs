//! The events of a source of guests.

use counters::Bytes;
use std::path::{Path, PathBuf};

use crate::{Owner, PortAccess};

/// Names a guest for as long as its process lives, over all sources; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// A process, also after its number has been given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the host's boot (/proc/PID/stat, field 22).
    pub start_ticks: u64,
}

/// What can be done with a guest, as its hypervisor answered when it was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It has a balloon device. Whether a driver answers is seen when it is used.
    pub balloon: bool,
    /// The balloon reports statistics.
    pub statistics: bool,
    /// The guest's kernel takes memory back before it kills; `None` if that is unknown.
    pub deflate_on_oom: Option<bool>,
    /// Free pages come back by themselves; `None` if that is unknown.
    pub page_reporting: Option<bool>,
    /// It has a port for a daemon.
    pub port: bool,
    /// Its memory stays in the host's, as far as its machine says so.
    pub pinned: Option<Pinned>,
}

/// The reason for which a guest's memory stays in the host's, though its balloon takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// A device reaches all of it at any time.
    Device,
    /// It is locked.
    Locked,
    /// It lies in pages that are set aside for those that ask for them.
    HugePages,
}

impl Pinned {
    /// The reason in words.
    pub fn why(self) -> &'static str {
        match self {
            Pinned::Device => {
                "its balloon gives the host nothing: a passed-through device has its memory"
            }
            Pinned::Locked => "its balloon gives the host nothing: its memory is locked",
            Pinned::HugePages => "its balloon gives the host nothing: its memory is in huge pages",
        }
    }
}

/// A guest as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name. It comes from outside: escape it.
    pub name: String,
    /// Its UUID; zeroes where it was given none.
    pub uuid: [u8; 16],
    /// Whose guest it is.
    pub owner: Owner,
    /// As whom its process runs, by the credentials of its monitor's socket.
    pub user: Option<Owner>,
    /// Its process on this host, where it could be identified.
    pub process: Option<ProcessId>,
    /// The memory that it was started with: more than this it can never have.
    pub memory: Bytes,
    /// The sizes of the pieces that it comes in, where they are known.
    pub ram: Vec<Bytes>,
    /// The memory that it has now.
    pub actual: Bytes,
    /// The host threads of its virtual CPUs.
    pub vcpu_tids: Vec<u32>,
    /// What can be done with it.
    pub can: Capabilities,
    /// Where its daemon's port is on the host.
    pub port: Option<PathBuf>,
    /// How it runs.
    pub state: RunState,
    /// It was started from a saved state, and goes on with the memory that it had then.
    pub is_restored: bool,
    /// Where it was found: a socket's path, or a libvirt URI.
    pub source: String,
}

impl Found {
    /// Whether a monitor's socket led to it, and no libvirt.
    pub fn has_monitor(&self) -> bool {
        self.source.starts_with('/')
    }

    /// Which sockets may be opened as its port.
    pub fn port_access(&self) -> PortAccess {
        let monitor = Some(Path::new(&self.source)).filter(|_| self.has_monitor());
        let monitor = monitor.map(Path::to_path_buf);
        PortAccess { owner: self.owner, user: self.user, monitor }
    }
}

/// How a guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Its virtual CPUs run when they have something to do.
    Running,
    /// Paused: nothing is asked of it.
    Paused(Pause),
    /// It moves to another host: its memory is left alone.
    Migrating,
    /// It has crashed or shut down, and its process is still there.
    Dead,
}

/// Why a guest is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Somebody has stopped it, or its hypervisor does not say more.
    ByHand,
    /// One of its disks has failed, or has no room left where it lies.
    DiskError,
    /// Its watchdog has gone off.
    Watchdog,
    /// Its own system has put it to sleep.
    Suspended,
    /// It was started stopped, and was not let run yet.
    NotStarted,
    /// Its state is being saved or brought back.
    Saved,
    /// A debugger has stopped it.
    Debugger,
}

impl Pause {
    /// The cause, and what to do where somebody has to do something.
    pub fn words(self) -> &'static str {
        match self {
            Pause::ByHand => "somebody has paused it",
            Pause::DiskError => {
                "one of its disks has failed, or is full: mend that, then let it run \
                 (virsh resume, or cont at its monitor)"
            }
            Pause::Watchdog => {
                "its watchdog has stopped it, for its system hangs: look at its console, then \
                 reset it (virsh reset, or system_reset and cont at its monitor)"
            }
            Pause::Suspended => {
                "its own system has put it to sleep: wake it up (virsh dompmwakeup, or \
                 system_wakeup at its monitor)"
            }
            Pause::NotStarted => {
                "it was started stopped: let it run (virsh resume, or cont at its monitor)"
            }
            Pause::Saved => "its state is being saved or brought back: it runs when that is done",
            Pause::Debugger => "a debugger has stopped it: let it run there",
        }
    }
}

/// A balloon's statistics, as the guest's driver gave them. What it did not give is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalloonStats {
    /// When the guest answered, in seconds since 1970 on the host's clock.
    pub updated_s: u64,
    /// MemTotal.
    pub total: Option<Bytes>,
    /// MemFree.
    pub free: Option<Bytes>,
    /// MemAvailable.
    pub available: Option<Bytes>,
    /// What can be dropped of the page cache.
    pub caches: Option<Bytes>,
    /// Read from swap since boot.
    pub swap_in: Option<Bytes>,
    /// Written to swap since boot.
    pub swap_out: Option<Bytes>,
    /// Faults that had to read, since boot.
    pub major_faults: Option<u64>,
}

impl BalloonStats {
    /// Returns the memory that is available at least. A driver before Linux 4.6 does not report
    /// what is; what is free surely is.
    pub fn surely_available(&self) -> Option<Bytes> {
        self.available.or(self.free)
    }

    /// The guest's own numbers, capped at the memory that it can have.
    pub(crate) fn within(self, memory: Bytes) -> BalloonStats {
        let cut = |size: Option<Bytes>| size.map(|size| size.min(memory));
        BalloonStats {
            total: cut(self.total),
            free: cut(self.free),
            available: cut(self.available),
            caches: cut(self.caches),
            ..self
        }
    }
}

/// What a guest did with its disks, all of them together, by its hypervisor's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockStats {
    /// Requests that read.
    pub reads: u64,
    /// What they read.
    pub read: Bytes,
    /// Requests that wrote.
    pub writes: u64,
    /// What they wrote.
    pub written: Bytes,
}

/// The memory that a source's guests share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMemory {
    /// That of the kernel that this process runs on.
    OfThisKernel,
    /// Another's, and how much of it is free is not known.
    Unknown,
    /// Another's.
    Known {
        /// All that guests may use.
        total: Bytes,
        /// What of it nobody has.
        available: Bytes,
    },
}

/// The parts of a guest's machine that can change while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Memory at most, with what was plugged.
    pub memory: Bytes,
    /// The sizes of the pieces that it comes in, where they are known.
    pub ram: Vec<Bytes>,
    /// The threads of its virtual CPUs.
    pub vcpu_tids: Vec<u32>,
}

/// An event of a source of guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A guest is there.
    Found(Id, Box<Found>),
    /// It has restarted in the same process: earlier reports no longer hold.
    Rebooted(Id),
    /// It runs in another way.
    State(Id, RunState),
    /// Memory or virtual CPUs were plugged into its machine, or unplugged.
    Machine(Id, Machine),
    /// Its balloon, or its daemon's port, was attached or taken away.
    Devices(Id, Capabilities, Option<PathBuf>),
    /// The memory that it has now.
    Actual(Id, Bytes),
    /// Its balloon's statistics.
    Stats(Id, BalloonStats),
    /// What it did with its disks.
    Blocks(Id, BlockStats),
    /// What z/VM counts of it.
    Counted(Id, Box<zmon::hypfs::Guest>),
    /// The memory that its configuration has for it: of a guest that was restored, or moved here.
    Configured(Id, Bytes),
    /// The last target was taken; the guest is on its way.
    Taken(Id, Bytes),
    /// The last target was refused, and why.
    Refused(Id, String),
    /// Its virtual CPUs could not be stopped, or could not be let run again, and why.
    Stays(Id, String),
    /// Its hypervisor does not answer (`false`), or answers again (`true`).
    Answers(Id, bool),
    /// It is gone, and why.
    Gone(Id, String),
    /// A trouble of no single guest; reported once until it changes.
    Trouble(String),
}
