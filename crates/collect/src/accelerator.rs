//! Whether a guest runs on the hardware, and what KVM counts for it.

use model::{GuestField, Row};
use std::path::Path;

use procfs::parse::number;
use procfs::{Buffer, Kept};

/// Descriptors of a process that are looked at for its virtual machine's: an emulator opens it
/// among its first.
const FDS_MAX: usize = 4096;
/// Virtual machines whose statistics are looked through for a guest's.
const MACHINES_MAX: usize = 10_000;
/// What the kernel calls a descriptor of a virtual machine.
const VM_LINK: &str = "anon_inode:kvm-vm";

/// How a guest's instructions are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// By the CPU: the kernel counts the time.
    Kvm,
    /// By a program. Its guest time is 0 in the kernel's eyes, and not known in ours.
    Emulated,
    /// Its descriptors may not be looked at.
    Unknown,
}

/// Who has a descriptor of KVM's virtual machine runs by KVM.
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

/// What KVM counts. A machine's time of polling is in two files.
const FILES: [(&str, GuestField); 5] = [
    ("halt_poll_success_ns", GuestField::HaltPoll),
    ("halt_poll_fail_ns", GuestField::HaltPoll),
    ("halt_wait_ns", GuestField::HaltWait),
    ("halt_wakeup", GuestField::HaltWakeups),
    ("exits", GuestField::Exits),
];

/// KVM's statistics of one virtual machine, summed over its virtual CPUs by the kernel. They are
/// there for root where debugfs is mounted.
#[derive(Debug, Default)]
pub(crate) struct Statistics([Kept; FILES.len()]);

impl Statistics {
    /// Opens the statistics of a process: they are in a directory called `PID-FD`.
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

    /// Fills in what is counted now.
    pub(crate) fn read(&self, row: &mut Row<GuestField>, buffer: &mut Buffer) {
        let [success, fail, others @ ..] = self.0.each_ref().map(|file| file.number(buffer));
        let polled = success.zip(fail).map(|(a, b)| a.saturating_add(b));
        row.set(GuestField::HaltPoll, polled);
        for ((_, field), value) in FILES[2..].iter().zip(others) {
            row.set(*field, value);
        }
    }

    /// How many files are open.
    pub(crate) fn files(&self) -> usize {
        self.0.iter().filter(|file| file.is_open()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn who_has_a_virtual_machine_of_kvms_runs_by_kvm() {
        let tree = Tree::new();
        assert_eq!(accelerator(tree.path(), 7), Accelerator::Unknown);
        tree.link("proc/7/fd/3", "/dev/kvm");
        assert_eq!(accelerator(tree.path(), 7), Accelerator::Emulated, "it only looked");
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
