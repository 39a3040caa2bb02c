use super::*;
use crate::sysinfo::{bound, levels};
use crate::text::to_ebcdic;

fn head() -> Head {
    Head {
        hypervisors: 1,
        length: 280,
        head_length: 48,
        machine: 48,
        machine_length: 64,
        lpar: 112,
        lpar_length: 56,
        hypervisor_1: 168,
        hypervisor_1_length: 48,
        guest_1: 216,
        guest_1_length: 64,
        ..Head::default()
    }
}

fn info() -> Info {
    let machine = Machine {
        valid: MACHINE_CPUS | MACHINE_ID,
        shared_cp: 4,
        dedicated_ifl: 6,
        kind: [0xf8, 0xf5, 0xf6, 0xf1],
        ..Machine::default()
    };
    let lpar = Lpar {
        valid: LPAR_CPUS | LPAR_ID | LPAR_CAP | LPAR_WEIGHT,
        shared_cp: 4,
        shared_ifl: 2,
        name: to_ebcdic("LP12"),
        // Caps of 3.5 and of 3 out of 4: the lower cap counts. The 2 IFLs are not capped.
        weight_cap_cp: 0x3_8000,
        cap_cp: 0x3_0000,
        ..Lpar::default()
    };
    let hypervisor = Hypervisor {
        name: to_ebcdic("ZVMSYS"),
        shared_cp: 4,
        shared_ifl: 2,
        ..Hypervisor::default()
    };
    let guest = Guest {
        name: to_ebcdic("LINUX01"),
        shared_cp: 4,
        cap_cp: 0x1_8000,
        pool_flags: Some(0),
        pool: Some([0x40; 8]),
        pool_cap_cp: Some(0),
        pool_cap_ifl: Some(0),
        ..Guest::default()
    };
    Info {
        head: head(),
        machine: Some(machine),
        lpar: Some(lpar),
        above: vec![(Some(hypervisor), Some(guest))],
    }
}

#[test]
fn sthyi_answer_is_read_back_as_written() {
    assert_eq!(read(&info().bytes()), Ok(info()));
    // Guests of an older release have no pool.
    let mut older = info();
    older.head.guest_1_length = 36;
    let read = read(&older.bytes()).expect("an answer");
    let guest = read.above[0].1.as_ref().expect("a guest");
    assert_eq!((guest.cap_cp, guest.pool_cap_cp), (0x1_8000, None));
}

#[test]
fn empty_section_before_a_hypervisor_moves_no_other() {
    let mut info = info();
    info.head.hypervisor_2 = info.head.hypervisor_1;
    info.head.hypervisor_2_length = info.head.hypervisor_1_length;
    info.head.guest_2 = info.head.guest_1;
    info.head.guest_2_length = info.head.guest_1_length;
    (info.head.hypervisor_1_length, info.head.guest_1_length) = (0, 0);
    assert_eq!(read(&info.bytes()), Ok(info));
}

#[test]
fn a_section_behind_the_end_is_an_error_and_no_section_is_none() {
    let bytes = info().bytes();
    assert!(read(&bytes[..200]).is_err(), "the hypervisor is cut");
    assert!(read(&bytes[..20]).is_err(), "the head is cut");
    let alone = Info { head: Head { length: 48, ..Head::default() }, ..Info::default() };
    assert_eq!(read(&alone.bytes()), Ok(alone));
}

#[test]
fn the_levels_of_sysinfo_get_what_they_lack_and_a_cap_bounds() {
    let mut chain = levels(
        "Type: 8561\nCPUs Total: 34\nLPAR Name: LP12\nLPAR CPUs Configured: 6\n\
         VM00 Name: LINUX01\nVM00 Control Program: z/VM    7.3.0\nVM00 CPUs Configured: 4\n",
    );
    info().add_to(&mut chain);
    let names: Vec<_> = chain.iter().map(|one| (one.what.as_str(), one.name.as_deref())).collect();
    let expected = [
        ("machine", Some("8561")),
        ("LPAR", Some("LP12")),
        ("hypervisor", Some("ZVMSYS")),
        ("z/VM 7.3.0", Some("LINUX01")),
    ];
    assert_eq!(names, expected);
    assert_eq!((chain[0].shared, chain[0].dedicated, chain[0].cap), (Some(4), Some(6), None));
    // 3 CPs and 2 IFLs.
    assert_eq!((chain[1].configured, chain[1].cap), (Some(6), Some(5000)));
    assert_eq!((chain[3].shared, chain[3].cap), (Some(4), Some(1500)));
    let least = bound(&chain).expect("a bound");
    assert_eq!(
        (least.level.name.as_deref(), least.cpus, least.is_capped),
        (Some("LINUX01"), 1500, true)
    );
    // Without /proc/sysinfo the chain is that of STHYI.
    let mut alone = Vec::new();
    info().add_to(&mut alone);
    let names: Vec<_> = alone.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(names, ["machine", "LPAR", "hypervisor", "guest"]);
    assert_eq!(alone[0].name.as_deref(), Some("8561"));
}

