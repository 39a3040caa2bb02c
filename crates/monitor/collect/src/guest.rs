//! Reader of a guest's process, which does not wake the guest.

use hypervisor::{ProcessId, ThreadRan};
use model::{GuestField, Row};
use std::path::Path;

use crate::accelerator::{Accelerator, Statistics, accelerator};
use crate::devices::{Devices, Images};
use crate::group::Group;
use crate::steady;
use crate::threads::{TICK_NS, Threads};
use procfs::parse::task::StatField::{
    MajorFaults, MinorFaults, StartTicks, SystemTicks, UserTicks,
};
use procfs::parse::task::TaskStat;
use procfs::parse::{numbers, value_of};
use procfs::{Buffer, Kept};

/// Maximum run time of a sleeping guest's virtual CPUs since the last reading. Even an idle kernel
/// runs occasionally.
const SLEEP_NS: u64 = 20_000_000;
/// Divisor of the elapsed time for a second limit, one fiftieth of a CPU. The larger limit applies.
const SLEEP_PART: u64 = 50;
/// Interval between readings of rare or costly values, while the guest runs.
const SELDOM_MS: u64 = 5_000;
/// Interval between readings of a sleeping guest, or of any guest on a host short of memory. Each
/// reading includes the emulator's work since the previous reading.
const ASLEEP_MS: u64 = 15_000;
/// Interval between scans for new threads. Each scan reads a directory.
const LIST_MS: u64 = 15_000;

/// Extent of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Everything, if the guest has run since the last reading.
    Usual,
    /// The minimum, on a host short of memory.
    Least,
    /// Everything that is read from a running guest, even if this guest sleeps.
    AsIfAwake,
}

/// Result of reading a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The guest has hardly run.
    Asleep,
    /// The guest has run, and was read.
    Awake,
    /// The guest has run, but only its virtual CPUs were read.
    PutOff,
    /// The process has ended.
    Gone,
}

#[derive(Debug)]
struct ProcessFiles {
    stat: Kept,
    statm: Kept,
    status: Kept,
    io: Kept,
    merged: Kept,
}

/// Reader of a guest's process. The files of the process stay open, so a reused pid cannot make
/// them show another process.
#[derive(Debug)]
pub struct GuestReader {
    vcpus: Threads,
    others: Threads,
    files: ProcessFiles,
    group: Group,
    devices: Devices,
    accelerator: Accelerator,
    statistics: Statistics,
    /// True if the kernel counts waits for block I/O.
    counts_block_io: bool,
    page_bytes: u64,
    row: Row<GuestField>,
    last: Row<GuestField>,
    look: Option<(u64, u64)>,
    seldom_ms: Option<u64>,
    listed_ms: Option<u64>,
}

/// Data shared by readers: a buffer, and image files, which several guests may have open.
#[derive(Debug, Default)]
pub struct Scratch {
    buffer: Buffer,
    pub(crate) images: Images,
}

impl GuestReader {
    /// Opens the files of a process; `None` if the process has ended or its pid was reused.
    pub fn open(root: &Path, process: ProcessId, vcpu_tids: &[u32]) -> Option<GuestReader> {
        let pid = process.pid;
        let at = |name: &str| Kept::open(&root.join(format!("proc/{pid}/{name}")));
        let mut buffer = Buffer::default();
        let stat = at("stat");
        let found = Process::parse(stat.once(&mut buffer)?)?;
        if found.start_ticks != process.start_ticks {
            return None;
        }
        let delays = Kept::open(&root.join("proc/sys/kernel/task_delayacct"));
        Some(GuestReader {
            vcpus: Threads::vcpus(root, pid, vcpu_tids),
            others: Threads::none(root, pid),
            files: ProcessFiles {
                stat,
                statm: at("statm"),
                status: at("status"),
                io: at("io"),
                merged: at("ksm_merging_pages"),
            },
            group: Group::open(root, pid, &mut buffer),
            devices: Devices::new(root, pid, rustix::param::page_size() as u64),
            accelerator: accelerator(root, pid),
            statistics: Statistics::open(root, pid),
            counts_block_io: delays.number(&mut buffer) == Some(1),
            page_bytes: rustix::param::page_size() as u64,
            row: Row::default(),
            last: Row::default(),
            look: None,
            seldom_ms: None,
            listed_ms: None,
        })
    }

