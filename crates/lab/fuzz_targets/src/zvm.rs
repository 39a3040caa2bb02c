//! Targets for data of z/VM, of a partition, or of another host's libvirt.

use crate::input::Cut;
use zmon::appldata::{Memory, Network, System};
use zmon::file::Reader;
use zmon::frame::{FRAME_BYTES, Records};
use zmon::layout::Layout;
use zmon::stream::{Read, SET_MAX, Set, Stream, parts};
use zmon::{domain, fsstatd, hypfs, monwriter, pinhead, procd, sthyi, sysinfo, tree};
use zvm::{Hypervisor, Monitor, notified};

/// Reads a MONWRITE file to its end. Reported gaps must be within the file, and moments must
/// advance in time.
pub(crate) fn monwrite_file(data: &[u8]) {
    let mut reader = Reader::default();
    let mut monitor = Monitor::default();
    let mut last_ms = i64::MIN;
    for page in data.chunks(FRAME_BYTES) {
        reader.page(page, |found| {
            assert!(found.bytes.len() >= 20 && found.bytes.len() <= page.len());
            if let Some(moment) = monitor.take(&found) {
                assert!(moment.at_ms > last_ms);
                last_ms = moment.at_ms;
            }
        });
    }
    assert!(monitor.counts().bad <= monitor.counts().records);
    for gap in reader.end() {
        assert!(gap.at <= data.len() as u64 && gap.bytes > 0, "{gap:?}");
    }
}

/// Reads the monitor's device, in pieces of any size, with any errors between the pieces.
pub(crate) fn monreader(data: &[u8]) {
    let cut = Cut::new(data);
    let mut stream = Stream::default();
    let mut monitor = Monitor::default();
    for piece in cut.pieces(cut.stream) {
        let read = match piece {
            [0xfe] => Read::Overflow,
            [0xfd] => Read::Failed,
            _ => Read::Bytes(piece),
        };
        for read in [read, Read::Bytes(&[])] {
            let Some(Set::Whole(set) | Set::Part(set)) = stream.take(read) else { continue };
            assert!(set.len() <= SET_MAX);
            for found in parts(&set).0.into_iter().flatten() {
                monitor.take(&found);
            }
        }
    }
}

/// Checks that a parsed record is written back to the same bytes, and that no other bytes change.
fn both_ways<T: Layout>(data: &[u8]) {
    if let Ok(read) = T::read(data) {
        let mut written = data.to_vec();
        read.write(&mut written);
        assert_eq!(written, data, "{}", T::NAME);
    }
}

/// Parses any bytes as each kind of record, and as the parts of a record.
pub(crate) fn monitor_records(data: &[u8]) {
    both_ways::<domain::Processor>(data);
    both_ways::<domain::Storage>(data);
    both_ways::<domain::ActivityAtEnd>(data);
    both_ways::<domain::Interaction>(data);
    both_ways::<procd::Summary>(data);
    let mut records = Records::of(data);
    for found in records.by_ref() {
        let _ = domain::said(&found);
    }
    assert!(records.lost() <= data.len());
    let _ = Memory::whole(data);
    let _ = Network::whole(data);
    if let Ok(system) = System::read(data) {
        assert!(system.cpus.len() * 28 <= data.len());
    }
    if let Ok((head, found, rest)) = monwriter::Head::split(data) {
        assert_eq!(monwriter::Head::BYTES + found.len() + rest.len(), data.len());
        for record in [0, 1, head.record] {
            let _ = procd::Record::read(record, found);
        }
        let _ = fsstatd::FileSystem::read(found);
        if let Ok((stamp, own)) = pinhead::Own::read(found) {
            assert!(own.write(stamp.seconds).len() >= pinhead::BYTES);
        }
    }
    if let Ok((_, procd::Record::Task(task))) = procd::Record::read(1, data) {
        assert!(procd::Task::read(&task.bytes()).is_ok());
    }
}

/// Parses the hypervisor's files. The parsed part must be unchanged when it is written again.
pub(crate) fn hypfs_files(data: &[u8]) {
    hypfs_tree(data);
    if let Ok(guests) = hypfs::guests(data) {
        assert_eq!(
            hypfs::guests(&hypfs::guests_bytes(&guests, zmon::Tod(1))).as_ref(),
            Ok(&guests)
        );
    }
    if let Ok((top, partitions)) = hypfs::partitions(data) {
        let written = hypfs::partitions_bytes(top, &partitions);
        let (_, again) = hypfs::partitions(&written).expect("what was written");
        assert_eq!(again.len(), partitions.len());
    }
    let _ = hypfs::own_cpus(data);
    let mut hypervisor = Hypervisor::default();
    for at_ms in 0..3 {
        let _ = hypervisor.guests(data, at_ms);
        let _ = hypervisor.partitions(data, at_ms);
    }
}

