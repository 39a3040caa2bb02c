//! Times for which a guest gets no request, and the retries afterwards. The times are copied from
//! SPECIFICATION.md, and not from the code.

use crate::arbiter::{
    GIB, command, config, gib, guest, idle, of, pass, pass_without_growth, starved,
};
use base::Bytes;
use policy::arbiter::{Arbiter, Clause, Fate, GuestSample, Key};

/// A host that lacks memory.
const SHORT: Bytes = Bytes::mib(100);

#[test]
fn stuck_balloon_is_retried_after_10_s_doubling_up_to_10_min() {
    let mut arbiter = Arbiter::new();
    let (mut stuck_ms, mut waits_s) = (None, Vec::new());
    for now_ms in (1_000..5_000_000).step_by(1_000) {
        let decided = pass(&mut arbiter, SHORT, &[idle(1, now_ms)], now_ms);
        let asked = command(&decided, 1).is_some_and(|to| to < gib(4));
        if asked && let Some(at_ms) = stuck_ms.take() {
            waits_s.push((now_ms - at_ms) / 1_000);
        }
        if decided.outcomes.iter().any(|outcome| outcome.result == Fate::Stuck) {
            stuck_ms = Some(now_ms);
        }
    }
    assert!(waits_s.len() >= 9, "{waits_s:?}");
    assert_eq!(waits_s[..9], [10, 20, 40, 80, 160, 320, 600, 600, 600]);
}

#[test]
fn foreign_balloon_is_left_alone_for_10_min_then_managed() {
    let mut arbiter = Arbiter::new();
    let sizes = [4, 4, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 4, 4, 4, 4];
    let mut foreign_ms = None;
    for (size, now_ms) in sizes.into_iter().zip((1_000..).step_by(1_000)) {
        let one = guest(1, gib(size), gib(size - 1), now_ms);
        pass_without_growth(&mut arbiter, gib(30), &[one], now_ms);
        if arbiter.is_foreign(Key(1), now_ms) {
            foreign_ms = foreign_ms.or(Some(now_ms));
        }
    }
    let foreign_ms = foreign_ms.expect("the second change has another author");
    let asked_ms = (21_000..1_000_000).step_by(1_000).find(|now_ms| {
        let one = guest(1, gib(4), gib(3), *now_ms);
        let decided = pass(&mut arbiter, SHORT, &[one], *now_ms);
        let clause = of(&decided, 1).map(|decision| decision.clause);
        assert!(*now_ms >= foreign_ms + 600_000 || clause.is_none_or(|c| c == Clause::Foreign));
        command(&decided, 1).is_some()
    });
    assert_eq!(asked_ms.map(|at_ms| at_ms - foreign_ms), Some(600_000));
}

#[test]
fn fruitless_guest_is_asked_again_after_10_min() {
    let mut arbiter = Arbiter::new();
    let at = |actual: Bytes, now_ms| GuestSample {
        resident: Some(gib(4)),
        ..guest(1, actual, actual.less(GIB), now_ms)
    };
    let to = command(&pass(&mut arbiter, SHORT, &[at(gib(4), 1_000)], 1_000), 1).expect("a target");
    pass(&mut arbiter, SHORT, &[at(to, 2_000)], 2_000);
    let mut clauses = Vec::new();
    let asked_ms = (3_000..1_000_000).step_by(1_000).find(|now_ms| {
        let decided = pass(&mut arbiter, SHORT, &[at(to, *now_ms)], *now_ms);
        clauses.extend(of(&decided, 1).map(|decision| decision.clause));
        command(&decided, 1).is_some()
    });
    // The fruitless shrink was detected at 2 s.
    assert_eq!(asked_ms, Some(602_000), "{clauses:?}");
}

#[test]
fn growing_guest_gets_its_maximum_and_not_a_byte_more() {
    let mut arbiter = Arbiter::new();
    let mut actual = gib(2);
    for turn in 1..40 {
        let now_ms = turn * 1_000;
        let decided = pass(&mut arbiter, gib(60), &[starved(1, actual, now_ms)], now_ms);
        actual = command(&decided, 1).unwrap_or(actual);
        assert!(actual <= gib(8), "{} MiB", actual.as_mib());
    }
    assert_eq!(actual, gib(8));
}

#[test]
fn fall_within_milliseconds_does_not_make_a_host_short() {
    // A guest in need uses 300 MiB at once, and passes follow each other closely. At that rate of
    // 15 GiB a second, the host would be below its set point within a second.
    let free = [gib(10), gib(10).less(Bytes::mib(300)), gib(10).less(Bytes::mib(300))];
    let mut arbiter = Arbiter::new();
    for (at_ms, free) in [1000, 1020, 1040].into_iter().zip(free) {
        let decided = pass(&mut arbiter, free, &[idle(1, at_ms)], at_ms);
        assert_eq!(command(&decided, 1), None, "at {at_ms}");
        assert!(!arbiter.is_short());
    }
    // A fall that lasts for a second is a rate. Here 3 GiB were used, and 0.6 GiB are left above
    // the set point.
    let decided = pass(&mut arbiter, gib(7), &[idle(1, 2040)], 2040);
    assert!(arbiter.is_short());
    assert!(command(&decided, 1).is_some());
}

#[test]
fn host_stays_short_until_it_has_its_set_point_again() {
    let wanted = config().set_point;
    let half_way = wanted.less(Bytes(config().hysteresis.0 / 2));
    let below = wanted.less(config().hysteresis).less(Bytes::mib(1));
    let mut arbiter = Arbiter::new();
    let looks = [(half_way, false), (below, true), (half_way, true), (wanted, false)];
    for ((free, is_short), minute) in looks.into_iter().chain([(half_way, false)]).zip(1..) {
        pass(&mut arbiter, free, &[], minute * 60_000);
        assert_eq!(arbiter.is_short(), is_short, "at {minute} min");
        // The expected loss of the next second is also missing.
        let lack = if is_short { wanted.less(free) } else { Bytes::ZERO };
        assert!(
            (lack..=lack.plus(Bytes::mib(8))).contains(&arbiter.lack()),
            "{:?}",
            arbiter.lack()
        );
    }
}
