//! A guest's process, as the host's kernel shows it, without waking the guest.
//!
//! Files are opened once and read again and again: an open file never shows another process that
//! has got the same number since.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use counters::{Bytes, PsiLine};
use procfs::parse::task::StatField::{MajorFaults, StartTicks};
use procfs::parse::task::TaskStat;
use procfs::parse::{cgroup, numbers, pressure, value_of};
use procfs::{Buffer, Kept};

use crate::{GuestRam, Held, Owner, ProcessId};

/// The longest of the texts read here: /proc/PID/status has 1,500 bytes, its lists of CPUs and
/// memory nodes grow with the machine. What is behind is not needed.
const TEXT_MAX: usize = 8192;

/// The most threads that are looked at: more virtual CPUs than QEMU offers.
pub(crate) const THREADS_MAX: usize = 1 << 13;

/// The number of a task in its own namespace, where that is another than this one's. `NSpid:` in
/// its status has one number for each namespace that it is in, the innermost last.
fn inner_number(task: &Path) -> Option<u32> {
    let mut room = [0; TEXT_MAX];
    let file = Kept::open(&task.join("status"));
    let text = file.start(&mut room)?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let numbers = lines.find_map(|line| line.strip_prefix(b"NSpid:"))?;
    let inner = std::str::from_utf8(numbers).ok()?.split_ascii_whitespace().skip(1);
    inner.last()?.parse().ok()
}

impl ProcessId {
    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<ProcessId> {
        ProcessId::of_under(Path::new("/"), pid)
    }

    /// The same, below another root than `/`.
    pub fn of_under(root: &Path, pid: u32) -> Option<ProcessId> {
        let stat = Stat::read(&open(root, pid, "stat"))?;
        Some(ProcessId { pid, start_ticks: stat.start_ticks })
    }

    /// As whom it runs.
    pub(crate) fn user(self) -> Option<Owner> {
        let found = std::fs::metadata(format!("/proc/{}", self.pid)).ok()?;
        self.is_alive().then_some(Owner(found.uid()))
    }

    /// Whether it is still there. A process that nobody has waited for yet is not.
    pub fn is_alive(self) -> bool {
        self.is_alive_under(Path::new("/"))
    }

    /// The same, below another root than `/`.
    pub fn is_alive_under(self, root: &Path) -> bool {
        let stat = Stat::read(&open(root, self.pid, "stat"));
        stat.is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_dead)
    }
}

/// Numbers of a process's threads in its own namespace, by their numbers here. Each is read once:
/// a thread that comes by the number of another between two looks is of the same process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadNumbers(BTreeMap<u32, u32>);

impl ThreadNumbers {
    /// The numbers here of threads that a process names by its own, which are others in a
    /// container.
    pub(crate) fn here(&mut self, process: ProcessId, root: &Path, named: &[u32]) -> Vec<u32> {
        let dir = root.join(format!("proc/{}", process.pid));
        if inner_number(&dir).is_none() {
            return named.to_vec();
        }
        let known = std::mem::take(&mut self.0);
        let tasks = std::fs::read_dir(dir.join("task")).into_iter().flatten().take(THREADS_MAX);
        self.0.extend(tasks.filter_map(|task| {
            let task = task.ok()?;
            let here: u32 = task.file_name().to_str()?.parse().ok()?;
            let inner = known.get(&here).copied();
            Some((here, inner.or_else(|| inner_number(&task.path()))?))
        }));
        let numbers: BTreeMap<u32, u32> = self.0.iter().map(|(here, of)| (*of, *here)).collect();
        named.iter().filter_map(|tid| numbers.get(tid)).copied().collect()
    }
}

/// The fields of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The letter of its state: `R`, `S`, `D`, and `T` for one that was stopped by a signal.
    pub state: char,
    /// Faults of all its threads that had to read, since it began: its memory was swapped out.
    pub major_faults: u64,
    /// When it started, in clock ticks since the host's boot.
    pub start_ticks: u64,
    /// Whether nothing of it is left but its number.
    pub is_dead: bool,
}

impl Stat {
    /// Of this process; `None` if it has ended, or another has its number.
    pub fn of(process: ProcessId) -> Option<Stat> {
        let stat = Stat::read(&open(Path::new("/"), process.pid, "stat"))?;
        (stat.start_ticks == process.start_ticks && !stat.is_dead).then_some(stat)
    }

