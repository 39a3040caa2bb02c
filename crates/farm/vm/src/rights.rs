//! Rights of a QEMU on its host. The rights allow QEMU to run its guest and nothing else.
//!
//! ```text
//!   started by root      a user and a group of its own, no other groups, no capabilities
//!   by anybody           no new privileges, a sandbox of QEMU's own, limits
//! ```
//!
//! If root started QEMU, a guest that breaks out controls only one process. The process owns no
//! files, and cannot start programs, signal or trace another guest's QEMU.
//!
//! QEMU's user id is its process id plus the first id of an otherwise unused range, usually
//! [`USERS`]. No two running QEMUs in that range share a user, and no table is needed. Files for
//! QEMU to read are opened before it starts; see [`crate::opened`].
//!
//! Without KVM, instructions are emulated, and the QEMU project gives no guarantee that an emulated
//! guest cannot break out. QEMU's rights limit the files and processes that such a guest can reach.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Gid, geteuid};
use rustix::thread::{CapabilitySet, capabilities};

use crate::{Accel, GuestSpec, WhyEmulation};

/// Actions that QEMU's sandbox forbids: old system calls, a change of user, new programs, and a
/// change of priority.
pub(crate) const SANDBOX: &str =
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// Maximum number of files that a QEMU has open: ten for itself, and one for each connection to its
/// guest.
pub(crate) const FILES_MAX: u64 = 4096;

/// Number of threads of a QEMU besides its vCPUs: a few of its own, and 64 that read and write
/// disks.
pub(crate) const THREADS_SPARE: u64 = 128;

/// Unused user ids, as many as there are process ids. The range lies above the ranges of
/// containers, directory services and systemd, and below the numbers that programs treat as
/// negative.
const USERS: Users = Users { first: 2_100_000_000, count: 1 << 22 };

/// User ids for a container with few users. The range is that of systemd's dynamic users, which
/// systemd assigns only outside of containers.
const USERS_OF_FEW: Users = Users { first: 61_184, count: 4_336 };

/// A range of users and groups that guests' QEMUs run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Users {
    first: u32,
    count: u32,
}

impl Users {
    /// Returns the user of the process with this id.
    pub(crate) fn of_process(self, pid: u32) -> u32 {
        self.first + pid % self.count
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    /// User ids for QEMU to change to. `None` means that QEMU keeps this process's user.
    pub(crate) users: Option<Users>,
    /// Group of `/dev/kvm`, the only supplementary group of QEMU.
    pub(crate) kvm: Option<Gid>,
    /// Maximum number of processes and threads of QEMU's user. The limit is set only if QEMU has
    /// its own user.
    pub(crate) threads_max: u64,
}

impl Rights {
    pub(crate) fn of(spec: &GuestSpec) -> Rights {
        let kvm = match kvm_is_for() {
            KvmIsFor::Group(group) if spec.accel == Accel::Kvm => Some(group),
            _ => None,
        };
        let users = other_users().unwrap_or(None);
        Rights { users, kvm, threads_max: Footprint::of(spec).threads }
    }
}

/// Capabilities needed to run a QEMU as another user, and to kill it later.
const NEEDED: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::SETUID, "CAP_SETUID"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::SETPCAP, "CAP_SETPCAP"),
    (CapabilitySet::KILL, "CAP_KILL"),
];

/// Returns the user ids for QEMUs, or `None` if this process is not root. The error is the reason
/// why root's QEMUs must keep running as root.
fn other_users() -> Result<Option<Users>, String> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let ours = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    check_capabilities(ours)?;
    match mapped_users() {
        None => Err("this container has no range of user IDs for other users".to_owned()),
        users => Ok(users),
    }
}

/// Returns the user that the QEMU with this process id runs as.
pub fn user_of(pid: u32) -> u32 {
    let users = other_users().unwrap_or(None);
    users.map_or_else(|| geteuid().as_raw(), |users| users.of_process(pid))
}

fn check_capabilities(ours: CapabilitySet) -> Result<(), String> {
    let missing = NEEDED.iter().filter(|(needed, _)| !ours.contains(*needed));
    let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
    match missing[..] {
        [] => Ok(()),
        _ => Err(format!("pinhead needs {} to start QEMU as another user", missing.join(", "))),
    }
}

/// The users that may open `/dev/kvm`, besides root and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KvmIsFor {
    Everybody,
    Group(Gid),
    Nobody,
}

/// Group id that represents all groups that are not mapped into a container. No process in the
/// container can join such a group.
const OVERFLOW_GROUP: u32 = 65_534;

impl KvmIsFor {
    /// Interprets the mode and group of `/dev/kvm`. The root group does not count, because its
    /// members may open more than this device.
    fn of(mode: u32, group: u32) -> KvmIsFor {
        let may = |bits: u32| mode & bits == bits;
        match group {
            _ if may(0o006) => KvmIsFor::Everybody,
            1.. if group != OVERFLOW_GROUP && may(0o060) => KvmIsFor::Group(Gid::from_raw(group)),
            _ => KvmIsFor::Nobody,
        }
    }
}

fn kvm_is_for() -> KvmIsFor {
    let device = fs::metadata("/dev/kvm");
    device.map_or(KvmIsFor::Nobody, |device| KvmIsFor::of(device.mode(), device.gid()))
}

