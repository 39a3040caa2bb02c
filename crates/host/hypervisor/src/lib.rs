//! Layer under the guests: discovery of running guests, their memory, and its control.
//!
//! ```text
//!   QMP sockets (glob) ─► qmp::Client ──┐
//!   libvirt's socket ─► virtrpc ────────┼─► Event ─► the manager ─► set_target, ask_stats
//!   diag_2fc, vmcp ─► Zvm ──────────────┤
//!   Fake, for tests ────────────────────┘
//!   /proc/PID of a guest's process ─► ProcessView
//!   /proc/PID/maps of a guest's process ─► PageOut ─► the host's own reclaim
//!   /sys/kernel/mm/ksm ◄─► KsmFiles ◄─► the driver of the sharing of guests' equal pages
//! ```
//!
//! No function here blocks. A back end adds its descriptors to the poll set, reads received data,
//! and returns events. Capabilities of a hypervisor are queried, never assumed.

#![deny(unsafe_code)]

mod ahead;
mod error;
mod event;
mod fake;
mod guest_memory;
mod ids;
mod ksm;
pub mod libvirt;
mod owner;
mod pagemap;
mod pageout;
mod peer;
mod process;
mod qmp_source;
mod ram;
mod stats_question;
mod stranger;
mod sys;
mod vcpu;
mod zvm;

pub use ahead::InMemory;
pub use error::Error;
pub use event::{
    Capabilities, Event, Found, HostMemory, Id, Machine, Pause, Pinned, ProcessId, RunState,
    balloon_row,
};
pub use fake::{Balloon, Fake};
pub use guest_memory::GuestMemory;
pub use ids::IdSource;
pub use ksm::KsmFiles;
pub use libvirt::Libvirt;
pub use libvirt::{DomainParts, describe_domain};
pub use owner::{Owner, PortAccess, Trust, connect};
pub use pageout::{PageOut, PageOutError, Slice};
pub use process::{Apart, ProcessView, Stat};
pub use qmp::BlockStats;
pub use qmp_source::{QMP_PATTERNS, QmpSource, is_hidden};
pub use ram::{BackingFile, GuestRam, Held};
pub use stranger::{Claim, Stranger};
pub use vcpu::{ThreadRan, Usage, Vcpus};
pub use zvm::{ZVM_SOURCE, Zvm, ZvmOptions, ZvmRelease};

use std::collections::BTreeSet;
use std::path::PathBuf;

use base::Bytes;
use reactor::PollSet;

/// Name of the daemon's port in the guest.
const PORT_NAME: &str = "org.pinhead.0";
/// Smallest target of a balloon, because QEMU does not accept a size of 0.
const BALLOON_MIN: Bytes = Bytes::mib(1);

/// One source of guests.
pub trait Hypervisor {
    /// Returns the display name, such as `qmp` or `libvirt qemu:///system`.
    fn name(&self) -> String;

    /// Adds the descriptors to poll.
    fn fds<'a>(&'a self, set: &mut PollSet<'a>);

    /// Returns the time of the next turn, even if no descriptor becomes ready.
    fn next_ms(&self) -> u64;

    /// Processes input and timers. `ready` contains the descriptors added by `fds` that are ready.
    /// `None` means that no descriptor was polled, and all are tried.
    fn turn(&mut self, ready: Option<&[reactor::Event]>, now_ms: u64, events: &mut Vec<Event>);

    /// Requests a size for the guest. A later event reports if it was accepted.
    fn set_target(&mut self, guest: Id, target: Bytes, now_ms: u64);

    /// Requests the balloon's statistics once. This wakes the guest.
    fn ask_stats(&mut self, guest: Id, now_ms: u64);

    /// Requests the current size of the guest. This does not wake the guest.
    fn ask_actual(&mut self, guest: Id, now_ms: u64);

    /// Requests the guest's disk I/O. This does not wake the guest. A source without such counters
    /// does not respond.
    fn ask_blocks(&mut self, _guest: Id, _now_ms: u64) {}

    /// Pauses or resumes a guest's vCPUs. Success is a later [`Event::State`], and failure is
    /// [`Event::Stays`].
    fn set_running(&mut self, guest: Id, runs: bool, now_ms: u64);

    /// Returns the memory that the guests share.
    fn host_memory(&self) -> HostMemory {
        HostMemory::OfThisKernel
    }

    /// Returns the directories of monitors without a guest so far, with the owners of the monitors.
    /// Another client may hold these monitors.
    fn unclaimed(&self) -> BTreeSet<(PathBuf, Owner)> {
        BTreeSet::new()
    }

    /// Returns a problem that persists and concerns no single guest.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Returns the untrusted users that seem to have guests here.
    fn others(&self) -> BTreeSet<Owner> {
        BTreeSet::new()
    }
}
