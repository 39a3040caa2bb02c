//! Packages under systemd, and guests that are managed without settings.

use e2e::kvm_host::{KvmHost, LV1};

/// With the package's defaults and `act = true`, a plain QEMU, a libvirt domain and a farm of three
/// guests are managed. All of them use KVM. The monitor of the plain QEMU is at the manager's
/// default path.
#[test]
fn guests_of_all_kinds_are_managed_with_no_setting() {
    let mut host = KvmHost::installed();
    host.plain_qemu("plain", "-m 160M", "");
    host.spawn("up", "pinhead up --guests 3 --cpus 1 --memory 160");
    for guest in [LV1, "plain", "g1", "g2", "g3"] {
        host.has_numbers(guest);
    }
    let threads = "cat /proc/$(pgrep -n -f guest=g3)/task/*/comm";
    assert!(host.sh(threads).contains("/KVM"), "a virtual CPU of KVM");
    let both = "systemctl is-active pinhead-host libvirtd";
    assert_eq!(host.sh(both).trim(), "active\nactive");
    host.is_sound();
}

/// Four guests with two CPUs each boot with KVM, next to two busy loops on the host's two CPUs. A
/// console without output for a long time is no reason to switch to emulation.
#[test]
fn four_guests_of_two_cpus_use_kvm_on_a_busy_host() {
    let mut host = KvmHost::installed();
    for loops in ["loop1", "loop2"] {
        host.spawn(loops, "while :; do :; done");
    }
    host.sh(&format!("virsh -q destroy {LV1}"));
    host.spawn("up", "pinhead up --guests 4 --cpus 2 --memory 160");
    for guest in ["g1", "g2", "g3", "g4"] {
        host.until(&format!("grep -E '^{guest} +managed' /srv/up.log"));
    }
    assert!(!host.sh("cat /srv/up.log").contains("emulat"));
    assert_eq!(host.number("pgrep -c -f 'accel[ ]kvm'"), 4);
    host.is_sound();
}
