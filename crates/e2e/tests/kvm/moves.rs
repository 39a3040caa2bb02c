//! A live migration by `virsh` from one host to another, each with a manager.

use e2e::kvm_host::{KvmHost, LV1};

const PINNED_MIB: u64 = 144;

#[test]
fn a_domain_that_virsh_moves_is_managed_where_it_comes_to() {
    let [mut left, mut right] = KvmHost::pair();
    for host in [&mut left, &mut right] {
        // Its recordings have the name of the host as it is when it starts.
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
    // It is gone here, and there with the data that it had.
    left.until(&format!("! pinhead ps | grep -q ^{LV1}"));
    right.has_numbers(LV1);
    assert_eq!(right.sum(LV1), sum, "its data");
    let told = right.until(&format!("pinhead why {LV1} | grep host1"));
    println!("{told}");
    for host in [&mut left, &mut right] {
        host.is_sound();
    }
}