    /// Whether a signal has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.state == 'T'
    }

    fn read(file: &Kept) -> Option<Stat> {
        let mut room = [0; TEXT_MAX];
        let stat = TaskStat::parse(file.start(&mut room)?)?;
        let [major_faults, start_ticks] = stat.numbers([MajorFaults, StartTicks])?;
        let (state, is_dead) = (char::from(stat.state), stat.is_dead());
        Some(Stat { state, major_faults, start_ticks, is_dead })
    }
}

/// What of a process is not resident in the usual way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Memory of its own that is on the host's swap.
    pub swapped: Option<Bytes>,
    /// Most of its memory is shared, and may be on the host's swap too: the kernel does not count
    /// that for any process.
    pub hides_swap: bool,
    /// Memory in pages that are set aside for those who ask (hugetlb): what is resident is without.
    pub hugepages: Bytes,
    /// Memory that may not leave the host's: locked by itself, or for a device.
    pub locked: Bytes,
    /// Pages that come from no file.
    pub anonymous: Bytes,
    /// Pages of files that it has mapped: programs and libraries, and what lies in a file on disk.
    pub files: Bytes,
    /// Pages of files that are only in memory.
    pub shmem: Bytes,
    /// Pages that KSM has merged with others: each process has them among its own.
    pub merged: Bytes,
}

/// The open files of a process. Each read is one system call; what cannot be read is `None`,
/// and a process that has ended has nothing any more.
#[derive(Debug)]
pub struct ProcessView {
    stat: Kept,
    statm: Kept,
    status: Kept,
    host: Kept,
    pressure: Kept,
    page_bytes: u64,
    /// Its directory, for what is read seldom.
    dir: PathBuf,
}

impl ProcessView {
    /// Opens the files of a process; `None` if it has ended, or another has its number.
    pub fn open(process: ProcessId) -> Option<ProcessView> {
        ProcessView::open_under(Path::new("/"), process)
    }

    /// The same, below another root than `/`.
    pub fn open_under(root: &Path, process: ProcessId) -> Option<ProcessView> {
        let view = ProcessView {
            stat: open(root, process.pid, "stat"),
            statm: open(root, process.pid, "statm"),
            status: open(root, process.pid, "status"),
            host: Kept::open(&root.join("proc/meminfo")),
            pressure: open_pressure(root, process.pid),
            page_bytes: rustix::param::page_size() as u64,
            dir: root.join(format!("proc/{}", process.pid)),
        };
        let stat = view.stat()?;
        let is_it = stat.start_ticks == process.start_ticks && !stat.is_dead;
        (is_it && view.statm.is_open() && view.status.is_open()).then_some(view)
    }

    /// State, major faults and start.
    pub fn stat(&self) -> Option<Stat> {
        Stat::read(&self.stat)
    }

    /// Memory that is resident, from /proc/PID/statm: counters that the kernel keeps anyway, up
    /// to some pages a thread late. smaps would be exact and show what is shared, but walks every
    /// page table of the guest with its memory map locked, so that a guest of some GiB stands
    /// still for milliseconds each time.
    pub fn resident(&self) -> Option<Bytes> {
        self.held().map(Held::resident)
    }

    /// The same in its two parts, as the kernel tells them apart: by the mapping, and not by who
    /// else has it. A guest's memory in a file of its own stands under what is shared.
    pub fn held(&self) -> Option<Held> {
        let [_, resident, shared] = numbers(self.statm.start(&mut [0; TEXT_MAX])?)?;
        let size = |pages: u64| pages.checked_mul(self.page_bytes).map(Bytes);
        let shared = size(shared)?;
        Some(Held { private: size(resident)?.less(shared), shared })
    }

    /// Finds a guest's memory in it, in pieces of these sizes if they are known. The kernel lists
    /// all mappings for that, and walks none of them: once is enough. `None` where that may not be
    /// read.
    pub fn find_ram(&self, memory: Bytes, pieces: &[Bytes]) -> Option<GuestRam> {
        let mut buffer = Buffer::default();
        let maps = Kept::open(&self.dir.join("maps"));
        let found = GuestRam::find(maps.whole(&mut buffer)?, memory, pieces);
        // The directory may be that of a process that has come by its number since.
        found.filter(|_| self.stat().is_some_and(|stat| !stat.is_dead))
    }

    /// What of a guest's memory is in the host's. The kernel walks the guest's page tables for
    /// that, a millisecond for some hundred MiB: ask seldom.
    pub fn ram_held(&self, ram: &GuestRam) -> Option<Held> {
        let held = ram.held(File::open(self.dir.join("smaps")).ok()?)?;
        self.stat().filter(|stat| !stat.is_dead).map(|_| held)
    }

