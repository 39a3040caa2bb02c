//! Whether a guest runs on the hardware, and what KVM counts for it.

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

/// KVM's statistics of one virtual machine, summed over its virtual CPUs by the kernel. They are
/// there for root where debugfs is mounted.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    poll_success: Kept,
    poll_fail: Kept,
    wait: Kept,
    wakeups: Kept,
    exits: Kept,
}

/// What KVM counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) halt_poll_ns: Option<u64>,
    pub(crate) halt_wait_ns: Option<u64>,
    pub(crate) halt_wakeups: Option<u64>,
    pub(crate) exits: Option<u64>,
}

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
        let at = |file: &str| Kept::open(&dir.join(&name).join(file));
        Statistics {
            poll_success: at("halt_poll_success_ns"),
            poll_fail: at("halt_poll_fail_ns"),
            wait: at("halt_wait_ns"),
            wakeups: at("halt_wakeup"),
            exits: at("exits"),
        }
    }

    /// What is counted now.
    pub(crate) fn read(&self, buffer: &mut Buffer) -> Counted {
        let mut value = |file: &Kept| file.is_open().then(|| file.number(buffer)).flatten();
        let (success, fail) = (value(&self.poll_success), value(&self.poll_fail));
        Counted {
            halt_poll_ns: success.zip(fail).map(|(a, b)| a.saturating_add(b)),
            halt_wait_ns: value(&self.wait),
            halt_wakeups: value(&self.wakeups),
            exits: value(&self.exits),
        }
    }

    /// How many files are open.
    pub(crate) fn files(&self) -> usize {
        let all = [&self.poll_success, &self.poll_fail, &self.wait, &self.wakeups, &self.exits];
        all.iter().filter(|file| file.is_open()).count()
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
        let expected = Counted { halt_poll_ns: Some(120), exits: Some(5), ..Counted::default() };
        assert_eq!((statistics.read(&mut buffer), statistics.files()), (expected, 3));
        assert_eq!(Statistics::open(tree.path(), 1).read(&mut buffer), Counted::default());
    }
}
