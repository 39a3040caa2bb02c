//! Memory of guests under KVM. Each page has an owner, and reclaimed memory comes back intact.

use e2e::kvm_host::{FILLED_MIB, KvmHost, LV1, MEMORY_MIB};

const PINNED_MIB: u64 = 128;

/// Returns the private memory of a guest's QEMU, in MiB.
fn resident_mib(host: &mut KvmHost, guest: &str) -> u64 {
    let line = "awk '/^RssAnon/ { print int($2 / 1024) }' /proc/$(pgrep -f guest=GUEST,)/status";
    host.number(&line.replace("GUEST", guest))
}

/// Pages that the guest reports as free have left its QEMU through KVM, so a balloon over these
/// pages frees nothing more. The guest keeps its data.
#[test]
fn a_balloon_gives_the_host_what_the_guest_gives() {
    let mut host = KvmHost::installed();
    let sum = host.sum(LV1);
    let before = resident_mib(&mut host, LV1);
    host.sh(&format!("pinhead set {LV1} pin '{PINNED_MIB} MiB'"));
    host.has_memory(LV1, PINNED_MIB);
    let after = resident_mib(&mut host, LV1);
    println!("resident {before} MiB, and {after} MiB with {PINNED_MIB} of {MEMORY_MIB} MiB");
    assert!(after <= before + 4, "{before} and then {after} MiB");
    assert!(after < MEMORY_MIB, "{after} MiB: its free memory belongs to the host");
    host.sh("pinhead ps | grep -E '^page reporting: [1-9]'");
    assert_eq!(host.sum(LV1), sum, "its data with less memory");
    host.sh("systemctl stop pinhead-host");
    host.has_memory(LV1, MEMORY_MIB);
    assert_eq!(host.sum(LV1), sum, "its data");
    host.is_sound();
}

/// Memory of a parked guest goes to the host's swap through KVM, and the guest's virtual CPU does
/// not run. After waking, the guest's clock is right and its data is intact.
#[test]
fn a_parked_guest_is_paged_out_and_wakes_whole() {
    let mut host = KvmHost::installed();
    host.has_swap();
    host.sh(&format!("virsh -q destroy {LV1}"));
    host.write("/srv/farm.toml", "[[class]]\nname = \"g\"\ncount = 1\nmemory = \"160 MiB\"\n");
    host.spawn("up", "pinhead up --no-manager /srv/farm.toml");
    let fill = format!("dd if=/dev/urandom of=/dev/shm/own bs=1M count={FILLED_MIB} 2> /dev/null");
    host.until(&format!("pinhead exec g1 -- sh -c '{fill}'"));
    assert!(!host.sh("cat /srv/up.log").contains("emulat"), "it runs on KVM");
    let sum = host.sh("pinhead exec g1 -- md5sum /dev/shm/own");
    let full = resident_mib(&mut host, "g1");
    host.sh("pinhead park g1");
    host.until("awk '/^VmSwap/ { exit $2 < 24000 }' /proc/$(pgrep -f guest=g1,)/status");
    let parked = resident_mib(&mut host, "g1");
    println!("resident {full} MiB at work, {parked} MiB parked");
    assert!(parked + FILLED_MIB / 2 <= full, "{full} and then {parked} MiB");
    let before = host.guest_ticks("g1");
    assert!(before > 0, "the guest has run");
    host.sh("sleep 20");
    assert_eq!(host.guest_ticks("g1"), before, "guest time of a parked guest");
    host.sh("pinhead wake g1");
    let times = host.sh("pinhead exec g1 -- date +%s; date +%s");
    let times: Vec<i64> = times.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let [guest, here] = times[..] else { panic!("{times:?}") };
    assert!((guest - here).abs() <= 2, "{guest} in the guest, {here} on the host");
    assert_eq!(host.sh("pinhead exec g1 -- md5sum /dev/shm/own"), sum);
    host.sh("swapoff /swap");
    assert_eq!(host.sh("pinhead exec g1 -- md5sum /dev/shm/own"), sum);
    host.is_sound();
}

/// The parts of the host's memory add up to the total within 1 %. The guests' parts match the
/// kernel's counts.
#[test]
fn the_owners_of_memory_sum_to_the_hosts() {
    let mut host = KvmHost::installed();
    host.has_numbers(LV1);
    let line = host.until("pinhead ps | grep ^used:");
    let (all, parts) = line.trim_start_matches("used:").split_once('=').unwrap_or_default();
    let last = |part: &str| -> f64 {
        let word = part.split_whitespace().filter_map(|word| word.parse().ok()).next_back();
        word.unwrap_or_else(|| panic!("no number in {part:?} of {line}"))
    };
    let (all, sum) = (last(all), parts.split('+').map(last).sum::<f64>());
    println!("{line}");
    // Each part is rounded.
    assert!((all - sum).abs() * 100.0 <= all + 400.0, "{sum} of {all} MiB: {line}");
    // The manager's numbers are some seconds old.
    let walk = "awk '/^Rss:/ { print int($2 / 1024) }' /proc/$(pgrep -f guest=GUEST,)/smaps_rollup";
    let counted = "pinhead ps | awk '/^used:/ { print $6 + $10 + $15 }'";
    let near = "rss=$(WALK); all=$(COUNTED); echo $rss $all; \
                [ $((20 * (rss - all))) -le $rss ] && [ $((20 * (all - rss))) -le $rss ]";
    let near = near.replace("WALK", &walk.replace("GUEST", LV1)).replace("COUNTED", counted);
    println!("by the kernel and by the manager, in MiB: {}", host.until(&near));
    host.is_sound();
}
