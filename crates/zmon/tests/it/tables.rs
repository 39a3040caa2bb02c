//! Every record: what is read is written, field by field and byte by byte.

use base::Rng;
use std::fmt::Debug;
use zmon::appldata::{Cpu, Memory, Network, Os, ProductId};
use zmon::layout::Layout;
use zmon::{domain, frame, fsstatd, hypfs, monwriter, procd, sthyi, stream};

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
        // Shorter is an error with the place, or a field that is missing; never a panic, never 0.
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
        procd::Numbers fsstatd::Numbers stream::Entry frame::Head domain::Processor domain::Storage
        domain::Users domain::States domain::Logoff domain::Activity domain::ActivityAtEnd
        domain::Interaction domain::ApplicationHead hypfs::GuestsHead hypfs::Guest hypfs::OwnHead
        hypfs::OwnCpu hypfs::PartitionsHead hypfs::PartitionHead hypfs::LogicalCpu
        sthyi::Head sthyi::Machine sthyi::Lpar sthyi::Hypervisor sthyi::Guest);
}

#[test]
fn tasks_and_file_systems_go_through_the_device_whatever_their_texts() {
    let mut rng = Rng::new(7);
    for _ in 0..300 {
        let mut text = |most: u64| -> Vec<u8> {
            (0..rng.within(0, most - 1)).map(|_| b'a' + (rng.within(0, 26 - 1) as u8)).collect()
        };
        let task = procd::Task {
            numbers: procd::Numbers { pid: 7, state: b'S', ..procd::Numbers::default() },
            texts: [text(20), text(20), text(20), text(20), text(30), text(1_200)],
        };
        let write = procd::Record::Task(Box::new(task.clone())).write(1_700_000_000, 3);
        let (head, data, rest) = monwriter::Head::split(&write).expect("a write");
        assert!(rest.is_empty() && procd::TASK_BYTES.contains(&write.len()), "{}", write.len());
        // Which of the two lengths it has is told by the last bit of its number.
        assert_eq!(head.modification, 6 + u16::from(write.len() == procd::TASK_BYTES[1]));
        let (stamp, read) = procd::Record::read(head.record, data).expect("a record");
        assert_eq!(stamp.seconds, 1_700_000_000);
        let procd::Record::Task(read) = read else { panic!("a task: {read:?}") };
        assert_eq!((&read.numbers, &read.texts[..5]), (&task.numbers, &task.texts[..5]));
        assert!(task.texts[5].starts_with(&read.texts[5]));
        let system = fsstatd::FileSystem {
            texts: [text(40), text(600), text(10)],
            numbers: fsstatd::Numbers { blocks: 5, ..fsstatd::Numbers::default() },
        };
        let write = system.write(1, 0);
        let (head, data, _) = monwriter::Head::split(&write).expect("a write");
        assert_eq!((head.application, head.record), (fsstatd::APPLICATION, 0));
        assert!(fsstatd::BYTES.contains(&write.len()), "{}", write.len());
        assert_eq!(fsstatd::FileSystem::read(data).expect("a record").1, system);
    }
}

#[test]
fn texts_that_are_too_long_are_cut_and_the_rest_stays_readable() {
    let long = procd::Task { texts: Default::default(), ..procd::Task::default() };
    let long = procd::Task { texts: long.texts.map(|_| vec![b'x'; 5_000]), ..long };
    let write = procd::Record::Task(Box::new(long)).write(0, 0);
    let (_, data, _) = monwriter::Head::split(&write).expect("a write");
    assert!(procd::Record::read(1, data).is_ok());
    let system = fsstatd::FileSystem {
        texts: [vec![b'x'; 9_000], vec![b'y'; 9_000], vec![b'z'; 9_000]],
        ..fsstatd::FileSystem::default()
    };
    let write = system.write(0, 0);
    let (_, data, _) = monwriter::Head::split(&write).expect("a write");
    assert!(fsstatd::FileSystem::read(data).is_ok());
}