    /// Reads the guest; [`row`](GuestReader::row) then returns its fields. `read` contains counters
    /// of its virtual CPUs that the manager has just read.
    pub fn read(
        &mut self,
        read: &[ThreadRan],
        care: Care,
        now_ms: u64,
        scratch: &mut Scratch,
    ) -> Look {
        let Scratch { buffer, images } = scratch;
        let ran = self.vcpus.ran(read, buffer);
        if let Some(found) = self.vcpus.stretches(now_ms) {
            let [short, middle, long, longest] = found.counts;
            self.row.set(GuestField::Bursts50, Some(short));
            self.row.set(GuestField::Bursts200, Some(middle));
            self.row.set(GuestField::Bursts1000, Some(long));
            self.row.set(GuestField::BurstsLong, Some(longest));
            self.row.set(GuestField::IdleShort, Some(found.short_rest_ns));
        }
        self.row.set(GuestField::VcpuRun, ran.map(|ran| ran.run_ns));
        self.row.set(GuestField::VcpuDelay, ran.map(|ran| ran.delay_ns));
        self.row.set(GuestField::VcpuDispatches, ran.map(|ran| ran.dispatches));
        let run_ns = ran.map_or(0, |ran| ran.run_ns);
        let (looked_ms, looked_ns) = self.look.unwrap_or((0, 0));
        let passed_ms = now_ms.saturating_sub(looked_ms);
        let enough = SLEEP_NS.max(passed_ms.saturating_mul(1_000_000) / SLEEP_PART);
        let first = self.look.is_none();
        // A guest with unknown virtual CPUs never counts as asleep.
        let awake = self.vcpus.len() == 0 || run_ns.saturating_sub(looked_ns) > enough;
        let due = first || passed_ms >= ASLEEP_MS;
        let wanted = match care {
            Care::Usual => awake,
            Care::Least => false,
            Care::AsIfAwake => true,
        };
        if !(due || wanted) {
            // Only this check notices the end of a guest with unknown virtual CPUs.
            return match (awake, self.vcpus.len()) {
                (true, 0) if self.files.stat.once(buffer).is_none() => Look::Gone,
                (true, _) => Look::PutOff,
                (false, _) => Look::Asleep,
            };
        }
        let Some(process) = self.files.stat.once(buffer).and_then(Process::parse) else {
            return Look::Gone;
        };
        if process.is_dead {
            return Look::Gone;
        }
        self.look = Some((now_ms, run_ns));
        self.often(&process, run_ns, now_ms, buffer);
        let often = if care == Care::Least { ASLEEP_MS } else { SELDOM_MS };
        if self.seldom_ms.is_none_or(|at| now_ms.saturating_sub(at) >= often) {
            self.seldom_ms = Some(now_ms);
            self.seldom(buffer);
            self.devices(images, now_ms, buffer);
        }
        steady::hold(&mut self.row, &mut self.last);
        if awake || care == Care::AsIfAwake { Look::Awake } else { Look::Asleep }
    }

    fn often(&mut self, process: &Process, vcpus_ns: u64, now_ms: u64, buffer: &mut Buffer) {
        let row = &mut self.row;
        let is_kvm = self.accelerator == Accelerator::Kvm;
        // Under emulation the kernel cannot tell a guest's code from the emulator's code, so the
        // guest time is missing. If the accelerator is unknown, a guest time above zero proves KVM.
        let wants_times = self.counts_block_io || self.accelerator != Accelerator::Emulated;
        if let Some(times) = wants_times.then(|| self.vcpus.times(buffer)).flatten() {
            let guest = Some(times.guest_ns).filter(|ns| is_kvm || *ns > 0);
            row.set(GuestField::VcpuGuest, guest);
            let counts = self.counts_block_io;
            row.set(GuestField::VcpuBlockIo, Some(times.block_io_ns).filter(|_| counts));
        }
        if self.listed_ms.is_none_or(|at| now_ms.saturating_sub(at) >= LIST_MS) {
            self.listed_ms = Some(now_ms);
            let stat = if self.counts_block_io { "stat" } else { "" };
            self.others.list(&self.vcpus, stat);
        }
        let others = self.others.ran(&[], buffer);
        if self.counts_block_io {
            let waited = self.others.times(buffer).map(|times| times.block_io_ns);
            row.set(GuestField::OtherBlockIo, waited);
        }
        // The process's sum includes threads that started and ended between two scans. The sum is
        // exact to two ticks.
        let unlisted = process.cpu_ns.saturating_sub(vcpus_ns);
        let run_ns = others.map(|ran| ran.run_ns.max(unlisted));
        let before = row.get(GuestField::OtherRun);
        row.set(GuestField::OtherRun, run_ns.max(before));
        row.set(GuestField::OtherDelay, others.map(|ran| ran.delay_ns));
        row.set(GuestField::OtherDispatches, others.map(|ran| ran.dispatches));
        row.set(GuestField::MinorFaults, Some(process.minor_faults));
        row.set(GuestField::MajorFaults, Some(process.major_faults));
        let pages = self.files.statm.once(buffer).and_then(numbers).map(|[_, resident]| resident);
        let resident = pages.and_then(|pages: u64| pages.checked_mul(self.page_bytes));
        row.set(GuestField::Resident, resident);
    }

