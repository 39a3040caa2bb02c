//! `pinhead host` moves memory between real guests, and returns it in whatever way the manager
//! ends.

use e2e::manager::{Manager, Place, Size, wait_until};
use e2e::{Guest, Host, MANAGED_MIB, PATIENCE, Plan};
use std::time::Duration;
use vm::Deadline;

/// Memory of the guest that will be starved.
const STARVED_MIB: u64 = 160;

/// Ends the manager while memory is moving, by a signal that cannot be caught. The guests must have
/// all memory back within 30 s.
fn end_in_mid_move(mut manager: Manager<'_>, name: &str, guests: &mut [Guest<'_>]) {
    manager.until("memory moves", PATIENCE, |ps| {
        let all = || ps.guests.iter();
        all().any(|guest| guest.actual_bytes < Some(guest.memory_bytes - (24 << 20)))
            && all().any(|guest| guest.target_bytes < guest.actual_bytes)
    });
    manager.signal(name);
    let clock = Deadline::after(Duration::from_secs(30));
    let taken: u64 = guests.iter_mut().map(Guest::balloon_mib).sum();
    let all_back = || guests.iter_mut().all(|guest| guest.balloon_mib() == 0);
    let took = wait_until(Duration::from_secs(30), all_back).map(|_| clock.elapsed());
    println!("SIG{name} in mid-move: {taken} MiB of 3 guests were back after {took:?}");
    assert!(took.is_some_and(|took| took < Duration::from_secs(30)), "{}", manager.log());
    // A manager that was only stopped has been killed by the keeper.
    manager.end(Duration::from_secs(5));
}

/// Returns the clauses that caused an action on a guest.
fn clauses(manager: &Manager<'_>, name: &str, action: &str) -> Vec<String> {
    let all = manager.decisions(name).into_iter();
    let of = all.filter(|one| one.decision.action == action);
    of.map(|one| one.decision.clause.into_owned()).collect()
}

#[test]
fn a_hoarder_gives_to_the_starved_and_a_kill_gives_all_back() {
    let place = Place::new();
    let small = Plan { memory_mib: 128, restored: false, ..Plan::managed(place.dir()) };
    let host = Host::start(&[Plan::managed(place.dir()), Plan::managed(place.dir()), small]);
    let mut guests = [host.guest(0), host.guest(1), host.guest(2)];
    host.yield_to_manager();
    let [hoarder, starved, _] = &mut guests;
    hoarder.fill_cache(300);
    place.balloon("g2", STARVED_MIB);
    starved.use_memory(60);
    starved.until_used(e2e::PATIENCE);
    assert_eq!(starved.balloon_mib(), MANAGED_MIB - STARVED_MIB);

    // (a) The host is exactly at its set point.
    let size = Size::with_free(&host, 3, 96);
    let manager = Manager::start(&place, &place.settings(&size, ""));
    manager.knows(3);
    let need = 140;
    let clock = Deadline::after(e2e::PATIENCE);
    starved.use_memory(need);
    // The step takes a few seconds on an idle machine, and longer while other tests run.
    starved.until_used(PATIENCE);
    println!("hoarder to starved: {need} MiB more were in use after {:?}", clock.elapsed());
    assert!(starved.in_use_mib() >= 60 + need);
    for guest in &mut guests {
        assert_eq!(guest.oom_kills(), 0, "a task was killed");
    }
    assert!(clauses(&manager, "g2", "grow").contains(&"need".into()));
    // The clause depends on timing, because free memory may cover the need for a moment longer.
    let gave = clauses(&manager, "g1", "shrink");
    let because = ["shortage", "refault", "setpoint", "emergency"];
    assert!(!gave.is_empty() && gave.iter().all(|c| because.contains(&c.as_str())), "{gave:?}");
    assert!(clauses(&manager, "g2", "shrink").is_empty(), "the starved one was shrunk");
    drop(manager);
    // The starved guest was small when the manager found it. It must have at least that size again.
    // It may keep more memory.
    let all_back = || [0, 2].iter().all(|place| guests[*place].balloon_mib() == 0);
    let took = wait_until(PATIENCE, all_back);
    println!("SIGTERM: all memory was back after {took:?}");
    assert!(took.is_some());
    let small = guests[1].balloon_mib();
    assert!((1..=MANAGED_MIB - STARVED_MIB).contains(&small), "{small} MiB");
    assert!(place.replayed() > 0, "nothing moved");
    place.balloon("g2", MANAGED_MIB);
    wait_until(PATIENCE, || guests[1].balloon_mib() == 0).expect("the guest has all of its memory");

    // (c) The host lacks much memory.
    for name in ["KILL", "STOP"] {
        let size = Size::with_free(&host, 3, 0);
        let manager = Manager::start(&place, &place.settings(&size, ""));
        end_in_mid_move(manager, name, &mut guests);
    }
}
