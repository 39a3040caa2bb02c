//! Tests of the records of a generated system: processes with their names, counters, and stop
//! records after their end.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use pinheadd::guestmon::{FileSystems, Now, Processes, Rules, own};
use procfs::Root;
use procfs::testing::Tree;
use std::fs;
use zmon::fsstatd::{self, FileSystem};
use zmon::monwriter::{Function, Head};
use zmon::pinhead::{HAS_RULES, IS_SETTLED, UNKNOWN};
use zmon::procd::{self, Record, Summary, Task};

const PAGE_KIB: u64 = 4;

/// A directory with a fake system.
struct Fake(Tree);

impl Fake {
    fn new() -> Fake {
        let fake = Fake(Tree::create());
        fake.write("proc/uptime", "3605.27 7000.00\n");
        fake.write("proc/loadavg", "0.15 10.25 0.00 2/80 4711\n");
        fake.write("proc/stat", "cpu  100 0 100 700 50 10 20 20 0 0\ncpu0 1 1\n");
        let meminfo = "MemTotal: 100000 kB\nMemFree: 40000 kB\nMemAvailable: 60000 kB\n\
                       Buffers: 1000 kB\nCached: 20000 kB\nSwapCached: 7 kB\nSwapTotal: 5000 kB\n\
                       SwapFree: 4000 kB\n";
        fake.write("proc/meminfo", meminfo);
        fake.write("proc/vmstat", "pgpgin 10\npgpgout 20\npswpin 3\npswpout 4\noom_kill 1\n");
        fake.write("sys/devices/system/cpu/online", "0-1\n");
        fake.write("sys/devices/system/cpu/present", "0-3\n");
        fake.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\n");
        fake.write("etc/group", "root:x:0:\nstaff:x:50:ann\n");
        fake
    }

    fn write(&self, path: &str, text: &str) {
        self.0.file(path, text);
    }

    fn root(&self) -> Root {
        Root::at(self.0.path())
    }

    /// Writes a task with a given run time in ticks.
    fn task(&self, pid: u32, name: &str, state: char, ticks: u64, resident: u64) {
        let dir = format!("proc/{pid}");
        let stat = format!(
            "{pid} ({name}) {state} 1 1 1 -1 -1 4194304 9 0 3 0 {ticks} 0 13 14 20 -5 2 0 150 4096 \
             25 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n"
        );
        self.write(&format!("{dir}/stat"), &stat);
        self.write(&format!("{dir}/statm"), &format!("1000 {resident} 50 20 0 300 0\n"));
        let status = "Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t7\t50\t7\t7\n";
        self.write(&format!("{dir}/status"), status);
        self.write(&format!("{dir}/wchan"), "do_wait");
        self.write(&format!("{dir}/cmdline"), &format!("{name}\0-x\0\u{1}"));
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.0.join(format!("proc/{pid}"))).unwrap();
    }
}

#[derive(Debug, Default)]
struct Round {
    tasks: Vec<(u16, Task)>,
    summary: Summary,
    ended: Vec<u16>,
}

fn round(processes: &mut Processes, seconds: u64) -> Round {
    let mut round = Round::default();
    processes.round(Now { us: seconds * 1_000_000 }, |write| {
        let (head, data, rest) = Head::split(write).unwrap();
        assert!(rest.is_empty() && head.application == procd::APPLICATION);
        if head.function == Function::Stop as u8 {
            round.ended.push(head.modification);
            return;
        }
        let (stamp, record) = Record::read(head.record, data).unwrap();
        assert_eq!(stamp.seconds, seconds);
        match record {
            Record::Task(task) => round.tasks.push((head.modification, *task)),
            Record::Summary(summary) => round.summary = *summary,
        }
    });
    round
}

