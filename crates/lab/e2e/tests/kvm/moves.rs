//! Live migration with `virsh` from one host to another. Each host has a manager.

use e2e::kvm_host::{KvmHost, LV1};

const PINNED_MIB: u64 = 144;

#[test]
fn domain_migrated_by_virsh_is_managed_on_its_new_host() {
    let [mut left, mut right] = KvmHost::pair();
    for host in [&mut left, &mut right] {
        // Recordings contain the host's name from the manager's start.
        host.sh("systemctl restart pinhead-host");
        host.until("pinhead ps --status");
    }
    left.has_numbers(LV1);
    let sum = left.sum(LV1);
    left.sh(&format!("pinhead set {LV1} pin '{PINNED_MIB} MiB'"));
    left.has_memory(LV1, PINNED_MIB);
    left.sh(&format!(
        "virsh -q migrate --live --unsafe {LV1} qemu+tcp://host2/system tcp://10.9.0.2"
    ));
    // The domain has left the first host, and runs on the second host with its data.
    left.until(&format!("! pinhead ps | grep -q ^{LV1}"));
    right.has_numbers(LV1);
    assert_eq!(right.sum(LV1), sum, "its data");
    let told = right.until(&format!("pinhead why {LV1} | grep host1"));
    println!("{told}");
    for host in [&mut left, &mut right] {
        host.is_sound();
    }
}
