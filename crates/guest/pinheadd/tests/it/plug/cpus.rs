//! Tests of plugging and unplugging the CPUs of a fake kernel.

use pinheadd::plug::{CpuSet, Cpus, Error, Polarization, PresentCpus};
use procfs::testing::FakeKernel;

fn set(cpus: &[u32]) -> CpuSet {
    cpus.iter().copied().collect()
}

#[test]
fn the_lowest_offline_cpu_is_plugged_until_there_is_none() {
    let kernel = FakeKernel::new(2, 12);
    let cpus = Cpus::new(&kernel.root());
    // CPUs are plugged in the order of their numbers: cpu2 before cpu10.
    for expect in 2..12 {
        assert_eq!(cpus.plug_one().unwrap(), Some(expect));
        kernel.settle();
        assert_eq!(cpus.online().unwrap().len(), expect as usize + 1);
    }
    assert_eq!(cpus.plug_one().unwrap(), None);
}

#[test]
fn the_highest_online_cpu_is_unplugged_and_one_always_stays() {
    let kernel = FakeKernel::s390x(3, 4, 0);
    let cpus = Cpus::new(&kernel.root());
    for expect in [Some(2), Some(1), None, None] {
        assert_eq!(cpus.unplug_one().unwrap(), expect);
        kernel.settle();
    }
    assert_eq!(kernel.online(), [0]);
}

#[test]
fn a_cpu_without_an_online_file_is_left_alone() {
    let kernel = FakeKernel::new(3, 3);
    let cpus = Cpus::new(&kernel.root());
    kernel.remove("sys/devices/system/cpu/cpu2/online");
    assert_eq!(cpus.unplug_one().unwrap(), Some(1));
    kernel.settle();
    assert_eq!(cpus.unplug_one().unwrap(), None, "cpu0 and cpu2 cannot go");
    assert_eq!(kernel.online(), [0, 2]);
}

#[test]
fn a_cpu_that_is_not_configured_is_not_plugged() {
    let kernel = FakeKernel::s390x(1, 4, 0);
    let cpus = Cpus::new(&kernel.root());
    kernel.write_cpu(1, "configure", "0\n");
    assert_eq!(cpus.plug_one().unwrap(), Some(2));
    kernel.write_cpu(3, "configure", "0\n");
    assert_eq!(cpus.plug_one().unwrap(), None);
    // A CPU without this file need not be configured.
    kernel.remove("sys/devices/system/cpu/cpu1/configure");
    assert_eq!(cpus.plug_one().unwrap(), Some(1));
}

#[test]
fn a_cpu_that_fails_does_not_stop_the_next() {
    let kernel = FakeKernel::new(2, 4);
    let cpus = Cpus::new(&kernel.root());
    kernel.break_file("sys/devices/system/cpu/cpu2/online");
    assert_eq!(cpus.plug_one().unwrap(), Some(3));
    // Only the broken CPU is left, so the call fails.
    let error = cpus.plug_one().unwrap_err();
    let path = kernel.path("sys/devices/system/cpu/cpu2/online");
    assert!(error.to_string().ends_with(&path.display().to_string()), "{error}");
    kernel.write_cpu(1, "online", "on\n");
    kernel.write("sys/devices/system/cpu/online", "0-3\n");
    assert_eq!(cpus.unplug_one().unwrap(), Some(3));
    kernel.write("sys/devices/system/cpu/online", "0-2\n");
    assert!(matches!(cpus.unplug_one(), Err(Error::Read { .. })), "cpu2 is met first");
    kernel.write("sys/devices/system/cpu/online", "0-1\n");
    assert!(matches!(cpus.unplug_one(), Err(Error::Malformed { .. })));
}

#[test]
fn without_the_lists_nothing_is_touched() {
    let kernel = FakeKernel::new(2, 4);
    let cpus = Cpus::new(&kernel.root());
    kernel.write("sys/devices/system/cpu/present", "all\n");
    let error = cpus.plug_one().unwrap_err();
    let expect = kernel.path("sys/devices/system/cpu/present").display().to_string();
    assert_eq!(error.to_string(), format!("{expect} is no list of CPUs"));
    kernel.remove("sys/devices/system/cpu/online");
    assert!(matches!(cpus.unplug_one(), Err(Error::Read { .. })));
    assert_eq!(cpus.restore(&set(&[0])).len(), 1);
    assert_eq!(kernel.read("sys/devices/system/cpu/cpu1/online"), "1\n");
}

