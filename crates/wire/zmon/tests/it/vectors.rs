//! Records assembled by hand, byte by byte, from the kernel's sources and IBM's pages, without use
//! of the tables.

use zmon::appldata::{LOAD_ONE, Memory, Origin, ProductId, System};
use zmon::domain::{Said, said};
use zmon::frame::{Found, Records};
use zmon::layout::Layout;
use zmon::monwriter::{Function, Head, Series, Stamp};
use zmon::{Error, Tod, hypfs, procd, sthyi};

/// Returns bytes with the given values at their offsets.
fn bytes(length: usize, places: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (at, value) in places {
        bytes[*at..at + value.len()].copy_from_slice(value);
    }
    bytes
}

#[test]
fn the_kernels_product_is_as_documented() {
    // LINUXKRNL, record 1, 260100 in EBCDIC.
    let expected = [
        0xd3, 0xc9, 0xd5, 0xe4, 0xe7, 0xd2, 0xd9, 0xd5, 0xd3, 0x01, 0xf2, 0xf6, 0xf0, 0xf1, 0xf0,
        0xf0,
    ];
    let product = ProductId::of_kernel(1, "00");
    assert_eq!(product.bytes(), expected);
    assert_eq!(product.origin(), Origin::Kernel);
    // LNXAPPL, application 2, record 1, modification 4.
    let expected =
        [0xd3, 0xd5, 0xe7, 0xc1, 0xd7, 0xd7, 0xd3, 0x00, 0x02, 0x01, 0, 0, 0, 0, 0x00, 0x04];
    assert_eq!(ProductId::of_writer(2, 1, 4).bytes(), expected);
}

#[test]
fn memory_is_read_where_the_kernel_has_it() {
    let buffer = bytes(
        144,
        &[
            // sync_count_1 and sync_count_2: 7.
            (8, &[0, 0, 0, 7]),
            (12, &[0, 0, 0, 7]),
            // pswpout 258 pages, totalram 512,000 KiB, cached 3, pgmajfault 255.
            (40, &[0, 0, 0, 0, 0, 0, 1, 2]),
            (56, &[0, 0, 0, 0, 0, 7, 0xd0, 0]),
            (96, &[0, 0, 0, 0, 0, 0, 0, 3]),
            (136, &[0, 0, 0, 0, 0, 0, 0, 0xff]),
        ],
    );
    let memory = Memory::whole(&buffer).expect("the buffer is whole");
    assert_eq!((memory.swapped_out, memory.total, memory.cached), (258, 512_000, 3));
    assert_eq!(memory.major_faults, 255);
    let torn = bytes(144, &[(8, &[0, 0, 0, 8]), (12, &[0, 0, 0, 7])]);
    assert_eq!(Memory::whole(&torn), Err(Error::Torn { record: "Memory", one: 8, two: 7 }));
}

#[test]
fn cpus_are_read_by_the_length_that_the_kernel_tells() {
    // Two CPUs with entries of 36 bytes from offset 52 on, and a load of 1.5.
    let head: &[(usize, &[u8])] = &[
        (16, &[0, 0, 0, 2]),
        (20, &[0, 0, 0, 36]),
        (24, &[0, 0, 0, 52]),
        (36, &[0, 0, 0x0c, 0]),
        // The second CPU's steal time, 28 bytes into its entry, and the CPU's number.
        (52 + 36 + 28, &[0, 0, 1, 0]),
        (52 + 36 + 32, &[0, 0, 0, 1]),
    ];
    let system = System::read(&bytes(52 + 2 * 36, head)).expect("two CPUs");
    assert_eq!((system.cpus.len(), system.has_steal), (2, true));
    assert_eq!((system.cpus[1].steal, system.cpus[1].number), (Some(256), Some(1)));
    assert_eq!(system.os.load_1, LOAD_ONE * 3 / 2);
    // Kernels without steal time have the CPU's number in its place. Even earlier kernels have no
    // number.
    for (each, number) in [(32, Some(9)), (28, None)] {
        let old = bytes(
            52 + 32,
            &[
                (16, &[0, 0, 0, 1]),
                (20, &[0, 0, 0, each]),
                (24, &[0, 0, 0, 52]),
                (52 + 12, &[0, 0, 0, 7]),
                (52 + 28, &[0, 0, 0, 9]),
            ],
        );
        let system = System::read(&old).expect("one CPU");
        assert!(!system.has_steal && system.cpus[0].steal.is_none());
        assert_eq!((system.cpus[0].idle, system.cpus[0].number), (7, number));
    }
    // A CPU count beyond the given bytes allocates nothing.
    let wrong = bytes(52, &[(16, &[0xff; 4]), (20, &[0, 0, 0, 36]), (24, &[0, 0, 0, 52])]);
    assert!(System::read(&wrong).unwrap_err().to_string().contains("more than there are bytes"));
    let wrong = bytes(52, &[(16, &[0, 0, 0, 1]), (20, &[0, 0, 0, 0])]);
    assert!(System::read(&wrong).is_err(), "entries without a length");
}

