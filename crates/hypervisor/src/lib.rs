//! The layer under the guests: which run, how much memory each has, and the control of it.
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
//! Nothing here waits: a back end names the descriptors it waits for, reads what has come, and
//! returns events. What a hypervisor can do is asked, never assumed.

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
#[cfg(test)]
mod testing;
mod vcpu;
mod zvm;

pub use ahead::InMemory;
pub use error::Error;
pub use event::{
    BalloonStats, BlockStats, Capabilities, Event, Found, HostMemory, Id, Machine, Pause, Pinned,
    ProcessId, RunState,
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
pub use qmp_source::{QMP_PATTERNS, QmpSource};
pub use ram::{BackingFile, GuestRam, Held};
pub use stranger::{Claim, Stranger};
pub use vcpu::{ThreadRan, Usage, Vcpus};
pub use zvm::{ZVM_SOURCE, Zvm, ZvmOptions, ZvmRelease};

use std::collections::BTreeSet;

use counters::Bytes;
use reactor::PollSet;

/// The least size that a balloon is told: a size of 0 is none to QEMU.
const BALLOON_MIN: Bytes = Bytes::mib(1);

/// One source of guests.
pub trait Hypervisor {
    /// What people call it, such as `qmp` or `libvirt qemu:///system`.
    fn name(&self) -> String;

    /// Adds what it waits for.
    fn fds<'a>(&'a self, set: &mut PollSet<'a>);

    /// When it wants its next turn, even if nothing can be read.
    fn next_ms(&self) -> u64;

    /// Takes what has come, by which of the descriptors that `fds` added are ready; `None` where
    /// nobody has polled, and all are tried.
    fn turn(&mut self, ready: Option<&[reactor::Event]>, now_ms: u64, events: &mut Vec<Event>);

    /// Asks for a size that the guest keeps. Whether it was taken is a later event.
    fn set_target(&mut self, guest: Id, target: Bytes, now_ms: u64);

    /// Asks for the balloon's statistics, once. It wakes the guest.
    fn ask_stats(&mut self, guest: Id, now_ms: u64);

    /// Asks for the size that the guest has now. It does not wake the guest.
    fn ask_actual(&mut self, guest: Id, now_ms: u64);

    /// Asks what the guest did with its disks. It does not wake the guest. A source that
    /// does not know does not answer.
    fn ask_blocks(&mut self, _guest: Id, _now_ms: u64) {}

    /// Stops a guest's virtual CPUs, or lets them run again. That it was done is a later
    /// [`Event::State`], that it could not be is [`Event::Stays`].
    fn set_running(&mut self, guest: Id, runs: bool, now_ms: u64);

    /// The memory that the guests share.
    fn host_memory(&self) -> HostMemory {
        HostMemory::OfThisKernel
    }

    /// The users who seem to have guests here that do not count.
    fn others(&self) -> BTreeSet<Owner> {
        BTreeSet::new()
    }
}