#[test]
fn exactly_the_set_that_was_is_restored() {
    let kernel = FakeKernel::s390x(4, 6, 0);
    let cpus = Cpus::new(&kernel.root());
    for (wanted, expect) in
        [(&[0, 5][..], &[0, 5][..]), (&[1, 2], &[1, 2]), (&[0, 1, 2, 3, 4, 5], &[0, 1, 2, 3, 4, 5])]
    {
        let errors = cpus.restore(&set(wanted));
        assert!(errors.is_empty(), "{errors:?}");
        kernel.settle();
        assert_eq!(kernel.online(), expect);
        assert_eq!(cpus.online().unwrap(), set(wanted));
    }
}

#[test]
fn cpu_that_fails_to_restore_is_an_error_and_others_restore() {
    let kernel = FakeKernel::s390x(3, 6, 0);
    let cpus = Cpus::new(&kernel.root());
    kernel.break_file("sys/devices/system/cpu/cpu1/online");
    kernel.break_file("sys/devices/system/cpu/cpu4/online");
    // cpu9 has left the machine. cpu1 cannot go offline, and cpu4 cannot be brought online.
    let errors = cpus.restore(&set(&[0, 3, 4, 9]));
    let file = |cpu: u32| kernel.path(&format!("sys/devices/system/cpu/cpu{cpu}/online"));
    assert_eq!(errors.len(), 3);
    for (error, cpu) in errors.iter().zip([4, 9, 1]) {
        assert!(error.to_string().ends_with(&file(cpu).display().to_string()), "{error}");
    }
    assert_eq!(kernel.read("sys/devices/system/cpu/cpu3/online"), "1\n");
    assert_eq!(kernel.read("sys/devices/system/cpu/cpu2/online"), "0\n");
    assert!(!file(9).exists(), "a write makes no file");
}

#[test]
fn a_restore_never_takes_the_last_cpu() {
    let kernel = FakeKernel::s390x(2, 2, 0);
    let cpus = Cpus::new(&kernel.root());
    let errors = cpus.restore(&set(&[7]));
    assert!(matches!(errors[..], [Error::Write { .. }, Error::LastCpu { cpu: 0 }]), "{errors:?}");
    assert_eq!(kernel.online(), [0]);
}

#[test]
fn polarization_is_known_or_forbids_to_plug() {
    let kernel = FakeKernel::new(1, 2);
    let cpus = Cpus::new(&kernel.root());
    assert_eq!(cpus.polarization(), Polarization::None);
    let file = "sys/devices/system/cpu/dispatching";
    for (text, expect, allows) in [
        ("0\n", Polarization::Horizontal, true),
        ("1\n", Polarization::Vertical, false),
        ("2\n", Polarization::Unknown, false),
        ("", Polarization::Unknown, false),
    ] {
        kernel.write(file, text);
        assert_eq!(cpus.polarization(), expect, "{text:?}");
        assert_eq!(cpus.polarization().allows_plugging(), allows, "{text:?}");
    }
    kernel.break_file(file);
    assert_eq!(cpus.polarization(), Polarization::Unknown);
}

#[test]
fn report_g05_cpus_that_are_not_configured_are_named() {
    let kernel = FakeKernel::s390x(1, 4, 0);
    let cpus = Cpus::new(&kernel.root());
    assert_eq!((cpus.usable().unwrap(), cpus.why_no_plug()), (set(&[0, 1, 2, 3]), None));
    (1..4).for_each(|cpu| kernel.write_cpu(cpu, "configure", "0\n"));
    assert_eq!(cpus.usable().unwrap(), set(&[0]));
    let why = "3 CPUs are present and not configured (chcpu --configure 1-3)";
    assert_eq!(cpus.why_no_plug().as_deref(), Some(why));
    kernel.write_cpu(2, "configure", "1\n");
    kernel.write_cpu(2, "online", "1\n");
    kernel.settle();
    assert_eq!(cpus.usable().unwrap(), set(&[0, 2]));
    assert!(cpus.why_no_plug().is_some_and(|why| why.starts_with("2 CPUs are present")));
    assert_eq!(cpus.why_no_unplug(), None);
}