#[test]
fn a_write_of_the_daemon_is_as_long_as_the_originals() {
    let summary = procd::Summary { uptime_s: 5, steal: 10_000, ..procd::Summary::default() };
    let write = procd::Record::Summary(Box::new(summary)).write(1, &mut Series::default());
    // 13 bytes of head, 12 of stamp, 166 of fields.
    assert_eq!(write.len(), 191);
    // Start, application 2, record 0, version 0, release 0, modification 0, 178 bytes of data, 13
    // bytes of head.
    assert_eq!(write[..13], [0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 178, 13]);
    // One second since 1970, and 166 bytes of fields at offset 12.
    assert_eq!(write[13..25], [0, 0, 0, 0, 0, 0, 0, 1, 0, 166, 0, 12]);
    // Uptime at offset 0, steal time at offset 68.
    assert_eq!(write[25..33], [0, 0, 0, 0, 0, 0, 0, 5]);
    assert_eq!(write[25 + 68..25 + 70], [0x27, 0x10]);
    let stop = Head::of(Function::Stop, 2, 1, 3).with(&Stamp::with(0, &[], 0));
    assert_eq!(stop[..13], [1, 0, 2, 1, 0, 0, 0, 0, 0, 3, 0, 12, 13]);
}

/// Returns a record's head: length, two zeros, domain, a reserved byte, number, clock.
fn header(length: u16, domain: u8, number: u16) -> Vec<u8> {
    let [a, b] = length.to_be_bytes();
    let [c, d] = number.to_be_bytes();
    // One second after the start of 1970.
    let tod = (0x7d91_048b_ca00_0000_u64 + 4_096_000_000).to_be_bytes();
    [&[a, b, 0, 0, domain, 0, c, d][..], &tod, &[0; 4]].concat()
}

fn only(bytes: &[u8]) -> Found<'_> {
    let mut records = Records::of(bytes);
    let found = records.next().expect("a record");
    assert_eq!((records.next(), records.lost()), (None, 0));
    found
}

#[test]
fn a_user_is_read_whatever_release_wrote_the_record() {
    let mut record = header(360, 4, 9);
    record.extend(bytes(
        340,
        &[
            // At offset 20 the name LINUX01, at 28 its CPU.
            (0, &[0xd3, 0xc9, 0xd5, 0xe4, 0xe7, 0xf0, 0xf1, 0x40]),
            (8, &[0, 2]),
            // At offset 32 one second, at 64 1,000 pages, at 72 600 pages, at 216 the storage.
            (12, &4_096_000_000_u64.to_be_bytes()),
            (44, &1_000_u32.to_be_bytes()),
            (52, &600_u32.to_be_bytes()),
            (196, &131_072_u32.to_be_bytes()),
        ],
    ));
    let found = only(&record);
    assert_eq!(found.at.ms(), Some(1_000));
    let Ok(Said::ActivityAtEnd(user)) = said(&found) else { panic!("a user") };
    assert_eq!(zmon::from_ebcdic(&user.user), "LINUX01");
    assert_eq!((user.cpu, user.total_time, user.resident), (2, 4_096_000_000, 1_000));
    assert_eq!((user.working_set, user.storage), (600, Some(131_072)));
    // A record that ends at 192 has no block count and no storage size, rather than 0.
    let mut short = record[..192].to_vec();
    short[..2].copy_from_slice(&192_u16.to_be_bytes());
    let Ok(Said::ActivityAtEnd(user)) = said(&only(&short)) else { panic!("a user") };
    assert_eq!((user.blocks, user.storage, user.resident), (None, None, 1_000));
    // A record that ends before a mandatory field is an error with the place.
    let mut short = record[..70].to_vec();
    short[..2].copy_from_slice(&70_u16.to_be_bytes());
    let error = said(&only(&short)).unwrap_err().to_string();
    assert_eq!(error, "ActivityAtEnd has 70 bytes and ends before locked (bytes 68 to 72)");
}

