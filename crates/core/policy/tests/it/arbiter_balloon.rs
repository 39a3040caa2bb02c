//! Balloons that do not move, or move more slowly than requested.

use crate::arbiter::{command, config, gib, guest, idle, of, pass, pass_without_growth, starved};
use base::Bytes;
use policy::arbiter::{Arbiter, Clause, Fate, GuestSample, Key, Mode, Pass};

#[test]
fn a_stuck_balloon_is_reported_after_its_time_and_left_out() {
    let mut arbiter = Arbiter::new();
    let short = Bytes::mib(100);
    assert!(command(&pass(&mut arbiter, short, &[idle(1, 1000)], 1000), 1).is_some());
    let mut reported_ms = None;
    for now_ms in (2000..=15_000).step_by(1000) {
        let decided = pass(&mut arbiter, short, &[idle(1, now_ms)], now_ms);
        if decided.outcomes.iter().any(|o| o.result == Fate::Stuck) {
            reported_ms = reported_ms.or(Some(now_ms));
            assert_eq!(command(&decided, 1), Some(gib(4)), "the target is capped");
        } else if reported_ms.is_some() {
            assert_eq!(command(&decided, 1), None, "the guest is left out");
        }
    }
    assert_eq!(reported_ms, Some(6000));
}

#[test]
fn balloon_that_gives_nothing_still_gets_its_need() {
    let mut arbiter = Arbiter::new();
    let short = Bytes::mib(100);
    let pinned = |now_ms, size| {
        let mut guest = guest(1, gib(4), gib(3), now_ms);
        guest.limits.mode = Mode::Pinned(size);
        guest
    };
    let mut is_stuck = |now_ms| {
        let decided = pass(&mut arbiter, short, &[pinned(now_ms, gib(1))], now_ms);
        decided.outcomes.iter().any(|o| o.result == Fate::Stuck)
    };
    let stuck_ms = (1000..20_000).step_by(1000).find(|now_ms| is_stuck(*now_ms));
    let stuck_ms = stuck_ms.expect("a stuck balloon");
    let then = stuck_ms + 1000;
    let decided = pass(&mut arbiter, short, &[pinned(then, gib(1))], then);
    assert_eq!(command(&decided, 1), None, "no request");
    // During the rest, a larger fixed size is still requested, and so is memory for a guest in
    // need.
    let then = then + 1000;
    let decided = pass(&mut arbiter.clone(), gib(40), &[pinned(then, gib(6))], then);
    assert!(command(&decided, 1).is_some_and(|to| to > gib(4)), "{decided:?}");
    let decided = pass(&mut arbiter, gib(40), &[starved(1, gib(4), then)], then);
    assert!(command(&decided, 1).is_some_and(|to| to > gib(4)), "{decided:?}");
}

#[test]
fn refused_shrinks_do_not_delay_a_later_need() {
    let mut arbiter = Arbiter::new();
    let begin_ms = 3_600_000;
    for now_ms in (1_000..begin_ms).step_by(1_000) {
        pass(&mut arbiter, Bytes::mib(100), &[idle(1, now_ms)], now_ms);
    }
    // The balloon did not inflate for an hour. Now the guest waits, and the balloon deflates
    // slowly.
    let given_ms: Vec<u64> = (begin_ms..begin_ms + 30_000)
        .step_by(500)
        .filter(|now_ms| {
            let decided = pass(&mut arbiter, gib(40), &[starved(1, gib(4), *now_ms)], *now_ms);
            command(&decided, 1).is_some_and(|to| to > gib(4))
        })
        .collect();
    let first_ms = *given_ms.first().expect("a grant");
    assert!(first_ms < begin_ms + 2_000, "{given_ms:?}");
    let again = given_ms.iter().find(|ms| **ms > first_ms + 6_000);
    assert!(again.is_some_and(|ms| *ms < first_ms + 20_000), "{given_ms:?}");
}

#[test]
fn further_requests_do_not_hide_a_stuck_balloon() {
    let mut arbiter = Arbiter::new();
    let stuck_ms = (1000..20_000).step_by(500).find(|now_ms| {
        let decided = pass(&mut arbiter, gib(40), &[starved(1, gib(2), *now_ms)], *now_ms);
        decided.outcomes.iter().any(|o| o.result == Fate::Stuck)
    });
    assert!(stuck_ms.is_some_and(|ms| ms <= 7000), "{stuck_ms:?}");
}

