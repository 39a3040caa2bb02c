//! A guest that misbehaves on its port harms neither the host nor the other guests.

use e2e::{Guest, Host, PATIENCE, Plan};
use vm::Deadline;
use vm::images::{Arch, GuestFile};
use wire::{Decoder, Hello, PoolKind, PoolRequest, Status, ToHost};

const PORT: &str = "/dev/virtio-ports/org.pinhead.0";
/// Bytes that the host reads from a port: at once, and per second after that.
const BURST: u64 = 256 * 1024;
const BYTES_A_SECOND: u64 = 32 * 1024;

fn nonsense() -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..200_u32 {
        let hello = Hello {
            boot_id: [0xFF; 16],
            cpus_present: u32::MAX,
            update_ms: 0,
            pool: PoolKind::Host,
            reply: false,
            version: "\x1b[2J".into(),
        };
        let status = Status {
            sequence: n,
            cpus_online: u32::MAX,
            pool_pages: u64::MAX,
            plugs: u32::MAX,
            settled: true,
            reason: "\x1b]0;owned\x07".into(),
            ..Status::default()
        };
        let request = PoolRequest { sequence: n, pages: u64::MAX };
        for message in [ToHost::Hello(hello), ToHost::Status(status), ToHost::PoolRequest(request)]
        {
            wire::encode(&message, &mut bytes);
        }
    }
    bytes
}

/// Asserts that the neighbour is served during the attacks of the other guest.
fn is_served(neighbour: &mut Guest<'_>) {
    neighbour.until("the neighbour has one CPU", PATIENCE, |s| s.cpus_online == 1);
    neighbour.sh("(while :; do :; done) > /dev/null 2>&1 & echo $! > /run/busy");
    neighbour.until("the neighbour gets a CPU", PATIENCE, |s| s.cpus_online > 1);
    neighbour.sh("kill $(cat /run/busy)");
}

#[test]
fn garbage_floods_and_silence_harm_no_other_guest() {
    let mut hostile = Plan::new(Arch::X86_64, "");
    hostile.daemon = None;
    hostile.cpus = 1;
    hostile.files.push(GuestFile { path: "/etc/nonsense".into(), mode: 0o644, bytes: nonsense() });
    let good = Plan::new(Arch::X86_64, "-f -c /etc/pinhead.conf --pace fixed");
    let host = Host::start(&[hostile, good]);
    let mut guest = host.guest(0);
    let mut neighbour = host.guest(1);
    neighbour.until("the neighbour is up", PATIENCE, |s| s.cpus_present == 4);
    let total = guest.number("awk '/^MemTotal/ {print $2}' /proc/meminfo");

    // The guest never reads the host's responses. Unread responses fill up to 4 MiB of the guest's
    // own memory. The attack with frames that must arrive therefore comes first.
    for attack in [
        format!("while :; do cat /etc/nonsense; done > {PORT}"),
        format!("exec cat /dev/urandom > {PORT}"),
        format!("exec yes $(printf \"\\235\\036\") > {PORT}"),
    ] {
        let (before, began) = (host.seen(0).misbehaviour, neighbour.seen().host_cpu);
        let clock = Deadline::after(PATIENCE);
        guest.sh(&format!("sh -c '{attack}' > /dev/null 2>&1 & echo $! > /run/attack"));
        host.until(0, "a flood is noticed", PATIENCE, |s| s.misbehaviour.1 > before.1);
        is_served(&mut neighbour);
        if attack.contains("nonsense") {
            host.until(0, "its frames are received", PATIENCE, |s| s.status.is_some());
        }
        let (lasted, spent) = (clock.elapsed(), neighbour.seen().host_cpu - began);
        let read = host.seen(0).misbehaviour.0 - before.0;
        println!("{attack}: {read} bytes, {spent:?} of the host's CPU in {lasted:?}");
        assert!(read <= BURST + BYTES_A_SECOND * (lasted.as_secs() + 1), "{read} in {lasted:?}");
        // Only one program at a time can open the port.
        guest.sh("kill $(cat /run/attack) $(pidof cat yes) 2> /dev/null; true");
        let free = format!("(: > {PORT}) 2> /dev/null && echo free");
        guest.until_sh(&format!("{free} || true"), PATIENCE, |text| text == "free");
    }

    // False values in the attacker's reports were limited to possible values.
    let tally = host.seen(0).tally;
    assert_eq!(tally.cpus_online, Some((1, 1)), "it has one CPU, whatever it reports");
    assert!(tally.pool_pages_max <= 256 * 256, "more pages than it has: {tally:?}");
    // The guest requested that all of its memory be taken. It kept its minimum, and it still runs.
    assert_eq!(guest.number("awk '/^MemTotal/ {print $2}' /proc/meminfo"), total);
    // Linux 6.12 and later report no available memory here, but still run programs.
    let available_kib = guest.number("awk '/^MemAvailable/ {print $2}' /proc/meminfo");
    println!("{available_kib} KiB available in its floor");
    guest.sh("cat /proc/meminfo | sort | grep -q MemTotal");
}

/// The frames must be well formed, because garbage would prove nothing here.
#[test]
fn frames_of_the_attack_are_well_formed() {
    let mut decoder = Decoder::<ToHost>::new();
    decoder.feed(&nonsense());
    assert_eq!(std::iter::from_fn(|| decoder.next()).count(), 600);
}