    /// What of its addresses stands for something, whether or not that was ever touched. A guest's
    /// memory is a part of it.
    pub fn mapped(&self) -> Option<Bytes> {
        let [pages] = numbers(self.statm.start(&mut [0; TEXT_MAX])?)?;
        pages.checked_mul(self.page_bytes).map(Bytes)
    }

    /// Memory of it that is elsewhere. The kernel writes the whole of /proc/PID/status for it,
    /// which costs some ten times the other reads: ask seldom.
    pub fn apart(&self) -> Option<Apart> {
        let mut room = [0; TEXT_MAX];
        let text = self.status.start(&mut room)?;
        // The name of the process stands in the text too, but the kernel escapes its line ends.
        let size = |name| value_of(text, name)?.checked_mul(1024).map(Bytes);
        let resident = |name| size(name).unwrap_or(Bytes::ZERO);
        let (anonymous, shmem) = (resident("RssAnon"), resident("RssShmem"));
        Some(Apart {
            swapped: size("VmSwap"),
            hides_swap: shmem > anonymous && self.host_swaps(),
            hugepages: resident("HugetlbPages"),
            // Kernels count what a device has in either.
            locked: resident("VmLck").max(resident("VmPin")),
            anonymous,
            files: resident("RssFile"),
            shmem,
            merged: self.merged().unwrap_or(Bytes::ZERO),
        })
    }

    /// Returns the pages of the process that KSM has merged with others.
    pub fn merged(&self) -> Option<Bytes> {
        let file = Kept::open(&self.dir.join("ksm_merging_pages"));
        let [pages] = numbers(file.start(&mut [0; 32])?)?;
        self.page_bytes.checked_mul(pages).map(Bytes)
    }

    /// Memory of its own that is on the host's swap, as [`ProcessView::apart`] has it.
    pub fn swap(&self) -> Option<Bytes> {
        self.apart()?.swapped
    }

    /// Whether anything at all is on the host's swap, as far as that can be seen.
    fn host_swaps(&self) -> bool {
        let mut room = [0; TEXT_MAX];
        let Some(text) = self.host.start(&mut room) else { return true };
        value_of(text, "SwapTotal") != value_of(text, "SwapFree")
    }

    /// Microseconds in which some task of its control group waited for memory, since the group was
    /// made. The group may hold other processes, and is the one that it was in when the files were
    /// opened. `None` where the host has no second hierarchy, where pressure is not accounted, and
    /// for a process that has no group of its own.
    pub fn pressure_us(&self) -> Option<u64> {
        pressure::total_us(self.pressure.start(&mut [0; TEXT_MAX])?, PsiLine::Some)
    }
}

fn open(root: &Path, pid: u32, name: &str) -> Kept {
    Kept::open(&root.join(format!("proc/{pid}/{name}")))
}

