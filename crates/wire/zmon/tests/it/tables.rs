//! Round trips of every record, field by field and byte by byte.

use base::Rng;
use std::fmt::Debug;
use zmon::appldata::{Cpu, Memory, Network, Os, ProductId};
use zmon::layout::Layout;
use zmon::monwriter::Series;
use zmon::tree::{self, Tree};
use zmon::{domain, frame, fsstatd, hypfs, monwriter, pinhead, procd, sthyi, stream, to_ebcdic};

fn check<T: Layout + Debug + PartialEq>(rng: &mut Rng) {
    let mut ends = 0;
    let mut rows = T::ROWS.to_vec();
    rows.sort_by_key(|(_, at, _)| *at);
    for (field, at, bytes) in rows {
        assert!(at >= ends, "{} {field} begins before the end of the one before", T::NAME);
        ends = at + bytes;
    }
    assert!(ends <= T::BYTES, "{} is longer than its table says", T::NAME);
    for _ in 0..50 {
        let length = T::BYTES + rng.within(0, 40 - 1) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| rng.within(0, 256 - 1) as u8).collect();
        let read = T::read(&bytes).expect("long enough");
        let mut written = bytes.clone();
        read.write(&mut written);
        assert_eq!(written, bytes, "{}: what stands between fields is left alone", T::NAME);
        assert_eq!(T::read(&read.bytes()).expect("its own length"), read, "{}", T::NAME);
        // A shorter record is an error with the place, or a missing field; never a panic, never 0.
        let cut = rng.within(0, ends as u64 - 1) as usize;
        match T::read(&bytes[..cut]) {
            Err(error) => {
                assert!(error.to_string().contains(&format!("has {cut} bytes")), "{error}")
            }
            Ok(short) => assert_ne!(short, read, "{} of {cut} bytes", T::NAME),
        }
    }
}

#[test]
fn every_record_is_written_as_it_was_read() {
    let mut rng = Rng::new(20_261_125);
    macro_rules! all {
        ($($of:ty)*) => { $(check::<$of>(&mut rng);)* };
    }
    all!(ProductId Memory Os Cpu Network monwriter::Head monwriter::Stamp procd::Summary
        procd::Numbers fsstatd::Numbers pinhead::Numbers stream::Entry frame::Head
        domain::Processor domain::Storage domain::Users domain::States domain::Logoff
        domain::Activity domain::ActivityAtEnd domain::Interaction domain::ApplicationHead
        hypfs::GuestsHead hypfs::Guest hypfs::OwnHead hypfs::OwnCpu hypfs::PartitionsHead
        hypfs::PartitionHead hypfs::LogicalCpu sthyi::Head sthyi::Machine sthyi::Lpar
        sthyi::Hypervisor sthyi::Guest);
}

#[test]
fn tasks_and_file_systems_round_trip_with_texts_of_any_length() {
    let mut rng = Rng::new(7);
    let mut tasks = Series::default();
    let mut counts = [0, 0];
    for _ in 0..300 {
        let mut text = |most: u64| -> Vec<u8> {
            (0..rng.within(0, most - 1)).map(|_| b'a' + (rng.within(0, 26 - 1) as u8)).collect()
        };
        let task = procd::Task {
            numbers: procd::Numbers { pid: 7, state: b'S', ..procd::Numbers::default() },
            texts: [text(20), text(20), text(20), text(20), text(30), text(1_200)],
        };
        let write = procd::Record::Task(Box::new(task.clone())).write(1_700_000_000, &mut tasks);
        let (head, data, rest) = monwriter::Head::split(&write).expect("a write");
        assert!(rest.is_empty() && procd::TASK_BYTES.contains(&write.len()), "{}", write.len());
        // Each of the two lengths has its own modification numbers. The last bit of a number shows
        // the length.
        let is_long = write.len() == procd::TASK_BYTES[1];
        let count = &mut counts[usize::from(is_long)];
        assert_eq!(head.modification, *count * 2 + u16::from(is_long));
        *count += 1;
        let (stamp, read) = procd::Record::read(head.record, data).expect("a record");
        assert_eq!(stamp.seconds, 1_700_000_000);
        let procd::Record::Task(read) = read else { panic!("a task: {read:?}") };
        assert_eq!((&read.numbers, &read.texts[..5]), (&task.numbers, &task.texts[..5]));
        assert!(task.texts[5].starts_with(&read.texts[5]));
        let system = fsstatd::FileSystem {
            texts: [text(40), text(600), text(10)],
            numbers: fsstatd::Numbers { blocks: 5, ..fsstatd::Numbers::default() },
        };
        let write = system.write(1, &mut Series::default());
        let (head, data, _) = monwriter::Head::split(&write).expect("a write");
        assert_eq!((head.application, head.record), (fsstatd::APPLICATION, 0));
        assert!(fsstatd::BYTES.contains(&write.len()), "{}", write.len());
        assert_eq!(fsstatd::FileSystem::read(data).expect("a record").1, system);
        let numbers = pinhead::Numbers { cpus: 3, ..pinhead::Numbers::default() };
        let own = pinhead::Own { numbers, reason: text(390) };
        let write = own.write(9);
        let (head, data, _) = monwriter::Head::split(&write).expect("a write");
        assert_eq!((head.application, write.len()), (pinhead::APPLICATION, pinhead::BYTES));
        assert_eq!(pinhead::Own::read(data).expect("a record").1, own);
    }
    assert_eq!(tasks.count(), 300);
}