    fn seldom(&mut self, buffer: &mut Buffer) {
        let row = &mut self.row;
        let status = self.files.status.once(buffer);
        let kib = |name| value_of(status?, name)?.checked_mul(1024);
        let (swapped, locked) = (kib("VmSwap"), kib("VmLck"));
        row.set(GuestField::Swapped, swapped);
        row.set(GuestField::Locked, locked);
        let io = self.files.io.once(buffer);
        let of_io = |name| value_of(io?, name);
        let [read, written, reads, writes] =
            ["read_bytes", "write_bytes", "syscr", "syscw"].map(of_io);
        row.set(GuestField::ReadBytes, read);
        row.set(GuestField::WriteBytes, written);
        row.set(GuestField::ReadCalls, reads);
        row.set(GuestField::WriteCalls, writes);
        row.set(GuestField::Merged, self.files.merged.number(buffer));
        self.group.read(row, buffer);
        self.statistics.read(row, buffer);
    }

    fn devices(&mut self, images: &mut Images, now_ms: u64, buffer: &mut Buffer) {
        self.devices.read(images, now_ms, buffer);
        let held = self.devices.held(images);
        self.row.set(GuestField::Images, held.map(|held| held.bytes));
        self.row.set(GuestField::ImagesCached, held.and_then(|held| held.cached));
        self.devices.network(&mut self.row, buffer);
    }

    /// Updates the other threads' run time from the run time of the whole process. If the guest
    /// sleeps, or the host is short of memory, these threads have not been read for a while.
    pub(crate) fn process_ran(&mut self, cpu_ns: Option<u64>) {
        let (vcpus, others) = (GuestField::VcpuRun, GuestField::OtherRun);
        if let (Some(cpu_ns), Some(ran_ns)) = (cpu_ns, self.row.get(vcpus))
            && let Some(before_ns) = self.row.get(others)
        {
            let others_ns = cpu_ns.saturating_sub(ran_ns).max(before_ns);
            self.row.set(others, Some(others_ns));
            self.last.set(others, Some(others_ns));
        }
    }

    /// Returns the fields. Fields from the manager or the daemon are missing.
    pub fn row(&self) -> &Row<GuestField> {
        &self.row
    }

    /// Returns the approximate number of open files.
    pub fn files(&self) -> usize {
        let kept = self.group.files() + self.statistics.files() + self.devices.files();
        let others = self.others.len() * if self.counts_block_io { 2 } else { 1 };
        5 + 2 * self.vcpus.len() + others + kept
    }
}

/// Fields of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    is_dead: bool,
    minor_faults: u64,
    major_faults: u64,
    /// CPU time of all threads, including ended threads.
    cpu_ns: u64,
    start_ticks: u64,
}

impl Process {
    fn parse(text: &[u8]) -> Option<Process> {
        let stat = TaskStat::parse(text)?;
        let [minor_faults, major_faults, user, system, start_ticks] =
            stat.numbers([MinorFaults, MajorFaults, UserTicks, SystemTicks, StartTicks])?;
        let cpu_ns = user.checked_add(system)?.checked_mul(TICK_NS)?;
        Some(Process { is_dead: stat.is_dead(), minor_faults, major_faults, cpu_ns, start_ticks })
    }
}

#[cfg(test)]
mod tests;