#[test]
fn a_slow_balloon_does_not_keep_what_others_could_use() {
    let mut arbiter = Arbiter::new();
    let free = config().reserve.plus(gib(4));
    let mut granted = Bytes::ZERO;
    for turn in 1..8 {
        let now_ms = turn * 1000;
        let slow = starved(1, gib(2).plus(Bytes::mib(10 * turn)), now_ms);
        let guests = [slow, starved(2, gib(2), now_ms)];
        let guests = if turn < 4 { &guests[..1] } else { &guests[..] };
        let decided = pass(&mut arbiter, free, guests, now_ms);
        granted = granted.max(command(&decided, 2).unwrap_or(Bytes::ZERO));
    }
    assert!(granted >= gib(2).plus(Bytes::mib(512)), "{granted}");
    let slow = arbiter.target(Key(1)).unwrap();
    assert!(slow <= gib(2).plus(Bytes::mib(400)), "{slow}");
}

/// Returns an arbiter with a guest that was sampled once during a shrink, and then waited or
/// stopped. In that time its balloon moved on to its old target.
fn turned(next: impl Fn(Bytes, u64) -> GuestSample) -> Arbiter {
    let mut arbiter = Arbiter::new();
    let short = Bytes::mib(100);
    let to = command(&pass(&mut arbiter, short, &[idle(1, 1000)], 1000), 1).expect("a shrink");
    let seen = gib(4).less(Bytes::mib(64));
    let beyond = to.plus(Bytes::mib(16));
    assert!(beyond.plus(Bytes::mib(64)) < seen, "{to}");
    // The guest is sampled during a shrink, and then gets no CPU. Its balloon moved on, and
    // returns.
    for (from_ms, until_ms, actual) in [(2000, 9000, seen), (9000, 10_000, beyond)] {
        for now_ms in (from_ms..until_ms).step_by(1000) {
            pass(&mut arbiter, short, &[next(actual, now_ms)], now_ms);
        }
    }
    for now_ms in (13_000..20_000).step_by(1000) {
        pass(&mut arbiter, short, &[next(seen, now_ms)], now_ms);
    }
    arbiter
}

/// A waiting guest keeps memory that it got by deflating its balloon, whatever its earlier target
/// was.
#[test]
fn guest_that_takes_memory_back_during_a_turn_is_capped() {
    let mut arbiter = Arbiter::new();
    let short = Bytes::mib(100);
    let to = command(&pass(&mut arbiter, short, &[idle(1, 1000)], 1000), 1).expect("a shrink");
    // The balloon must stay at the first size, has moved on to the second size, and returns to the
    // third.
    let [told, gone, back] = [256, 16, 128].map(|mib| to.plus(Bytes::mib(mib)));
    for (now_ms, actual) in [(2000, told), (2500, gone)] {
        pass(&mut arbiter, short, &[starved(1, actual, now_ms)], now_ms);
    }
    let took_back = (3000..8000).step_by(1000).any(|now_ms| {
        let decided = pass(&mut arbiter, short, &[starved(1, back, now_ms)], now_ms);
        decided.outcomes.iter().any(|o| o.result == Fate::TookBack)
    });
    assert!(took_back, "{arbiter:?}");
}

#[test]
fn balloon_that_turns_late_is_not_foreign() {
    let stuck = turned(|actual, now_ms| guest(1, actual, gib(2), now_ms));
    let halted = turned(|actual, now_ms| starved(1, actual, now_ms));
    for arbiter in [stuck, halted] {
        assert!(!arbiter.is_foreign(Key(1), 20_000), "{arbiter:?}");
    }
}

/// Returns an arbiter with a guest that was shrunk to this size and restarted a second later.
fn shrunk_and_rebooted() -> (Arbiter, Bytes) {
    let mut arbiter = Arbiter::new();
    let down = pass(&mut arbiter, Bytes::mib(100), &[idle(1, 1000)], 1000);
    let size = command(&down, 1).expect("a shrink");
    pass(&mut arbiter, Bytes::mib(100), &[guest(1, size, Bytes::mib(100), 2000)], 2000);
    arbiter.rebooted(Key(1));
    (arbiter, size)
}

/// Returns a booting guest that has reported nothing yet.
fn booting(actual: Bytes) -> GuestSample {
    GuestSample { memory: None, ..guest(1, actual, Bytes::ZERO, 0) }
}

#[test]
fn report_h05_a_guest_that_boots_has_its_maximum() {
    // The balloon may be empty already, or still have its old size.
    for of_size in [|size: Bytes| size, |_| gib(8)] {
        let (mut arbiter, size) = shrunk_and_rebooted();
        let first = pass(&mut arbiter, gib(30), &[booting(of_size(size))], 3000);
        assert_eq!(command(&first, 1), Some(gib(8)));
        assert_eq!(of(&first, 1).map(|d| d.clause), Some(Clause::Boot));
        let next = pass(&mut arbiter, gib(30), &[booting(gib(8))], 4000);
        assert_eq!(command(&next, 1), None);
    }
}