/// Returns true if QEMUs run as another user, and this user may not open `/dev/kvm`.
pub(crate) fn kvm_is_kept() -> bool {
    kvm_is_for() == KvmIsFor::Nobody && other_users().is_ok_and(|users| users.is_some())
}

/// Returns notes for the user about QEMUs with more rights than they should have, or with fewer
/// than they could use.
pub fn notes<'a>(mut guests: impl Iterator<Item = &'a GuestSpec>) -> Vec<String> {
    let root = other_users().err().map(|why| format!("Guests' QEMUs run as root: {why}"));
    let kept = Accel::Emulation(WhyEmulation::DeviceKept);
    let kvm = guests.any(|guest| guest.accel == kept).then(|| {
        "Guests are emulated, because their QEMUs have no permission for /dev/kvm. Give the device \
         its own group: `chgrp kvm /dev/kvm; chmod 660 /dev/kvm`"
            .to_owned()
    });
    root.into_iter().chain(kvm).collect()
}

/// Maximum host resources that a correctly working QEMU uses. A healthy guest never reaches these
/// values, so they can be set as limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Memory of the guest and of QEMU itself, in bytes.
    pub memory_bytes: u64,
    /// Number of threads.
    pub threads: u64,
}

/// Memory of QEMU besides its guest's, in MiB. QEMU needs 60 to 90 MiB when idle, and as much again
/// for buffers.
const OWN_MIB: u64 = 256;

/// Memory of a vCPU under emulation: this many MiB, and the guest's memory divided by `CPU_PART`.
/// The second part is for the emulator's three tables of pages. Each table has at most 72 bytes for
/// a page of 4096 bytes.
const CPU_MIB: u64 = 16;
const CPU_PART: u64 = 16;

impl Footprint {
    /// Returns the footprint of a guest's QEMU.
    pub fn of(spec: &GuestSpec) -> Footprint {
        let files = [&spec.image.kernel, &spec.image.initramfs];
        let files = files.map(|path| fs::metadata(path).map_or(0, |data| data.len()));
        // QEMU keeps the kernel and the initramfs for a reboot, and copies of both.
        let boot_mib = (files[0] + files[1]) / (1 << 20) * 2;
        let cpus_mib = u64::from(spec.cpus) * (CPU_MIB + spec.memory_mib / CPU_PART);
        let own_mib = OWN_MIB + u64::from(spec.translation_mib) + boot_mib + cpus_mib;
        let memory_bytes = (spec.memory_mib + own_mib) << 20;
        Footprint { memory_bytes, threads: u64::from(spec.cpus) + THREADS_SPARE }
    }
}

fn mapped_users() -> Option<Users> {
    let maps = ["/proc/self/uid_map", "/proc/self/gid_map"].map(fs::read_to_string);
    let has_all = |users: &Users| maps.iter().flatten().all(|map| holds(map, *users));
    [USERS, USERS_OF_FEW].into_iter().find(has_all).filter(|_| maps.iter().all(Result::is_ok))
}

/// Returns true if one line of a map such as `/proc/PID/uid_map` contains this whole range.
fn holds(map: &str, users: Users) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
        let (Some(Some(first)), Some(Some(_)), Some(Some(count))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        let last = u64::from(users.first) + u64::from(users.count);
        first <= u64::from(users.first) && last <= first + count
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_taken_where_they_exist() {
        let host = "         0          0 4294967295\n";
        assert!(holds(host, USERS) && holds(host, USERS_OF_FEW));
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        assert!(!holds(rootless, USERS) && holds(rootless, USERS_OF_FEW));
        for none in ["", "0 1000 1", "0 0", "61184 0 4335", "no numbers here"] {
            assert!(!holds(none, USERS_OF_FEW), "{none}");
        }
    }

    #[test]
    fn finding_03_a_qemu_joins_no_group_but_that_of_kvm_alone() {
        let group = |id| KvmIsFor::Group(Gid::from_raw(id));
        assert_eq!(KvmIsFor::of(0o20660, 108), group(108), "Debian's");
        assert_eq!(KvmIsFor::of(0o20666, 108), KvmIsFor::Everybody, "systemd's");
        assert_eq!(KvmIsFor::of(0o20666, 0), KvmIsFor::Everybody);
        for (mode, id) in [(0o20660, 0), (0o20660, 65_534), (0o20600, 108), (0o20640, 108)] {
            assert_eq!(KvmIsFor::of(mode, id), KvmIsFor::Nobody, "{mode:o} {id}");
        }
    }

    #[test]
    fn finding_03_reason_for_a_root_qemu_is_reported() {
        assert_eq!(check_capabilities(CapabilitySet::all()), Ok(()));
        for (needed, name) in NEEDED {
            let why = check_capabilities(CapabilitySet::all() - needed).unwrap_err();
            assert_eq!(why, format!("pinhead needs {name} to start QEMU as another user"));
        }
    }

    #[test]
    fn no_two_processes_are_the_same_user() {
        // The highest process id of a 64-bit kernel.
        let last = (1 << 22) - 1;
        assert_eq!(USERS.of_process(1), 2_100_000_001);
        assert!(USERS.of_process(last) > USERS.of_process(last - 1));
        assert!(i32::try_from(USERS.of_process(last)).is_ok());
        assert!(USERS_OF_FEW.of_process(last) <= 65_519);
    }
}