#[test]
fn a_system_is_told_with_its_tasks() {
    let fake = Fake::new();
    fake.task(7, "a (b) c", 'S', 100, 250);
    fake.task(9, "busy", 'R', 1_000, 2_500);
    let mut processes = Processes::new(fake.root(), PAGE_KIB);
    let first = round(&mut processes, 1_700_000_000);
    let summary = &first.summary;
    assert_eq!((summary.uptime_s, summary.users, summary.cpus), (3_605, 0, 2));
    assert_eq!((&summary.load_1, &summary.load_5), (b"0.15\0\0", b"10.25\0"));
    assert_eq!((summary.tasks, summary.running, summary.sleeping), (2, 1, 1));
    // Shares of the 1,000 ticks since the boot, in hundredths of a percent.
    assert_eq!((summary.user, summary.system, summary.idle), (1_000, 1_000, 7_000));
    assert_eq!(
        (summary.io_wait, summary.irq, summary.soft_irq, summary.steal),
        (500, 100, 200, 200)
    );
    assert_eq!(
        (summary.memory_total, summary.memory_used, summary.cached),
        (100_000, 60_000, 20_000)
    );
    assert_eq!((summary.swap_used, summary.swapped_in, summary.swapped_out), (1_000, 3, 4));
    // mon_procd multiplies these numbers, which are in KiB, by the page size in KiB.
    assert_eq!((summary.paged_in, summary.paged_out), (40, 80));

    let mut tasks = first.tasks;
    tasks.sort_by_key(|(_, task)| task.numbers.pid);
    assert_eq!(tasks.len(), 2);
    let (_, Task { numbers, texts }) = &tasks[0];
    assert_eq!((numbers.pid, numbers.parent, numbers.state), (7, 1, b'S'));
    assert_eq!((numbers.user, numbers.terminal), (0, u16::MAX));
    assert_eq!((numbers.priority, numbers.nice, numbers.cpu), (20, -5, 1));
    assert_eq!((numbers.time, numbers.time_of_all, numbers.major_faults), (100, 127, 3));
    assert_eq!((numbers.size, numbers.resident, numbers.not_resident), (4_000, 1_000, 3_000));
    assert_eq!((numbers.shared, numbers.text, numbers.data), (200, 80, 1_200));
    assert_eq!((numbers.cpu_percent, numbers.memory_percent), (0, 100));
    let texts = texts.clone().map(|text| String::from_utf8(text).unwrap());
    // The two bytes that are not ASCII became blanks, and so did the zero bytes.
    assert_eq!(texts, ["ann", "root", "staff", "wait", "a (b) c", "a (b) c -x  "]);

    // During the next 30 seconds the task runs for 3 seconds, a twentieth of two CPUs' time.
    fake.task(7, "a (b) c", 'D', 400, 250);
    fake.end(9);
    fake.write("proc/stat", "cpu  100 0 100 1700 50 10 20 20 0 0\n");
    let second = round(&mut processes, 1_700_000_030);
    assert_eq!(
        (second.summary.tasks, second.summary.sleeping, second.summary.idle),
        (1, 1, 10_000)
    );
    assert_eq!(second.tasks[0].1.numbers.cpu_percent, 500);
    assert_eq!(second.ended, [2], "the ended task's record is stopped");
    assert!(round(&mut processes, 1_700_000_060).ended.is_empty());
}

#[test]
fn hundred_largest_tasks_are_written_and_all_are_counted() {
    let fake = Fake::new();
    for pid in 1..=130 {
        fake.task(pid, "t", 'S', 0, if pid > 125 { 2_500 } else { 25 });
    }
    // A directory that is no task, a task without files, and a command line longer than a record.
    fake.write("proc/self/stat", "x");
    fs::create_dir_all(fake.0.join("proc/4000")).unwrap();
    fake.write("proc/130/cmdline", &"y".repeat(9_000));
    let mut processes = Processes::new(fake.root(), PAGE_KIB);
    let round = round(&mut processes, 1_700_000_000);
    assert_eq!((round.tasks.len(), round.summary.tasks, round.summary.sleeping), (100, 130, 130));
    let mut first: Vec<u32> = round.tasks[..5].iter().map(|(_, task)| task.numbers.pid).collect();
    first.sort_unstable();
    assert_eq!(first, [126, 127, 128, 129, 130]);
    // The long record has the number 1. The other records have consecutive even numbers.
    let (odd, even): (Vec<u16>, Vec<u16>) =
        round.tasks.iter().map(|(n, _)| *n).partition(|n| n % 2 == 1);
    assert_eq!(odd, [1]);
    assert_eq!(even, (0..99).map(|n| n * 2).collect::<Vec<u16>>());
}

