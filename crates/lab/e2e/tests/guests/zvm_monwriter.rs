//! `pinheadd --monwriter` in a real s390x guest, with a file in place of the device. The records
//! match the guest's kernel, and the daemon with the rules keeps running.

use e2e::{Guest, Host, PATIENCE, Plan, daemon_dir};
use std::fs;
use vm::images::{Arch, GuestFile};
use zmon::fsstatd::{self, FileSystem};
use zmon::monwriter::{Function, Head};
use zmon::pinhead::{self, HAS_RULES, Own};
use zmon::procd::{self, Record, Summary, Task};

const RECORDS: &str = "/run/records";

/// All written records.
#[derive(Default)]
struct Written {
    /// Records of each round, and the guest's summary at the end of the round.
    rounds: Vec<(Vec<Task>, Summary)>,
    systems: Vec<FileSystem>,
    own: Vec<Own>,
    ended: Vec<u16>,
    /// Number of bytes in total, and the bytes after the last complete record.
    left: (usize, Vec<u8>),
}

fn read(guest: &mut Guest<'_>) -> Written {
    let text = guest.sh(&format!("od -An -v -tx1 {RECORDS}"));
    let byte = |word| u8::from_str_radix(word, 16).unwrap_or_else(|e| panic!("{word}: {e}"));
    let bytes: Vec<u8> = text.split_whitespace().map(byte).collect();
    let (mut rest, mut written, mut tasks) = (&bytes[..], Written::default(), Vec::new());
    // A write in progress may be visible only in part.
    while let Ok((head, data, after)) = Head::split(rest) {
        rest = after;
        if head.function == Function::Stop as u8 {
            written.ended.push(head.modification);
            continue;
        }
        match head.application {
            procd::APPLICATION => match Record::read(head.record, data).expect("a record").1 {
                Record::Task(task) => tasks.push(*task),
                Record::Summary(summary) => {
                    written.rounds.push((std::mem::take(&mut tasks), *summary));
                }
            },
            fsstatd::APPLICATION => {
                written.systems.push(FileSystem::read(data).expect("a file system").1);
            }
            pinhead::APPLICATION => written.own.push(Own::read(data).expect("our own").1),
            other => panic!("application {other}"),
        }
    }
    written.left = (bytes.len(), rest.to_vec());
    written
}

/// Waits for this many rounds. Each round contains one task with the name `ksoftirqd/0`. The
/// brackets keep the pattern from matching the command line of this search, which is a task, too.
fn rounds(guest: &mut Guest<'_>, wanted: u64) {
    guest.until_sh(&format!("grep -o 'ksoftirqd[/]0' {RECORDS} | wc -l"), PATIENCE, |text| {
        text.parse::<u64>().is_ok_and(|rounds| rounds >= wanted)
    });
}

fn text(task: &Task, at: usize) -> String {
    String::from_utf8_lossy(&task.texts[at]).into_owned()
}

fn task<'a>(tasks: &'a [Task], pid: &str) -> Option<&'a Task> {
    tasks.iter().find(|task| task.numbers.pid.to_string() == pid.trim())
}

