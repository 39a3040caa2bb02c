//! Releases of balloons, and free memory that kernels report by themselves.

use crate::arbiter::{command, config, gib, guest, host, of, pass, pass_on};
use base::Bytes;
use policy::arbiter::{Action, Arbiter, Clause, GuestSample, HostSample, Memory, Process};

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
    // All of the guest's 4 GiB are resident, and 1.5 GiB of them are free.
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

#[test]
fn host_that_waits_for_memory_releases_nothing() {
    // The memory that the second guest will report covers the host's lack. Only the host's wait for
    // memory then prevents a release.
    let mut reporting = crate::arbiter::idle(2, 1000);
    reporting.process.reports = true;
    let guests = [guest(1, gib(4), gib(3), 1000), reporting];
    let at = |strained| {
        let host = HostSample { strained, ..host(gib(40), 1000) };
        command(&pass_on(&mut Arbiter::new(), &host, &guests), 1)
    };
    assert_eq!(at(false), Some(gib(8)));
    // The guest gives memory, or keeps its size.
    assert!(at(true).is_none_or(|to| to <= gib(4)), "{:?}", at(true));
}

#[test]
fn kernel_that_reports_nothing_is_not_waited_for_again() {
    let mut arbiter = Arbiter::new();
    let set_point = config().set_point;
    let with = |now_ms, used: Bytes| {
        let mut guest = crate::arbiter::idle(1, now_ms);
        guest.process.reports = true;
        let memory = guest.memory.as_mut().expect("a report");
        memory.free = Some(gib(3).less(used));
        memory.available = memory.free;
        guest
    };
    // A process takes and frees a GiB each second, and all of the guest stays resident.
    for second in 1..20 {
        let used = if second % 2 == 0 { gib(1) } else { Bytes::ZERO };
        pass(&mut arbiter, set_point, &[with(second * 1000, used)], second * 1000);
    }
    let short = set_point.less(gib(1));
    let taken = pass(&mut arbiter, short, &[with(20_000, Bytes::ZERO)], 20_000);
    assert!(command(&taken, 1).is_some_and(|to| to < gib(4)), "{taken:?}");
}
