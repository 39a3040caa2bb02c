//! A guest as its host sees it, without asking the guest: what of it is in memory and in swap,
//! what it had to be read back, and how long it waited for that.

use crate::groups::Groups;
use crate::machine::per_second;
use counters::Bytes;
use hypervisor::{Apart, BackingFile, GuestRam, Held, Pinned, ProcessId, ProcessView};
use procfs::{AllKills, Root};
use std::path::Path;

/// Rates of a guest's process over the last seconds. What cannot be seen is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// What of it the host has swapped out.
    pub swapped: Option<Bytes>,
    /// Faults a second for which the host had to read.
    pub major_faults_s: Option<f64>,
    /// Time in which some task of its cgroup waited for memory, in thousandths.
    pub psi_permille: Option<f64>,
}

/// What a guest's process has in the host's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InHost {
    /// For itself: the guest's memory, and the hypervisor's own.
    pub private: Bytes,
    /// What others may have as well.
    pub shared: Bytes,
    /// What of that lies in files on disk: the kernel counts it as cache, and so as available.
    pub in_files: Bytes,
    /// The private part in huge pages that are set aside: no part of what all can have.
    pub huge: Bytes,
    /// What of the private part KSM has merged with others' pages.
    pub merged: Bytes,
    /// What of the private part is no memory of the guest.
    pub own: Own,
}

/// What a hypervisor has for itself beside its guest's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// So much.
    pub size: Bytes,
    /// It was measured; else it is estimated.
    pub is_measured: bool,
}

/// What a QEMU has for itself, about, where that cannot be measured: 25 to 40 MiB with emulation.
const OWN_ESTIMATE: Bytes = Bytes::mib(32);
/// Of larger guests it is a small part, and a walk over their pages takes long: a millisecond for
/// 100 MiB, where they are small pages.
const MEASURED_MAX: Bytes = Bytes::mib(16 << 10);
/// It is measured so often.
const OWN_MS: u64 = 60_000;
/// The same while the last measure cannot be true any more: an emulator's translated code grows by
/// tens of MiB in a guest's first minutes.
const OWN_WRONG_MS: u64 = 5_000;
/// Two measures that differ by less are the same.
const OWN_SAME: Bytes = Bytes::mib(8);

impl Own {
    /// Of a process with so much: small guests run under small hypervisors.
    fn estimated(private: Bytes) -> Own {
        Own { size: OWN_ESTIMATE.min(Bytes(private.0 / 2)), is_measured: false }
    }

    /// By how much it may be more: an estimate may be half of what it is.
    pub fn doubtful(&self) -> Bytes {
        if self.is_measured { Bytes::ZERO } else { self.size }
    }
}

impl InHost {
    /// The guest's own memory that is there, and nobody else's.
    pub fn of_guest(&self) -> Bytes {
        self.private.less(self.own.size)
    }

    /// All that the process can reach there.
    pub fn resident(&self) -> Bytes {
        self.private.plus(self.shared)
    }
}

/// What happened to a guest since its hypervisor's own part was measured: the more, the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Since {
    /// It has slept.
    #[default]
    Slept,
    /// It has run: its hypervisor may have grown.
    Ran,
    /// Page-out took what it could of the process, the hypervisor's own part with it: what was
    /// measured is wrong.
    PagedOut,
}

/// Counters at a moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_ms: u64,
    major_faults: Option<u64>,
    psi_us: Option<u64>,
}

/// The process of a guest.
#[derive(Debug, Default)]
pub struct Outside {
    view: Option<ProcessView>,
    /// Its user may be believed where the host sees nothing.
    is_trusted: bool,
    /// Where the guest's memory is, as far as that may be read.
    ram: Option<GuestRam>,
    /// The hypervisor's own part is worth the walk.
    is_measured: bool,
    pub(crate) apart: Apart,
    /// The hypervisor's own part of what the process has for itself, measured, and when.
    own: Option<(Bytes, u64)>,
    /// The last two measures of it were the same.
    own_is_steady: bool,
    /// What happened since that may have changed it.
    since_own: Since,
    mark: Option<Mark>,
    /// What was seen last.
    pub seen: Seen,
    process: Option<ProcessId>,
    /// The control groups that it is in.
    pub(crate) groups: Groups,
    /// The most that the guest may have by those.
    pub(crate) most: Option<Bytes>,
}

impl Outside {
    /// Watches a process; nothing is seen of one that is not known or not there. Of a user who is
    /// not trusted only what is seen counts: any process may have memory of which the swapped part
    /// cannot be seen. Nor are its mappings read: who reads them waits for a lock that the process
    /// may hold.
    pub fn new(process: Option<ProcessId>, is_trusted: bool) -> Outside {
        let view = process.and_then(ProcessView::open);
        let mut outside = Outside { view, is_trusted, process, ..Outside::default() };
        outside.look_at_swap();
        outside.look_at_groups(&AllKills::read(&Root::default()));
        outside
    }

