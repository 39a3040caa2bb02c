//! View of a guest's process through the host's kernel, without waking the guest.
//!
//! Files are opened once and read repeatedly. An open file never shows another process that got the
//! same number later.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base::Bytes;
use model::counters::PsiLine;
use procfs::parse::task::StatField::{MajorFaults, StartTicks};
use procfs::parse::task::TaskStat;
use procfs::parse::{cgroup, numbers, pressure, value_of};
use procfs::{Buffer, Kept};

use crate::{GuestRam, Held, Owner, ProcessId};

/// Size of the read buffer. The longest file is /proc/PID/status with 1,500 bytes, in which the
/// lists of CPUs and memory nodes grow with the machine. Text beyond the buffer is not needed.
const TEXT_MAX: usize = 8192;

/// Maximum number of threads that are read. QEMU supports fewer vCPUs.
pub(crate) const THREADS_MAX: usize = 1 << 13;

/// Returns the number of a task in its own namespace, if that is not the namespace of this process.
/// `NSpid:` in the task's status has one number per namespace, with the innermost namespace last.
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
    /// Returns the process that has this number now.
    pub fn of(pid: u32) -> Option<ProcessId> {
        ProcessId::of_under(Path::new("/"), pid)
    }

    /// Does the same as [`ProcessId::of`], below another root than `/`.
    pub fn of_under(root: &Path, pid: u32) -> Option<ProcessId> {
        let stat = Stat::read(&open(root, pid, "stat"))?;
        Some(ProcessId { pid, start_ticks: stat.start_ticks })
    }

    /// Returns the user that the process runs as.
    pub(crate) fn user(self) -> Option<Owner> {
        let found = std::fs::metadata(format!("/proc/{}", self.pid)).ok()?;
        self.is_alive().then_some(Owner(found.uid()))
    }

    /// Returns true if the process still exists. A zombie counts as gone.
    pub fn is_alive(self) -> bool {
        self.is_alive_under(Path::new("/"))
    }

    /// Does the same as [`ProcessId::is_alive`], below another root than `/`.
    pub fn is_alive_under(self, root: &Path) -> bool {
        let stat = Stat::read(&open(root, self.pid, "stat"));
        stat.is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_dead)
    }
}

/// Thread numbers in the process's own PID namespace, by the threads' numbers here. Each number is
/// read only once, because a thread that reuses a number belongs to the same process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadNumbers(BTreeMap<u32, u32>);

impl ThreadNumbers {
    /// Converts thread numbers of a process's own namespace to numbers of this namespace. The two
    /// differ in a container.
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

/// Fields of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Letter of the process state: `R`, `S`, `D`, or `T` for a process stopped by a signal.
    pub state: char,
    /// Major faults of all threads since the start of the process. Such faults show that memory of
    /// the process was swapped out.
    pub major_faults: u64,
    /// Start time, in clock ticks since the host's boot.
    pub start_ticks: u64,
    /// True if the process has ended, and only its number still exists.
    pub is_dead: bool,
}

impl Stat {
    /// Reads the fields of a process; `None` if it has ended or another process has its number.
    pub fn of(process: ProcessId) -> Option<Stat> {
        let stat = Stat::read(&open(Path::new("/"), process.pid, "stat"))?;
        (stat.start_ticks == process.start_ticks && !stat.is_dead).then_some(stat)
    }

    /// Returns true if a signal has stopped the process.
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

/// Details of a process's memory beyond its resident size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Private memory on the host's swap.
    pub swapped: Option<Bytes>,
    /// True if most of the memory is shared and may be on the host's swap. The kernel does not
    /// count swapped shared memory for any process.
    pub hides_swap: bool,
    /// Memory in reserved huge pages (hugetlb). The resident size does not include it.
    pub hugepages: Bytes,
    /// Memory that cannot leave the host's memory: locked by the process, or pinned for a device.
    pub locked: Bytes,
    /// Pages without a file.
    pub anonymous: Bytes,
    /// Pages of mapped files: programs, libraries, and memory backed by a file on disk.
    pub files: Bytes,
    /// Pages of files that exist only in memory.
    pub shmem: Bytes,
    /// Pages that KSM has merged with others. Each process counts merged pages as its own.
    pub merged: Bytes,
}

/// The open files of a process. Each read is one system call. An unreadable value is `None`, and so
/// is every value of a process that has ended.
#[derive(Debug)]
pub struct ProcessView {
    stat: Kept,
    statm: Kept,
    status: Kept,
    host: Kept,
    pressure: Kept,
    page_bytes: u64,
    /// Directory of the process, for files that are read rarely.
    dir: PathBuf,
}

impl ProcessView {
    /// Opens the files of a process; `None` if it has ended or another process has its number.
    pub fn open(process: ProcessId) -> Option<ProcessView> {
        ProcessView::open_under(Path::new("/"), process)
    }

    /// Does the same as [`ProcessView::open`], below another root than `/`.
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

    /// Returns the state, major faults and start time.
    pub fn stat(&self) -> Option<Stat> {
        Stat::read(&self.stat)
    }