#[test]
fn monitor_records_match_kernel_and_rules_actions() {
    let built = daemon_dir().join("s390x/pinheadd-monwriter");
    let bytes = fs::read(&built).unwrap_or_else(|e| panic!("{}: {e}", built.display()));
    let file = GuestFile { path: "/sbin/pinheadd-monwriter".into(), mode: 0o755, bytes };
    let daemon = "-f -c /etc/pinhead.conf --pace fixed";
    let plan = Plan { cpus: 2, files: vec![file], ..Plan::new(Arch::S390x, daemon) };
    let host = Host::start(&[plan]);
    let mut guest = host.guest(0);
    guest.until_sh("cat /sys/devices/system/cpu/online", PATIENCE, |text| text == "0");
    let sleeper = guest.sh("sleep 1000 > /dev/null 2>&1 < /dev/null & echo $!");
    let start =
        format!(": > {RECORDS}; /sbin/pinheadd --monwriter {RECORDS} --interval 1; echo $?");
    assert_eq!(guest.sh(&start).trim(), "0");
    let second = guest.sh(&format!("/sbin/pinheadd -f --monwriter {RECORDS} 2>&1 || true"));
    assert!(second.contains("Another pinheadd-monwriter is running"), "{second}");
    let count = |name: &str| format!("grep -c {name} {RECORDS} || true");
    rounds(&mut guest, 3);
    assert_ne!(guest.sh(&count("sleep")).trim(), "0");
    let written = read(&mut guest);

    let (tasks, summary) = &written.rounds[1];
    assert_eq!(summary.tasks as usize, tasks.len());
    let states = summary.running + summary.sleeping + summary.stopped + summary.zombies;
    // Kernel threads may be in the idle state, which the record does not count.
    assert!((1..=summary.tasks).contains(&states), "{summary:?}");
    let total = guest.sh("awk '/^MemTotal/ {print $2}' /proc/meminfo");
    assert_eq!(summary.memory_total.to_string(), total.trim());
    // The test's own commands are a load, and the rules may add a CPU again.
    assert!((1..=2).contains(&summary.cpus), "{summary:?}");
    let parts = [summary.user, summary.nice, summary.system, summary.idle, summary.io_wait];
    let more = [summary.irq, summary.soft_irq, summary.steal];
    let sum: u16 = parts.into_iter().chain(more).sum();
    assert!((9_990..=10_000).contains(&sum), "hundredths of a percent: {sum}");

    let found = task(tasks, &sleeper).unwrap_or_else(|| panic!("no task {sleeper}"));
    assert_eq!(
        (text(found, Task::COMMAND).as_str(), text(found, 5).as_str()),
        ("sleep", "sleep 1000 ")
    );
    assert!(found.numbers.state == b'S' && found.numbers.time < 100, "{:?}", found.numbers);
    let statm = guest.sh(&format!("cat /proc/{}/statm", sleeper.trim()));
    let pages: Vec<u64> = statm.split_whitespace().flat_map(str::parse).collect();
    assert_eq!((found.numbers.size, found.numbers.shared), (pages[0] * 4, pages[2] * 4), "{statm}");
    let parent = task(tasks, &found.numbers.parent.to_string());
    assert!(parent.is_some(), "{}", found.numbers.parent);

    let root = written.systems.iter().find(|system| system.texts[1] == b"/").expect("a root");
    let blocks = guest.sh("stat -f -c '%s %b %c' /");
    let numbers = &root.numbers;
    let told = format!("{} {} {}", numbers.block_bytes, numbers.blocks, numbers.files);
    assert_eq!(told, blocks.trim());
    assert!(written.systems.iter().all(|system| system.texts[2] != b"proc"));

    let own = written.own.last().expect("a record of our own");
    assert!((1..=2).contains(&own.numbers.cpus) && own.numbers.present == 2, "{own:?}");
    assert_ne!(own.numbers.flags & HAS_RULES, 0);
    assert!((1..100).contains(&own.numbers.unplugs), "{own:?}");
    // The pool is smaller than the guest's memory, whatever the rules have done in the meantime.
    assert!(own.numbers.pool_pages < 65_536 && own.numbers.timed_pages == 0, "{own:?}");
    assert!(!own.reason.is_empty());

    // When a task ends, its records end. A signal then ends the writer, and the daemon with the
    // rules keeps running. The file of records is emptied, because the rules leave little of the
    // guest's memory.
    guest.sh(&format!(": > {RECORDS}; kill {}", sleeper.trim()));
    rounds(&mut guest, 3);
    let written = read(&mut guest);
    let Some((tasks, _)) = written.rounds.last() else {
        let begin = &written.left.1[..written.left.1.len().min(64)];
        panic!("no round in {} bytes; behind the last record: {begin:?}", written.left.0)
    };
    assert!(task(tasks, &sleeper).is_none());
    assert!(!written.ended.is_empty(), "{} rounds", written.rounds.len());
    guest.sh("kill $(cat /run/pinheadd-monwriter.pid)");
    guest.until_sh("ls /run/pinheadd-monwriter.pid 2> /dev/null | wc -l", PATIENCE, |text| {
        text == "0"
    });
    assert!(guest.sh("cat /run/pinheadd.status").contains("cpus_present=2"));
}