fn open_pressure(root: &Path, pid: u32) -> Kept {
    let mut room = [0; TEXT_MAX];
    let text = open(root, pid, "cgroup");
    let Some(group) = text.start(&mut room).and_then(cgroup::unified) else {
        return Kept::default();
    };
    let path = |top: &&str| root.join(top).join(&group).join("memory.pressure");
    let mut all = cgroup::UNIFIED.iter().map(|top| Kept::open(&path(top)));
    all.find(Kept::is_open).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const PID: ProcessId = ProcessId { pid: 42, start_ticks: 777 };

    fn tree() -> Tree {
        let tree = Tree::new();
        tree.process(42, "qemu) S (x", 'S', 777);
        tree.file("proc/42/statm", "90000 2500 800 1 0 70000 0\n");
        tree.file("proc/42/status", "Name:\tVmSwap: 9 kB\nVmRSS:\t  10000 kB\nVmSwap:\t   64 kB\n");
        tree.file("proc/42/cgroup", "4:memory:/old\n0::/machine/qemu-1\n");
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\n\
                        full avg10=0.00 avg60=0.00 avg300=0.00 total=900\n";
        tree.file("sys/fs/cgroup/unified/machine/qemu-1/memory.pressure", pressure);
        tree
    }

    #[test]
    fn a_name_with_brackets_and_blanks_is_only_a_name() {
        let tree = tree();
        assert_eq!(ProcessId::of_under(tree.path(), 42), Some(PID));
        assert_eq!(ProcessId::of_under(tree.path(), 43), None);
        assert!(PID.is_alive_under(tree.path()));
        for text in ["42 (a) R) 1", "42 a R 1 2 3", "42 (a) R 1 2 3"] {
            tree.file("proc/42/stat", text);
            assert_eq!(ProcessId::of_under(tree.path(), 42), None, "{text}");
        }
    }

    #[test]
    fn another_process_with_the_same_number_is_another() {
        let tree = tree();
        let other = ProcessId { start_ticks: 778, ..PID };
        assert!(!other.is_alive_under(tree.path()));
        assert!(ProcessView::open_under(tree.path(), other).is_none());
        tree.process(42, "qemu", 'Z', 777);
        assert!(!PID.is_alive_under(tree.path()), "a zombie has ended");
    }

    #[test]
    fn everything_is_read_where_it_is() {
        let tree = tree();
        let view = ProcessView::open_under(tree.path(), PID).unwrap();
        let page = rustix::param::page_size() as u64;
        assert_eq!(view.resident(), Some(Bytes(2500 * page)));
        let (private, shared) = (Bytes(1700 * page), Bytes(800 * page));
        assert_eq!(view.held(), Some(Held { private, shared }));
        assert_eq!(view.mapped(), Some(Bytes(90_000 * page)));
        assert_eq!(view.swap(), Some(Bytes(64 << 10)));
        assert_eq!(view.pressure_us(), Some(1500));
        let stat = view.stat().unwrap();
        assert_eq!((stat.state, stat.major_faults), ('S', 12));
        // The files stay open, and show what is in them now.
        tree.file("proc/42/statm", "90000 900 800 1 0 70000 0\n");
        assert_eq!(view.resident(), Some(Bytes(900 * page)));
    }

    #[test]
    fn hugepages_and_swapped_memory_that_is_shared_are_not_taken_for_nothing() {
        let tree = tree();
        let apart = |status: &str, host: &str| {
            tree.file("proc/42/status", status);
            tree.file("proc/meminfo", host);
            ProcessView::open_under(tree.path(), PID).unwrap().apart().unwrap()
        };
        tree.file("proc/42/ksm_merging_pages", "3\n");
        let (used, unused) =
            ("SwapTotal: 9 kB\nSwapFree: 8 kB\n", "SwapTotal: 9 kB\nSwapFree: 9 kB\n");
        let status = "VmLck: 3 kB\nVmPin: 4 kB\nRssAnon: 9 kB\nRssShmem: 1 kB\nVmSwap: 0 kB\n\
                      HugetlbPages: 2048 kB\n";
        let huge = apart(status, used);
        let (swapped, hugepages) = (Some(Bytes::ZERO), Bytes::mib(2));
        let (anonymous, shmem) = (Bytes(9 << 10), Bytes(1 << 10));
        let merged = Bytes(3 * rustix::param::page_size() as u64);
        let locked = Bytes(4 << 10);
        let known = Apart { swapped, hugepages, anonymous, shmem, ..Apart::default() };
        let expected = Apart { locked, merged, ..known };
        assert_eq!(huge, expected);
        let shared = "RssAnon: 1 kB\nRssShmem: 9 kB\nVmSwap: 0 kB\n";
        assert!(apart(shared, used).hides_swap);
        assert!(!apart(shared, unused).hides_swap, "nothing is on that host's swap");
    }

    #[test]
    fn report_h09_number_of_a_thread_in_a_container_is_read_once() {
        let tree = tree();
        let status = |dir: &str, inner: u32| {
            tree.file(&format!("proc/42/{dir}status"), &format!("NSpid:\t9\t{inner}\n"));
        };
        status("", 1);
        status("task/57/", 5);
        let mut numbers = ThreadNumbers::default();
        let mut here = |named: &[u32]| numbers.here(PID, tree.path(), named);
        assert_eq!(here(&[5, 6]), [57]);
        tree.file("proc/42/task/57/status", "not read again");
        status("task/58/", 6);
        assert_eq!(here(&[6, 5]), [58, 57], "what is new is read");
        std::fs::remove_dir_all(tree.path().join("proc/42/task/57")).unwrap();
        assert_eq!(here(&[6, 5]), [58], "what is gone is forgotten");
        status("task/57/", 8);
        assert_eq!(here(&[8]), [57]);
    }

    #[test]
    fn what_is_not_there_is_missing_and_not_zero() {
        let tree = tree();
        tree.file("proc/42/statm", "90000");
        tree.file("proc/42/status", "Name:\tqemu\nVmSwap:\t-1 kB\n");
        for group in ["0::/\n", "0::/../outside\n", "4:memory:/old\n", "0::/not-there\n"] {
            tree.file("proc/42/cgroup", group);
            let view = ProcessView::open_under(tree.path(), PID).unwrap();
            assert_eq!(view.pressure_us(), None, "{group}");
            assert_eq!((view.resident(), view.swap()), (None, None));
            assert_eq!(view.find_ram(Bytes::mib(96), &[]), None);
        }
    }
}
