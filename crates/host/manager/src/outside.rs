//! A guest as observed from its host, without a request to the guest: resident and swapped memory,
//! major faults, and time spent waiting for memory.

use crate::groups::Groups;
use crate::machine::per_second;
use base::Bytes;
use hypervisor::{Apart, BackingFile, GuestRam, Held, Pinned, ProcessId, ProcessView};
use procfs::{AllKills, Root};
use std::path::Path;

/// Values of a guest's process, with rates over the last seconds. Unknown values are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Guest memory in the host's swap.
    pub swapped: Option<Bytes>,
    /// Major faults per second.
    pub major_faults_s: Option<f64>,
    /// Share of time in which some task of the process's control group waited for memory, in
    /// thousandths.
    pub psi_permille: Option<f64>,
}

/// Resident memory of a guest's process on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InHost {
    /// Private memory: the guest's and the hypervisor's own.
    pub private: Bytes,
    /// Memory that other processes may share.
    pub shared: Bytes,
    /// Shared memory in files on disk. The kernel counts such memory as cache, and therefore as
    /// available.
    pub in_files: Bytes,
    /// Private memory in reserved huge pages, which are not available for general use.
    pub huge: Bytes,
    /// Private memory that KSM has merged with other pages.
    pub merged: Bytes,
    /// Private memory that is not guest memory.
    pub own: Own,
}

/// Memory of the hypervisor itself, without the guest's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Size of the memory.
    pub size: Bytes,
    /// True if the size was measured, false if it is estimated.
    pub is_measured: bool,
}

/// Estimate of a QEMU's own memory if it cannot be measured. A QEMU that emulates CPUs has 25 to 40
/// MiB.
const OWN_ESTIMATE: Bytes = Bytes::mib(32);
/// Largest guest for which the hypervisor's own part is measured. In a larger guest that part is
/// relatively small. A walk over the guest's pages is slow: a millisecond for 100 MiB of small
/// pages.
const MEASURED_MAX: Bytes = Bytes::mib(16 << 10);
/// Interval between two measurements of the own part. A walk over the pages is most of the cost of
/// an idle guest, so the interval doubles after two equal measurements.
const OWN_MS: u64 = 60_000;
/// Maximum number of doublings of that interval.
const OWN_DOUBLINGS_MAX: u32 = 2;
/// Interval while the last measurement contradicts other data. An emulator's translated code grows
/// by tens of MiB in a guest's first minutes.
const OWN_WRONG_MS: u64 = 5_000;
/// Difference below which two measurements count as equal.
const OWN_SAME: Bytes = Bytes::mib(8);

impl Own {
    /// Estimates the own part of a process with `private` memory. The estimate is at most half of
    /// that memory, because a small guest has a small hypervisor.
    fn estimated(private: Bytes) -> Own {
        Own { size: OWN_ESTIMATE.min(Bytes(private.0 / 2)), is_measured: false }
    }

    /// Returns the possible error of the own part. The true size may be twice the estimate.
    pub fn doubtful(&self) -> Bytes {
        if self.is_measured { Bytes::ZERO } else { self.size }
    }
}

impl InHost {
    /// Returns the resident memory private to the guest.
    pub fn of_guest(&self) -> Bytes {
        self.private.less(self.own.size)
    }

    /// Returns all resident memory of the process.
    pub fn resident(&self) -> Bytes {
        self.private.plus(self.shared)
    }
}

/// Kinds of events since the hypervisor's own part was measured, in ascending order of effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Since {
    /// The guest has slept.
    #[default]
    Slept,
    /// The guest has run, so its hypervisor may have grown.
    Ran,
    /// Page-out reclaimed memory of the process, including the hypervisor's own part. The
    /// measurement is wrong.
    PagedOut,
}

/// Counters of a process at one time.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_ms: u64,
    major_faults: Option<u64>,
    psi_us: Option<u64>,
}

