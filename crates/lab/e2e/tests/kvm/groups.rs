//! Control groups (version 2) of libvirt. The limits of a guest's group also limit the guest's
//! grants.

use e2e::kvm_host::{KvmHost, LV1, MEMORY_MIB};

const PINNED_MIB: u64 = 128;

#[test]
fn a_limit_of_libvirts_group_bounds_its_guest() {
    let mut host = KvmHost::installed();
    host.has_numbers(LV1);
    let own = format!("cut -d: -f3 /proc/$(pgrep -f guest={LV1},)/cgroup");
    let group = host.sh(&format!("{own} | sed 's|^|/sys/fs/cgroup|; s|/libvirt/.*||'"));
    let group = group.trim();
    assert!(group.contains("machine.slice/machine-qemu"), "{group}");
    // The guest's group has a separate pressure file.
    host.sh(&format!("grep -q some '{group}/memory.pressure'"));
    host.sh(&format!("pinhead set {LV1} pin '{PINNED_MIB} MiB'"));
    host.has_memory(LV1, PINNED_MIB);
    // The host has gigabytes of free memory, and the group has nearly none.
    let used_kib = host.number(&format!("cat '{group}/memory.current'")) >> 10;
    host.sh(&format!("virsh -q memtune {LV1} --hard-limit {} --live", used_kib + 8192));
    host.sh(&format!("pinhead set {LV1} pin '{MEMORY_MIB} MiB'"));
    let told = host.until(&format!("pinhead why {LV1} | grep 'clause cgroup'"));
    println!("{told}");
    let has_kib = host.number(&format!("virsh dommemstat {LV1} | awk '/^actual/ {{ print $2 }}'"));
    assert!(has_kib < MEMORY_MIB << 10, "{has_kib} KiB in a group that is full");
    host.is_sound();
}
