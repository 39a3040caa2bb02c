//! Control group of a guest's process.

use model::counters::PsiLine;
use model::{Field, GuestField, Row, Unit};
use std::path::{Path, PathBuf};

use procfs::parse::{cgroup, lines, named, pressure, value_of};
use procfs::{Buffer, Kept};

/// Possible mount points of the CPU controller in cgroup v1.
const CPU: [&str; 2] = ["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"];

/// Counters of the group. A guest in a shared group has no values, because the group's counters
/// include other guests.
#[derive(Debug, Default)]
pub(crate) struct Group {
    cpu_stat: Kept,
    /// Key and unit of the throttled time: nanoseconds in cgroup v1, microseconds in v2.
    name: &'static str,
    unit_ns: u64,
    cpu: Kept,
    memory: Kept,
    io: Kept,
    memory_stat: Kept,
    swap: Kept,
    low: Kept,
}

/// Keys of memory.stat. All values but one count pages; the value of `zswapped` is in bytes. Older
/// kernels lack some keys.
const MEMORY_STAT: &[(&str, GuestField)] = &[
    ("zswapped", GuestField::GroupZswapped),
    ("zswpin", GuestField::GroupZswapIn),
    ("zswpout", GuestField::GroupZswapOut),
    ("zswpwb", GuestField::GroupZswapBack),
    ("pswpin", GuestField::GroupSwapIn),
    ("pswpout", GuestField::GroupSwapOut),
    ("workingset_refault_anon", GuestField::GroupRefaultAnonymous),
    ("workingset_refault_file", GuestField::GroupRefaultFile),
];

impl Group {
    /// Opens the files of a process's current group.
    pub(crate) fn open(root: &Path, pid: u32, buffer: &mut Buffer) -> Group {
        let file = Kept::open(&root.join(format!("proc/{pid}/cgroup")));
        let Some(text) = file.whole(buffer) else { return Group::default() };
        let second = cgroup::unified(text).and_then(own_group);
        let first = cgroup::of_controller(text, "cpu").and_then(own_group);
        let in_all = |tops: [&str; 2], path: &Option<PathBuf>, file: &str| -> Kept {
            let Some(path) = path else { return Kept::default() };
            let open = |top: &&str| Kept::open(&root.join(top).join(path).join(file));
            tops.iter().map(open).find(Kept::is_open).unwrap_or_default()
        };
        let of_second = in_all(cgroup::UNIFIED, &second, "cpu.stat");
        let limited = of_second.once(buffer).and_then(|text| value_of(text, "throttled_usec"));
        let (cpu_stat, name, unit_ns) = match limited {
            Some(_) => (of_second, "throttled_usec", 1000),
            None => (in_all(CPU, &first, "cpu.stat"), "throttled_time", 1),
        };
        Group {
            cpu_stat,
            name,
            unit_ns,
            cpu: in_all(cgroup::UNIFIED, &second, "cpu.pressure"),
            memory: in_all(cgroup::UNIFIED, &second, "memory.pressure"),
            io: in_all(cgroup::UNIFIED, &second, "io.pressure"),
            memory_stat: in_all(cgroup::UNIFIED, &second, "memory.stat"),
            swap: in_all(cgroup::UNIFIED, &second, "memory.swap.current"),
            low: in_all(cgroup::UNIFIED, &second, "memory.low"),
        }
    }

    /// Fills in the group's throttled time, pressure stall times and memory values.
    pub(crate) fn read(&self, row: &mut Row<GuestField>, buffer: &mut Buffer) {
        let throttled = self.cpu_stat.once(buffer).and_then(|text| value_of(text, self.name));
        let throttled_ns = throttled.and_then(|time| time.checked_mul(self.unit_ns));
        row.set(GuestField::Throttled, throttled_ns);
        let mut some =
            |file: &Kept| pressure::total_us(file.once(buffer)?, PsiLine::Some)?.checked_mul(1000);
        row.set(GuestField::PsiCpu, some(&self.cpu));
        row.set(GuestField::PsiMemory, some(&self.memory));
        row.set(GuestField::PsiIo, some(&self.io));
        self.memory(row, buffer);
    }

