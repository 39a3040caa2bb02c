//! A guest's process, as the host's kernel shows it, without waking the guest.
//!
//! Files are opened once and read again and again: a read costs a microsecond, an open ten, and a
//! file that is open never shows another process that has got the same number since.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use counters::Bytes;

use crate::ProcessId;

/// The longest of the texts read here: /proc/PID/status has 1,500 bytes, its lists of CPUs and
/// memory nodes grow with the machine. What is behind is not needed.
const TEXT_MAX: usize = 8192;

/// Where the second hierarchy of control groups may be: alone, or beside the first.
const CGROUP_ROOTS: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];

impl ProcessId {
    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<ProcessId> {
        ProcessId::of_under(Path::new("/"), pid)
    }

    /// The same, below another root than `/`.
    pub fn of_under(root: &Path, pid: u32) -> Option<ProcessId> {
        let stat = Stat::parse(&read(&open(root, pid, "stat")?)?)?;
        Some(ProcessId { pid, start_ticks: stat.start_ticks })
    }

    /// Whether it is still there. A process that nobody has waited for yet is not.
    pub fn is_alive(self) -> bool {
        self.is_alive_under(Path::new("/"))
    }

    /// The same, below another root than `/`.
    pub fn is_alive_under(self, root: &Path) -> bool {
        let stat = open(root, self.pid, "stat").and_then(|file| Stat::parse(&read(&file)?));
        stat.is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_dead())
    }
}

/// What /proc/PID/stat says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The letter of its state: `R`, `S`, `D`, and `T` for one that was stopped by a signal.
    pub state: char,
    /// Faults of all its threads that had to read, since it began: its memory was swapped out.
    pub major_faults: u64,
    /// When it started, in clock ticks since the host's boot.
    pub start_ticks: u64,
}

impl Stat {
    /// Reads the text of /proc/PID/stat. The name in it is the process's own to choose, and may
    /// hold blanks and brackets; what follows the last bracket is the kernel's.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        let end_of_name = text.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(text.get(end_of_name + 1..)?).ok()?;
        // The first field behind the name is number 3.
        let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3);
        Some(Stat {
            state: field(3)?.chars().next()?,
            major_faults: field(12)?.parse().ok()?,
            start_ticks: field(22)?.parse().ok()?,
        })
    }

    /// Whether nothing of it is left but its number.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Time that a control group's tasks waited for memory, since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Microseconds in which at least one task waited.
    pub some_us: u64,
    /// Microseconds in which all of them waited.
    pub full_us: u64,
}

impl Pressure {
    /// Reads the text of `memory.pressure`.
    pub fn parse(text: &[u8]) -> Option<Pressure> {
        let text = std::str::from_utf8(text).ok()?;
        let total = |kind: &str| -> Option<u64> {
            let mut words = text.lines().map(str::split_ascii_whitespace);
            let mut line = words.find_map(|mut words| (words.next()? == kind).then_some(words))?;
            line.find_map(|word| word.strip_prefix("total="))?.parse().ok()
        };
        Some(Pressure { some_us: total("some")?, full_us: total("full")? })
    }
}

/// The open files of a process. Each read is one system call; what cannot be read is `None`,
/// and a process that has ended has nothing any more.
#[derive(Debug)]
pub struct ProcessView {
    stat: File,
    statm: File,
    status: File,
    pressure: Option<File>,
    page_bytes: u64,
}

impl ProcessView {
    /// Opens the files of a process; `None` if it has ended, or another has its number.
    pub fn open(process: ProcessId) -> Option<ProcessView> {
        ProcessView::open_under(Path::new("/"), process)
    }

    /// The same, below another root than `/`.
    pub fn open_under(root: &Path, process: ProcessId) -> Option<ProcessView> {
        let view = ProcessView {
            stat: open(root, process.pid, "stat")?,
            statm: open(root, process.pid, "statm")?,
            status: open(root, process.pid, "status")?,
            pressure: open_pressure(root, process.pid),
            page_bytes: rustix::param::page_size() as u64,
        };
        let stat = view.stat()?;
        (stat.start_ticks == process.start_ticks && !stat.is_dead()).then_some(view)
    }

    /// State, major faults and start.
    pub fn stat(&self) -> Option<Stat> {
        Stat::parse(&read(&self.stat)?)
    }