/// The process of a guest, measured on the host.
#[derive(Debug, Default)]
pub struct Outside {
    view: Option<ProcessView>,
    /// True if values from this user's process are trusted even if the host cannot verify them.
    is_trusted: bool,
    /// Location of the guest's memory, if it may be read.
    ram: Option<GuestRam>,
    /// True if the hypervisor's own part is worth a walk over the guest's pages.
    is_measured: bool,
    pub(crate) apart: Apart,
    /// Measured own part of the private memory, and the time of the measurement.
    own: Option<(Bytes, u64)>,
    /// Number of consecutive measurements that were equal to the measurement before.
    own_equal: u32,
    /// Event with the largest effect since the last measurement.
    since_own: Since,
    mark: Option<Mark>,
    /// Values of the last reading.
    pub seen: Seen,
    process: Option<ProcessId>,
    pub(crate) groups: Groups,
    /// Upper limit that the control groups set for the guest's memory.
    pub(crate) most: Option<Bytes>,
}

impl Outside {
    /// Watches a process. An unknown or ended process yields no data. For an untrusted user only
    /// visible memory counts, because a process may hide the swapped part of its memory. Mappings
    /// of an untrusted process are not read either, because the read waits for a lock that the
    /// process may hold.
    pub fn new(process: Option<ProcessId>, is_trusted: bool) -> Outside {
        let view = process.and_then(ProcessView::open);
        let mut outside = Outside { view, is_trusted, process, ..Outside::default() };
        outside.look_at_swap();
        outside.look_at_groups(&AllKills::read(&Root::default()));
        outside
    }

    /// Returns the same process with the size of the guest's memory. `pieces` has the sizes of the
    /// memory's pieces; empty if they are unknown.
    pub fn with_ram(mut self, memory: Bytes, pieces: &[Bytes]) -> Outside {
        self.replugged(memory, pieces);
        self
    }

    /// Sets the guest's memory and its pieces after a change. The own part is measured again.
    pub fn replugged(&mut self, memory: Bytes, pieces: &[Bytes]) {
        let view = self.view.as_ref().filter(|_| self.is_trusted);
        self.ram = view.and_then(|view| view.find_ram(memory, pieces));
        self.is_measured = memory <= MEASURED_MAX;
        self.own = None;
    }

    /// Returns the memory resident on the host.
    pub fn held(&self) -> Option<InHost> {
        let statm = self.view.as_ref()?.held()?;
        let held = owned(statm, self.ram.as_ref(), &self.apart);
        let own = match self.own {
            Some((size, _)) => Own { size: size.min(held.private), is_measured: true },
            None => Own::estimated(held.private),
        };
        let in_files = held.shared.min(self.apart.files);
        let Held { private, shared } = held;
        let Apart { merged, hugepages, .. } = self.apart;
        let (merged, huge) = (merged.min(private), hugepages.min(private));
        Some(InHost { private, shared, in_files, huge, merged, own })
    }

    /// Returns the time of the last measurement of the own part; `None` if it could be measured but
    /// has not been measured yet.
    pub fn own_since(&self) -> Option<u64> {
        match self.ram {
            Some(_) if self.is_measured => self.own.map(|(_, at_ms)| at_ms),
            // A failed search for the guest's memory is not repeated.
            _ => Some(u64::MAX),
        }
    }

    /// Notes that the guest has run.
    pub fn has_run(&mut self) {
        self.since_own = self.since_own.max(Since::Ran);
    }

    /// Notes that the process was paged out.
    pub fn was_paged_out(&mut self) {
        self.since_own = Since::PagedOut;
        self.look_at_swap();
    }

    /// Returns true if the hypervisor's own part is due for a measurement. `looks_wrong` is set if
    /// the measurement contradicts other data. An early repetition is useless after two equal
    /// measurements, or if the guest has slept since.
    pub fn is_own_due(&self, looks_wrong: bool, now_ms: u64) -> bool {
        let after = match (looks_wrong, self.own_equal) {
            (true, 0) => OWN_WRONG_MS,
            (true, _) => OWN_MS,
            (false, equal) => OWN_MS << equal.min(OWN_DOUBLINGS_MAX),
        };
        match self.since_own {
            Since::Slept => false,
            Since::Ran => self.own_since().is_some_and(|at| now_ms >= at.saturating_add(after)),
            Since::PagedOut => self.own.is_some(),
        }
    }