#[test]
fn a_system_without_files_is_told_as_one_without_tasks() {
    let dir = std::env::temp_dir().join("guestmon-none");
    let mut processes = Processes::new(Root::at(&dir), PAGE_KIB);
    let round = round(&mut processes, 1);
    assert!(round.tasks.is_empty());
    assert_eq!(round.summary, Summary { cpus: 1, ..Summary::default() });
    let mut systems = FileSystems::new(Root::at(&dir));
    assert!(systems.round(1, |_| unreachable!("none is known"), |_| ()).is_err());
}

#[test]
fn file_systems_that_lie_on_something_are_told() {
    let fake = Fake::new();
    let mounts = "rootfs / ext4 rw 0 0\nproc /proc proc rw 0 0\ntmpfs /run tmpfs rw 0 0\n\
                  /dev/dasdb1 /a\\040b xfs rw 0 0\nover /o overlay rw 0 0\nnfs:/x /x nfs rw 0 0\n";
    fake.write("proc/self/mounts", mounts);
    let room = |directory: &std::ffi::CStr| {
        let blocks = match directory.to_str().unwrap() {
            "/x" => return Err(std::io::ErrorKind::TimedOut.into()),
            "/o" => 0,
            _ => 50,
        };
        Ok(fsstatd::Numbers { blocks, ..fsstatd::Numbers::default() })
    };
    let mut systems = FileSystems::new(fake.root());
    let mut told = Vec::new();
    let mut take = |write: &[u8]| {
        let (head, data, _) = Head::split(write).unwrap();
        let found = (head.function == 0).then(|| FileSystem::read(data).unwrap().1);
        told.push((head.modification, found));
    };
    systems.round(5, room, &mut take).unwrap();
    fake.write("proc/self/mounts", "rootfs / ext4 rw 0 0\n");
    systems.round(65, room, &mut take).unwrap();
    let at =
        |at: usize| told[at].1.as_ref().map(|one| String::from_utf8(one.texts[1].clone()).unwrap());
    assert_eq!((at(0).as_deref(), at(1).as_deref()), (Some("/"), Some("/a b")));
    assert_eq!((at(2).as_deref(), at(3)), (Some("/"), None));
    assert_eq!(told.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 2, 0, 2]);
}

#[test]
fn our_own_record_has_what_is_known_and_no_more() {
    let fake = Fake::new();
    let told = own(&fake.root(), None);
    assert_eq!((told.numbers.cpus, told.numbers.present), (2, 4));
    assert_eq!((told.numbers.available, told.numbers.killed), (60_000, 1));
    assert_eq!((told.numbers.pool_pages, told.numbers.some_us), (UNKNOWN, UNKNOWN));
    assert_eq!((told.numbers.plugs, told.numbers.flags), (UNKNOWN, 0));
    fake.write("proc/sys/vm/cmm_pages", "12\n");
    fake.write("proc/sys/vm/cmm_timed_pages", "0\n");
    let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=700\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=300\n";
    fake.write("proc/pressure/memory", pressure);
    let rules = Rules { plugs: 3, is_settled: true, reason: "why".into(), ..Rules::default() };
    let told = own(&fake.root(), Some(rules));
    assert_eq!((told.numbers.pool_pages, told.numbers.timed_pages), (12, 0));
    assert_eq!((told.numbers.some_us, told.numbers.full_us), (700, 300));
    assert_eq!((told.numbers.plugs, told.numbers.flags), (3, HAS_RULES | IS_SETTLED));
    assert_eq!(told.reason, b"why");
}
