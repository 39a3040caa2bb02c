//! Targets for data that the host reads about guests. These are descriptions, answers to each
//! command, files of /proc, patterns of sockets, and the tasks that a guest reports.

use std::fs;
use std::sync::Arc;

use base::{Bytes, glob as patterns};
use collect::{Care, Collector, GuestProcess};
use hypervisor::{DomainParts, ProcessId, ProcessView, describe_domain};
use manager::control::{Scanned, TaskRow};
use model::{GuestIdentity, Moment, Row};
use pinhead::idle::wakers::Wakers;
use vm::Scratch;

use crate::input::texts;

/// Parses libvirt's description of a domain. A memory size and a port may be found only if the
/// description contains them. An error must have a message.
pub(crate) fn domain_xml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match describe_domain(text) {
        Ok(DomainParts { memory, port, .. }) => {
            assert!(text.contains("memory") && memory > Bytes::ZERO);
            // A path may be written with references, which this check cannot decode.
            assert!(port.is_none() || text.contains("org.pinhead.0") || text.contains('&'));
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
}

/// Matches a pattern against a name, and checks the result with the simplest algorithm.
pub(crate) fn glob(data: &[u8]) {
    let mut parts = texts(data);
    let (Some(pattern), Some(name)) = (parts.next(), parts.next()) else { return };
    let fits = patterns::matches_bytes(pattern, name);
    assert_eq!(fits, fits_slowly(pattern, name));
    if let (Ok(pattern), Ok(name)) = (std::str::from_utf8(pattern), std::str::from_utf8(name))
        && name.is_ascii()
    {
        assert_eq!(patterns::matches(pattern, name), fits);
    }
}

/// Compares each part of the pattern with each part of the name, from the end.
fn fits_slowly(pattern: &[u8], name: &[u8]) -> bool {
    let mut below = vec![false; name.len() + 1];
    below[name.len()] = true;
    for part in pattern.iter().rev() {
        let mut row = vec![false; name.len() + 1];
        for at in (0..=name.len()).rev() {
            row[at] = match part {
                b'*' => below[at] || (at < name.len() && row[at + 1]),
                _ if at == name.len() => false,
                b'?' => below[at + 1],
                byte => *byte == name[at] && below[at + 1],
            };
        }
        below = row;
    }
    below[0]
}

/// The files of a host and of a guest's process that the monitor reads.
const FILES: [&str; 18] = [
    "proc/stat",
    "proc/meminfo",
    "proc/vmstat",
    "proc/swaps",
    "proc/diskstats",
    "proc/pressure/memory",
    "proc/7/statm",
    "proc/7/status",
    "proc/7/io",
    "proc/7/cgroup",
    "proc/7/task/71/schedstat",
    "proc/7/task/71/stat",
    "sys/class/block/zram0/stat",
    "sys/class/block/zram0/mm_stat",
    "sys/fs/cgroup/vm/memory.pressure",
    "sys/fs/cgroup/vm/cpu.stat",
    "proc/7/stat",
    "proc/7/maps",
];
const STAT: &str = "7 (qemu) S 1 1 1 0 -1 0 900 0 12 0 0 6 0 0 20 0 3 0 777 1\n";

/// Writes the files of a host, two sets one after the other. No text may make the monitor or the
/// view of a process fail.
pub(crate) fn collect(data: &[u8]) {
    let Ok(tree) = Scratch::new("fuzz-collect") else { return };
    put(&tree, "proc/7/stat", STAT.as_bytes());
    let process = ProcessId { pid: 7, start_ticks: 777 };
    let mut collector = Collector::open(tree.path(), 1000);
    let mut collect = |now_ms| {
        let guest = GuestProcess {
            id: 1,
            who: Arc::default(),
            process: Some(process),
            vcpu_tids: [71].into(),
            vcpus_ran: Vec::new(),
        };
        let guests = [(GuestIdentity::default(), Row::default())].into();
        let moment = Moment { guests, ..Moment::default() };
        collector.collect(moment, vec![guest], now_ms, Care::AsIfAwake);
    };
    collect(0);
    let texts: Vec<&[u8]> = texts(data).collect();
    for (round, texts) in texts.chunks(FILES.len()).take(2).enumerate() {
        for (file, text) in FILES.iter().zip(texts) {
            put(&tree, file, text);
        }
        collect(60_000 * (1 + round as u64));
        if let Some(view) = ProcessView::open_under(tree.path(), process) {
            let known = (view.stat(), view.resident(), view.swap(), view.pressure_us());
            let ram = view.find_ram(Bytes(1 + round as u64), &[]);
            let held = ram.and_then(|ram| ram.held(&b"1-ffffffffffffffff rw-p 0 0:0 0"[..]));
            assert!(held.is_none_or(|held| held.resident() == Bytes::ZERO), "{held:?}");
            assert!(known.0.is_none_or(|stat| stat.start_ticks == 777));
        }
    }
}

fn put(tree: &Scratch, file: &str, text: &[u8]) {
    let path = tree.join(file);
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = made.and_then(|()| fs::write(&path, text));
    assert!(written.is_ok(), "{}: {written:?}", path.display());
}

/// Compares two scans of a guest's tasks with arbitrary counts. Sums must stay valid numbers. At
/// most 100 % of the dispatches may be attributed to tasks.
pub(crate) fn scan_sums(data: &[u8]) {
    let mut words = data.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let count = words.next().unwrap_or(0) % 5;
    let mut next = || words.next();
    let first = scanned(1, count, &mut next);
    let second = scanned(2, count, &mut next);
    let Ok(wakers) = Wakers::between(&first, &second) else { return };
    assert!((0.0..=100.0).contains(&wakers.attributed_percent), "{wakers:?}");
    assert!(wakers.wakes_a_minute.is_finite() && wakers.wakes_a_minute >= 0.0, "{wakers:?}");
    for row in &wakers.rows {
        assert!(row.wakes_a_minute.is_finite() && row.wakes_a_minute >= 0.0, "{row:?}");
    }
}

fn scanned(sequence: u32, count: u64, next: &mut dyn FnMut() -> Option<u64>) -> Scanned {
    let mut scanned = Scanned { sequence, previous: sequence - 1, ..Scanned::default() };
    scanned.totals.uptime_ms = next();
    scanned.totals.dispatches = next();
    scanned.totals.run_ns = next();
    scanned.totals.busy_ticks = next();
    scanned.totals.context_switches = next();
    scanned.totals.rest_dispatches = next();
    scanned.host.vcpu_run_ns = next();
    for tid in 0..count as u32 {
        scanned.tasks.push(TaskRow {
            tid,
            pid: tid / 2,
            start_ticks: next(),
            child_user_ticks: next(),
            child_system_ticks: next(),
            dispatches: next(),
            run_ns: next(),
            dispatches_before: next(),
            run_before_ns: next(),
            ..TaskRow::default()
        });
    }
    scanned
}