#[test]
fn an_applications_data_are_where_the_record_says() {
    let data = [9, 8, 7];
    let mut record = header(60 + 3, 10, 2);
    record.extend(bytes(
        43,
        &[
            // At offset 20 the place of the data, 60. At 22 their length, 3. At 24 the name TCPIP.
            // At 32 the id of the kernel's memory record.
            (0, &[0, 60]),
            (2, &[0, 3]),
            (4, &[0xe3, 0xc3, 0xd7, 0xc9, 0xd7, 0x40, 0x40, 0x40]),
            (12, &ProductId::of_kernel(1, "00").bytes()),
            (40, &data),
        ],
    ));
    let found = only(&record);
    let Ok(Said::Application(said)) = said(&found) else { panic!("an application") };
    assert_eq!((said.user.as_str(), said.data), ("TCPIP", &data[..]));
    assert_eq!((said.product.origin(), said.product.record), (Origin::Kernel, 1));
    // Data that would extend past the record's end are not read.
    record[22..24].copy_from_slice(&[0, 4]);
    assert!(zmon::domain::said(&only(&record)).is_err());
}

#[test]
fn invalid_record_ends_a_frame_and_its_bytes_are_counted() {
    let good = header(20, 1, 9);
    let mut records = Records::of(&[]);
    assert_eq!((records.next(), records.lost()), (None, 0));
    // End of frame: later bytes are stale.
    let frame = [good.clone(), header(20, 1, 13), vec![0xff; 40]].concat();
    let mut records = Records::of(&frame);
    assert_eq!(records.by_ref().count(), 1);
    assert_eq!(records.lost(), 0);
    for wrong in [header(19, 1, 9), header(21, 1, 9), header(20, 99, 9), vec![1; 5]] {
        let frame = [good.clone(), wrong.clone()].concat();
        let mut records = Records::of(&frame);
        assert_eq!(records.by_ref().count(), 1);
        assert_eq!(records.lost(), wrong.len());
    }
}

#[test]
fn guests_of_the_hypervisor_are_read_as_hyptop_reads_them() {
    let mut file = bytes(64, &[(0, &112_u64.to_be_bytes()), (26, &1_u64.to_be_bytes())]);
    file.extend(bytes(
        112,
        &[
            // Soft capped and dedicated; 5 s used of 60; 290,232 of 2,097,152 KiB; two CPUs.
            (4, &[0, 0, 0, 0x0a]),
            (8, &5_000_000_u64.to_be_bytes()),
            (16, &60_000_000_u64.to_be_bytes()),
            (32, &2_097_152_u64.to_be_bytes()),
            (48, &290_232_u64.to_be_bytes()),
            (68, &[0, 0, 0, 2]),
            // Samples: using 3, delay 5, page 7, idle 11, other 13, all 39.
            (80, &[0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 11, 0, 0, 0, 13, 0, 0, 0, 39]),
            (104, &[0xd3, 0xc9, 0xd5, 0xe4, 0xe7, 0xf0, 0xf1, 0x40]),
        ],
    ));
    let guests = hypfs::guests(&file).expect("one guest");
    let [guest] = &guests[..] else { panic!("{guests:?}") };
    assert_eq!((guest.name().as_str(), guest.capped(), guest.is_dedicated()), ("LINUX01", 1, true));
    assert_eq!((guest.used_us, guest.elapsed_us), (5_000_000, 60_000_000));
    assert_eq!((guest.memory_max, guest.memory_used, guest.operating), (2_097_152, 290_232, 2));
    assert_eq!((guest.using_samples, guest.delay_samples, guest.page_samples), (3, 5, 7));
    assert_eq!((guest.idle_samples, guest.other_samples, guest.all_samples), (11, 13, 39));
    assert_eq!(hypfs::guests_bytes(&guests, Tod(0)), file);
    file[26..34].copy_from_slice(&u64::MAX.to_be_bytes());
    assert!(hypfs::guests(&file).is_err());
    file[26..34].copy_from_slice(&2_u64.to_be_bytes());
    assert!(hypfs::guests(&file).is_err(), "one guest, but a count of two");
}

