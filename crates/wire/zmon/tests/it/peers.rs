//! Output of IBM's own mon_procd and mon_fsstatd in a real Linux on an emulated s390x, with a file
//! in place of the device. The values must match that guest's /proc, and writing them again must
//! give the same bytes.

use zmon::appldata::{Memory, Network, System};
use zmon::fsstatd::{self, FileSystem};
use zmon::layout::Layout;
use zmon::monwriter::{Head, Series};
use zmon::procd::{Record, Summary, Task};

/// Output of mon_procd: two tasks, the daemon itself, and two summaries of the guest.
const PROCD: &[u8] = include_bytes!("../data/mon_procd.bin");
/// Output of mon_fsstatd about the root file system of the guest.
const FSSTATD: &[u8] = include_bytes!("../data/mon_fsstatd.bin");

/// Output of IBM's daemons and of pinheadd about the same guest in the same second. It covers seven
/// tasks, the guest as a whole, and its root file system.
const BESIDE: [&[u8]; 2] =
    [include_bytes!("../data/beside_mon_procd.bin"), include_bytes!("../data/beside_pinheadd.bin")];

/// Buffers of Debian's kernel 6.1 in a guest with four CPUs, before the copy to CP.
const KERNEL: [&[u8]; 3] = [
    include_bytes!("../data/appldata_mem.bin"),
    include_bytes!("../data/appldata_os.bin"),
    include_bytes!("../data/appldata_net_sum.bin"),
];

fn writes(mut bytes: &[u8]) -> Vec<(Head, &[u8], &[u8])> {
    let mut writes = Vec::new();
    while !bytes.is_empty() {
        let (head, data, rest) = Head::split(bytes).expect("a write");
        writes.push((head, data, &bytes[..bytes.len() - rest.len()]));
        bytes = rest;
    }
    writes
}

/// Returns the series as it was before this head was written. The data of these tests contain only
/// some of the written records.
fn before(head: &Head) -> Series {
    let mut series = Series::default();
    (0..head.modification / 2).for_each(|_| _ = series.next(head.modification % 2 == 1));
    series
}

#[test]
fn processes_are_read_as_they_were_and_written_as_they_came() {
    let mut tasks = Vec::new();
    let mut summaries = Vec::new();
    for (head, data, whole) in writes(PROCD) {
        let (stamp, record) = Record::read(head.record, data).expect("a record");
        assert_eq!(record.write(stamp.seconds, &mut before(&head)), whole);
        match record {
            Record::Task(task) => tasks.push(task),
            Record::Summary(summary) => summaries.push(summary),
        }
    }
    let [init, kernel, own] = &tasks[..] else { panic!("{} tasks", tasks.len()) };
    // /proc/1/stat: pinhead-guest, S, parent 0, 3 and 31 ticks, 2,375,680 bytes, 406 pages.
    let text = |task: &Task, at: usize| String::from_utf8_lossy(&task.texts[at]).into_owned();
    assert_eq!(text(init, Task::COMMAND), "pinhead-guest");
    assert_eq!(text(init, 5), "/bin/sh /sbin/pinhead-guest ");
    let numbers = &init.numbers;
    assert_eq!((numbers.pid, numbers.parent, numbers.state), (1, 0, b'S'));
    assert_eq!((numbers.time, numbers.size, numbers.resident), (34, 2_375_680 / 1_024, 406 * 4));
    assert_eq!((numbers.priority, numbers.nice, numbers.flags), (20, 0, 4_194_560));
    // /proc/2/stat: kthreadd, 2 ticks, no memory of its own.
    assert_eq!(text(kernel, Task::COMMAND), "kthreadd");
    assert_eq!((kernel.numbers.time, kernel.numbers.resident, kernel.numbers.cpu), (2, 0, 1));
    assert_eq!(text(own, 5), "mon_procd -a -i 4 ");
    let [first, second] = &summaries[..] else { panic!("{} summaries", summaries.len()) };
    // /proc/meminfo: 110,956 kB in all. 54 tasks ran on two CPUs. The summaries are four seconds
    // apart.
    assert_eq!((first.memory_total, first.tasks, first.cpus), (110_956, 54, 2));
    assert_eq!(first.memory_used + first.memory_free, first.memory_total);
    assert_eq!((first.uptime_s, second.uptime_s), (3, 7));
    assert_eq!(&second.load_1, b"0.00\0\0");
    let parts = [second.user, second.nice, second.system, second.idle, second.io_wait];
    let more = [second.irq, second.soft_irq, second.steal];
    let sum: u16 = parts.into_iter().chain(more).sum();
    assert!((9_990..=10_000).contains(&sum), "hundredths of a percent: {sum}");
}

