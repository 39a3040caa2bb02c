//! A process that poses as a starving guest of 64 GiB, next to a real guest, under `pinhead host`.

use base::Bytes;
use e2e::manager::{Manager, Place, Size, wait_until};
use e2e::{Host, PATIENCE, Plan};
use hypervisor::{Claim, Stranger};
use store::Decided;

const CLAIMED_MIB: u64 = 65_536;
const HAS_MIB: u64 = 10;
/// `TOUCHED_MIB` is the cache that the real guest could spare, and `FREE_MIB` the host's free
/// memory.
const TOUCHED_MIB: u64 = 200;
const FREE_MIB: u64 = 200;
/// Number of the manager's passes that are observed.
const PASSES: u64 = 25;
/// Minimum memory reclaimed from the real guest before the manager is killed.
const TAKEN_MIB: u64 = 20;

#[test]
fn finding_04_fake_guest_takes_no_memory_from_real_guest() {
    let place = Place::new();
    let host = Host::start(&[Plan::managed(place.dir())]);
    let mut real = host.guest(0);
    host.yield_to_manager();
    real.fill_cache(TOUCHED_MIB);
    // The fake belongs to the manager's own user. Only its false reports distinguish it from a
    // guest.
    let mut fakes = Stranger::of_ours(place.dir());
    let claim = Claim {
        name: "fake".into(),
        uuid: "00000000-0000-0000-0000-00000000fa4e".into(),
        memory: Bytes::mib(CLAIMED_MIB),
        port: place.dir().join("fake.port"),
        need: true,
    };
    fakes.claim("fake.qmp", &claim).expect("a monitor");
    // The fake reports that a balloon has taken nearly all of its memory.
    place.balloon("fake", HAS_MIB);

    let size = Size::with_free(&host, 1, FREE_MIB);
    let manager = Manager::start(&place, &place.settings(&size, ""));
    manager.until("both are there", PATIENCE, |ps| ps.guests.len() == 2);
    manager.knows(2);
    let passes = manager.status().passes;
    assert!(wait_until(PATIENCE, || manager.status().passes >= passes + PASSES).is_some());
    // Shrinks caused by the host's memory pressure do not count, because other programs may cause
    // this pressure.
    let is_for_fake =
        |one: &Decided| one.decision.action == "shrink" && one.decision.clause != "host-pressure";
    let shrinks = manager.decisions("g1").iter().filter(|one| is_for_fake(one)).count();
    assert_eq!(shrinks, 0, "the guest was shrunk for the fake: {}", manager.journal_text());

    // A user reserves more memory than is free, and the manager is killed.
    let free = manager.ps().host.available_bytes.expect("a host's memory") >> 20;
    let wanted = free - size.reserve_mib + 3 * TAKEN_MIB;
    manager.command(&["reserve", &wanted.to_string(), "--timeout", "20"]);
    let taken = wait_until(PATIENCE, || real.balloon_mib() >= TAKEN_MIB);
    assert!(taken.is_some(), "{}", manager.journal_text());
    let taken = real.balloon_mib();
    manager.signal("KILL");
    let took = wait_until(PATIENCE, || real.balloon_mib() == 0);
    println!("{taken} MiB were back after {took:?}");
    assert!(
        took.is_some(),
        "{} MiB are missing: {}\n{}",
        real.balloon_mib(),
        manager.log(),
        manager.journal_text()
    );
}
