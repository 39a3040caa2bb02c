//! What else has a say.

use std::os::unix::fs::symlink;

use counters::Pages;
use plug::{Conflict, conflicts};
use procfs::testing::FakeKernel;

const OWN: u32 = 77;

fn found(kernel: &FakeKernel) -> Vec<Conflict> {
    conflicts(&kernel.root(), OWN)
}

#[test]
fn a_plain_guest_has_none() {
    let kernel = FakeKernel::s390x(2, 4, 0);
    kernel.add_process(1, "systemd", "/sbin/init", "0-3");
    kernel.add_process(OWN, "pinheadd", "pinheadd", "0");
    // Threads of the kernel are pinned by the hundred.
    kernel.add_process(20, "ksoftirqd/1", "", "1");
    // A cpuset that the kernel narrowed to what is online, with offline CPUs that
    // the machine may get one day.
    kernel.add_process(30, "sshd", "sshd", "0-1");
    kernel.add_process(31, "sshd", "sshd", "0-63");
    assert_eq!(found(&kernel), []);
}

#[test]
fn a_pinned_process_is_told_and_its_name_is_escaped() {
    let kernel = FakeKernel::new(2, 4);
    kernel.add_process(40, "evil\x1b[2J", "x", "1");
    let told = found(&kernel);
    let cpus = [1].into_iter().collect();
    assert_eq!(told, [Conflict::PinnedTask { pid: 40, name: "evil\x1b[2J".into(), cpus }]);
    let text = told[0].to_string();
    assert!(text.starts_with("Process 40 (evil\\u{1b}[2J) is pinned to CPUs 1:"), "{text}");
}

#[test]
fn many_pinned_processes_are_counted() {
    let kernel = FakeKernel::new(2, 4);
    for pid in 100..130 {
        kernel.add_process(pid, "worker", "worker", "0");
    }
    let told = found(&kernel);
    assert_eq!((told.len(), &told[16]), (17, &Conflict::MorePinnedTasks { count: 14 }));
    assert!(matches!(told[0], Conflict::PinnedTask { pid: 100, .. }));
}

#[test]
fn a_process_that_makes_no_sense_or_ended_is_passed_over() {
    let kernel = FakeKernel::new(2, 4);
    kernel.add_process(40, "a", "a", "none");
    kernel.write("proc/41/status", "");
    kernel.write("proc/42/other", "");
    kernel.write("proc/99999999999/status", "Name:\tcpuplugd\nCpus_allowed_list:\t0\n");
    kernel.break_file("proc/43/status");
    assert_eq!(found(&kernel), []);
}

#[test]
fn another_manager_is_told_and_we_ourselves_are_not() {
    let kernel = FakeKernel::new(2, 4);
    kernel.add_process(OWN, "pinheadd", "pinheadd", "0-3");
    kernel.add_process(50, "cpuplugd", "cpuplugd -c x", "0-3");
    kernel.add_process(51, "pinheadd", "pinheadd", "0");
    let told = found(&kernel);
    let expect = |pid, name: &str| Conflict::OtherManager { pid, name: name.into() };
    assert_eq!(told, [expect(50, "cpuplugd"), expect(51, "pinheadd")]);
    assert!(told[0].to_string().contains("stop one of the two"));
}

#[test]
fn groups_of_the_new_hierarchy_are_told_when_they_have_cpus() {
    let kernel = FakeKernel::new(2, 4);
    let base = "sys/fs/cgroup";
    kernel.write(&format!("{base}/cpuset.cpus"), "0-1\n");
    kernel.write(&format!("{base}/a.slice/cpuset.cpus"), "\n");
    kernel.write(&format!("{base}/a.slice/b/cpuset.cpus"), "0-1\n");
    kernel.write(&format!("{base}/a.slice/b/c/cpuset.cpus"), "1\n");
    kernel.write(&format!("{base}/a.slice/b/c/d/cpuset.cpus"), "1\n");
    symlink(kernel.path(base), kernel.path(&format!("{base}/loop"))).unwrap();
    assert_eq!(found(&kernel), [], "nothing says that this is a hierarchy");
    kernel.write(&format!("{base}/cgroup.controllers"), "cpuset cpu memory\n");
    let expect = |group: &str, cpus: &str| Conflict::Cpuset {
        group: group.into(),
        cpus: cpus.into(),
        is_v1: false,
    };
    let told = found(&kernel);
    let near = "sys/fs/cgroup/a.slice/b";
    // What lies deeper than three is not looked for.
    assert_eq!(told, [expect(near, "0-1"), expect("sys/fs/cgroup/a.slice/b/c", "1")]);
    let text = told[0].to_string();
    assert!(
        text.starts_with("The cgroup /sys/fs/cgroup/a.slice/b is limited to CPUs 0-1"),
        "{text}"
    );
    assert!(text.contains("cpu.weight"));
}

#[test]
fn groups_of_the_old_hierarchy_are_told_when_they_differ_from_its_root() {
    let kernel = FakeKernel::new(2, 4);
    let base = "sys/fs/cgroup/cpuset";
    kernel.write(&format!("{base}/cpuset.cpus"), "0-1\n");
    kernel.write(&format!("{base}/same/cpuset.cpus"), "0-1\n");
    kernel.write(&format!("{base}/unset/cpuset.cpus"), "\n");
    kernel.write(&format!("{base}/db/cpuset.cpus"), "1\n");
    let told = found(&kernel);
    let group = "sys/fs/cgroup/cpuset/db".into();
    assert_eq!(told, [Conflict::Cpuset { group, cpus: "1".into(), is_v1: true }]);
    assert!(told[0].to_string().contains("for good"));
    for n in 0..20 {
        kernel.write(&format!("{base}/x{n}/cpuset.cpus"), "1\n");
    }
    assert_eq!(found(&kernel).last(), Some(&Conflict::MoreCpusets { count: 5 }));
}

#[test]
fn other_owners_of_the_pool_are_told() {
    let kernel = FakeKernel::s390x(1, 1, 0);
    kernel.write("proc/sys/vm/cmm_timed_pages", "12\n");
    kernel.write("sys/module/cmm/parameters/sender", "VMRMSVM\n");
    // The name is there under every hypervisor; only z/VM delivers.
    kernel.write("proc/sysinfo", "VM00 Control Program: KVM/Linux\n");
    assert_eq!(found(&kernel), [Conflict::CmmTimedPages { pages: Pages(12) }]);
    kernel.write("proc/sysinfo", "VM00 Control Program: z/VM    7.3.0\n");
    kernel.write("proc/sys/vm/cmm_timed_pages", "0\n");
    let told = found(&kernel);
    assert_eq!(told, [Conflict::CmmSender { sender: "VMRMSVM".into() }]);
    assert!(told[0].to_string().contains("z/VM guest VMRMSVM"));
}

#[test]
fn every_find_is_a_sentence() {
    let all = [
        Conflict::MorePinnedTasks { count: 3 },
        Conflict::MoreCpusets { count: 3 },
        Conflict::CmmTimedPages { pages: Pages(3) },
        Conflict::CmmSender { sender: "X".into() },
        Conflict::OtherManager { pid: 3, name: "cpuplugd".into() },
    ];
    for conflict in all {
        let text = conflict.to_string();
        assert!(text.ends_with('.') && !text.contains("  "), "{text}");
    }
}
