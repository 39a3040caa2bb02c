use super::*;
use crate::testing::Tree;

const PID: ProcessId = ProcessId { pid: 42, start_ticks: 777 };

fn stat(state: char, ticks: u64) -> String {
    format!(
        "42 (qemu) S ({state}) {state} 1 1 1 0 -1 4194560 900 0 12 0 {ticks} 6 0 0 20 0 3 0 777\n"
    )
}

fn vcpu_stat(io: u64, guest: u64) -> String {
    let mut text = "43 (CPU 0/KVM) S".to_owned();
    (4..=41).for_each(|_| text.push_str(" 0"));
    format!("{text} {io} {guest} 0\n")
}

fn tree() -> Tree {
    let tree = Tree::new();
    tree.file("proc/42/stat", &stat('S', 4));
    tree.file("proc/42/statm", "90000 2500 800 1 0 70000 0\n");
    tree.file("proc/42/status", "Name:\tqemu\nVmLck:\t  8 kB\nVmSwap:\t   64 kB\n");
    tree.file(
        "proc/42/io",
        "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n",
    );
    tree.file("proc/42/ksm_merging_pages", "17\n");
    tree.file("proc/42/task/42/schedstat", "1000 100 10\n");
    vcpu(&tree, 0);
    tree.file("proc/42/task/43/stat", &vcpu_stat(3, 0));
    tree.link("proc/42/fd/0", "/dev/null");
    tree
}

fn vcpu(tree: &Tree, run_ms: u64) {
    tree.file("proc/42/task/43/schedstat", &format!("{} 7 8\n", run_ms * 1_000_000));
}

fn open(tree: &Tree) -> GuestReader {
    GuestReader::open(tree.path(), PID, &[43]).unwrap()
}

#[test]
fn every_value_is_read_from_its_file() {
    let tree = tree();
    let mut guest = open(&tree);
    assert_eq!(guest.read(&[], Care::Usual, 1000, &mut Scratch::default()), Look::Asleep);
    let page = rustix::param::page_size() as u64;
    for (field, value) in [
        (GuestField::VcpuRun, Some(0)),
        (GuestField::VcpuDelay, Some(7)),
        (GuestField::VcpuDispatches, Some(8)),
        (GuestField::VcpuGuest, None),
        (GuestField::VcpuBlockIo, None),
        // The process used 100 ms, of which its current threads used only a microsecond.
        (GuestField::OtherRun, Some(100_000_000)),
        (GuestField::OtherDelay, Some(100)),
        (GuestField::OtherDispatches, Some(10)),
        (GuestField::MinorFaults, Some(900)),
        (GuestField::MajorFaults, Some(12)),
        (GuestField::Resident, Some(2500 * page)),
        (GuestField::Swapped, Some(64 << 10)),
        (GuestField::Locked, Some(8 << 10)),
        (GuestField::ReadBytes, Some(5)),
        (GuestField::WriteBytes, Some(6)),
        (GuestField::ReadCalls, Some(3)),
        (GuestField::WriteCalls, Some(4)),
        (GuestField::Merged, Some(17)),
        (GuestField::Throttled, None),
        (GuestField::PsiMemory, None),
        (GuestField::Exits, None),
        (GuestField::Actual, None),
        (GuestField::OwnTotal, None),
    ] {
        assert_eq!(guest.row().get(field), value, "{field:?}");
    }
}

#[test]
fn guest_time_is_known_under_kvm_and_missing_under_emulation() {
    let tree = tree();
    tree.file("proc/sys/kernel/task_delayacct", "1\n");
    let mut guest = open(&tree);
    guest.read(&[], Care::Usual, 0, &mut Scratch::default());
    assert_eq!(guest.row().get(GuestField::VcpuGuest), None);
    assert_eq!(guest.row().get(GuestField::VcpuBlockIo), Some(3 * TICK_NS));
    tree.link("proc/42/fd/9", "anon_inode:kvm-vm");
    let mut guest = open(&tree);
    guest.read(&[], Care::Usual, 0, &mut Scratch::default());
    assert_eq!(guest.row().get(GuestField::VcpuGuest), Some(0));
    tree.remove("proc/42/fd");
    let mut guest = open(&tree);
    guest.read(&[], Care::Usual, 0, &mut Scratch::default());
    assert_eq!(guest.row().get(GuestField::VcpuGuest), None, "0 may be either");
    tree.file("proc/42/task/43/stat", &vcpu_stat(3, 5));
    guest.read(&[], Care::AsIfAwake, 1, &mut Scratch::default());
    assert_eq!(guest.row().get(GuestField::VcpuGuest), Some(5 * TICK_NS));
}