#[test]
fn records_missing_from_the_new_series_are_stopped() {
    let of = |short, long| {
        let mut series = Series::default();
        (0..short).for_each(|_| _ = series.next(false));
        (0..long).for_each(|_| _ = series.next(true));
        series
    };
    let ends = |now: Series, before| -> Vec<u16> {
        let writes = now.ends(before, procd::APPLICATION, procd::TASK);
        let modification = |write: Vec<u8>| {
            let (head, data, rest) = monwriter::Head::split(&write).expect("a write");
            assert_eq!(head.function, monwriter::Function::Stop as u8);
            assert!(data.is_empty() && rest.is_empty());
            head.modification
        };
        writes.map(modification).collect()
    };
    assert_eq!(ends(of(2, 1), of(4, 3)), [4, 6, 3, 5]);
    assert!(ends(of(4, 3), of(2, 1)).is_empty());
    assert_eq!(ends(of(0, 0), of(1, 1)), [0, 1]);
}

#[test]
fn texts_that_are_too_long_are_cut_and_the_rest_stays_readable() {
    let long = procd::Task { texts: Default::default(), ..procd::Task::default() };
    let long = procd::Task { texts: long.texts.map(|_| vec![b'x'; 5_000]), ..long };
    let write = procd::Record::Task(Box::new(long)).write(0, &mut Series::default());
    let (_, data, _) = monwriter::Head::split(&write).expect("a write");
    assert!(procd::Record::read(1, data).is_ok());
    let system = fsstatd::FileSystem {
        texts: [vec![b'x'; 9_000], vec![b'y'; 9_000], vec![b'z'; 9_000]],
        ..fsstatd::FileSystem::default()
    };
    let write = system.write(0, &mut Series::default());
    let (_, data, _) = monwriter::Head::split(&write).expect("a write");
    assert!(fsstatd::FileSystem::read(data).is_ok());
}

fn read(files: &[tree::File]) -> Result<Tree, zmon::Error> {
    tree::read(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
}

#[test]
fn a_tree_is_read_as_it_was_written() {
    let mut rng = Rng::new(11);
    for round in 0..50 {
        let mut bytes = vec![0; hypfs::Guest::BYTES];
        bytes.iter_mut().for_each(|byte| *byte = rng.within(0, 255) as u8);
        let mut guest = hypfs::Guest::read(&bytes).expect("long enough");
        // Fields that a tree lacks.
        (guest.version, guest.processors, guest.flags) = (0, 0, guest.flags & 0b1110);
        guest.name = to_ebcdic("LINUX01");
        let other = hypfs::Guest {
            name: to_ebcdic("LINUX02"),
            logical: guest.logical,
            ..hypfs::Guest::default()
        };
        let tree = Tree::Guests(vec![guest, other]);
        assert_eq!(read(&tree::write(&tree)), Ok(tree));
        let cpu = |address: u16| hypfs::LogicalCpu {
            address,
            used_us: 3_000 + round,
            partition_us: 1_000,
            online_us: 9_000,
            ..hypfs::LogicalCpu::default()
        };
        let mut partition = hypfs::Partition::default();
        partition.head.name = to_ebcdic("LP12");
        (partition.head.cpus, partition.head.real_cpus) = (2, 2);
        partition.cpus = vec![cpu(0), cpu(7)];
        let tree = Tree::Partitions(12, vec![partition]);
        assert_eq!(read(&tree::write(&tree)), Ok(tree));
    }
}

#[test]
fn a_tree_that_is_wrong_is_told_with_its_file() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let vm = file("hyp/type", "z/VM Hypervisor\n");
    let of = |files: &[tree::File]| read(files).map_err(|error| error.to_string());
    let wrong = [vm.clone(), file("systems/LINUX01/mem/used_KiB", "much\n")];
    let told = "systems/LINUX01/mem/used_KiB has `much`, where a number should be";
    assert_eq!(of(&wrong), Err(told.to_owned()));
    assert!(of(&[]).is_err_and(|told| told.starts_with("hyp/type has ``")));
    assert!(of(&[file("hyp/type", "KVM")]).is_err_and(|told| told.contains("LPAR Hypervisor")));
    // Unknown files are ignored.
    let more = [vm, file("systems/LINUX01/new/one", "x"), file("update", "")];
    assert!(matches!(of(&more), Ok(Tree::Guests(guests)) if guests.len() == 1));
}
