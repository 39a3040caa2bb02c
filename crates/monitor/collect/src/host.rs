//! Reader of the host: CPUs, memory, and the kernel's counters for both.
//!
//! /proc/stat is the most costly file: for any read the kernel generates the whole file, with a sum
//! for every interrupt. The file is therefore read once per moment.

use model::counters::PsiLine;
use model::{HostField, Row};
use procfs::CpuClock;
use procfs::parse::stat::{Stat, parse};
use std::path::Path;

use crate::steady;
use crate::watermarks::Watermarks;
use procfs::parse::task::{StatField, TaskStat, is_kernel};
use procfs::parse::{lines, named, number, numbers, pressure};
use procfs::{Buffer, Kept};

/// Nanoseconds in a tick of /proc/stat, on every supported architecture.
const TICK_NS: i64 = 10_000_000;
/// Maximum number of processes that are searched for the kernel's threads. These threads start
/// first.
const PROCESSES_MAX: usize = 2000;
/// Maximum number of lines read at the end of /proc/stat, after the interrupts.
const TAIL_LINES: usize = 12;

const MEMINFO: &[(&str, HostField)] = &[
    ("MemTotal", HostField::Total),
    ("MemFree", HostField::Free),
    ("MemAvailable", HostField::Available),
    ("Buffers", HostField::Buffers),
    ("Cached", HostField::Cached),
    ("SwapCached", HostField::SwapCached),
    ("Mlocked", HostField::Locked),
    ("SwapTotal", HostField::SwapTotal),
    ("SwapFree", HostField::SwapFree),
    ("Zswap", HostField::Zswap),
    ("Zswapped", HostField::Zswapped),
    ("AnonPages", HostField::Anonymous),
    ("Shmem", HostField::Shared),
    ("Slab", HostField::Slab),
    ("KernelStack", HostField::KernelStack),
    ("PageTables", HostField::PageTables),
    ("SecPageTables", HostField::SecondaryTables),
    ("Percpu", HostField::PerCpu),
    ("Hugetlb", HostField::HugeTlb),
];

/// Keys of /proc/vmstat that count pages.
const VMSTAT_PAGES: &[(&str, HostField)] = &[
    ("workingset_refault_anon", HostField::RefaultAnonymous),
    ("workingset_refault_file", HostField::RefaultFile),
    // Older kernels have one counter for both kinds of pages.
    ("workingset_refault", HostField::RefaultFile),
    ("pswpin", HostField::SwapIn),
    ("pswpout", HostField::SwapOut),
    ("pgsteal_kswapd", HostField::StealKswapd),
    ("pgsteal_direct", HostField::StealDirect),
    ("pgscan_kswapd", HostField::ScanKswapd),
    ("pgscan_direct", HostField::ScanDirect),
    ("zswpin", HostField::ZswapIn),
    ("zswpout", HostField::ZswapOut),
    ("zswpwb", HostField::ZswapBack),
];

/// Keys of /proc/vmstat with other units.
const VMSTAT: &[(&str, HostField)] =
    &[("pgmajfault", HostField::MajorFaults), ("oom_kill", HostField::OomKills)];

/// Files of /proc/pressure, and the field for each kind of line.
const PRESSURE: &[(&str, &[(PsiLine, HostField)])] = &[
    ("cpu", &[(PsiLine::Some, HostField::PsiCpuSome)]),
    (
        "memory",
        &[(PsiLine::Some, HostField::PsiMemorySome), (PsiLine::Full, HostField::PsiMemoryFull)],
    ),
    ("io", &[(PsiLine::Some, HostField::PsiIoSome), (PsiLine::Full, HostField::PsiIoFull)]),
];

const KSM: &[(&str, HostField)] = &[
    ("pages_shared", HostField::KsmShared),
    ("pages_sharing", HostField::KsmSharing),
    ("full_scans", HostField::KsmScans),
];