    /// Memory that is resident, from /proc/PID/statm: counters that the kernel keeps anyway, up
    /// to some pages a thread late. smaps would be exact and say what is shared, but walks every
    /// page table of the guest with its memory map locked, so that a guest of some GiB stands
    /// still for milliseconds each time.
    pub fn resident(&self) -> Option<Bytes> {
        let text = read(&self.statm)?;
        let field = std::str::from_utf8(&text).ok()?.split_ascii_whitespace().nth(1)?;
        field.parse::<u64>().ok()?.checked_mul(self.page_bytes).map(Bytes)
    }

    /// Memory of it that is on the host's swap. The kernel writes the whole of /proc/PID/status
    /// for it, which costs some ten times the other reads: ask seldom.
    pub fn swap(&self) -> Option<Bytes> {
        let text = read(&self.status)?;
        // The name of the process stands in the text too, but the kernel escapes its line ends.
        let mut lines = text.split(|byte| *byte == b'\n');
        let line = lines.find_map(|line| line.strip_prefix(b"VmSwap:"))?;
        let kib = std::str::from_utf8(line).ok()?.trim().strip_suffix("kB")?;
        kib.trim_end().parse::<u64>().ok()?.checked_mul(1024).map(Bytes)
    }

    /// Time that its control group waited for memory. The group may hold other processes, and is
    /// the one that it was in when the files were opened. `None` where the host has no second
    /// hierarchy, where pressure is not accounted, and for a process that has no group of its own.
    pub fn pressure(&self) -> Option<Pressure> {
        Pressure::parse(&read(self.pressure.as_ref()?)?)
    }
}

fn open(root: &Path, pid: u32, name: &str) -> Option<File> {
    File::open(root.join(format!("proc/{pid}/{name}"))).ok()
}

/// The start of a file, up to the bound on texts.
fn read(file: &File) -> Option<Vec<u8>> {
    let mut text = [0; TEXT_MAX];
    let count = file.read_at(&mut text, 0).ok()?;
    Some(text.get(..count)?.to_vec())
}

fn open_pressure(root: &Path, pid: u32) -> Option<File> {
    let group = cgroup(&read(&open(root, pid, "cgroup")?)?)?;
    CGROUP_ROOTS
        .iter()
        .find_map(|top| File::open(root.join(top).join(&group).join("memory.pressure")).ok())
}

/// The path of the group in the second hierarchy, without its first slash. The root's pressure
/// is the whole host's and no process's own, and a group outside of what we can see begins with
/// dots.
fn cgroup(text: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(text).ok()?;
    let path = Path::new(text.lines().find_map(|line| line.strip_prefix("0::/"))?);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && path.file_name().is_some()).then(|| path.to_path_buf())
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
        assert_eq!(Stat::parse(b"42 (a) R) 1"), None);
        assert_eq!(Stat::parse(b"42 a R 1 2 3"), None);
        assert_eq!(Stat::parse(b"\xff)\xff"), None);
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
        assert_eq!(view.swap(), Some(Bytes(64 << 10)));
        assert_eq!(view.pressure(), Some(Pressure { some_us: 1500, full_us: 900 }));
        let stat = view.stat().unwrap();
        assert_eq!((stat.state, stat.major_faults), ('S', 12));
        // The files stay open, and show what is in them now.
        tree.file("proc/42/statm", "90000 7 800 1 0 70000 0\n");
        assert_eq!(view.resident(), Some(Bytes(7 * page)));
    }

    #[test]
    fn what_is_not_there_is_missing_and_not_zero() {
        let tree = tree();
        tree.file("proc/42/statm", "90000");
        tree.file("proc/42/status", "Name:\tqemu\nVmSwap:\t-1 kB\n");
        for group in ["0::/\n", "0::/../outside\n", "4:memory:/old\n", "0::/not-there\n"] {
            tree.file("proc/42/cgroup", group);
            let view = ProcessView::open_under(tree.path(), PID).unwrap();
            assert_eq!(view.pressure(), None, "{group}");
            assert_eq!((view.resident(), view.swap()), (None, None));
        }
        assert_eq!(Pressure::parse(b"some avg10=0.00 total=1\n"), None, "no full line");
        assert_eq!(Pressure::parse(b"some total=x\nfull total=1\n"), None);
    }
}
