//! State of the host, its guests and its memory tiers at one moment, from the manager and the
//! kernel.

use hypervisor::{ProcessId, ThreadRan};
use model::{Field, GuestIdentity, HostField, Moment, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::guest::{Care, GuestReader, Look, Scratch};
use crate::host::HostReader;
use crate::others::Others;
use crate::tier::TierReader;

/// Time before another attempt to open a process. An attempt fails if the process is ending, or if
/// no file descriptor is left.
const RETRY_MS: u64 = 10_000;

/// A guest with a process to read.
#[derive(Clone, Debug)]
pub struct GuestProcess {
    /// Id of the guest in the manager, never reused.
    pub id: u64,
    /// Identity of the guest, the key of the guest's row in the moment.
    pub who: Arc<GuestIdentity>,
    /// Process of the guest, if known.
    pub process: Option<ProcessId>,
    /// Threads of the virtual CPUs.
    pub vcpu_tids: Arc<[u32]>,
    /// Counters of the virtual CPUs' threads, if the manager has just read them; otherwise empty.
    pub vcpus_ran: Vec<ThreadRan>,
}

/// Reader of successive moments.
#[derive(Debug)]
pub struct Collector {
    root: PathBuf,
    host: HostReader,
    others: Others,
    tiers: TierReader,
    guests: BTreeMap<u64, Watched>,
    scratch: Scratch,
    files_max: usize,
    shed: u64,
    opened: usize,
}

/// A guest with its process, which may not be opened yet.
#[derive(Debug, Default)]
struct Watched {
    reader: Option<GuestReader>,
    retry_ms: u64,
    who: Arc<GuestIdentity>,
    pid: Option<u32>,
}

impl Collector {
    /// Creates a collector that keeps at most about `files_max` files of guests open. The manager
    /// runs in the same process, and must not run out of descriptors.
    pub fn open(root: &Path, files_max: usize) -> Collector {
        Collector {
            root: root.to_owned(),
            host: HostReader::open(root),
            others: Others::open(root),
            tiers: TierReader::open(root),
            guests: BTreeMap::new(),
            scratch: Scratch::default(),
            files_max,
            shed: 0,
            opened: 0,
        }
    }

    /// Completes a moment that contains the manager's values. The manager's values take precedence
    /// over the values read here.
    pub fn collect(
        &mut self,
        mut moment: Moment,
        all: Vec<GuestProcess>,
        now_ms: u64,
        care: Care,
    ) -> Moment {
        let is_new = |guest: &GuestProcess| !self.guests.contains_key(&guest.id);
        // Until now a new guest was counted as one of the other processes.
        if self.others.is_due(now_ms, moment.at_ms) || all.iter().any(is_new) {
            self.look_at_others(now_ms);
        }
        // The host's sums are read now, soon after the manager's counters. Later this thread may
        // have to wait for a busy CPU.
        let mut host = self.host.read(now_ms);
        self.set_others(&mut host);
        moment.tiers = self.tiers.read(&host, now_ms);
        let mut before = std::mem::take(&mut self.guests);
        let mut files: usize = before.values().map(Watched::files).sum();
        let (mut awake, count) = (0, all.len());
        self.opened = 0;
        self.scratch.images.begin(now_ms);
        for guest in all {
            let mut watched = before.remove(&guest.id).unwrap_or_default();
            if watched.reader.is_none() && now_ms >= watched.retry_ms && files < self.files_max {
                let open = |process| GuestReader::open(&self.root, process, &guest.vcpu_tids);
                watched.reader = guest.process.and_then(open);
                watched.retry_ms = now_ms + RETRY_MS;
                files += watched.files();
                self.opened += 1;
            }
            let reader = watched.reader.as_mut();
            match reader.map(|r| r.read(&guest.vcpus_ran, care, now_ms, &mut self.scratch)) {
                Some(Look::Awake) => awake += 1,
                Some(Look::PutOff) => (awake, self.shed) = (awake + 1, self.shed + 1),
                Some(Look::Gone) => watched.reader = None,
                Some(Look::Asleep) | None => {}
            }
            if let (Some(reader), Some(process)) = (&mut watched.reader, guest.process) {
                reader.process_ran(self.others.own_ns(process.pid));
                watched.pid = Some(process.pid);
            }
            let known = moment.guests.get_mut(&*guest.who);
            if let (Some(reader), Some(known)) = (&watched.reader, known) {
                put_below(known, reader.row().clone());
            }
            watched.who = guest.who;
            self.guests.insert(guest.id, watched);
        }
        host.set(HostField::Guests, Some(count as u64));
        host.set(HostField::GuestsAwake, Some(awake));
        host.set(HostField::ShedReadings, Some(self.shed));
        let images = self.scratch.images.held();
        host.set(HostField::Images, images.map(|held| held.files));
        host.set(HostField::ImageBytes, images.map(|held| held.bytes));
        host.set(HostField::ImagesCached, images.and_then(|held| held.cached));
        put_below(&mut moment.host, host);
        moment
    }

    /// Returns the last moment, with the manager's values from the moment `before`. All kernel
    /// counters are read once more, so that the recorded run time is complete.
    pub fn last(&mut self, before: &Moment, at_ms: i64, now_ms: u64) -> Moment {
        self.look_at_others(now_ms);
        let mut host = self.host.read(now_ms);
        self.set_others(&mut host);
        let mut moment = Moment { at_ms, processes: BTreeMap::new(), ..before.clone() };
        moment.tiers = self.tiers.read(&host, now_ms);
        moment.host.overlay(&host);
        for watched in self.guests.values_mut() {
            let row = moment.guests.get_mut(&*watched.who);
            let (Some(reader), Some(row)) = (&mut watched.reader, row) else { continue };
            if reader.read(&[], Care::AsIfAwake, now_ms, &mut self.scratch) != Look::Gone {
                row.overlay(reader.row());
            }
        }
        moment
    }

    fn look_at_others(&mut self, now_ms: u64) {
        let watched = self.guests.values().filter(|watched| watched.reader.is_some());
        let guests: BTreeSet<u32> = watched.filter_map(|watched| watched.pid).collect();
        self.others.look(now_ms, &guests);
    }

    fn set_others(&self, host: &mut Row<HostField>) {
        let others = self.others.ran();
        host.set(HostField::OthersRun, others.map(|ran| ran.processes_ns));
        host.set(HostField::KernelRun, others.map(|ran| ran.kernel_ns));
    }

    /// Returns the number of guests for which the last moment opened files. Opening files takes
    /// longer than reading them.
    pub fn opened(&self) -> usize {
        self.opened
    }

    /// Returns the approximate number of open files of guests.
    pub fn files(&self) -> usize {
        self.guests.values().map(Watched::files).sum()
    }
}

impl Watched {
    fn files(&self) -> usize {
        self.reader.as_ref().map_or(0, GuestReader::files)
    }
}

/// Adds the fields of `below` that `row` lacks.
fn put_below<F: Field>(row: &mut Row<F>, below: Row<F>) {
    let above = std::mem::replace(row, below);
    row.overlay(&above);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use model::{GuestField, Interval};

    const SELDOM_MS: u64 = 5_000;

    fn tree() -> Tree {
        let tree = Tree::new();
        tree.file("proc/meminfo", "MemTotal: 1000 kB\n");
        for pid in [7, 8] {
            tree.file(
                &format!("proc/{pid}/stat"),
                &format!("{pid} (qemu) S 1 1 1 0 -1 0 900 0 12 0 0 6 0 0 20 0 3 0 777 1\n"),
            );
            run(&tree, pid, 0);
        }
        tree
    }

    fn run(tree: &Tree, pid: u32, ms: u64) {
        let text = format!("{} 0 1\n", ms * 1_000_000);
        tree.file(&format!("proc/{pid}/task/{pid}1/schedstat"), &text);
    }

    fn guest(pid: u32) -> GuestProcess {
        let who = GuestIdentity { name: format!("g{pid}"), ..GuestIdentity::default() };
        GuestProcess {
            id: u64::from(pid),
            who: who.into(),
            process: Some(ProcessId { pid, start_ticks: 777 }),
            vcpu_tids: [pid * 10 + 1].into(),
            vcpus_ran: Vec::new(),
        }
    }

    impl Collector {
        /// Completes a moment of guests with sizes and faults known to the manager.
        fn second(&mut self, now_ms: u64, pids: &[u32], care: Care) -> Moment {
            let guests: Vec<GuestProcess> = pids.iter().map(|pid| guest(*pid)).collect();
            let mut moment = Moment { at_ms: now_ms as i64, ..Moment::default() };
            moment.host.set(HostField::SetPoint, Some(3));
            for guest in &guests {
                let row = moment.guests.entry(GuestIdentity::clone(&guest.who)).or_default();
                row.extend([(GuestField::Actual, Some(99)), (GuestField::MinorFaults, Some(5))]);
            }
            self.collect(moment, guests, now_ms, care)
        }
    }

    #[test]
    fn moments_combine_the_managers_values_with_those_read() {
        let tree = tree();
        let mut collector = Collector::open(tree.path(), 1000);
        let before = collector.second(1000, &[7, 8], Care::Usual);
        assert_eq!(before.host.get(HostField::SetPoint), Some(3));
        assert_eq!(before.host.get(HostField::Total), Some(1_024_000));
        assert_eq!(before.host.get(HostField::Guests), Some(2));
        assert_eq!(before.host.get(HostField::GuestsAwake), Some(0));
        let row = before.guests.values().next().unwrap();
        assert_eq!(row.get(GuestField::Actual), Some(99));
        assert_eq!(row.get(GuestField::MinorFaults), Some(5), "the manager's value wins");
        assert_eq!(row.get(GuestField::MajorFaults), Some(12));

        // One guest runs. The other guest's row stays unchanged, and its counters do not grow.
        run(&tree, 7, 500);
        let now = collector.second(2000, &[7, 8], Care::Usual);
        assert_eq!(now.host.get(HostField::GuestsAwake), Some(1));
        let interval = Interval::between(&before, &now);
        let ran: Vec<_> = interval.guests.values().map(|o| o.get(GuestField::VcpuRun)).collect();
        assert_eq!(ran, [Some(500_000_000), Some(0)]);
    }

    #[test]
    fn other_processes_are_not_guests_and_the_last_moment_has_all() {
        let tree = tree();
        let process = |pid: u32, ticks: u64| {
            let stat =
                format!("{pid} (x) S 1 1 1 0 -1 0 900 0 12 0 {ticks} 0 0 0 20 0 3 0 777 1\n");
            tree.file(&format!("proc/{pid}/stat"), &stat);
        };
        tree.file("proc/7/task/7/schedstat", "0 0 1\n");
        process(7, 0);
        process(9, 0);
        let mut collector = Collector::open(tree.path(), 1000);
        collector.second(0, &[7], Care::Usual);
        // The guest's virtual CPU ran for half a second, and its other threads for a quarter.
        run(&tree, 7, 500);
        process(7, 75);
        process(9, 20);
        let moment = collector.second(1000, &[7], Care::Least);
        assert_eq!(moment.host.get(HostField::OthersRun), Some(200_000_000));
        assert_eq!(moment.host.get(HostField::KernelRun), Some(0));
        let other =
            |moment: &Moment| moment.guests.values().next().unwrap().get(GuestField::OtherRun);
        assert_eq!(other(&moment), Some(250_000_000), "other threads were not read");

        process(7, 95);
        process(9, 30);
        let last = collector.last(&moment, 1100, 1100);
        assert_eq!(last.host.get(HostField::OthersRun), Some(300_000_000));
        assert_eq!(other(&last), Some(450_000_000));
        let row = last.guests.values().next().unwrap();
        assert_eq!(row.get(GuestField::Actual), Some(99), "the manager's last value");
    }

    #[test]
    fn a_host_short_of_memory_is_read_less_and_loses_no_counts() {
        let tree = tree();
        let mut collector = Collector::open(tree.path(), 1000);
        let mut collect = |now_ms, care| collector.second(now_ms, &[7], care);
        collect(0, Care::Usual);
        run(&tree, 7, 500);
        let moment = collect(1000, Care::Least);
        assert_eq!(moment.host.get(HostField::ShedReadings), Some(1));
        let row = moment.guests.values().next().unwrap();
        assert_eq!(row.get(GuestField::VcpuRun), Some(500_000_000));
        assert_eq!(row.get(GuestField::MajorFaults), Some(12), "as it was");
    }

    #[test]
    fn open_files_are_bounded_and_freed_when_guests_end() {
        let tree = tree();
        let mut collector = Collector::open(tree.path(), 1);
        let moment = collector.second(0, &[7, 8], Care::Usual);
        let runs: Vec<_> = moment.guests.values().map(|row| row.get(GuestField::VcpuRun)).collect();
        assert_eq!(runs, [Some(0), None]);
        assert!(collector.files() > 0);
        let moment = collector.second(RETRY_MS, &[8], Care::Usual);
        assert_eq!(moment.guests.values().next().unwrap().get(GuestField::VcpuRun), None);
        collector.second(RETRY_MS + 1, &[], Care::Usual);
        assert_eq!(collector.files(), 0);
        let moment = collector.second(RETRY_MS + 2, &[8], Care::Usual);
        assert_eq!(moment.guests.values().next().unwrap().get(GuestField::VcpuRun), Some(0));
    }

    #[test]
    fn the_collector_accepts_any_text_in_kernel_files() {
        let tree = tree();
        tree.file("proc/swaps", "Filename\n/dev/zram0 partition 1 1 1\n");
        let files = [
            "proc/7/stat",
            "proc/stat",
            "proc/meminfo",
            "proc/vmstat",
            "proc/swaps",
            "proc/pressure/memory",
            "proc/7/statm",
            "proc/7/status",
            "proc/7/io",
            "proc/7/cgroup",
            "proc/7/task/71/schedstat",
            "proc/7/task/71/stat",
            "sys/class/block/zram0/stat",
            "sys/class/block/zram0/mm_stat",
        ];
        let words = "cpu cpu0 cpu99999999 : / .. ( ) -1 9 9 9 total= some full kB 0:: \\ pswpin \
                     18446744073709551615";
        let pieces: Vec<&str> = words.split(' ').chain([" ", " ", " ", "\n", "\n", "\0"]).collect();
        // Pseudo-random texts, the same in every run.
        let mut seed = 1_u64;
        let mut next = |below: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let stat = "7 (qemu) S 1 1 1 0 -1 0 900 0 12 0 0 6 0 0 20 0 3 0 777 1\n";
        for round in 0..20 {
            tree.file("proc/7/stat", stat);
            let mut collector = Collector::open(tree.path(), 1000);
            for now_ms in [0, SELDOM_MS, 2 * SELDOM_MS] {
                collector.second(now_ms, &[7], Care::AsIfAwake);
                // In every other round the first file stays valid, so that the reader goes on to
                // the other files.
                for file in files.into_iter().skip(round % 2) {
                    let text: String = (0..next(60)).map(|_| pieces[next(pieces.len())]).collect();
                    tree.file(file, &text);
                }
            }
        }
    }

    #[test]
    fn an_ending_process_is_tried_again_later() {
        let tree = tree();
        let mut collector = Collector::open(tree.path(), 1000);
        collector.second(0, &[7], Care::Usual);
        tree.file("proc/7/stat", "7 (qemu) Z 1 1 1 0 -1 0 900 0 12 0 0 6 0 0 20 0 3 0 777 1\n");
        run(&tree, 7, 500);
        let moment = collector.second(1000, &[7], Care::Usual);
        assert_eq!(moment.guests.values().next().unwrap().get(GuestField::VcpuRun), None);
        assert_eq!(collector.files(), 0);
    }
}
