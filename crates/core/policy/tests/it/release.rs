//! Releases of balloons, and free memory that kernels report by themselves.

use crate::arbiter::{command, config, gib, guest, of, pass};
use base::Bytes;
use policy::arbiter::{Action, Arbiter, Clause, GuestSample, Memory, Process};

/// Returns a guest of 4 of 8 GiB that uses 3 GiB, with this much free memory.
fn with_free(free: Bytes, now_ms: u64) -> GuestSample {
    let guest = guest(1, gib(4), gib(1), now_ms);
    let memory = guest.memory.map(|memory| Memory { free: Some(free), ..memory });
    GuestSample { memory, ..guest }
}

#[test]
fn shrunk_guest_is_released_2_s_after_host_has_its_set_point() {
    let mut arbiter = Arbiter::new();
    let short = config().set_point.less(gib(1));
    let shrunk = pass(&mut arbiter, short, &[guest(1, gib(8), gib(6), 1000)], 1000);
    let to = command(&shrunk, 1).expect("a shrink");
    let released_ms = (1500..10_000).step_by(500).find(|now_ms| {
        let free = config().set_point.plus(Bytes::mib(10));
        let passed = pass(&mut arbiter, free, &[guest(1, to, gib(4), *now_ms)], *now_ms);
        of(&passed, 1).is_some_and(|d| (d.clause, d.command) == (Clause::Room, Some(gib(8))))
    });
    assert_eq!(released_ms, Some(3000));
}

#[test]
fn full_guest_is_released_only_by_host_with_room_for_all_of_it() {
    let decided = |free: Bytes, beyond: Bytes| {
        let host = config().set_point.plus(config().hysteresis).plus(beyond);
        command(&pass(&mut Arbiter::new(), host, &[with_free(free, 1000)], 1000), 1)
    };
    // The headroom of this guest is 384 MiB.
    assert_eq!(decided(Bytes::mib(400), Bytes::ZERO), Some(gib(8)));
    assert_eq!(decided(Bytes::mib(300), Bytes::ZERO), None, "its balloon is a ceiling");
    assert_eq!(decided(Bytes::mib(300), gib(4).less(Bytes::mib(1))), None);
    assert_eq!(decided(Bytes::mib(300), gib(4)), Some(gib(8)));
}

#[test]
fn release_is_no_promise_and_can_be_taken_back() {
    let mut arbiter = Arbiter::new();
    let idle = |key, now_ms| guest(key, gib(4), gib(3), now_ms);
    let first = pass(&mut arbiter, config().set_point, &[idle(1, 1000)], 1000);
    assert_eq!(of(&first, 1).map(|d| d.clause), Some(Clause::Room));
    let second = pass(&mut arbiter, config().set_point, &[idle(1, 1500), idle(2, 1500)], 1500);
    assert_eq!(second.inputs[0].1.host_promised, Some(Bytes::ZERO));
    assert_eq!(of(&second, 2).map(|d| d.clause), Some(Clause::Room), "another guest too");
    let short = config().set_point.less(gib(1));
    let taken = pass(&mut arbiter, short, &[idle(1, 2000), idle(2, 2000)], 2000);
    assert_eq!(of(&taken, 1).map(|d| d.action), Some(Action::Shrink));
}

#[test]
fn release_in_vain_is_repeated_after_10_min() {
    let mut arbiter = Arbiter::new();
    let idle = |now_ms| guest(1, gib(4), gib(3), now_ms);
    let short = config().set_point.less(gib(1));
    let mut released_ms = Vec::new();
    for now_ms in (1000..1_300_000).step_by(1000) {
        // The guest fills the released memory, and the host is short again.
        let is_short = released_ms.last().is_some_and(|at_ms| now_ms == at_ms + 1000);
        let free = if is_short { short } else { config().set_point };
        let passed = pass(&mut arbiter, free, &[idle(now_ms)], now_ms);
        if of(&passed, 1).is_some_and(|d| d.clause == Clause::Room) {
            released_ms.push(now_ms);
        }
    }
    assert_eq!(released_ms, [1000, 602_000]);
}

#[test]
fn size_found_or_ordered_or_asked_for_is_not_released() {
    let mut pinned = guest(1, gib(4), gib(3), 1000);
    pinned.limits.mode = policy::arbiter::Mode::Pinned(gib(4));
    let small = Process { found: Some(gib(4)), ..Process::default() };
    let small = GuestSample { process: small, ..guest(1, gib(4), gib(3), 1000) };
    let asked = GuestSample { request: Some(gib(4)), ..guest(1, gib(4), gib(3), 1000) };
    for one in [pinned, small, asked] {
        assert_eq!(command(&pass(&mut Arbiter::new(), gib(40), &[one], 1000), 1), None);
    }
}

#[test]
fn reported_memory_is_waited_for_and_then_taken() {
    let mut arbiter = Arbiter::new();
    let short = config().set_point.less(gib(1));
    // All of the 4 GiB are resident, of which 1.5 GiB are free.
    let reporting = |now_ms, resident| GuestSample {
        process: Process { reports: true, ..Process::default() },
        resident: Some(resident),
        ..crate::arbiter::idle(1, now_ms)
    };
    let taken_ms = (1000..20_000).step_by(500).find(|now_ms| {
        // Half a GiB comes back after two seconds, and no more.
        let resident = if *now_ms < 3000 { gib(4) } else { gib(4).less(Bytes::mib(512)) };
        let passed = pass(&mut arbiter, short, &[reporting(*now_ms, resident)], *now_ms);
        command(&passed, 1).is_some_and(|to| to < gib(4))
    });
    assert_eq!(taken_ms, Some(8000));
}