    /// The same of a guest with so much memory, in pieces of these sizes if they are known.
    pub fn with_ram(mut self, memory: Bytes, pieces: &[Bytes]) -> Outside {
        self.replugged(memory, pieces);
        self
    }

    /// Its memory is in other pieces now: what its hypervisor has for itself is measured again.
    pub fn replugged(&mut self, memory: Bytes, pieces: &[Bytes]) {
        let view = self.view.as_ref().filter(|_| self.is_trusted);
        self.ram = view.and_then(|view| view.find_ram(memory, pieces));
        self.is_measured = memory <= MEASURED_MAX;
        self.own = None;
    }

    /// What of it is in the host's memory now.
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

    /// Since when its own part is known; `None` where that is not, and could be.
    pub fn own_since(&self) -> Option<u64> {
        match self.ram {
            Some(_) if self.is_measured => self.own.map(|(_, at_ms)| at_ms),
            // What cannot be found is not looked for again.
            _ => Some(u64::MAX),
        }
    }

    /// The guest has run.
    pub fn has_run(&mut self) {
        self.since_own = self.since_own.max(Since::Ran);
    }

    /// Page-out has taken what it could of the process.
    pub fn was_paged_out(&mut self) {
        self.since_own = Since::PagedOut;
        self.look_at_swap();
    }

    /// Whether its own part is to be measured again, which may look wrong by what else is known.
    /// Where two measures were the same, another one soon would tell nothing new; nor would one of
    /// a guest that has slept since.
    pub fn is_own_due(&self, looks_wrong: bool, now_ms: u64) -> bool {
        let after = if looks_wrong && !self.own_is_steady { OWN_WRONG_MS } else { OWN_MS };
        match self.since_own {
            Since::Slept => false,
            Since::Ran => self.own_since().is_some_and(|at| now_ms >= at.saturating_add(after)),
            Since::PagedOut => self.own.is_some(),
        }
    }

    /// The order in which it is measured, of many: first what page-out made wrong, then what was
    /// measured longest ago.
    pub fn own_turn(&self) -> (bool, Option<u64>) {
        (self.since_own != Since::PagedOut, self.own_since())
    }

    /// Measures what of the process is not the guest's memory, which costs a walk over that.
    pub fn measure_own(&mut self, now_ms: u64) {
        let Some((view, ram)) = self.view.as_ref().zip(self.ram.as_ref()) else { return };
        self.since_own = Since::Slept;
        let all = view.held().map(|held| owned(held, Some(ram), &self.apart).private);
        match all.zip(view.ram_held(ram)) {
            Some((all, of_guest)) => {
                let own = all.less(of_guest.private);
                let is_same = |before: Bytes| own.max(before).less(own.min(before)) < OWN_SAME;
                self.own_is_steady = self.own.is_some_and(|(before, _)| is_same(before));
                self.own = Some((own, now_ms));
            }
            None => match &mut self.own {
                Some((_, at_ms)) => (*at_ms, self.own_is_steady) = (now_ms, true),
                // It may not be read, and will not be by asking again.
                None => self.ram = None,
            },
        }
    }

    /// The reason for which a guest of this size has its memory in the host's in any case.
    pub fn pinned(&self, memory: Bytes) -> Option<Pinned> {
        let Apart { locked, hugepages, anonymous, shmem, .. } = self.apart;
        let is_locked = memory > Bytes::ZERO && locked >= memory;
        // Most of what it has lies in those: the rest is its hypervisor's.
        let is_huge = hugepages > anonymous.plus(shmem);
        is_locked.then_some(Pinned::Locked).or(is_huge.then_some(Pinned::HugePages))
    }

    /// The file that its memory comes from, which others may have it from as well.
    pub fn template(&self) -> Option<BackingFile> {
        self.ram.as_ref()?.template()
    }

    /// Reads what of it the host has swapped out, and its pages of other sizes.
    pub fn look_at_swap(&mut self) {
        let apart = self.view.as_ref().and_then(ProcessView::apart).unwrap_or_default();
        self.apart = apart;
        self.seen.swapped = match apart.hides_swap && self.is_trusted {
            true => None,
            false => apart.swapped,
        };
    }

    /// Reads what KSM has merged of it, which goes on while the guest sleeps.
    pub(crate) fn look_at_merged(&mut self) {
        let merged = self.view.as_ref().and_then(ProcessView::merged);
        self.apart.merged = merged.unwrap_or(Bytes::ZERO);
    }

    /// Looks for the groups of a process that lives: one that has ended is in none.
    pub(crate) fn look_at_groups(&mut self, kills: &AllKills) {
        if let Some(process) = self.process.filter(|_| self.is_alive()) {
            self.groups = Groups::of(Path::new("/"), &process.pid.to_string(), kills);
        }
    }