#[test]
fn report_h05_a_guest_that_boots_is_not_shrunk() {
    let (mut arbiter, size) = shrunk_and_rebooted();
    // QEMU empties the balloon, and the guest's driver then moves it to QEMU's target again.
    for (second, actual) in [(3, gib(8)), (4, gib(8)), (5, gib(6)), (10, size), (30, size)] {
        let now_ms = second * 1000;
        let seen = pass(&mut arbiter, Bytes::mib(100), &[booting(actual)], now_ms);
        assert_eq!(command(&seen, 1), None, "at {second} s");
        assert!(!arbiter.is_foreign(Key(1), now_ms));
    }
    // Later the guest is treated like other guests.
    let mut later = |now_ms| {
        let seen = guest(1, size, size.less(Bytes::mib(500)), now_ms);
        command(&pass(&mut arbiter, Bytes::mib(100), &[seen], now_ms), 1)
    };
    assert!((64..70).any(|second| later(second * 1000).is_some_and(|to| to < size)));
}

#[test]
fn report_h05_a_guest_that_boots_again_gets_nothing_by_it() {
    let (mut arbiter, size) = shrunk_and_rebooted();
    // The guest restarts twice during one boot. The size of the empty balloon in between is
    // ignored.
    pass(&mut arbiter, Bytes::mib(100), &[booting(gib(8))], 3000);
    arbiter.rebooted(Key(1));
    let again = pass(&mut arbiter, Bytes::mib(100), &[booting(gib(8))], 4000);
    assert_eq!(command(&again, 1), None);
    // The guest restarts once more, a little later.
    pass(&mut arbiter, Bytes::mib(100), &[booting(size)], 64_000);
    arbiter.rebooted(Key(1));
    for now_ms in [65_000, 66_000] {
        let seen = pass(&mut arbiter, gib(30), &[booting(size)], now_ms);
        assert_eq!(command(&seen, 1), None, "at {now_ms} ms");
    }
}

/// Returns an arbiter with a guest without deflate-on-oom that was shrunk, and then grew to 8 GiB
/// by itself. Also returns the requested size.
fn risen() -> (Arbiter, Bytes) {
    let (mut arbiter, short) = (Arbiter::new(), Bytes::mib(100));
    let to = command(&pass(&mut arbiter, short, &[idle(1, 1000)], 1000), 1).expect("a shrink");
    assert!(seen(&mut arbiter, to, 2).left.is_empty());
    let left = seen(&mut arbiter, gib(8), 20).left;
    assert_eq!(left.iter().map(|left| (left.at, left.rose)).collect::<Vec<_>>(), [(gib(8), true)]);
    (arbiter, to)
}

/// Runs a pass in which this guest has no spare memory and no need.
fn seen(arbiter: &mut Arbiter, actual: Bytes, second: u64) -> Pass {
    let now_ms = second * 1000;
    let guest = guest(1, actual, Bytes(actual.0 / 2), now_ms);
    let guest = GuestSample { deflates_on_oom: false, ..guest };
    pass_without_growth(arbiter, gib(30), &[guest], now_ms)
}

#[test]
fn report_h10_balloon_goes_back_to_its_target_by_itself() {
    let (mut arbiter, to) = risen();
    // The driver is loaded again, and moves slowly.
    let ways = [gib(7), gib(6), gib(5), to.plus(Bytes::mib(200)), to, to];
    for (second, actual) in (31..).step_by(5).zip(ways) {
        let passed = seen(&mut arbiter, actual, second);
        assert_eq!((command(&passed, 1), passed.left), (None, Vec::new()), "{second} s");
        // Until the balloon arrives, the move may come from another manager.
        assert_eq!(arbiter.is_foreign(Key(1), second * 1000), actual > to, "{second} s");
    }
}

#[test]
fn report_h10_balloon_that_others_set_twice_is_theirs() {
    let (mut arbiter, to) = risen();
    let size = gib(6);
    assert!(size > to);
    let lefts: Vec<_> = (31..60).flat_map(|second| seen(&mut arbiter, size, second).left).collect();
    assert_eq!(lefts.iter().map(|left| (left.at, left.rose)).collect::<Vec<_>>(), [(size, false)]);
    assert!(arbiter.is_foreign(Key(1), 60_000));
}