/// Returns the levels without /proc/sysinfo: kind, name and cap of each level.
fn alone(info: &Info) -> Vec<(String, Option<String>, Option<u64>)> {
    let mut levels = Vec::new();
    info.add_to(&mut levels);
    levels.into_iter().map(|level| (level.what, level.name, level.cap)).collect()
}

#[test]
fn report_g01_a_machines_linux_cpus_count_with_its_general_ones() {
    let mut chain = levels("CPUs Configured: 0\nLPAR Name: LP12\nLPAR CPUs Configured: 12\n");
    let machine = Machine { valid: MACHINE_CPUS, shared_ifl: 8, ..Machine::default() };
    Info { machine: Some(machine), ..Info::default() }.add_to(&mut chain);
    assert_eq!((chain[0].configured, chain[0].is_general_only), (Some(8), false));
    let least = bound(&chain).expect("a bound");
    assert_eq!((least.level.what.as_str(), least.cpus), ("machine", 8000));
}

#[test]
fn report_g02_a_group_of_lpars_bounds_its_members() {
    let mut info = info();
    let lpar = info.lpar.as_mut().expect("an LPAR");
    lpar.group = to_ebcdic("GRP1");
    (lpar.group_cap_cp, lpar.group_cap_ifl) = (0x1_0000, 0x5_0000);
    assert!(alone(&info).iter().all(|level| level.0 != "LPAR group"), "the group is not valid");
    info.lpar.as_mut().expect("an LPAR").valid |= LPAR_GROUP;
    // 1 of 4 CPs, and both IFLs.
    let group = ("LPAR group".to_owned(), Some("GRP1".to_owned()), Some(3000));
    assert_eq!(alone(&info)[1], group);
    // With IFLs only, the group's cap is reported unchanged, although the LPAR has fewer CPUs.
    info.lpar.as_mut().expect("an LPAR").shared_cp = 0;
    assert_eq!(alone(&info)[1].2, Some(5000));
}

#[test]
fn report_g02_a_pool_of_cpus_bounds_its_guests() {
    let mut info = info();
    let guest = info.above[0].1.as_mut().expect("a guest");
    guest.pool = Some(to_ebcdic("POOL1"));
    guest.pool_cap_cp = Some(0x1_4000);
    let found = alone(&info);
    assert_eq!(found[3], ("pool".to_owned(), Some("POOL1".to_owned()), Some(1250)));
    let mut chain = levels("VM00 Name: LINUX01\nVM00 Control Program: z/VM    7.3.0\n");
    info.add_to(&mut chain);
    let least = bound(&chain).expect("a bound");
    assert_eq!((least.level.name.as_deref(), least.cpus), (Some("POOL1"), 1250));
    let at = |what| chain.iter().position(|level| level.what == what);
    assert!(at("hypervisor") < at("pool") && at("pool") < at("z/VM 7.3.0"), "{chain:?}");
}

#[test]
fn report_g03_caps_and_counts_of_cores_become_those_of_threads() {
    let mut info = info();
    let hypervisor = info.above[0].0.as_mut().expect("a hypervisor");
    (hypervisor.flags, hypervisor.threads_cp, hypervisor.threads_ifl) = (HYPERVISOR_THREADS, 1, 2);
    let mut chain = Vec::new();
    info.add_to(&mut chain);
    let threads: Vec<_> = chain.iter().map(|level| level.threads).collect();
    assert_eq!(threads, [Some(2), Some(2), Some(2), None]);
    let least = |at| bound(std::slice::from_ref(&chain[at])).expect("a bound").cpus;
    // 10 cores; 5 of 6 cores, by the cap; 6 cores; and 4 CPUs, which are threads, with a cap of 1.5
    // cores.
    assert_eq!([0, 1, 2, 3].map(least), [20_000, 10_000, 12_000, 3_000]);
}

#[test]
fn report_g04_a_page_of_zeros_is_no_answer() {
    assert_eq!(read(&[0; PAGE_BYTES]), Err(Error::Empty { record: "STHYI" }));
    assert_eq!(read(&[]), Err(Error::Empty { record: "STHYI" }));
}