#[test]
fn a_file_system_is_read_as_it_was_and_written_as_it_came() {
    let [(head, data, whole)] = &writes(FSSTATD)[..] else { panic!("one write") };
    let (stamp, system) = FileSystem::read(data).expect("a file system");
    assert_eq!(system.write(stamp.seconds, &mut before(head)), *whole);
    assert_eq!(system.texts, [b"rootfs".to_vec(), b"/".to_vec(), b"rootfs".to_vec()]);
    // stat -f /: 12,670 blocks of 4,096 bytes, and as many inodes.
    let numbers = &system.numbers;
    assert_eq!((numbers.block_bytes, numbers.blocks, numbers.files), (4_096, 12_670, 12_670));
    assert_eq!((numbers.free, numbers.files_free), (11_698, 12_544));
}

/// Returns a record as text, without values that change between two readings.
fn lasting(head: &Head, data: &[u8]) -> String {
    let alike = Head { modification: head.modification & 1, ..head.clone() };
    if head.application == fsstatd::APPLICATION {
        return format!("{alike:?} {:?}", FileSystem::read(data).expect("a file system").1);
    }
    let record = match Record::read(head.record, data).expect("a record").1 {
        Record::Task(mut task) => {
            let numbers = &mut task.numbers;
            (numbers.cpu, numbers.cpu_percent) = (0, 0);
            (numbers.time, numbers.time_of_all) = (0, 0);
            Record::Task(task)
        }
        Record::Summary(summary) => {
            // The daemon that started later also counts itself.
            assert!((67..=68).contains(&summary.tasks), "{}", summary.tasks);
            let Summary { memory_total, cpus, users, swap_total, buffers, cached, .. } = *summary;
            let Summary { swapped_in, swapped_out, paged_in, paged_out, .. } = *summary;
            Record::Summary(Box::new(Summary {
                memory_total,
                cpus,
                users,
                swap_total,
                buffers,
                cached,
                swapped_in,
                swapped_out,
                paged_in,
                paged_out,
                ..Summary::default()
            }))
        }
    };
    format!("{alike:?} {record:?}")
}

#[test]
fn pinheadd_writes_the_same_records_as_ibms_daemons() {
    let [theirs, ours] = BESIDE.map(writes);
    assert_eq!(theirs.len(), 9);
    assert_eq!(theirs.len(), ours.len());
    for ((head, data, whole), (our_head, our_data, our_whole)) in theirs.iter().zip(&ours) {
        assert_eq!(whole.len(), our_whole.len());
        assert_eq!(lasting(head, data), lasting(our_head, our_data));
    }
}

#[test]
fn kernel_buffers_match_proc_and_round_trip() {
    let [memory, system, network] = KERNEL;
    let told = Memory::whole(memory).expect("memory");
    assert_eq!(told.bytes(), memory);
    // MemTotal was 241,260 kB, and Shmem 2,524 kB, which the record has in pages. There was no swap
    // space.
    assert_eq!((told.total, told.shared * 4, told.swap_total), (241_260, 2_524, 0));

    let told = System::read(system).expect("CPUs and load");
    assert_eq!(told.bytes(), system);
    assert_eq!((told.cpus.len(), told.has_steal, told.os.cpu_bytes), (4, true, 36));
    // /proc/stat had these hundredths of a second for CPU 0: 4 of user time, 409 to 411 of system
    // time, and 214 to 224 of idle time. This kernel has 250 ticks per second.
    let cpu = &told.cpus[0];
    assert_eq!((cpu.user, cpu.system, cpu.idle), (11, 1_024, 549));
    assert_eq!(told.cpus.iter().map(|cpu| cpu.number).collect::<Vec<_>>(), [0, 1, 2, 3].map(Some));

    let told = Network::whole(network).expect("network");
    assert_eq!(told.bytes(), network);
    // Three packets to itself, and the replies.
    assert_eq!((told.interfaces, told.received_packets, told.sent_bytes), (1, 6, 504));
}