    /// Returns the guest's place in the order of measurements. Measurements made wrong by page-out
    /// come first, then the oldest measurements.
    pub fn own_turn(&self) -> (bool, Option<u64>) {
        (self.since_own != Since::PagedOut, self.own_since())
    }

    /// Measures the private memory that is not guest memory, at the cost of a walk over the guest's
    /// pages.
    pub fn measure_own(&mut self, now_ms: u64) {
        let Some((view, ram)) = self.view.as_ref().zip(self.ram.as_ref()) else { return };
        self.since_own = Since::Slept;
        let all = view.held().map(|held| owned(held, Some(ram), &self.apart).private);
        match all.zip(view.ram_held(ram)) {
            Some((all, of_guest)) => {
                let own = all.less(of_guest.private);
                let is_same = |before: Bytes| own.max(before).less(own.min(before)) < OWN_SAME;
                let is_equal = self.own.is_some_and(|(before, _)| is_same(before));
                self.own_equal = if is_equal { self.own_equal.saturating_add(1) } else { 0 };
                self.own = Some((own, now_ms));
            }
            None => match &mut self.own {
                Some((_, at_ms)) => {
                    (*at_ms, self.own_equal) = (now_ms, self.own_equal.saturating_add(1));
                }
                // The manager may not read the pages, now or later.
                None => self.ram = None,
            },
        }
    }

    /// Returns the reason why the memory of a guest of this size stays resident in any case.
    pub fn pinned(&self, memory: Bytes) -> Option<Pinned> {
        let Apart { locked, hugepages, anonymous, shmem, .. } = self.apart;
        let is_locked = memory > Bytes::ZERO && locked >= memory;
        // If most of the process's memory is in huge pages, that part is the guest's memory.
        let is_huge = hugepages > anonymous.plus(shmem);
        is_locked.then_some(Pinned::Locked).or(is_huge.then_some(Pinned::HugePages))
    }

    /// Returns the file behind the guest's memory, which other guests may share.
    pub fn template(&self) -> Option<BackingFile> {
        self.ram.as_ref()?.template()
    }

    /// Reads the swapped part of the process and the amounts of each kind of page.
    pub fn look_at_swap(&mut self) {
        let apart = self.view.as_ref().and_then(ProcessView::apart).unwrap_or_default();
        self.apart = apart;
        self.seen.swapped = match apart.hides_swap && self.is_trusted {
            true => None,
            false => apart.swapped,
        };
    }

    /// Reads the memory merged by KSM, which also changes while the guest sleeps.
    pub(crate) fn look_at_merged(&mut self) {
        let merged = self.view.as_ref().and_then(ProcessView::merged);
        self.apart.merged = merged.unwrap_or(Bytes::ZERO);
    }

    /// Looks up the groups of a live process. A dead process is in no group.
    pub(crate) fn look_at_groups(&mut self, kills: &AllKills) {
        if let Some(process) = self.process.filter(|_| self.is_alive()) {
            self.groups = Groups::of(Path::new("/"), &process.pid.to_string(), kills);
        }
    }

    /// Counts the kernel's kills from now on. A dead process keeps its old count, because one of
    /// the kills may be its own.
    pub(crate) fn renew_kills(&mut self, all: &AllKills) {
        if self.is_alive() {
            self.groups.renew_kills(all);
        }
    }

    fn is_alive(&self) -> bool {
        self.view.as_ref().and_then(ProcessView::stat).is_some_and(|stat| !stat.is_dead)
    }