/// Reader of the host, with files that stay open.
#[derive(Debug)]
pub struct HostReader {
    stat: Kept,
    meminfo: Kept,
    vmstat: Kept,
    pressure: Vec<(Kept, &'static [(PsiLine, HostField)])>,
    ksm: Vec<(Kept, HostField)>,
    ksmd: Vec<Kept>,
    kswapd: Vec<Kept>,
    own: Kept,
    watermarks: Watermarks,
    cpus: Stat,
    clock: CpuClock,
    page_bytes: u64,
    buffer: Buffer,
    last: Row<HostField>,
}

impl HostReader {
    /// Opens the files below a root.
    pub fn open(root: &Path) -> HostReader {
        let mut buffer = Buffer::default();
        let at = |name: &str| Kept::open(&root.join(name));
        let threads = kernel_threads(root, &mut buffer);
        let of = |name: &str| -> Vec<Kept> {
            let called = threads.iter().filter(|(found, _)| {
                found
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
            });
            called.map(|(_, pid)| at(&format!("proc/{pid}/schedstat"))).collect()
        };
        HostReader {
            stat: at("proc/stat"),
            meminfo: at("proc/meminfo"),
            vmstat: at("proc/vmstat"),
            pressure: PRESSURE
                .iter()
                .map(|(name, kinds)| (at(&format!("proc/pressure/{name}")), *kinds))
                .collect(),
            ksm: KSM
                .iter()
                .map(|(name, field)| (at(&format!("sys/kernel/mm/ksm/{name}")), *field))
                .collect(),
            ksmd: of("ksmd"),
            kswapd: of("kswapd"),
            own: at("proc/self/statm"),
            watermarks: Watermarks::open(root),
            cpus: Stat::default(),
            clock: CpuClock::default(),
            page_bytes: rustix::param::page_size() as u64,
            buffer,
            last: Row::default(),
        }
    }

    /// Returns the kernel's current counters. Fields that only the manager can provide are missing.
    pub fn read(&mut self, now_ms: u64) -> Row<HostField> {
        let mut row = Row::default();
        self.stat(&mut row, now_ms);
        self.meminfo(&mut row);
        self.watermarks.read(&mut row, self.page_bytes, now_ms, &mut self.buffer);
        self.vmstat(&mut row);
        for (file, kinds) in &self.pressure {
            let Some(text) = file.once(&mut self.buffer) else { continue };
            for (kind, field) in *kinds {
                let us = pressure::total_us(text, *kind);
                row.set(*field, us.and_then(|us| us.checked_mul(1000)));
            }
        }
        for (file, field) in &self.ksm {
            row.set(*field, file.number(&mut self.buffer));
        }
        row.set(HostField::KsmRun, run_ns(&self.ksmd, &mut self.buffer));
        row.set(HostField::KswapdRun, run_ns(&self.kswapd, &mut self.buffer));
        let own = self.own.once(&mut self.buffer).and_then(numbers);
        let pages = own.map(|[_, resident, shared]: [u64; 3]| resident.saturating_sub(shared));
        let own = pages.and_then(|pages| pages.checked_mul(self.page_bytes));
        row.set(HostField::OwnResident, own);
        steady::hold(&mut row, &mut self.last);
        row
    }

    fn stat(&mut self, row: &mut Row<HostField>, now_ms: u64) {
        let Some(text) = self.stat.whole(&mut self.buffer) else { return };
        if parse(text, true, &mut self.cpus).is_ok() {
            row.set(HostField::Cpus, Some(self.cpus.cpus.len() as u64));
            let total = self.clock.advance(&self.cpus, now_ms as f64 / 1000.0);
            let ns = |ticks: i64| u64::try_from(ticks.saturating_mul(TICK_NS)).ok();
            let [user, nice, system, idle, io_wait, irq, soft_irq, steal, guest, guest_nice] =
                *total;
            // User and nice time include the guests' time.
            row.set(HostField::User, ns(user.saturating_sub(guest)));
            row.set(HostField::Nice, ns(nice.saturating_sub(guest_nice)));
            row.set(HostField::System, ns(system));
            row.set(HostField::Idle, ns(idle));
            row.set(HostField::IoWait, ns(io_wait));
            row.set(HostField::Interrupts, ns(irq));
            row.set(HostField::SoftInterrupts, ns(soft_irq));
            row.set(HostField::Steal, ns(steal));
            row.set(HostField::Guest, ns(guest.saturating_add(guest_nice)));
        }
        for line in lines(text).rev().take(TAIL_LINES) {
            match named(line) {
                Some((b"ctxt", value)) => row.set(HostField::Switches, Some(value)),
                Some((b"procs_running", value)) => row.set(HostField::Running, Some(value)),
                _ => {}
            }
        }
    }