#[test]
fn only_the_virtual_cpus_of_a_sleeping_guest_are_read() {
    let tree = tree();
    let mut guest = open(&tree);
    let mut look = |care, now_ms| {
        let look = guest.read(&[], care, now_ms, &mut Scratch::default());
        (look, guest.row().get(GuestField::VcpuRun), guest.row().get(GuestField::MajorFaults))
    };
    look(Care::Usual, 0);
    tree.file("proc/42/stat", &stat('S', 4).replace(" 12 ", " 13 "));
    vcpu(&tree, 20);
    assert_eq!(look(Care::Usual, 1000), (Look::Asleep, Some(20_000_000), Some(12)));
    vcpu(&tree, 21);
    assert_eq!(look(Care::Least, 1000), (Look::PutOff, Some(21_000_000), Some(12)));
    assert_eq!(look(Care::Usual, 1000), (Look::Awake, Some(21_000_000), Some(13)));
    tree.file("proc/42/stat", &stat('S', 4).replace(" 12 ", " 14 "));
    assert_eq!(look(Care::Usual, 2000).2, Some(13));
    assert_eq!(look(Care::Usual, 1000 + ASLEEP_MS).2, Some(14), "read after ASLEEP_MS");
    tree.file("proc/42/stat", &stat('S', 4).replace(" 12 ", " 15 "));
    assert_eq!(look(Care::Least, 1000 + 2 * ASLEEP_MS).2, Some(15));
}

#[test]
fn costly_fields_are_read_seldom() {
    let tree = tree();
    let mut guest = open(&tree);
    let mut merged = |now_ms| {
        guest.read(&[], Care::AsIfAwake, now_ms, &mut Scratch::default());
        guest.row().get(GuestField::Merged)
    };
    assert_eq!(merged(0), Some(17));
    tree.file("proc/42/ksm_merging_pages", "18\n");
    assert_eq!(merged(SELDOM_MS - 1), Some(17));
    assert_eq!(merged(SELDOM_MS), Some(18));
}

#[test]
fn ended_processes_and_reused_pids_are_recognised() {
    let tree = tree();
    let mut guest = open(&tree);
    tree.file("proc/42/stat", &stat('Z', 4));
    assert_eq!(guest.read(&[], Care::Usual, 0, &mut Scratch::default()), Look::Gone);
    let other = ProcessId { start_ticks: 778, ..PID };
    assert!(GuestReader::open(tree.path(), other, &[43]).is_none());
    assert!(GuestReader::open(tree.path(), ProcessId { pid: 1, ..PID }, &[]).is_none());
    tree.file("proc/42/stat", "");
    assert!(GuestReader::open(tree.path(), PID, &[43]).is_none());
}

#[test]
fn values_of_a_live_process_are_plausible() {
    let me = std::process::id();
    let process = ProcessId::of(me).unwrap();
    let mut guest = GuestReader::open(Path::new("/"), process, &[me]).unwrap();
    let mut scratch = Scratch::default();
    guest.read(&[], Care::AsIfAwake, 0, &mut scratch);
    let row = guest.row().clone();
    for field in [
        GuestField::VcpuRun,
        GuestField::VcpuDispatches,
        GuestField::OtherRun,
        GuestField::Resident,
        GuestField::Swapped,
        GuestField::MinorFaults,
    ] {
        assert!(row.get(field).is_some(), "{field:?}");
    }
    assert!(row.get(GuestField::Resident) > Some(100_000));
    assert_eq!(row.get(GuestField::VcpuGuest), None, "not a virtual machine");
    assert!(guest.files() >= 7);
}