    /// Reads the other counters, which cost more and are not needed every second.
    pub(crate) fn look(&mut self, now_ms: u64, kills: &AllKills) {
        let Some(view) = &self.view else { return };
        let now = Mark {
            at_ms: now_ms,
            major_faults: view.stat().map(|stat| stat.major_faults),
            psi_us: view.pressure_us(),
        };
        let before = self.mark.replace(now);
        self.look_at_swap();
        self.look_at_groups(kills);
        if let Some(then) = before {
            let window_ms = now_ms.saturating_sub(then.at_ms);
            self.seen.major_faults_s = per_second(now.major_faults, then.major_faults, window_ms);
            let psi_us_s = per_second(now.psi_us, then.psi_us, window_ms);
            self.seen.psi_permille = psi_us_s.map(|us| us / 1000.0);
        }
    }
}

/// Splits a process's memory into private and shared. Guest memory in a separate file is private,
/// although the kernel counts it as shared. If the mappings may not be read, the kind of most of
/// the pages decides.
pub(crate) fn owned(held: Held, ram: Option<&GuestRam>, apart: &Apart) -> Held {
    let is_in_file = match ram {
        Some(ram) => ram.is_shared(),
        None => apart.shmem > apart.anonymous,
    };
    // The kernel counts reserved huge pages in none of its other counts.
    let is_nowhere_else = apart.shmem > apart.files
        || apart.hugepages > Bytes::ZERO
        || ram.is_some_and(GuestRam::is_in_memory_file);
    let shared = match is_in_file {
        false => held.shared,
        // If guest memory is counted separately, pages from files on disk can only be programs.
        true if is_nowhere_else => held.shared.min(apart.files),
        true => Bytes::ZERO,
    };
    let private = held.resident().less(shared).plus(apart.hugepages);
    Held { private, shared }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn guest_memory_in_its_own_file_is_private_and_a_templates_not() {
        let mib = Bytes::mib;
        let statm = Held { private: mib(40), shared: mib(230) };
        let apart = Apart { files: mib(30), shmem: mib(200), ..Apart::default() };
        let ram = |is_shared: bool| {
            let rights = if is_shared { "rw-s" } else { "rw-p" };
            let maps = format!("1000-10001000 {rights} 00000000 00:01 7 /run/ram\n");
            GuestRam::find(maps.as_bytes(), mib(256), &[]).unwrap()
        };
        let clone = owned(statm, Some(&ram(false)), &apart);
        assert_eq!(clone, statm, "a clone shares its template's pages");
        let shared = Held { private: mib(240), shared: mib(30) };
        assert_eq!(owned(statm, Some(&ram(true)), &apart), shared);
        let kept = Apart { files: mib(230), anonymous: mib(40), ..Apart::default() };
        let anonymous = Apart { hugepages: mib(64), ..kept };
        let huge = Held { private: mib(104), shared: mib(230) };
        assert_eq!(owned(statm, None, &anonymous), huge);
        let in_file = owned(statm, Some(&ram(true)), &anonymous);
        assert_eq!(in_file, huge, "a file of huge pages, with programs");
        // On disk, the kernel's counts do not separate the guest's file from programs, so all pages
        // count as the guest's.
        let all = Held { private: mib(270), shared: Bytes::ZERO };
        let on_disk = Apart { files: mib(230), ..Apart::default() };
        assert_eq!(owned(statm, Some(&ram(true)), &on_disk), all);
        let memfd = b"1000-10001000 rw-s 00000000 00:01 7 /memfd:ram (deleted)\n";
        let memfd = GuestRam::find(memfd, mib(256), &[]).unwrap();
        let small = Apart { files: mib(60), shmem: mib(50), ..Apart::default() };
        let held = Held { private: mib(20), shared: mib(110) };
        let of_small = Held { private: mib(70), shared: mib(60) };
        assert_eq!(owned(held, Some(&memfd), &small), of_small, "less memory than programs");
        let guessed = Apart { anonymous: mib(40), ..apart };
        assert_eq!(owned(statm, None, &guessed), shared, "the mappings may not be read");
    }

    #[test]
    fn report_h06_locked_memory_and_huge_pages_are_known_before() {
        let pinned = |apart| {
            let outside = Outside { apart, ..Outside::default() };
            outside.pinned(Bytes::mib(384))
        };
        let anonymous = Bytes::mib(501);
        let plain = Apart { anonymous, locked: Bytes::mib(2), ..Apart::default() };
        assert_eq!(pinned(plain), None);
        let locked = Apart { locked: anonymous, ..plain };
        assert_eq!(pinned(locked), Some(Pinned::Locked));
        let (own, hugepages) = (Bytes::mib(100), Bytes::mib(384));
        let huge = Apart { anonymous: own, hugepages, ..Apart::default() };
        assert_eq!(pinned(huge), Some(Pinned::HugePages));
    }

    #[test]
    fn a_process_that_is_not_known_shows_nothing() {
        let mut outside = Outside::new(None, true);
        outside.look(1000, &AllKills::default());
        assert_eq!((outside.held(), outside.seen), (None, Seen::default()));
    }

    #[test]
    fn a_hypervisors_own_part_is_measured_or_called_an_estimate() {
        let memory = Bytes::mib(64);
        // The memory of `dd` is constant: the program has read a block and waits to write it to the
        // pipe.
        let mut command = Command::new("dd");
        command.args(["if=/dev/zero", "bs=64M", "count=1"]).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let holder = ProcessId::of(child.id());
        let mut outside = Outside::new(holder, true).with_ram(memory, &[]);
        let held = outside.held().unwrap();
        assert_eq!((held.own, outside.own_since()), (Own::estimated(held.private), None));
        assert_eq!(held.own.doubtful(), held.own.size);
        outside.measure_own(7);
        let held = outside.held().unwrap();
        assert!(held.own.is_measured && outside.own_since() == Some(7), "{held:?}");
        let due = |outside: &Outside, looks_wrong| {
            [5_006, 5_008, 60_006, 60_008].map(|now_ms| outside.is_own_due(looks_wrong, now_ms))
        };
        assert_eq!(due(&outside, true), [false; 4], "the guest has slept since");
        outside.has_run();
        assert_eq!(due(&outside, false), [false, false, false, true]);
        assert_eq!(due(&outside, true), [false, true, true, true]);
        outside.measure_own(8);
        outside.has_run();
        assert_eq!(due(&outside, true), [false, false, false, true], "two equal measures");
        let next = [120_007, 120_008].map(|now_ms| outside.is_own_due(false, now_ms));
        assert_eq!(next, [false, true], "equal measures are repeated less often");
        let never_paged_out = (true, Some(0));
        assert!(outside.own_turn() > never_paged_out, "an older measure comes first");
        outside.was_paged_out();
        assert!(outside.is_own_due(false, 60_000), "page-out makes the measure due");
        assert!(outside.own_turn() < never_paged_out, "a paged-out process comes first");
        outside.has_run();
        assert!(outside.is_own_due(false, 9), "running does not make the measure right");
        assert_eq!(held.own.doubtful(), Bytes::ZERO);
        assert!(held.of_guest().plus(Bytes::mib(1)) >= memory, "{held:?}");
        assert!(held.own.size < held.private, "{held:?}");
        // No mapping of an untrusted process is read.
        let mut strangers = Outside::new(holder, false).with_ram(memory, &[]);
        strangers.measure_own(7);
        assert!(!strangers.held().unwrap().own.is_measured && strangers.own_since().is_some());
        // No mapping is as large as this guest, so the size stays an estimate, and the search is
        // not repeated.
        let mut other = Outside::new(holder, true).with_ram(Bytes(1 << 50), &[]);
        other.measure_own(7);
        assert!(!other.held().unwrap().own.is_measured && other.own_since().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn rates_take_two_looks_at_a_process() {
        let mut outside = Outside::new(ProcessId::of(std::process::id()), false);
        assert!(outside.held().unwrap().private > Bytes::ZERO);
        outside.look(1000, &AllKills::default());
        assert_eq!(outside.seen.major_faults_s, None);
        outside.look(2000, &AllKills::default());
        assert!(outside.seen.major_faults_s.is_some());
        assert!(outside.seen.swapped.is_some());
    }
}