#[test]
fn partitions_are_read_with_their_processors() {
    let name = [0xd3, 0xd7, 0xf1, 0xf2, 0x40, 0x40, 0x40, 0x40];
    let mut file = bytes(64, &[(10, &[4])]);
    // One partition, five physical processors.
    file.extend(bytes(64, &[(0, &[1]), (4, &[0, 5])]));
    // Partition 12 with one processor, LP12.
    file.extend(bytes(96, &[(0, &[12, 1, 1]), (8, &name)]));
    // Processor 3: 2 s used, 1.5 s of them by the partition itself, online for 60 s.
    file.extend(bytes(
        96,
        &[
            (0, &[0, 3]),
            (8, &2_000_000_u64.to_be_bytes()),
            (16, &1_500_000_u64.to_be_bytes()),
            (32, &60_000_000_u64.to_be_bytes()),
        ],
    ));
    let (top, partitions) = hypfs::partitions(&file).expect("one partition");
    let [partition] = &partitions[..] else { panic!("{partitions:?}") };
    assert_eq!((top.physical, partition.name().as_str(), partition.head.number), (5, "LP12", 12));
    let cpu = &partition.cpus[0];
    assert_eq!((cpu.address, cpu.used_us, cpu.partition_us), (3, 2_000_000, 1_500_000));
    let (again, same) =
        hypfs::partitions(&hypfs::partitions_bytes(top, &partitions)).expect("same bytes");
    assert_eq!((again.physical, same), (5, partitions));
    assert!(hypfs::partitions(&file[..file.len() - 1]).is_err());
    assert_eq!(Tod::of_ms(0).map(|tod| tod.0), Some(0x7d91_048b_ca00_0000));
}

#[test]
fn sthyi_is_read_where_each_section_is() {
    let page = bytes(
        4096,
        &[
            // One hypervisor; 236 bytes in all, of which the head has 48.
            (7, &[1]),
            (8, &[0, 236]),
            (10, &[0, 48]),
            // Offsets and lengths in the oldest release. The machine is at 48 with 64 bytes, and
            // the LPAR at 112 with 56. A hypervisor is at 168 with 32 bytes, and its guest at 200
            // with 36.
            (12, &[0, 48, 0, 64]),
            (16, &[0, 112, 0, 56]),
            (20, &[0, 168, 0, 32]),
            (24, &[0, 200, 0, 36]),
            // The machine: counts and type are valid; 12 shared CPs, 0x0102 shared IFLs; 3931.
            (48 + 2, &[0xc0]),
            (48 + 4, &[0, 12]),
            (48 + 8, &[1, 2]),
            (48 + 20, &[0xf3, 0xf9, 0xf3, 0xf1]),
            // The LPAR: counts, absolute cap and name are valid; 4 shared IFLs, capped at 2.5.
            (112 + 2, &[0xb0]),
            (112 + 10, &[0, 4]),
            (112 + 16, &[0xd3, 0xd7, 0xf1, 0x40, 0x40, 0x40, 0x40, 0x40]),
            (112 + 36, &[0, 2, 0x80, 0]),
            // z/VM, of the system ZVM1, with 4 IFLs that its guests share.
            (168 + 4, &[1]),
            (168 + 8, &[0xe9, 0xe5, 0xd4, 0xf1, 0x40, 0x40, 0x40, 0x40]),
            (168 + 28, &[0, 4]),
            // The guest LNX1: 2 shared IFLs.
            (200 + 4, &[0xd3, 0xd5, 0xe7, 0xf1, 0x40, 0x40, 0x40, 0x40]),
            (200 + 24, &[0, 2]),
        ],
    );
    let info = sthyi::read(&page).expect("an answer");
    assert_eq!(info.bytes(), page);
    let mut levels = Vec::new();
    info.add_to(&mut levels);
    let told: Vec<_> =
        levels.iter().map(|level| (level.name.as_deref(), level.shared, level.cap)).collect();
    let expected = [
        (Some("3931"), Some(12 + 258), None),
        (Some("LP1"), Some(4), Some(2500)),
        (Some("ZVM1"), Some(4), None),
        (Some("LNX1"), Some(2), None),
    ];
    assert_eq!(told, expected);
    let least = zmon::sysinfo::bound(&levels).expect("a bound");
    assert_eq!((least.cpus, least.is_capped), (2000, false));
}
