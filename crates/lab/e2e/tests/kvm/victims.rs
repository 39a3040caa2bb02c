//! Unused memory of a guest, reclaimed by three methods: by pinhead, by the kernel's reclaim of the
//! guest's group, and by DAMON. The host's kernel has MGLRU and DAMON.
//!
//! Only counts are compared, not times. `docs/benchmarks.md` has three rounds, in which the guests
//! change places.

use e2e::kvm_host::KvmHost;

/// Memory that the guest reads every few seconds, in MiB.
const HOT_MIB: u64 = 32;
/// Memory that the guest writes only once, in MiB.
const COLD_MIB: u64 = 64;
const MEMORY_MIB: u64 = 224;
const GUESTS: [&str; 3] = ["v1", "v2", "v3"];
/// Passes all memory to the kernel's reclaim, as page-out does for an idle guest.
const OURS: &str = "perl -e '$p = 0 + shift; open M, qq(/proc/$p/maps); $fd = syscall 434, $p, 0; \
    while (<M>) { next unless /^(\\w+)-(\\w+) rw-p \\w+ 00:00 0 *$/; \
    for ($at = hex $1; $at < hex $2; $at += 8 << 20) { $left = hex($2) - $at; \
    $iov = pack q(QQ), $at, $left < 8 << 20 ? $left : 8 << 20; \
    syscall 440, $fd, $iov, 1, 21, 0 } }' PID";
/// Passes only a size to the kernel, which chooses the pages.
const KERNEL: &str = "echo COLDM > /sys/fs/cgroup/GROUP/memory.reclaim";
/// Pages out memory that was not used for 10 s.
const DAMON: &str = "cd /sys/kernel/mm/damon/admin/kdamonds && echo 1 > nr_kdamonds && cd 0 && \
    echo 1 > contexts/nr_contexts && cd contexts/0 && echo vaddr > operations && \
    echo 1 > targets/nr_targets && echo PID > targets/0/pid_target && \
    echo 1 > schemes/nr_schemes && cd schemes/0 && echo pageout > action && \
    cd access_pattern && echo 4096 > sz/min && echo 1000000000000 > sz/max && \
    echo 0 > nr_accesses/min && echo 0 > nr_accesses/max && echo 100 > age/min && \
    echo 1000000000 > age/max && echo on > /sys/kernel/mm/damon/admin/kdamonds/0/state";
const DAMON_STATE: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/state";
const WAYS: [(&str, &str); 3] = [("ours", OURS), ("kernel's", KERNEL), ("DAMON's", DAMON)];
/// Time for reclaim, in seconds. DAMON observes for 10 s before it pages out memory.
const TAKING_S: u32 = 30;
/// Time in which a guest reads its hot memory several times, in seconds.
const AFTER_S: u32 = 30;

/// Returns the private memory of a guest's QEMU, in MiB.
fn held(host: &mut KvmHost, guest: &str) -> u64 {
    let rss = "awk '/^RssAnon/ { print int($2 / 1024) }' /proc/PID/status";
    host.number(&line(guest, rss))
}

fn line(guest: &str, line: &str) -> String {
    let group = "$(cut -d: -f3 /proc/PID/cgroup | sed 's|/libvirt.*||')";
    let line = line.replace("GROUP", group).replace("COLD", &COLD_MIB.to_string());
    line.replace("PID", &format!("$(pgrep -f guest={guest},)"))
}

#[test]
fn cold_memory_leaves_in_each_way_and_hot_memory_is_whole() {
    let mut host = KvmHost::installed();
    host.sh("systemctl stop pinhead-host; virsh -q destroy lv1");
    host.sh("grep -q 0x0007 /sys/kernel/mm/lru_gen/enabled");
    host.has_swap();
    let mut sums = Vec::new();
    for guest in GUESTS {
        host.domain(guest, MEMORY_MIB, &format!("cold={COLD_MIB} fill={HOT_MIB}"));
        sums.push(host.sum(guest));
    }
    let before = GUESTS.map(|guest| held(&mut host, guest));
    for (guest, (_, take)) in GUESTS.into_iter().zip(WAYS) {
        host.run(&line(guest, take));
    }
    host.sh(&format!("sleep {TAKING_S}; echo off > {DAMON_STATE}"));
    let taken = GUESTS.map(|guest| held(&mut host, guest));
    host.sh(&format!("sleep {AFTER_S}"));
    let after = GUESTS.map(|guest| held(&mut host, guest));
    for (at, (way, _)) in WAYS.iter().enumerate() {
        let (before, taken, after) = (before[at], taken[at], after[at]);
        println!("{way}: {before} MiB, taken {taken}, {AFTER_S} s later {after}");
        // DAMON finds cold pages only over time, so its result is not checked.
        let is_sure = *way != "DAMON's";
        assert!(!is_sure || after + COLD_MIB / 2 <= before, "{way}: {before}, then {after} MiB");
    }
    for (guest, sum) in GUESTS.into_iter().zip(sums) {
        assert_eq!(host.sum(guest), sum, "{guest}'s data");
    }
    host.is_sound();
}
