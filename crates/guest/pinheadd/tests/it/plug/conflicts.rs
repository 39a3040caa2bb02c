//! Tests of the search for other programs that change the CPUs or the pool.

use std::os::unix::fs::symlink;

use pinheadd::plug::conflicts;
use procfs::testing::FakeKernel;

const OWN: u32 = 77;

fn found(kernel: &FakeKernel) -> Vec<String> {
    let found = conflicts(&kernel.root(), OWN);
    for text in &found {
        assert!(text.ends_with('.') && !text.contains("  "), "{text}");
    }
    found
}

/// Checks that the conflicts found begin with exactly these texts.
fn check(kernel: &FakeKernel, expected: &[&str]) {
    let found = found(kernel);
    let begins = found.iter().zip(expected).all(|(text, expected)| text.starts_with(expected));
    assert!(begins && found.len() == expected.len(), "{found:?}");
}

#[test]
fn a_plain_guest_has_none() {
    let kernel = FakeKernel::s390x(2, 4, 0);
    kernel.add_process(1, "systemd", "/sbin/init", "0-3");
    kernel.add_process(OWN, "pinheadd", "pinheadd", "0");
    // Kernel threads are pinned by the hundred.
    kernel.add_process(20, "ksoftirqd/1", "", "1");
    // The kernel narrowed the first process's cpuset to the CPUs online. The second process may
    // also use CPUs that the machine does not have yet.
    kernel.add_process(30, "sshd", "sshd", "0-1");
    kernel.add_process(31, "sshd", "sshd", "0-63");
    check(&kernel, &[]);
}

#[test]
fn a_pinned_process_is_found_and_its_name_is_escaped() {
    let kernel = FakeKernel::new(2, 4);
    kernel.add_process(40, "evil\x1b[2J", "x", "1");
    check(&kernel, &["Process 40 (evil\\u{1b}[2J) is pinned to CPUs 1:"]);
}

#[test]
fn many_pinned_processes_are_counted() {
    let kernel = FakeKernel::new(2, 4);
    for pid in 100..130 {
        kernel.add_process(pid, "worker", "worker", "0");
    }
    let found = found(&kernel);
    assert_eq!((found.len(), found[16].as_str()), (17, "14 more processes are pinned to CPUs."));
    assert!(found[0].starts_with("Process 100 (worker) is pinned"));
}

#[test]
fn a_process_that_makes_no_sense_or_ended_is_passed_over() {
    let kernel = FakeKernel::new(2, 4);
    kernel.add_process(40, "a", "a", "none");
    kernel.write("proc/41/status", "");
    kernel.write("proc/42/other", "");
    kernel.write("proc/99999999999/status", "Name:\tcpuplugd\nCpus_allowed_list:\t0\n");
    kernel.break_file("proc/43/status");
    check(&kernel, &[]);
}

#[test]
fn another_manager_is_found_and_this_process_is_not() {
    let kernel = FakeKernel::new(2, 4);
    kernel.add_process(OWN, "pinheadd", "pinheadd", "0-3");
    kernel.add_process(50, "cpuplugd", "cpuplugd -c x", "0-3");
    kernel.add_process(51, "pinheadd", "pinheadd", "0");
    check(
        &kernel,
        &["Process 50 (cpuplugd) also plugs CPUs", "Process 51 (pinheadd) also plugs CPUs"],
    );
    assert!(found(&kernel)[0].contains("stop it, or stop pinheadd"));
}

#[test]
fn groups_of_the_new_hierarchy_are_found_when_they_have_cpus() {
    let kernel = FakeKernel::new(2, 4);
    let base = "sys/fs/cgroup";
    kernel.write(&format!("{base}/cpuset.cpus"), "0-1\n");
    kernel.write(&format!("{base}/a.slice/cpuset.cpus"), "\n");
    kernel.write(&format!("{base}/a.slice/b/cpuset.cpus"), "0-1\n");
    kernel.write(&format!("{base}/a.slice/b/c/cpuset.cpus"), "1\n");
    kernel.write(&format!("{base}/a.slice/b/c/d/cpuset.cpus"), "1\n");
    symlink(kernel.path(base), kernel.path(&format!("{base}/loop"))).unwrap();
    // Without the marker file, the directory is not a hierarchy of cgroups.
    check(&kernel, &[]);
    kernel.write(&format!("{base}/cgroup.controllers"), "cpuset cpu memory\n");
    // Groups deeper than three levels are not searched.
    check(
        &kernel,
        &[
            "The cgroup /sys/fs/cgroup/a.slice/b is limited to CPUs 0-1: it cannot use other CPUs",
            "The cgroup /sys/fs/cgroup/a.slice/b/c is limited to CPUs 1: it cannot use other CPUs",
        ],
    );
    assert!(found(&kernel)[0].contains("cpu.weight"));
}

#[test]
fn old_hierarchys_groups_are_found_when_they_differ_from_root() {
    let kernel = FakeKernel::new(2, 4);
    let base = "sys/fs/cgroup/cpuset";
    kernel.write(&format!("{base}/cpuset.cpus"), "0-1\n");
    kernel.write(&format!("{base}/same/cpuset.cpus"), "0-1\n");
    kernel.write(&format!("{base}/unset/cpuset.cpus"), "\n");
    kernel.write(&format!("{base}/db/cpuset.cpus"), "1\n");
    check(&kernel, &["The cgroup /sys/fs/cgroup/cpuset/db is limited to CPUs 1: a cgroup of"]);
    assert!(found(&kernel)[0].contains("for good"));
    for n in 0..20 {
        kernel.write(&format!("{base}/x{n}/cpuset.cpus"), "1\n");
    }
    let found = found(&kernel);
    assert_eq!(found.last().map(String::as_str), Some("5 more cgroups are limited to CPUs."));
}

#[test]
fn other_owners_of_the_pool_are_found() {
    let kernel = FakeKernel::s390x(1, 1, 0);
    kernel.write("proc/sys/vm/cmm_timed_pages", "12\n");
    kernel.write("sys/module/cmm/parameters/sender", "VMRMSVM\n");
    // The kernel module names a sender under every hypervisor, but only z/VM delivers messages.
    kernel.write("proc/sysinfo", "VM00 Control Program: KVM/Linux\n");
    check(&kernel, &["CMM holds 12 pages on a timer"]);
    kernel.write("proc/sysinfo", "VM00 Control Program: z/VM    7.3.0\n");
    kernel.write("proc/sys/vm/cmm_timed_pages", "0\n");
    check(&kernel, &["The kernel's CMM takes the pool's size from the z/VM guest VMRMSVM:"]);
}

#[test]
fn report_g11_isolated_cpus_are_one_sentence_and_pin_nobody() {
    let kernel = FakeKernel::new(4, 4);
    kernel.write("sys/devices/system/cpu/isolated", "2-3\n");
    for pid in 1..=25 {
        kernel.add_process(pid, "service", "service", "0-1");
    }
    kernel.add_process(90, "control", "control", "3");
    check(&kernel, &["CPUs 2-3 are isolated"]);
    // A process that may not use all CPUs for ordinary work still counts as pinned.
    kernel.add_process(91, "worker", "worker", "1-2");
    check(&kernel, &["CPUs 2-3 are isolated", "Process 91 (worker) is pinned to CPUs 1-2"]);
}