    /// Counts the kernel's kills from now on, unless its process has ended: one of them may be its
    /// own.
    pub(crate) fn renew_kills(&mut self, all: &AllKills) {
        if self.is_alive() {
            self.groups.renew_kills(all);
        }
    }

    fn is_alive(&self) -> bool {
        self.view.as_ref().and_then(ProcessView::stat).is_some_and(|stat| !stat.is_dead)
    }

    /// Reads the rest, which costs more and is not needed every second.
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

/// What a guest's process has for itself, and what others have as well. A guest's memory in a file
/// of its own is the guest's, though the kernel counts it among what is shared; where its mappings
/// may not be read, more pages of such files than of any other kind are taken for that.
pub(crate) fn owned(held: Held, ram: Option<&GuestRam>, apart: &Apart) -> Held {
    let is_in_file = match ram {
        Some(ram) => ram.is_shared(),
        None => apart.shmem > apart.anonymous,
    };
    // Huge pages that were set aside are in none of the kernel's other counts.
    let is_nowhere_else = apart.shmem > apart.files
        || apart.hugepages > Bytes::ZERO
        || ram.is_some_and(GuestRam::is_in_memory_file);
    let shared = match is_in_file {
        false => held.shared,
        // Beside a memory that is nowhere else, what comes from files on disk is programs.
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
    fn a_guests_memory_in_a_file_of_its_own_is_its_own_and_a_templates_is_not() {
        let mib = Bytes::mib;
        let statm = Held { private: mib(40), shared: mib(230) };
        let apart = Apart { files: mib(30), shmem: mib(200), ..Apart::default() };
        let ram = |is_shared: bool| {
            let rights = if is_shared { "rw-s" } else { "rw-p" };
            let maps = format!("1000-10001000 {rights} 00000000 00:01 7 /run/ram\n");
            GuestRam::find(maps.as_bytes(), mib(256), &[]).unwrap()
        };
        let clone = owned(statm, Some(&ram(false)), &apart);
        assert_eq!(clone, statm, "a clone shares what it has from its template");
        let shared = Held { private: mib(240), shared: mib(30) };
        assert_eq!(owned(statm, Some(&ram(true)), &apart), shared);
        let kept = Apart { files: mib(230), anonymous: mib(40), ..Apart::default() };
        let anonymous = Apart { hugepages: mib(64), ..kept };
        let huge = Held { private: mib(104), shared: mib(230) };
        assert_eq!(owned(statm, None, &anonymous), huge);
        let in_file = owned(statm, Some(&ram(true)), &anonymous);
        assert_eq!(in_file, huge, "a file of huge pages, and programs");
        // On disk nothing tells its pages from a program's: all are the guest's.
        let all = Held { private: mib(270), shared: Bytes::ZERO };
        let on_disk = Apart { files: mib(230), ..Apart::default() };
        assert_eq!(owned(statm, Some(&ram(true)), &on_disk), all);
        let memfd = b"1000-10001000 rw-s 00000000 00:01 7 /memfd:ram (deleted)\n";
        let memfd = GuestRam::find(memfd, mib(256), &[]).unwrap();
        let small = Apart { files: mib(60), shmem: mib(50), ..Apart::default() };
        let held = Held { private: mib(20), shared: mib(110) };
        let of_small = Held { private: mib(70), shared: mib(60) };
        assert_eq!(owned(held, Some(&memfd), &small), of_small, "it has less than its programs");
        let guessed = Apart { anonymous: mib(40), ..apart };
        assert_eq!(owned(statm, None, &guessed), shared, "its mappings may not be read");
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
        // A process whose memory changes no more: it has read a block, and nobody takes it.
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
        assert_eq!(due(&outside, true), [false; 4], "it has slept since");
        outside.has_run();
        assert_eq!(due(&outside, false), [false, false, false, true]);
        assert_eq!(due(&outside, true), [false, true, true, true]);
        outside.measure_own(8);
        outside.has_run();
        assert_eq!(due(&outside, true), [false, false, false, true], "it is what it was");
        let never_paged_out = (true, Some(0));
        assert!(outside.own_turn() > never_paged_out, "it waits for one that was not for longer");
        outside.was_paged_out();
        assert!(outside.is_own_due(false, 60_000), "it went to swap with the guest");
        assert!(outside.own_turn() < never_paged_out, "and is measured before all others");
        outside.has_run();
        assert!(outside.is_own_due(false, 9), "and is not what it was because the guest runs");
        assert_eq!(held.own.doubtful(), Bytes::ZERO);
        assert!(held.of_guest().plus(Bytes::mib(1)) >= memory, "{held:?}");
        assert!(held.own.size < held.private, "{held:?}");
        // Of who is not trusted no mapping is read.
        let mut strangers = Outside::new(holder, false).with_ram(memory, &[]);
        strangers.measure_own(7);
        assert!(!strangers.held().unwrap().own.is_measured && strangers.own_since().is_some());
        // Nothing is that large here: it stays an estimate, and is not looked for again.
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
