//! Total reclaimed memory. It equals the missing memory, and comes from no more guests than needed.

use crate::arbiter::{GIB, command, config, gib, guest, host, idle, of, pass, starved};
use base::Bytes;
use policy::arbiter::{
    Arbiter, Clause, Config, GuestSample, Limits, Memory, Mode, Pass, RuleVerdicts,
};

fn taken(decided: &Pass) -> Bytes {
    decided.decisions.iter().map(|d| d.command.map_or(Bytes::ZERO, |to| d.from.less(to))).sum()
}

#[test]
fn a_crumb_is_taken_from_one_guest_and_not_from_each_of_64() {
    let mut arbiter = Arbiter::new();
    let mut guests: Vec<GuestSample> = (1..=64).map(|key| idle(key, 1000)).collect();
    // A guest lacks 11 MiB of its minimum, and 10 MiB are free above the host's reserve.
    let mut short = guest(99, GIB.less(Bytes::mib(11)), Bytes::mib(500), 1000);
    short.limits.max = GIB;
    guests.push(short);
    let free = config().reserve.plus(Bytes::mib(10));
    // The host also lacks gigabytes to its set point, which are reclaimed in addition to the small
    // amount.
    let decided = pass(&mut arbiter, free, &guests, 1000);
    assert!(taken(&decided) > gib(2), "{} MiB", taken(&decided).as_mib());

    // If only a small part of a reservation is missing, one guest gives it up.
    let mut arbiter = Arbiter::new();
    assert!(arbiter.reserve(1, Bytes::mib(11), 60_000, 120_000));
    let free = config().set_point.plus(Bytes::mib(10));
    let mut stingy = config();
    stingy.reserve = stingy.set_point;
    let host = host(free, 1000);
    let mut verdicts = |_, _: &_| RuleVerdicts::default();
    let decided = arbiter.pass(&stingy, Some(&host), &guests[..64], &mut verdicts, 1000);
    let givers = decided.decisions.iter().filter(|d| d.command.is_some()).count();
    assert_eq!((givers, taken(&decided)), (1, Bytes::mib(2)));
}

/// Returns a guest that refaults at this rate, in pages a second.
fn reading(key: u64, rate: u64, at_ms: u64) -> GuestSample {
    let calm = guest(key, gib(4), gib(3), at_ms);
    let memory = calm.memory.map(|memory| Memory {
        refaults: Some(rate * at_ms / 1000),
        free: Some(Bytes::mib(64)),
        cached: Some(gib(3)),
        ..memory
    });
    GuestSample { memory, ..calm }
}

/// Runs a pass over a refaulting guest and three idle guests, with `beyond` free above the set
/// point.
fn farm(arbiter: &mut Arbiter, reader: GuestSample, beyond: Bytes, now_ms: u64) -> Pass {
    let all = [2, 3, 4].map(|key| idle(key, now_ms));
    let all = [&[reader], all.as_slice()].concat();
    pass(arbiter, config().set_point.plus(beyond), &all, now_ms)
}

#[test]
fn refaulting_guest_gets_unused_memory_of_others() {
    let mut arbiter = Arbiter::new();
    let calm = farm(&mut arbiter, reading(1, 0, 1000), Bytes::ZERO, 1000);
    assert_eq!(taken(&calm), Bytes::ZERO);
    let decided = farm(&mut arbiter, reading(1, 100, 2000), Bytes::ZERO, 2000);
    assert_eq!(command(&decided, 1), None, "the host has no surplus");
    // The reclaimed memory equals 200 pages a second for a minute, and no more guests are woken
    // than needed.
    assert_eq!(taken(&decided).as_mib(), 200 * 60 * 4 / 1024);
    let gave: Vec<Clause> =
        decided.decisions.iter().filter(|d| d.command.is_some()).map(|d| d.clause).collect();
    assert_eq!(gave, [Clause::Refault; 2]);
    // The memory has arrived, and is not spread over all guests that could use it.
    let decided = farm(&mut arbiter, reading(1, 100, 3000), Bytes::mib(47), 3000);
    assert_eq!(command(&decided, 1).map(|to| to.less(gib(4)).as_mib()), Some(100 * 60 * 4 / 1024));
    assert_eq!(of(&decided, 1).map(|d| d.clause), Some(Clause::Wish));
    assert_eq!(taken(&decided), Bytes::ZERO);
}

#[test]
fn refaulting_guest_with_free_memory_lacks_none() {
    let mut arbiter = Arbiter::new();
    for now_ms in [1000, 2000] {
        let mut reader = reading(1, 100, now_ms);
        if let Some(memory) = &mut reader.memory {
            memory.free = Some(GIB);
        }
        assert_eq!(taken(&farm(&mut arbiter, reader, Bytes::ZERO, now_ms)), Bytes::ZERO);
    }
}

