//! The daemon's main task in real guests: CPUs and memory follow the rules.

use e2e::{Guest, Host, PATIENCE, Plan};
use std::time::Duration;
use vm::images::Arch;

const ALONE: &str = "-f -c /etc/pinhead.conf --pace fixed";

/// Shell command that keeps one CPU busy with an empty loop.
const BUSY: &str = "(while :; do :; done) > /dev/null 2>&1 & echo $! >> /run/busy;";

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Returns the default preset with one change: a CPU is added when the other CPUs have no idle
/// time. The published rule counts interrupt time as spare. In an emulated guest on a busy host,
/// interrupt time exceeds the rule's limit of 8 % of a CPU. The published rule would then never
/// request a third CPU.
fn rules_by_idle_time() -> String {
    let rules = Plan::new(Arch::X86_64, ALONE).rules;
    let ours = rules.replace("(1 - CP_ActiveAVG) * onumcpus", "CP_idleAVG * onumcpus");
    assert_ne!(ours, rules, "the preset has a rule to replace");
    ours
}

fn cpus_follow_the_load(arch: Arch) {
    let plan = Plan { rules: rules_by_idle_time(), ..Plan::new(arch, ALONE) };
    let host = Host::start(&[plan]);
    let mut guest = host.guest(0);
    guest.until("the daemon sees four CPUs", PATIENCE, |s| s.cpus_present == 4);
    // The number of samples during the boot depends on the host.
    guest.until("idle: one CPU", PATIENCE, |s| s.cpus_online == 1);
    // The shell's own work may make the rules add a CPU for some samples.
    guest.until_sh("grep -c ^cpu[0-9] /proc/stat", PATIENCE, |count| count == "1");

    // Each step uses averages of four samples, and the sample in which a CPU is added is partly
    // idle.
    guest.sh(&BUSY.repeat(3));
    let up = guest.until_looked("three busy loops: three CPUs", 9, |s| s.cpus_online >= 3);
    assert_ne!(guest.sh("grep -c ^cpu[0-9] /proc/stat").trim(), "1");

    guest.sh("kill $(cat /run/busy)");
    let idle = guest.until_looked("idle again: one CPU", 15, |s| s.cpus_online == 1);
    println!("{}, in looks: up {up}, down again {idle}", arch.name());
}

#[test]
fn x86_64_cpus_follow_the_load() {
    cpus_follow_the_load(Arch::X86_64);
}

#[test]
fn s390x_cpus_follow_the_load() {
    cpus_follow_the_load(Arch::S390x);
}

/// Checks that the pool grows while the guest is idle, and that a task gets the memory that it
/// needs.
fn memory_follows_the_need(arch: Arch, pool_of: fn(&mut Guest<'_>) -> u64) {
    let host = Host::start(&[Plan::new(arch, ALONE)]);
    let mut guest = host.guest(0);
    let total = guest.number("awk '/^MemTotal/ {print $2}' /proc/meminfo");
    guest.until("idle: most of the guest is in the pool", PATIENCE, |s| {
        s.pool_pages * 4 > total * 6 / 10
    });
    let pool = pool_of(&mut guest);
    assert!(pool * 4 > total / 2, "the guest's own count is {pool} pages of {total} KiB");
    assert_eq!(
        guest.number("awk '/^MemTotal/ {print $2}' /proc/meminfo"),
        total,
        "a pool does not change MemTotal"
    );

    // The file in memory takes a third of the guest's size, which is more than its free memory.
    let mib = total / 1024 / 3;
    guest.sh(&format!("dd if=/dev/zero of=/dev/shm/touched bs=1M count={mib}"));
    guest.until("the daemon reports it", seconds(10), |s| s.shrinks > 0);
    assert!(pool_of(&mut guest) < pool, "the pool has shrunk from {pool} pages");
    let killed = guest.sh("dmesg | grep -ci 'out of memory\\|oom-kill' || true");
    assert_eq!(killed.trim(), "0", "no task was killed for memory");
}

#[test]
fn x86_64_memory_follows_the_need() {
    memory_follows_the_need(Arch::X86_64, |guest| {
        guest.number(
            "awk '/^balloon_inflate/ {i=$2} /^balloon_deflate/ {d=$2} END {print i-d}' \
             /proc/vmstat",
        )
    });
}

#[test]
fn s390x_memory_follows_the_need() {
    memory_follows_the_need(Arch::S390x, |guest| guest.number("cat /proc/sys/vm/cmm_pages"));
}

/// Like any other CPU, cpu0 is unplugged and plugged if the kernel can take it offline.
#[test]
fn s390x_cpu0_can_go_offline() {
    let plan = Plan { rules: rules_by_idle_time(), ..Plan::new(Arch::S390x, ALONE) };
    let host = Host::start(&[plan]);
    let mut guest = host.guest(0);
    guest.until("idle: one CPU", PATIENCE, |s| s.cpus_online == 1);
    assert_eq!(guest.sh("cat /sys/devices/system/cpu/cpu0/online").trim(), "1");
    // The daemon unplugs the CPU with the highest number. With cpu3 online and cpu0 offline, it
    // must still do so.
    guest.sh("echo 1 > /sys/devices/system/cpu/cpu3/online");
    guest.sh("echo 0 > /sys/devices/system/cpu/cpu0/online");
    guest.sh(&BUSY.repeat(3));
    guest.until("three busy loops: three CPUs", PATIENCE, |s| s.cpus_online >= 3);
    assert_eq!(
        guest.sh("cat /sys/devices/system/cpu/cpu0/online").trim(),
        "1",
        "cpu0 is the first to come back"
    );
}
