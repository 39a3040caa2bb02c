//! `pinhead host` with eight real guests. It wakes no sleeping guest, and serves a burst at once. A
//! guest that is stopped, has no balloon driver, or floods its port does not delay it.

use e2e::HAS_ZRAM;
use e2e::load::{nonsense, wake_ups};
use e2e::manager::{Manager, Place, Size, cpu_time, row, signal};
use e2e::{Guest, Host, PATIENCE, Plan};
use std::time::Duration;
use vm::Deadline;
use vm::images::GuestFile;

const GUESTS: usize = 8;
/// Memory of a guest before its burst. The guest's full size is 256 MiB.
const LITTLE_MIB: u64 = 128;
const BURST_MIB: u64 = 110;
/// Maximum number of wake-ups of a daemon that a shell in its guest causes, including the daemon's
/// samples afterwards. On a slower machine the number is higher.
const OF_A_SHELL: u64 = 15;

/// Two guests need a burst, and three guests hoard memory. One more guest hoards memory without a
/// balloon driver, one guest will be stopped, and one guest floods its port.
fn plans(place: &Place) -> Vec<Plan> {
    let plan = |number: usize| {
        let mut plan = Plan::holding(place.dir());
        plan.kernel_args.push(HAS_ZRAM.into());
        match number {
            6 => plan.kernel_args.push("module_blacklist=virtio_balloon".into()),
            8 => {
                plan.daemon = None;
                let bytes = nonsense();
                plan.files.push(GuestFile { path: "/etc/nonsense".into(), mode: 0o644, bytes });
            }
            _ => {}
        }
        plan
    };
    (1..=GUESTS).map(plan).collect()
}

/// Asserts that no guest is woken. The samples grow old, and the daemons do not run.
fn nobody_is_woken(manager: &Manager<'_>, host: &Host, guests: &mut [Guest<'_>]) {
    let mut woken = || -> u64 { guests.iter_mut().map(|guest| guest.number(wake_ups())).sum() };
    // Waits for `more` passes. All guests must be asleep, with samples older than `age_ms`.
    let rest = |age_ms: u64, more: u64| {
        let passes = manager.status().passes + more;
        manager.until("no guest is sampled", PATIENCE, |ps| {
            manager.status().passes >= passes
                && ps.guests.iter().all(|guest| guest.asleep && guest.age_ms > Some(age_ms))
        });
    };
    rest(2_000, 2);
    let before = woken();
    let clock = Deadline::after(PATIENCE);
    let (passes, used) = (manager.status().passes, cpu_time(manager.pid()));
    rest(18_000, 24);
    let spent = cpu_time(manager.pid()) - used;
    let (passes, took) = (manager.status().passes - passes, clock.elapsed());
    let woken = woken() - before;
    println!(
        "{passes} passes over {} sleeping guests in {took:?}: {spent:?} of CPU (in which ps was \
         asked 20 times a second), the daemons were woken {woken} times",
        host_guests(host)
    );
    // Daemons that are queried in each pass, or that sample by themselves, would wake more often
    // than this limit. The shell that counts also wakes some of the daemons.
    let bound = guests.len() as u64 * (OF_A_SHELL + passes / 4);
    assert!(woken < bound, "{woken} of {bound}");
}

fn host_guests(host: &Host) -> usize {
    (0..GUESTS).filter(|index| host.seen(*index).pid.is_some()).count()
}

/// Runs a burst in one guest, and returns the time until all of its memory is in use.
fn burst(guest: &mut Guest<'_>, limit: Duration) -> Duration {
    let clock = Deadline::after(limit);
    guest.use_memory(BURST_MIB);
    guest.until_used(limit);
    assert_eq!(guest.oom_kills(), 0, "a task was killed");
    clock.elapsed()
}

fn moved(manager: &Manager<'_>, name: &str) -> Vec<String> {
    let all = manager.decisions(name).into_iter();
    let moves = all.filter(|one| matches!(&*one.decision.action, "grow" | "shrink"));
    moves.map(|one| e2e::manager::line(name, &one)).collect()
}

#[test]
fn eight_guests_sleep_and_are_served_whatever_others_do() {
    let place = Place::new();
    let host = Host::start_alone(&plans(&place));
    let mut guests: Vec<Guest<'_>> = (0..GUESTS).map(|index| host.guest(index)).collect();
    host.yield_to_manager();
    for guest in &mut guests[2..7] {
        guest.fill_cache(150);
    }
    for name in ["g1", "g2"] {
        place.balloon(name, LITTLE_MIB);
    }
    // Duration of the burst without a shortage.
    let alone = burst(&mut guests[7], PATIENCE);

    // (b) The host has enough free memory for the burst and for the guest's further grants. Other
    // guests also use memory again that they had reported as free. On a slow machine, this use took
    // 57 MiB before the burst.
    let size = Size::with_free(&host, GUESTS, 96 + 96 + 240);
    let manager = Manager::start(&place, &place.settings(&size, ""));
    manager.knows(GUESTS - 1);
    nobody_is_woken(&manager, &host, &mut guests[..5]);
    let took = burst(&mut guests[0], Duration::from_secs(10));
    println!("a burst in one of eight: {took:?}, {alone:?} without a shortage");
    assert!(took < alone + Duration::from_secs(3));
    assert!(!moved(&manager, "g1").is_empty());
    for name in ["g2", "g3", "g4", "g5", "g6", "g7", "g8"] {
        let moves = moved(&manager, name);
        assert!(moves.is_empty(), "{name} was touched: {moves:?}");
    }
    drop(manager);

    // (d) The host has no free memory, and three guests cannot give any.
    place.balloon("g2", LITTLE_MIB);
    guests[1].use_memory(30);
    guests[1].until_used(PATIENCE);
    let size = Size::with_free(&host, GUESTS, 96);
    let manager = Manager::start(&place, &place.settings(&size, ""));
    manager.knows(GUESTS - 1);
    let stopped = host.seen(6).pid.expect("a process");
    signal(stopped, "STOP");
    let port = "/dev/virtio-ports/org.pinhead.0";
    guests[7].sh(&format!(
        "(while :; do cat /etc/nonsense; done > {port}) > /dev/null 2>&1 & echo $! > /run/flood"
    ));
    let took = burst(&mut guests[1], Duration::from_secs(10));
    println!("a burst beside a flood, a stopped one and one without a driver: {took:?}");
    manager.until("the stopped guest is reported", Duration::from_secs(30), |ps| {
        row(ps, "g7").is_some_and(|guest| guest.unusable.is_some())
    });
    assert!(!moved(&manager, "g2").is_empty());
    let given: usize = ["g3", "g4", "g5"].iter().map(|name| moved(&manager, name).len()).sum();
    assert!(given > 0, "no guest gave memory");
    signal(stopped, "CONT");
    manager.until("g7 responds again", Duration::from_secs(30), |ps| {
        row(ps, "g7").is_some_and(|guest| guest.unusable.is_none())
    });
}