#[test]
fn waiting_guest_gets_its_need_and_no_more_from_others() {
    let mut arbiter = Arbiter::new();
    // The guest waits in its second report, gets the needed memory, and refaults for a while.
    let (began, mut has, mut pages) = (gib(2), gib(2), 0);
    for second in 1..8 {
        pages += 200;
        let mut reader = GuestSample { urgent: second == 2, ..reading(1, 0, second * 1000) };
        (reader.actual, reader.resident) = (Some(has), Some(has));
        if let Some(memory) = &mut reader.memory {
            (memory.actual, memory.refaults) = (has, Some(pages));
            memory.available = Some(has.less(began).plus(Bytes::mib(200)));
        }
        let decided = farm(&mut arbiter, reader, Bytes::ZERO, second * 1000);
        has = command(&decided, 1).unwrap_or(has);
        assert_eq!(taken(&decided), Bytes::ZERO, "at {second} s");
    }
    assert!(has > began);
}

#[test]
fn refaulting_guest_without_benefit_gets_no_more_for_a_while() {
    let mut arbiter = Arbiter::new();
    let mut has = gib(2);
    // The guest refaults 200 pages a second for ten minutes, and others could give up any amount of
    // memory.
    for second in 1..600 {
        let mut reader = reading(1, 200, second * 1000);
        reader.actual = Some(has);
        reader.resident = Some(has);
        if let Some(memory) = &mut reader.memory {
            memory.actual = has;
            memory.available = Some(GIB);
        }
        let decided = farm(&mut arbiter, reader, Bytes::mib(600), second * 1000);
        has = command(&decided, 1).unwrap_or(has);
    }
    assert!(has > gib(2).plus(Bytes::mib(512)) && has < gib(3), "{} MiB", has.as_mib());
}

#[test]
fn grant_for_another_reason_is_no_trial_for_refaults() {
    let mut arbiter = Arbiter::new();
    let mut decide = |has: Bytes, available: Bytes, refaults, beyond: Bytes, second: u64| {
        let mut one = reading(1, 0, second * 1000);
        (one.actual, one.resident) = (Some(has), Some(has));
        if let Some(memory) = &mut one.memory {
            (memory.actual, memory.available) = (has, Some(available));
            (memory.active_file, memory.refaults) = (Some(Bytes::ZERO), Some(refaults));
        }
        let decided = farm(&mut arbiter, one, beyond, second * 1000);
        command(&decided, 1).unwrap_or(has)
    };
    // The guest has little available memory, and a host with a surplus grants it an additional half
    // of its size. A few occasional refaults show no lack of memory.
    let (mut has, mut second, mut pages) = (gib(2), 0, 0);
    while has < gib(3) {
        (second, pages) = (second + 1, pages + 10);
        let beyond = config().hysteresis.plus(Bytes::mib(600));
        has = decide(has, Bytes::mib(400), pages, beyond, second);
        assert!(second < 60, "{} MiB", has.as_mib());
    }
    // Then the guest begins to refault, on a host without a surplus for wishes.
    let before = has;
    for _ in 0..4 {
        (second, pages) = (second + 1, pages + 100);
        has = decide(has, GIB, pages, config().hysteresis, second);
    }
    assert!(has > before);
}

#[test]
fn beyond_its_share_nobody_gives_for_what_a_guest_reads_again() {
    // With the tax, memory in use has a quarter of the price of idle memory; without it, the same
    // price.
    for (idle_tax_permille, gives) in [(750, true), (0, false)] {
        let config = Config { idle_tax_permille, ..config() };
        let mut arbiter = Arbiter::new();
        for now_ms in [1000, 2000] {
            let both = [reading(1, 100, now_ms), idle(2, now_ms)];
            let host = host(config.set_point, now_ms);
            let mut verdicts = |_, _: &_| RuleVerdicts::default();
            let decided = arbiter.pass(&config, Some(&host), &both, &mut verdicts, now_ms);
            assert_eq!(command(&decided, 2).is_some(), gives && now_ms == 2000);
        }
    }
}