#[test]
fn report_g05_a_kernel_that_cannot_plug_says_so() {
    let kernel = FakeKernel::new(3, 3);
    let cpus = Cpus::new(&kernel.root());
    (1..3).for_each(|cpu| kernel.remove(&format!("sys/devices/system/cpu/cpu{cpu}/online")));
    kernel.write("sys/devices/system/cpu/online", "0-1\n");
    assert_eq!(cpus.usable().unwrap(), set(&[0, 1]));
    let why = Some("no CPU of this guest can be changed".to_owned());
    assert_eq!((cpus.why_no_plug(), cpus.why_no_unplug()), (why.clone(), why));
    // In a captured tree with only the lists of CPUs, every CPU counts as changeable.
    (0..3).for_each(|cpu| kernel.remove(&format!("sys/devices/system/cpu/cpu{cpu}")));
    assert_eq!((cpus.why_no_plug(), cpus.why_no_unplug()), (None, None));
}

#[test]
fn report_g11_isolated_cpus_are_neither_plugged_nor_unplugged() {
    let kernel = FakeKernel::s390x(4, 6, 0);
    let cpus = Cpus::new(&kernel.root());
    kernel.write("sys/devices/system/cpu/isolated", "2-3\n");
    kernel.write("sys/devices/system/cpu/nohz_full", "3-4\n");
    assert_eq!(cpus.isolated(), set(&[2, 3, 4]));
    assert_eq!(cpus.unplug_one().unwrap(), Some(1));
    kernel.settle();
    // cpu0 is the last CPU for ordinary work.
    assert_eq!(cpus.unplug_one().unwrap(), None);
    let why = "no CPU but the isolated ones (2-4) can be changed";
    assert_eq!(cpus.why_no_unplug().as_deref(), Some(why));
    for expect in [Some(1), Some(5), None] {
        assert_eq!(cpus.plug_one().unwrap(), expect);
        kernel.settle();
    }
    assert_eq!(kernel.online(), [0, 1, 2, 3, 5]);
    // A kernel without isolated CPUs has an empty list, or no valid list.
    kernel.write("sys/devices/system/cpu/isolated", "\n");
    kernel.write("sys/devices/system/cpu/nohz_full", "(null)\n");
    assert!(cpus.isolated().is_empty());
}

#[test]
fn present_cpus_are_those_of_the_last_good_look() {
    const FILE: &str = "sys/devices/system/cpu/present";
    let kernel = FakeKernel::new(2, 4);
    let mut present = PresentCpus::open(&kernel.root()).unwrap();
    assert_eq!(present.cpus(), &set(&[0, 1, 2, 3]));
    kernel.write(FILE, "0-5\n");
    present.renew().unwrap();
    assert_eq!(present.cpus().len(), 6);
    kernel.write(FILE, "many\n");
    assert!(matches!(present.renew(), Err(Error::Malformed { path, .. }) if path.ends_with(FILE)));
    assert_eq!(present.cpus().len(), 6);
    kernel.remove(FILE);
    assert!(matches!(PresentCpus::open(&kernel.root()), Err(Error::Read { .. })));
    kernel.write(FILE, "\n");
    let mut present = PresentCpus::open(&kernel.root()).unwrap();
    assert_eq!(present.cpus().len(), 0);
    // The list is longer than the buffer of one call, and changes only at its end.
    let every_other = |count: u32| {
        let numbers: Vec<String> = (0..count).map(|number| (2 * number).to_string()).collect();
        format!("{}\n", numbers.join(","))
    };
    for count in [200, 201, 150] {
        kernel.write(FILE, &every_other(count));
        present.renew().unwrap();
        assert_eq!(present.cpus().len(), count as usize);
    }
}