    /// Fills in the group's memory values. A limit of `max` counts as missing.
    fn memory(&self, row: &mut Row<GuestField>, buffer: &mut Buffer) {
        row.set(GuestField::GroupSwap, self.swap.number(buffer));
        row.set(GuestField::Low, self.low.number(buffer));
        let text = self.memory_stat.once(buffer).unwrap_or_default();
        for (name, value) in lines(text).filter_map(named) {
            if let Some((_, field)) = MEMORY_STAT.iter().find(|(n, _)| n.as_bytes() == name) {
                let is_pages = field.unit() == Unit::Pages;
                let unit = if is_pages { rustix::param::page_size() as u64 / 4096 } else { 1 };
                row.set(*field, value.checked_mul(unit));
            }
        }
    }

    /// Returns the number of open files.
    pub(crate) fn files(&self) -> usize {
        let pressures = [&self.cpu, &self.memory, &self.io];
        let others = [&self.cpu_stat, &self.memory_stat, &self.swap, &self.low];
        pressures.iter().chain(&others).filter(|file| file.is_open()).count()
    }
}

/// Returns the guest's own group. libvirt puts a guest's threads in child groups of that group. The
/// root group is never a guest's own group.
fn own_group(mut path: PathBuf) -> Option<PathBuf> {
    for below in ["emulator", "libvirt"] {
        if path.file_name().is_some_and(|name| name == below) {
            path.pop();
        }
    }
    path.file_name().is_some().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn check(text: &str, throttled: Option<u64>, memory: Option<u64>) {
        let tree = Tree::new();
        tree.file("proc/7/cgroup", text);
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull total=1\n";
        tree.file("sys/fs/cgroup/unified/vm/g1/memory.pressure", pressure);
        tree.file("sys/fs/cgroup/cpu,cpuacct/old/g1/cpu.stat", "nr_periods 1\nthrottled_time 9\n");
        tree.file("sys/fs/cgroup/new/g1/cpu.stat", "usage_usec 5\nthrottled_usec 3\n");
        let mut buffer = Buffer::default();
        let group = Group::open(tree.path(), 7, &mut buffer);
        let mut row = Row::default();
        group.read(&mut row, &mut buffer);
        assert_eq!(row.get(GuestField::Throttled), throttled, "{text}");
        let pressures = [GuestField::PsiCpu, GuestField::PsiMemory, GuestField::PsiIo];
        assert_eq!(pressures.map(|field| row.get(field)), [None, memory, None], "{text}");
    }

    #[test]
    fn a_group_is_found_in_both_hierarchies() {
        check("4:cpu,cpuacct:/old/g1\n0::/vm/g1\n", Some(9), Some(5000));
        check("0::/new/g1\n", Some(3000), None);
        check("0::/vm/g1/libvirt/emulator\n", None, Some(5000));
        check("0::/vm/g1/libvirt\n", None, Some(5000));
    }

    #[test]
    fn values_that_a_kernel_lacks_are_missing_in_the_group() {
        let tree = Tree::new();
        tree.file("proc/7/cgroup", "0::/vm/g1\n");
        let stat = "anon 1\nzswapped 8192\nzswpin 2\npswpin 3\npswpout 4\n\
                    workingset_refault_anon 5\n";
        tree.file("sys/fs/cgroup/vm/g1/memory.stat", stat);
        tree.file("sys/fs/cgroup/vm/g1/memory.swap.current", "12288\n");
        tree.file("sys/fs/cgroup/vm/g1/memory.low", "max\n");
        let mut buffer = Buffer::default();
        let group = Group::open(tree.path(), 7, &mut buffer);
        let mut row = Row::default();
        group.memory(&mut row, &mut buffer);
        let page = rustix::param::page_size() as u64 / 4096;
        for (field, value) in [
            (GuestField::GroupSwap, Some(12_288)),
            (GuestField::GroupZswapped, Some(8192)),
            (GuestField::GroupZswapIn, Some(2 * page)),
            (GuestField::GroupZswapOut, None),
            (GuestField::GroupSwapIn, Some(3 * page)),
            (GuestField::GroupSwapOut, Some(4 * page)),
            (GuestField::GroupRefaultAnonymous, Some(5 * page)),
            (GuestField::GroupRefaultFile, None),
            (GuestField::Low, None),
        ] {
            assert_eq!(row.get(field), value, "{field:?}");
        }
        assert_eq!(group.files(), 3);
    }

    #[test]
    fn guest_without_its_own_group_has_no_group_values() {
        for text in ["0::/\n", "0::/../vm/g1\n", "0::/vm\n", "", "nonsense", "4:cpu:/\n0::\n"] {
            check(text, None, None);
        }
    }
}
