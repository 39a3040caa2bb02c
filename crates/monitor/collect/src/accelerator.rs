//! Detection of KVM or emulation, and KVM's counters of a guest.

use model::{GuestField, Row};
use std::path::Path;

use procfs::parse::number;
use procfs::{Buffer, Kept};

/// Maximum number of a process's descriptors that are searched for a virtual machine. QEMU opens
/// the descriptor of its virtual machine early.
const FDS_MAX: usize = 4096;
/// Maximum number of virtual machines searched for a guest's statistics.
const MACHINES_MAX: usize = 10_000;
/// Link target of a virtual machine's descriptor.
const VM_LINK: &str = "anon_inode:kvm-vm";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// Hardware virtualisation, for which the kernel counts guest time.
    Kvm,
    /// Emulation. The kernel then counts no guest time, and the guest time is recorded as missing.
    Emulated,
    /// Unknown, because the descriptors are not readable.
    Unknown,
}

/// Returns the accelerator of a process. A process with a virtual machine's descriptor uses KVM.
pub(crate) fn accelerator(root: &Path, pid: u32) -> Accelerator {
    let Ok(entries) = std::fs::read_dir(root.join(format!("proc/{pid}/fd"))) else {
        return Accelerator::Unknown;
    };
    let mut links =
        entries.flatten().take(FDS_MAX).filter_map(|e| std::fs::read_link(e.path()).ok());
    match links.any(|link| link.as_os_str() == VM_LINK) {
        true => Accelerator::Kvm,
        false => Accelerator::Emulated,
    }
}

/// Files of KVM's counters, and the field for each file. Two files hold parts of the polling time.
const FILES: [(&str, GuestField); 5] = [
    ("halt_poll_success_ns", GuestField::HaltPoll),
    ("halt_poll_fail_ns", GuestField::HaltPoll),
    ("halt_wait_ns", GuestField::HaltWait),
    ("halt_wakeup", GuestField::HaltWakeups),
    ("exits", GuestField::Exits),
];

/// KVM's statistics of one virtual machine, summed by the kernel over its virtual CPUs. Reading the
/// statistics requires root and a mounted debugfs.
#[derive(Debug, Default)]
pub(crate) struct Statistics([Kept; FILES.len()]);

impl Statistics {
    /// Opens the statistics of a process, in the directory named `PID-FD`.
    pub(crate) fn open(root: &Path, pid: u32) -> Statistics {
        let dir = root.join("sys/kernel/debug/kvm");
        let Ok(entries) = std::fs::read_dir(&dir) else { return Statistics::default() };
        let of_process = |name: &std::ffi::OsStr| {
            let (process, fd) = name.to_str()?.split_once('-')?;
            number(fd.as_bytes())?;
            (number(process.as_bytes())? == u64::from(pid)).then_some(())
        };
        let mut names = entries.flatten().take(MACHINES_MAX).map(|entry| entry.file_name());
        let Some(name) = names.find(|name| of_process(name).is_some()) else {
            return Statistics::default();
        };
        Statistics(FILES.map(|(file, _)| Kept::open(&dir.join(&name).join(file))))
    }

    pub(crate) fn read(&self, row: &mut Row<GuestField>, buffer: &mut Buffer) {
        let [success, fail, others @ ..] = self.0.each_ref().map(|file| file.number(buffer));
        let polled = success.zip(fail).map(|(a, b)| a.saturating_add(b));
        row.set(GuestField::HaltPoll, polled);
        for ((_, field), value) in FILES[2..].iter().zip(others) {
            row.set(*field, value);
        }
    }

    /// Returns the number of open files.
    pub(crate) fn files(&self) -> usize {
        self.0.iter().filter(|file| file.is_open()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn process_with_a_kvm_descriptor_runs_by_kvm() {
        let tree = Tree::new();
        assert_eq!(accelerator(tree.path(), 7), Accelerator::Unknown);
        tree.link("proc/7/fd/3", "/dev/kvm");
        assert_eq!(accelerator(tree.path(), 7), Accelerator::Emulated, "no VM descriptor");
        tree.link("proc/7/fd/9", "anon_inode:kvm-vm");
        assert_eq!(accelerator(tree.path(), 7), Accelerator::Kvm);
    }

    #[test]
    fn statistics_are_those_of_the_process() {
        let tree = Tree::new();
        let file = |name: &str, value: u64| {
            tree.file(&format!("sys/kernel/debug/kvm/{name}"), &format!("{value}\n"));
        };
        file("17-9/exits", 99);
        file("7-11/exits", 5);
        file("7-11/halt_poll_success_ns", 100);
        file("7-11/halt_poll_fail_ns", 20);
        let mut buffer = Buffer::default();
        let statistics = Statistics::open(tree.path(), 7);
        let mut row = Row::default();
        statistics.read(&mut row, &mut buffer);
        let expected = [(GuestField::HaltPoll, 120), (GuestField::Exits, 5)];
        assert_eq!((row.known().collect::<Vec<_>>(), statistics.files()), (expected.to_vec(), 3));
        Statistics::open(tree.path(), 1).read(&mut row, &mut buffer);
        assert_eq!(row, Row::default());
    }
}