    fn meminfo(&mut self, row: &mut Row<HostField>) {
        let Some(text) = self.meminfo.once(&mut self.buffer) else { return };
        for (name, kib) in lines(text).filter_map(named) {
            if let Some((_, field)) = MEMINFO.iter().find(|(known, _)| known.as_bytes() == name) {
                row.set(*field, kib.checked_mul(1024));
            }
        }
    }

    fn vmstat(&mut self, row: &mut Row<HostField>) {
        let Some(text) = self.vmstat.whole(&mut self.buffer) else { return };
        let mut stalls = None;
        for (name, value) in lines(text).filter_map(named) {
            // The other lines, more than a hundred and fifty, are skipped by their first letter.
            if !matches!(name.first(), Some(b'w' | b'p' | b'z' | b'o' | b'a')) {
                continue;
            }
            let find = |names: &[(&str, HostField)]| {
                names.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, field)| *field)
            };
            if let Some(field) = find(VMSTAT_PAGES) {
                row.set(field, value.checked_mul(self.page_bytes / 4096));
            } else if let Some(field) = find(VMSTAT) {
                row.set(field, Some(value));
            } else if name.starts_with(b"allocstall") {
                stalls = Some(value.saturating_add(stalls.unwrap_or(0)));
            }
        }
        row.set(HostField::Stalls, stalls);
    }
}

/// Returns the total run time of the threads. Returns `None` if there are no threads, or if a
/// thread is not readable.
fn run_ns(threads: &[Kept], buffer: &mut Buffer) -> Option<u64> {
    let mut sum = None;
    for thread in threads {
        let [run_ns] = numbers(thread.once(buffer)?)?;
        sum = Some(run_ns.saturating_add(sum.unwrap_or(0)));
    }
    sum
}