    /// Returns the resident memory from /proc/PID/statm. The kernel keeps these counters anyway,
    /// with a lag of some pages per thread.
    ///
    /// smaps would be exact and show shared memory. But a read of smaps locks the memory map and
    /// walks every page table. Each read would stop a guest of some GiB for milliseconds.
    pub fn resident(&self) -> Option<Bytes> {
        self.held().map(Held::resident)
    }

    /// Returns the resident memory in two parts. The kernel divides it by the kind of mapping, and
    /// not by actual sharing. Guest memory in a separate file therefore counts as shared.
    pub fn held(&self) -> Option<Held> {
        let [_, resident, shared] = numbers(self.statm.start(&mut [0; TEXT_MAX])?)?;
        let size = |pages: u64| pages.checked_mul(self.page_bytes).map(Bytes);
        let shared = size(shared)?;
        Some(Held { private: size(resident)?.less(shared), shared })
    }

    /// Finds a guest's memory in the process, in blocks of these sizes if they are known. The
    /// kernel lists the mappings without a walk of their pages, so the call is cheap. `None` means
    /// that the list cannot be read or does not contain the memory.
    pub fn find_ram(&self, memory: Bytes, pieces: &[Bytes]) -> Option<GuestRam> {
        let mut buffer = Buffer::default();
        let maps = Kept::open(&self.dir.join("maps"));
        let found = GuestRam::find(maps.whole(&mut buffer)?, memory, pieces);
        // The directory may belong to a process that reuses the number.
        found.filter(|_| self.stat().is_some_and(|stat| !stat.is_dead))
    }

    /// Returns the part of a guest's memory that is resident on the host. The kernel walks the
    /// guest's page tables, which takes a millisecond per some hundred MiB, so this must be called
    /// rarely.
    pub fn ram_held(&self, ram: &GuestRam) -> Option<Held> {
        let held = ram.held(File::open(self.dir.join("smaps")).ok()?)?;
        self.stat().filter(|stat| !stat.is_dead).map(|_| held)
    }

    /// Returns the size of all mappings, touched or not. The size includes a guest's memory.
    pub fn mapped(&self) -> Option<Bytes> {
        let [pages] = numbers(self.statm.start(&mut [0; TEXT_MAX])?)?;
        pages.checked_mul(self.page_bytes).map(Bytes)
    }

    /// Returns the details of the process's memory. For this read the kernel formats the whole of
    /// /proc/PID/status, at some ten times the cost of the other reads. This method must therefore
    /// be called rarely.
    pub fn apart(&self) -> Option<Apart> {
        let mut room = [0; TEXT_MAX];
        let text = self.status.start(&mut room)?;
        // The text contains the name of the process too, but the kernel escapes its line ends.
        let size = |name| value_of(text, name)?.checked_mul(1024).map(Bytes);
        let resident = |name| size(name).unwrap_or(Bytes::ZERO);
        let (anonymous, shmem) = (resident("RssAnon"), resident("RssShmem"));
        Some(Apart {
            swapped: size("VmSwap"),
            hides_swap: shmem > anonymous && self.host_swaps(),
            hugepages: resident("HugetlbPages"),
            // Kernels count memory pinned for a device in one of these two values.
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

    /// Returns the private memory on the host's swap, as in [`ProcessView::apart`].
    pub fn swap(&self) -> Option<Bytes> {
        self.apart()?.swapped
    }

    /// Returns true if anything is on the host's swap, or if that is unknown.
    fn host_swaps(&self) -> bool {
        let mut room = [0; TEXT_MAX];
        let Some(text) = self.host.start(&mut room) else { return true };
        value_of(text, "SwapTotal") != value_of(text, "SwapFree")
    }

    /// Returns the microseconds for which some task of the process's cgroup has waited for memory
    /// since the cgroup's creation. The cgroup may contain other processes. The cgroup is looked up
    /// once, when the files are opened.
    ///
    /// `None` means that the host has no cgroup v2 or no pressure accounting, or that the process
    /// has no cgroup of its own.
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
    use procfs::testing::Tree;

    const PID: ProcessId = ProcessId { pid: 42, start_ticks: 777 };

    fn tree() -> Tree {
        let tree = Tree::create();
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
    fn process_name_with_brackets_and_blanks_is_parsed() {
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
    fn every_value_is_read_from_its_file() {
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
        // The open files show the current content.
        tree.file("proc/42/statm", "90000 900 800 1 0 70000 0\n");
        assert_eq!(view.resident(), Some(Bytes(900 * page)));
    }

    #[test]
    fn hugepages_and_swapped_shared_memory_are_counted() {
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
        assert_eq!(here(&[6, 5]), [58, 57], "new threads are read");
        std::fs::remove_dir_all(tree.path().join("proc/42/task/57")).unwrap();
        assert_eq!(here(&[6, 5]), [58], "ended threads are forgotten");
        status("task/57/", 8);
        assert_eq!(here(&[8]), [57]);
    }

    #[test]
    fn missing_values_are_none_and_not_zero() {
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