#[test]
fn cache_of_a_guest_that_reads_it_again_is_taken_last() {
    let lacking = config().set_point.less(Bytes::mib(700));
    for (rate, given) in [(0, true), (100, false)] {
        let mut arbiter = Arbiter::new();
        for now_ms in [1000, 2000] {
            let all = [2, 3, 4].map(|key| idle(key, now_ms));
            let all = [&[reading(1, rate, now_ms)], all.as_slice()].concat();
            // The first pass measures the rate, on a host with enough memory.
            let free = if now_ms == 1000 { config().set_point } else { lacking };
            let decided = pass(&mut arbiter, free, &all, now_ms);
            if now_ms == 2000 {
                assert!(command(&decided, 2).is_some());
                assert_eq!(command(&decided, 1).is_some(), given, "at {rate} a second");
            }
        }
    }
    // The cache is not reclaimed either if another guest can only give up one step at once.
    let mut arbiter = Arbiter::new();
    for now_ms in [1000, 2000] {
        let free = if now_ms == 1000 { config().set_point } else { config().set_point.less(GIB) };
        let decided = pass(&mut arbiter, free, &[reading(1, 100, now_ms), idle(2, now_ms)], now_ms);
        assert_eq!(command(&decided, 1), None);
        assert_eq!(command(&decided, 2).is_some(), now_ms == 2000);
    }
    // Without other donors the guest still shrinks.
    let mut arbiter = Arbiter::new();
    for now_ms in [1000, 2000] {
        let free = if now_ms == 1000 { config().set_point } else { lacking };
        let decided = pass(&mut arbiter, free, &[reading(1, 100, now_ms)], now_ms);
        assert_eq!(command(&decided, 1).is_some(), now_ms == 2000);
    }
}

#[test]
fn coming_memory_is_taken_off_once() {
    let mut arbiter = Arbiter::new();
    // The host lacks 2 GiB, and its guests can give up half of that at once.
    let free = config().set_point.less(gib(2));
    let first = pass(&mut arbiter, free, &[idle(1, 1000), idle(2, 1000)], 1000);
    let coming = taken(&first);
    assert_eq!(coming, GIB);
    // While that memory is being returned, a third guest needs more than is free above the reserve.
    let free = config().reserve.plus(Bytes::mib(8));
    let moving = [idle(1, 1100), idle(2, 1100)];
    let needy = starved(3, GIB, 1100);
    let rest = [idle(4, 1100), idle(5, 1100), idle(6, 1100), idle(7, 1100), idle(8, 1100)];
    let all: Vec<GuestSample> = moving.into_iter().chain([needy]).chain(rest).collect();
    let decided = pass(&mut arbiter, free, &all, 1100);
    let need = of(&decided, 3).and_then(|d| d.inputs.need).unwrap_or_default();
    let lack = config().set_point.less(free.plus(coming));
    assert_eq!(taken(&decided), lack.plus(need).less(Bytes::mib(8)));
}

#[test]
fn a_reservation_counts_what_this_pass_takes_for_another_reason() {
    let mut arbiter = Arbiter::new();
    assert!(arbiter.reserve(1, gib(5), 60_000, 120_000));
    let pinned = GuestSample {
        limits: Limits { max: gib(16), mode: Mode::Pinned(gib(12)), ..idle(1, 1000).limits },
        ..guest(1, gib(16), gib(15), 1000)
    };
    // The host lacks 3 GiB for the reservation and its own reserve, and the guest gives up 4 GiB.
    let free = config().reserve.plus(gib(2));
    let config = Config { set_point: config().reserve, ..config() };
    let mut verdicts = |_, _: &_| RuleVerdicts::default();
    let all = [pinned, idle(2, 1000)];
    let decided = arbiter.pass(&config, Some(&host(free, 1000)), &all, &mut verdicts, 1000);
    assert_eq!((command(&decided, 1), command(&decided, 2)), (Some(gib(12)), None));
}

#[test]
fn burst_is_served_in_one_step_from_the_host_surplus() {
    let grown = |free: Bytes, guests: &[GuestSample]| -> Vec<u64> {
        let decided = pass(&mut Arbiter::new(), free, guests, 1000);
        let to = |guest: &GuestSample| command(&decided, guest.key.0).map_or(0, Bytes::as_mib);
        guests.iter().map(to).collect()
    };
    let wants = config().set_point.plus(config().hysteresis);
    let one = [starved(1, gib(2), 1000)];
    // A burst gets all of the surplus, but never exceeds its maximum.
    assert_eq!(grown(wants.plus(gib(20)), &one), [8192]);
    assert_eq!(grown(wants.plus(Bytes::mib(1024)), &one), [2048 + 1024]);
    // The need is a quarter of the guest's size, and may also use memory below the set point.
    assert_eq!(grown(wants, &one), [2048 + 512]);
    // A small surplus is divided by shares.
    let two = [one[0], starved(2, gib(2), 1000)];
    assert_eq!(grown(wants.plus(Bytes::mib(2048)), &two), [2048 + 1024; 2]);
    // Another guest's request is met before there is any surplus.
    let asks = GuestSample { request: Some(gib(6)), asks: true, ..guest(2, gib(4), gib(3), 1000) };
    assert_eq!(grown(wants.plus(Bytes::mib(2048)), &[one[0], asks]), [2048 + 512, 6144]);
}