/// Returns the visible threads of the kernel. In a container no kernel threads are visible.
fn kernel_threads(root: &Path, buffer: &mut Buffer) -> Vec<(String, u64)> {
    let Ok(entries) = std::fs::read_dir(root.join("proc")) else { return Vec::new() };
    let pid = |name: &std::ffi::OsStr| number(name.as_encoded_bytes());
    let pids = entries.flatten().filter_map(|entry| pid(&entry.file_name()));
    let mut found = Vec::new();
    for pid in pids.take(PROCESSES_MAX) {
        let file = Kept::open(&root.join(format!("proc/{pid}/stat")));
        let Some(text) = file.once(buffer) else { continue };
        if let Some(stat) = TaskStat::parse(text)
            && stat.numbers([StatField::Flags]).is_some_and(|[flags]| is_kernel(flags))
            && let Ok(name) = std::str::from_utf8(stat.name)
        {
            found.push((name.to_owned(), pid));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use model::Field;

    const STAT: &str = "cpu  500 20 300 4000 50 6 7 8 100 10\n\
        cpu0 500 20 300 4000 50 6 7 8 100 10\n\
        intr 999 1 2 3\nctxt 4242\nbtime 1\nprocesses 9\nprocs_running 3\nprocs_blocked 0\n\
        softirq 1 2 3\n";

    fn tree() -> Tree {
        let tree = Tree::new();
        tree.file("proc/stat", STAT);
        tree.file("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  300 kB\nSecPageTables: 2 kB\n");
        tree.file(
            "proc/vmstat",
            "nr_free_pages 1\nworkingset_refault_anon 5\npswpin 7\nallocstall_dma 1\n\
             allocstall_normal 2\npgscan_direct 9\npgscan_direct_throttle 70\noom_kill 1\n",
        );
        tree.file("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3\n");
        tree.file("sys/kernel/mm/ksm/pages_sharing", "77\n");
        tree.file("proc/self/statm", "900 100 5 1 0 30 0\n");
        for (pid, name, flags) in
            [(5, "ksmd", 0x0020_0040), (6, "kswapd0", 0x0020_0840), (7, "kswapd1", 0x0020_0840)]
        {
            tree.file(
                &format!("proc/{pid}/stat"),
                &format!("{pid} ({name}) S 2 0 0 0 -1 {flags}\n"),
            );
            tree.file(&format!("proc/{pid}/schedstat"), &format!("{pid}000 1 1\n"));
        }
        // This process has the name of a kernel thread, but is not one.
        tree.file("proc/99/stat", "99 (ksmd) S 1 0 0 0 -1 4194560\n");
        tree.file("proc/99/schedstat", "999999999 1 1\n");
        tree
    }

    #[test]
    fn every_value_is_read_from_its_file() {
        let tree = tree();
        let mut reader = HostReader::open(tree.path());
        let row = reader.read(1000);
        let page = rustix::param::page_size() as u64;
        for (field, value) in [
            (HostField::Cpus, 1),
            (HostField::User, 400 * 10_000_000),
            (HostField::Nice, 10 * 10_000_000),
            (HostField::Idle, 4000 * 10_000_000),
            (HostField::Guest, 110 * 10_000_000),
            (HostField::Switches, 4242),
            (HostField::Running, 3),
            (HostField::Total, 1_024_000),
            (HostField::SecondaryTables, 2048),
            (HostField::RefaultAnonymous, 5 * page / 4096),
            (HostField::SwapIn, 7 * page / 4096),
            (HostField::ScanDirect, 9 * page / 4096),
            (HostField::Stalls, 3),
            (HostField::OomKills, 1),
            (HostField::PsiCpuSome, 3000),
            (HostField::KsmSharing, 77),
            (HostField::KsmRun, 5000),
            (HostField::KswapdRun, 13_000),
            (HostField::OwnResident, 95 * page),
        ] {
            assert_eq!(row.get(field), Some(value), "{}", field.name());
        }
    }

    #[test]
    fn host_fields_missing_in_the_kernel_are_missing() {
        let tree = tree();
        let row = HostReader::open(tree.path()).read(1000);
        for field in [
            HostField::Available,
            HostField::Zswap,
            HostField::SwapOut,
            HostField::RefaultFile,
            HostField::PsiMemorySome,
            HostField::KsmScans,
            HostField::Guests,
            HostField::OwnRun,
        ] {
            assert_eq!(row.get(field), None, "{}", field.name());
        }
        let nothing = Tree::new();
        let row = HostReader::open(nothing.path()).read(1000);
        assert!(row.values().iter().all(Option::is_none));
    }

    #[test]
    fn a_new_cpu_or_falling_idle_time_causes_no_jump() {
        let tree = tree();
        let mut reader = HostReader::open(tree.path());
        let before = reader.read(1000).get(HostField::Idle).unwrap();
        tree.file("proc/stat", &STAT.replace("4000 50", "3999 50"));
        assert_eq!(reader.read(2000).get(HostField::Idle), Some(before));
        let two = "cpu  600 20 300 904000 50 6 7 8 100 10\n\
                   cpu0 600 20 300 4050 50 6 7 8 100 10\ncpu1 0 0 0 900000 0 0 0 0 0 0\nctxt 1\n";
        tree.file("proc/stat", two);
        let row = reader.read(3000);
        assert!(row.get(HostField::Idle).unwrap() < before + 1_500_000_000, "{row:?}");
        assert_eq!(row.get(HostField::Cpus), Some(2));
    }

    #[test]
    fn broken_files_give_no_values() {
        let tree = tree();
        for (name, text) in [
            ("proc/stat", "nonsense\n"),
            ("proc/meminfo", "MemTotal: x kB\nMemFree: 99999999999999999999 kB\n\u{0}"),
            ("proc/vmstat", "pswpin\npswpin -4\n"),
            ("sys/kernel/mm/ksm/pages_sharing", ""),
        ] {
            tree.file(name, text);
        }
        let row = HostReader::open(tree.path()).read(1000);
        for field in [HostField::Idle, HostField::Total, HostField::SwapIn, HostField::KsmSharing] {
            assert_eq!(row.get(field), None, "{}", field.name());
        }
    }
}
