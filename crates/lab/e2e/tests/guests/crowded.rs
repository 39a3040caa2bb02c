//! `pinhead host` with seven small guests on a host where most memory is in use. One guest needs
//! memory from the other guests. It gets this memory, and every shrink of another guest frees
//! memory.

use e2e::manager::{Manager, Place, Size, line};
use e2e::{Guest, Host, PATIENCE, Plan};

const GUESTS: usize = 7;
/// `HAS_MIB` is the initial memory of the guest in need, and `NEED_MIB` the memory that it starts
/// to use.
const HAS_MIB: u64 = 120;
const NEED_MIB: u64 = 250;
/// Cache of each other guest. This cache is never read again.
const CACHE_MIB: u64 = 130;

#[test]
fn guest_in_need_is_served_by_six_and_no_shrink_is_in_vain() {
    let place = Place::new();
    let plans: Vec<Plan> = (0..GUESTS).map(|_| Plan::managed(place.dir())).collect();
    let host = Host::start(&plans);
    let mut guests: Vec<Guest<'_>> = (0..GUESTS).map(|index| host.guest(index)).collect();
    host.yield_to_manager();
    for guest in &mut guests[1..] {
        guest.fill_cache(CACHE_MIB);
    }
    place.balloon("g1", HAS_MIB);

    // The host has a little more free memory than the reserve, which no grant uses.
    let size = Size { set_point_mib: 48, hysteresis_mib: 8, ..Size::with_free(&host, GUESTS, 48) };
    let mut manager = Manager::start(&place, &place.settings(&size, ""));
    manager.knows(GUESTS);
    guests[0].use_memory(NEED_MIB);
    guests[0].until_used(PATIENCE);
    let took = manager.until("the guest is served", PATIENCE, |ps| {
        e2e::manager::row(ps, "g1").is_some_and(|row| {
            let bounded = row.reason.as_deref().is_some_and(|why| why.contains("bounded by host"));
            row.need_bytes.unwrap_or(0) == 0 && !bounded
        })
    });
    println!("{NEED_MIB} MiB of six neighbours: the last of it was there after {took:?}");
    assert_eq!(guests[0].oom_kills(), 0, "a task was killed");

    let shrinks = |name: &str| {
        let decisions = manager.decisions(name).into_iter();
        decisions.filter(|one| one.decision.action == "shrink").collect::<Vec<_>>()
    };
    // If this guest starts to use memory at the same time, the use hides the effect of a shrink on
    // the host.
    for one in shrinks("g1") {
        let mut inputs = one.decision.inputs.iter();
        let need = inputs.find_map(|(name, value)| (name == "need").then_some(*value));
        assert_eq!(need, Some(Some(0.0)), "shrunk in need: {}", line("g1", &one));
    }
    let (mut got, mut for_nothing) = (Vec::new(), Vec::new());
    for number in 2..=GUESTS {
        let name = format!("g{number}");
        let (mut steps, mut sum, mut lines) = (0, 0, Vec::new());
        for one in shrinks(&name) {
            let outcomes = one.outcomes.iter().filter_map(|outcome| outcome.host_got_bytes);
            let in_all: Vec<u64> = outcomes.collect();
            steps += in_all.len() as u64;
            sum += in_all.last().unwrap_or(&0) >> 20;
            lines.push(line(&name, &one));
        }
        // A guest that uses memory at the same time can hide a shrink of a few MiB, but not the
        // whole movement.
        if sum < steps {
            for_nothing.push(format!("{sum} MiB in {steps} steps:\n{}", lines.join("\n")));
        }
        got.push(sum);
    }
    println!("shrinks gave the host {got:?} MiB");
    assert!(got.iter().sum::<u64>() > NEED_MIB / 2, "{got:?}: {}", manager.journal_text());
    assert!(for_nothing.is_empty(), "for nothing:\n{}", for_nothing.join("\n"));
    manager.signal("TERM");
    manager.end(PATIENCE);
    assert!(place.replayed() > 0, "nothing moved");
}