/// Parses a configuration file of VMRM. Each user must be named once, with valid characters. An
/// error must have a position in the text.
pub(crate) fn vmrm_notify(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match notified(text) {
        Ok(users) => {
            assert!(!users.is_empty());
            for (number, user) in users.iter().enumerate() {
                let is_of_name =
                    |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "@#$_-+*".contains(c);
                assert!(user.len() <= 9 && user.chars().all(is_of_name), "{user:?}");
                assert!(number > 100 || !users[..number].contains(user), "{user} twice");
            }
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            for fault in faults {
                assert!(text.get(fault.span.clone()).is_some(), "{fault:?}");
                assert!(!fault.message.contains(char::is_control), "{fault:?}");
            }
        }
    }
}

pub(crate) fn sysinfo_text(data: &[u8]) {
    let levels = sysinfo::levels(&String::from_utf8_lossy(data));
    if let Some(bound) = sysinfo::bound(&levels) {
        let all = bound.level.configured.or(bound.level.total);
        assert_eq!(all.map(|count| count.saturating_mul(1000)), Some(bound.cpus));
    }
}

/// Parses a STHYI page. An accepted page must be the same after it is written and read again,
/// unless its sections overlap. It must add a limited number of levels. The lowest limit must not
/// exceed the CPUs of its level.
pub(crate) fn sthyi_page(data: &[u8]) {
    let Ok(info) = sthyi::read(data) else { return };
    let bytes = info.bytes();
    if are_apart(&info.head) && bytes.iter().any(|byte| *byte != 0) {
        assert_eq!(sthyi::read(&bytes).as_ref(), Ok(&info));
    }
    let mut levels = sysinfo::levels("Type: 8561\nLPAR Name: LP1\nVM00 Name: LINUX01\n");
    info.add_to(&mut levels);
    // The existing levels, the group of a partition, and three hypervisors, each with a pool and a
    // guest.
    assert!(levels.len() <= 3 + 1 + 3 * 3, "{}", levels.len());
    if let Some(bound) = sysinfo::bound(&levels) {
        let level = bound.level;
        let count = level.configured.or(level.total).filter(|_| !level.is_general_only);
        let all = count.map(|count| level.cpus(count).saturating_mul(1000));
        assert!(all.is_none_or(|all| bound.cpus <= all), "{bound:?}");
    }
}

/// Returns true if the sections of a page overlap neither each other nor the head, and end within
/// the page that is written.
fn are_apart(head: &sthyi::Head) -> bool {
    let places = [
        (head.machine, head.machine_length),
        (head.lpar, head.lpar_length),
        (head.hypervisor_1, head.hypervisor_1_length),
        (head.guest_1, head.guest_1_length),
        (head.hypervisor_2, head.hypervisor_2_length),
        (head.guest_2, head.guest_2_length),
        (head.hypervisor_3, head.hypervisor_3_length),
        (head.guest_3, head.guest_3_length),
    ];
    let sections = places.into_iter().filter(|(at, length)| *at > 0 && *length > 0);
    let mut ends: Vec<(usize, usize)> = sections
        .map(|(at, length)| (usize::from(at), usize::from(at) + usize::from(length)))
        .collect();
    ends.push((0, sthyi::Head::BYTES));
    ends.sort_unstable();
    let is_within = |(_, to): &(usize, usize)| *to <= sthyi::PAGE_BYTES;
    ends.iter().all(is_within) && ends.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

/// Parses the address of a host's libvirt. No text may become an option of ssh.
pub(crate) fn remote_uri(data: &[u8]) {
    let Ok(uri) = metrics::remote::Uri::parse(&String::from_utf8_lossy(data)) else { return };
    assert!(!uri.host().is_empty() && !uri.host().starts_with('-'));
}

/// Creates the files of a tree from lines: a path, a blank, and a text.
fn hypfs_tree(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(tree) = tree::read(text.lines().filter_map(|line| line.split_once(' '))) else { return };
    let files = tree::write(&tree);
    let again = tree::read(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    // A name with characters outside of EBCDIC changes, so only success is checked.
    assert!(again.is_ok());
}
