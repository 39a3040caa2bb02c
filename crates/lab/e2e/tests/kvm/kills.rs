//! Managers, keepers and libvirt's daemon under systemd. They end in the middle of their work.

use e2e::kvm_host::{KvmHost, LV1, MEMORY_MIB};

/// Number of kills, each at another moment after a command.
const KILLS: u32 = 20;
/// Memory size that an operator sets by hand.
const BY_HAND_MIB: u64 = 150;

#[test]
fn a_guest_has_its_memory_back_whatever_is_killed() {
    let mut host = KvmHost::installed();
    let sum = host.sum(LV1);
    // The unit's limit on starts is switched off, because this test kills the manager often.
    let unit = "/etc/systemd/system/pinhead-host.service.d";
    host.sh(&format!("mkdir -p {unit}"));
    host.write(&format!("{unit}/often.conf"), "[Unit]\nStartLimitIntervalSec=0\n");
    host.sh("systemctl daemon-reload");
    for kill in 0..KILLS {
        let mib = if kill % 2 == 0 { 128 } else { 160 };
        host.until(&format!("pinhead set {LV1} pin '{mib} MiB'"));
        let which = if kill % 3 == 0 { "keeper" } else { "host" };
        let at = f64::from(kill) * 0.15;
        host.sh(&format!("sleep {at:.2}; pkill -KILL -o -f '^/usr/bin/pinhead {which}'"));
        host.until("systemctl -q is-active pinhead-host && pinhead ps --status > /dev/null");
    }
    host.has_numbers(LV1);
    host.sh("systemctl restart libvirtd");
    host.has_numbers(LV1);
    host.sh("systemctl stop pinhead-host");
    host.has_memory(LV1, MEMORY_MIB);
    assert_eq!(host.sum(LV1), sum, "its data");
    host.is_sound();
}

/// Memory that an operator sets with `virsh` stays unchanged, even when the manager ends.
#[test]
fn memory_that_virsh_sets_is_left_to_it() {
    let mut host = KvmHost::installed();
    host.has_numbers(LV1);
    host.sh(&format!("virsh setmem {LV1} {BY_HAND_MIB}M --live"));
    host.has_memory(LV1, BY_HAND_MIB);
    let told = host.until(&format!("pinhead why {LV1} | grep -iE 'somebody|someone|other'"));
    println!("{told}");
    host.sh("systemctl stop pinhead-host");
    host.sh("sleep 5");
    host.has_memory(LV1, BY_HAND_MIB);
    host.is_sound();
}
