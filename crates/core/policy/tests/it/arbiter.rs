//! The arbiter's guarantees, one by one, on handmade samples.

use base::Bytes;
use policy::arbiter::{
    Action, Arbiter, Bound, Clause, Config, Decision, Fate, GuestSample, HostSample, Key, Limits,
    Memory, Mode, Pass, Process, RuleVerdicts, Usable,
};

pub const GIB: Bytes = Bytes::mib(1024);

pub fn gib(count: u64) -> Bytes {
    Bytes(GIB.0 * count)
}

pub fn config() -> Config {
    Config::of_host(gib(64))
}

pub fn host(available: Bytes, at_ms: u64) -> HostSample {
    HostSample { at_ms, total: gib(64), available, strained: false, page_out: Bytes::ZERO }
}

/// Returns a guest at its maximum of 4 GiB. It has just reported that all but 1 GiB is cold or
/// free.
pub fn idle(key: u64, at_ms: u64) -> GuestSample {
    full(guest(key, gib(4), gib(3), at_ms))
}

/// Returns the guest with its size as its maximum, so that a host with room releases nothing.
pub fn full(guest: GuestSample) -> GuestSample {
    let max = guest.actual.unwrap_or(guest.limits.max);
    GuestSample { limits: Limits { max, ..guest.limits }, ..guest }
}

/// Returns a guest with a maximum of 8 GiB.
pub fn guest(key: u64, actual: Bytes, available: Bytes, at_ms: u64) -> GuestSample {
    GuestSample {
        key: Key(key),
        limits: Limits { min: GIB, ordered: false, max: gib(8), shares: 1000, mode: Mode::Managed },
        actual: Some(actual),
        resident: Some(actual),
        doubtful: Bytes::ZERO,
        process: Process::default(),
        swapped: None,
        runs: Some(true),
        memory: Some(Memory {
            at_ms,
            clock_ms: at_ms,
            actual,
            free: Some(Bytes(available.0 / 2)),
            available: Some(available),
            cached: Some(Bytes(available.0 / 2)),
            active_file: Some(Bytes::mib(100)),
            swap_free: Some(GIB),
            swap_in: Some(0),
            swap_out: Some(0),
            refaults: Some(0),
            stalls: Some(0),
            major_faults: Some(0),
            oom_kills: Some(0),
            psi_some_us: Some(0),
        }),
        idle_since_sample: false,
        usable: Usable::Yes,
        request: None,
        asks: false,
        urgent: false,
        deflates_on_oom: true,
    }
}

/// Returns a guest with nothing available and waiting tasks.
pub fn starved(key: u64, actual: Bytes, at_ms: u64) -> GuestSample {
    GuestSample { urgent: true, ..guest(key, actual, Bytes::mib(10), at_ms) }
}

pub fn pass(arbiter: &mut Arbiter, free: Bytes, guests: &[GuestSample], now_ms: u64) -> Pass {
    pass_on(arbiter, &host(free, now_ms), guests)
}

/// Runs a pass under an operator's rule by which no guest may grow, so that nothing is released.
pub fn pass_without_growth(
    arbiter: &mut Arbiter,
    free: Bytes,
    guests: &[GuestSample],
    now_ms: u64,
) -> Pass {
    let mut verdicts = |_, _: &_| RuleVerdicts { may_grow: Some(false), ..RuleVerdicts::default() };
    arbiter.pass(&config(), Some(&host(free, now_ms)), guests, &mut verdicts, now_ms)
}

/// Runs a pass at the time of the host's sample.
pub fn pass_on(arbiter: &mut Arbiter, host: &HostSample, guests: &[GuestSample]) -> Pass {
    let mut verdicts = |_, _: &_| RuleVerdicts::default();
    arbiter.pass(&config(), Some(host), guests, &mut verdicts, host.at_ms)
}

pub fn of(pass: &Pass, key: u64) -> Option<&Decision> {
    pass.decisions.iter().find(|d| d.key == Key(key))
}

pub fn command(pass: &Pass, key: u64) -> Option<Bytes> {
    of(pass, key).and_then(|d| d.command)
}

#[test]
fn nothing_moves_where_nothing_is_needed() {
    let mut arbiter = Arbiter::new();
    let first = pass(&mut arbiter, gib(30), &[idle(1, 1000)], 1000);
    assert_eq!(of(&first, 1).map(|d| d.clause), Some(Clause::Content));
    assert_eq!(command(&first, 1), None);
    // A reported hold is not reported again.
    assert!(pass(&mut arbiter, gib(30), &[idle(1, 2000)], 2000).decisions.is_empty());
}

#[test]
fn a_need_is_granted_from_what_is_free_above_the_reserve() {
    let reserve = config().reserve;
    let mut arbiter = Arbiter::new();
    let free = reserve.plus(Bytes::mib(100));
    let decided = pass(&mut arbiter, free, &[starved(1, gib(2), 1000)], 1000);
    assert_eq!(of(&decided, 1).map(|d| d.clause), Some(Clause::Need));
    assert_eq!(command(&decided, 1), Some(gib(2).plus(Bytes::mib(100))));
    // Granted memory is not free, although the host still reports it as free.
    let again = pass(&mut arbiter, free, &[starved(1, gib(2), 2000)], 2000);
    assert!(command(&again, 1).is_none_or(|to| to <= gib(2).plus(Bytes::mib(100))));
}

#[test]
fn guest_gets_no_more_than_its_maximum() {
    let mut arbiter = Arbiter::new();
    for turn in 1..20 {
        let decided = pass(&mut arbiter, gib(60), &[starved(1, gib(7), turn * 1000)], turn * 1000);
        assert!(command(&decided, 1).is_none_or(|to| to <= gib(8)));
    }
}

#[test]
fn a_starved_guest_is_not_shrunk_whatever_the_host_lacks() {
    let mut arbiter = Arbiter::new();
    let guests = [starved(1, gib(4), 1000), idle(2, 1000)];
    let decided = pass(&mut arbiter, Bytes::mib(100), &guests, 1000);
    assert_eq!(of(&decided, 1).map(|d| d.clause), Some(Clause::Strained));
    assert_eq!(command(&decided, 1), None);
    assert!(command(&decided, 2).is_some_and(|to| to < gib(4)));
    // The guest keeps its memory for a while after that.
    let later = pass(&mut arbiter, Bytes::mib(100), &[guest(1, gib(4), gib(3), 5000)], 5000);
    assert!(command(&later, 1).is_none());
}

#[test]
fn reported_bound_is_cleared_when_guest_lacks_nothing() {
    let mut arbiter = Arbiter::new();
    let reserve = config().reserve;
    let starves = pass(&mut arbiter, reserve, &[starved(1, gib(4), 1000)], 1000);
    let decision = of(&starves, 1).expect("decided");
    assert_eq!((decision.clause, &decision.bounds[..]), (Clause::Strained, &[Bound::Host][..]));
    assert!(pass(&mut arbiter, reserve, &[starved(1, gib(4), 2000)], 2000).decisions.is_empty());
    // The guest sleeps. Its last report no longer counts as a need, but still protects the guest
    // for a while.
    let asleep = GuestSample {
        runs: Some(false),
        idle_since_sample: true,
        urgent: false,
        ..starved(1, gib(4), 2000)
    };
    let decided = pass(&mut arbiter, gib(8), std::slice::from_ref(&asleep), 3000);
    let decision = of(&decided, 1).expect("reported again");
    assert_eq!((decision.clause, &decision.bounds[..]), (Clause::Strained, &[][..]));
    let again = pass(&mut arbiter, gib(8), &[asleep], 4000).decisions;
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn a_guest_on_its_way_down_that_starves_keeps_what_it_has_left() {
    let mut arbiter = Arbiter::new();
    let down = pass(&mut arbiter, Bytes::mib(100), &[idle(1, 1000)], 1000);
    assert!(command(&down, 1).is_some_and(|to| to < gib(4)));
    let left = gib(4).less(Bytes::mib(100));
    let halted = pass(&mut arbiter, Bytes::mib(100), &[starved(1, left, 1500)], 1500);
    assert_eq!(command(&halted, 1), Some(left));

    // The guest keeps the last few MiB as well, although its target already counts as reached.
    let mut arbiter = Arbiter::new();
    let down = pass(&mut arbiter, Bytes::mib(100), &[idle(1, 1000)], 1000);
    let near = command(&down, 1).expect("a target").plus(Bytes::mib(10));
    let starves = |at_ms| [starved(1, near, at_ms)];
    let halted = pass(&mut arbiter, Bytes::mib(100), &starves(2000), 2000);
    assert_eq!(halted.outcomes.first().map(|o| o.result), Some(Fate::Reached));
    assert_eq!(command(&halted, 1), Some(near));
    assert_eq!(command(&pass(&mut arbiter, Bytes::mib(100), &starves(3000), 3000), 1), None);
}

#[test]
fn the_floor_holds_even_in_an_emergency() {
    let mut arbiter = Arbiter::new();
    let mut actual = gib(4);
    for turn in 1..40 {
        let now_ms = turn * 20_000;
        let mut one = guest(1, actual, actual.less(Bytes::mib(100)), now_ms);
        one.limits.min = gib(2);
        let decided = pass(&mut arbiter, Bytes::mib(10), &[one], now_ms);
        actual = command(&decided, 1).unwrap_or(actual);
        assert!(actual >= gib(2), "{actual}");
    }
    assert_eq!(actual, gib(2));
}

#[test]
fn missing_or_stale_data_moves_nothing() {
    let short = Bytes::mib(100);
    let mut silent = idle(1, 1000);
    silent.memory = None;
    let mut blank = idle(2, 1000);
    blank.actual = None;
    let mut arbiter = Arbiter::new();
    let decided = pass(&mut arbiter, short, &[silent, blank, idle(3, 1000)], 5000);
    for key in [1, 2, 3] {
        assert_eq!(of(&decided, key).map(|d| d.clause), Some(Clause::Stale), "{key}");
        assert_eq!(command(&decided, key), None, "{key}");
    }
    // The report of a guest that has not run since its report is still valid.
    let idle_since = GuestSample { idle_since_sample: true, ..idle(3, 1000) };
    assert!(command(&pass(&mut arbiter, short, &[idle_since], 6000), 3).is_some());
    // Without a sample of the host, nothing is decided about guests.
    let mut verdicts = |_, _: &_| RuleVerdicts::default();
    let blind = Arbiter::new().pass(&config(), None, &[idle(1, 1000)], &mut verdicts, 1000);
    assert_eq!(of(&blind, 1).map(|d| (d.clause, d.command)), Some((Clause::Blind, None)));
}

#[test]
fn memory_moves_between_guests_on_a_host_at_its_set_point() {
    let mut arbiter = Arbiter::new();
    let guests = [guest(1, gib(8), gib(7), 1000), starved(2, gib(2), 1000)];
    let decided = pass(&mut arbiter, config().reserve, &guests, 1000);
    assert_eq!(of(&decided, 1).map(|d| d.clause), Some(Clause::Shortage));
    assert!(command(&decided, 1).is_some_and(|to| to < gib(8)));
    assert_eq!(command(&decided, 2), None, "frees come first");
}

#[test]
fn a_balloon_that_another_manager_moves_is_left_alone() {
    let mut arbiter = Arbiter::new();
    let sizes = [4, 4, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 4, 4, 4, 4];
    for (size, now_ms) in sizes.into_iter().zip((1000..).step_by(1000)) {
        let one = guest(1, gib(size), gib(size - 1), now_ms);
        pass_without_growth(&mut arbiter, gib(30), &[one], now_ms);
    }
    for now_ms in [30_000, 300_000, 600_000] {
        let one = guest(1, gib(4), gib(3), now_ms);
        let decided = pass(&mut arbiter, Bytes::mib(100), &[one], now_ms);
        assert_eq!(command(&decided, 1), None, "at {now_ms}");
    }
}

#[test]
fn a_guest_that_took_memory_back_has_time_to_say_so() {
    let grown = |report_ms: u64, is_starved: bool| {
        let size = gib(4).plus(Bytes::mib(200));
        let report = match is_starved {
            true => starved(1, size, report_ms),
            false => guest(1, size, gib(3), report_ms),
        };
        GuestSample { actual: Some(size), idle_since_sample: true, ..report }
    };
    let clause = |pass: &Pass| of(pass, 1).map(|decision| decision.clause);
    for is_starved in [true, false] {
        let mut arbiter = Arbiter::new();
        let first = guest(1, gib(4), gib(3), 1000);
        pass_without_growth(&mut arbiter, gib(30), &[first], 1000);
        // The guest's size has fallen before its first report.
        let before = GuestSample { memory: idle(1, 1000).memory, ..grown(1000, false) };
        for now_ms in [2000, 3000] {
            // That memory is not requested either, whatever the host lacks.
            let silent = pass(&mut arbiter, Bytes::mib(100), std::slice::from_ref(&before), now_ms);
            assert_ne!(clause(&silent), Some(Clause::Foreign), "at {now_ms}");
            assert_eq!(command(&silent, 1), None, "at {now_ms}");
        }
        let told = pass(&mut arbiter, gib(30), &[grown(3500, is_starved)], 3500);
        match is_starved {
            true => {
                assert_eq!(told.outcomes.first().map(|o| o.result), Some(Fate::TookBack));
                assert_eq!(clause(&told), Some(Clause::Need), "served at once");
            }
            false => assert_eq!(clause(&told), Some(Clause::Foreign)),
        }
    }
}

#[test]
fn fruitless_shrink_is_not_repeated() {
    let mut arbiter = Arbiter::new();
    let short = Bytes::mib(100);
    let at = |actual: Bytes, now_ms| GuestSample {
        resident: Some(gib(4)),
        ..guest(1, actual, actual.less(GIB), now_ms)
    };
    let to = command(&pass(&mut arbiter, short, &[at(gib(4), 1000)], 1000), 1).unwrap();
    let reached = pass(&mut arbiter, short, &[at(to, 2000)], 2000);
    let outcome = reached.outcomes.first().map(|o| (o.result, o.host_got));
    assert_eq!(outcome, Some((Fate::Reached, Some(Bytes::ZERO))));
    for now_ms in (3000..60_000).step_by(1000) {
        let decided = pass(&mut arbiter, short, &[at(to, now_ms)], now_ms);
        assert_eq!(command(&decided, 1), None, "at {now_ms}");
    }
}

#[test]
fn reservation_is_held_or_fails_with_the_guests_that_refused() {
    let mut arbiter = Arbiter::new();
    let pinned = GuestSample {
        limits: Limits { mode: Mode::Pinned(gib(4)), ..idle(1, 0).limits },
        ..idle(1, 1000)
    };
    assert!(arbiter.reserve(1, gib(2), 10_000, 60_000));
    let held = pass(&mut arbiter, gib(30), &[pinned], 1000);
    assert!(held.reserved.iter().any(|r| r.id == 1 && r.outcome.is_ok()));
    assert!(arbiter.reserve(2, gib(60), 10_000, 60_000));
    let failed = (2000..=11_000).step_by(1000).find_map(|now_ms| {
        let one = GuestSample { memory: idle(1, now_ms).memory, ..pinned };
        pass(&mut arbiter, gib(30), &[one], now_ms).reserved.pop().map(|r| (now_ms, r))
    });
    let (at_ms, one) = failed.unwrap();
    assert_eq!((at_ms, one.id), (10_000, 2));
    assert!(one.outcome.unwrap_err().iter().any(|(key, _)| *key == Key(1)));
}

#[test]
fn memory_held_for_a_newcomer_is_not_granted_to_others() {
    let mut arbiter = Arbiter::new();
    let free = config().reserve.plus(gib(3));
    assert!(arbiter.reserve(1, gib(3), 10_000, 60_000));
    let decided = pass(&mut arbiter, free, &[starved(1, gib(2), 1000)], 1000);
    assert!(decided.reserved.iter().any(|r| r.outcome.is_ok()));
    assert_eq!(command(&decided, 1), None);
}

#[test]
fn pinned_and_released_guests_have_their_sizes_and_no_more() {
    let mut arbiter = Arbiter::new();
    let with = |mode| GuestSample {
        limits: Limits { mode, max: gib(8), ..idle(1, 0).limits },
        ..guest(1, gib(4), gib(3), 1000)
    };
    let pinned = pass(&mut arbiter, gib(30), &[with(Mode::Pinned(gib(3)))], 1000);
    assert_eq!(command(&pinned, 1), Some(gib(3)));
    // A target that was limited by the host's free memory is not exceeded when more becomes free.
    let mut arbiter = Arbiter::new();
    let little = config().reserve.plus(GIB);
    assert_eq!(
        command(&pass(&mut arbiter, little, &[with(Mode::Released)], 1000), 1),
        Some(gib(5))
    );
    let released = pass(&mut arbiter, gib(30), &[with(Mode::Released)], 1100);
    assert_eq!(command(&released, 1), Some(gib(8)));
}

#[test]
fn a_guest_that_is_gone_is_forgotten_and_a_reboot_is_no_rival() {
    let mut arbiter = Arbiter::new();
    let down = pass(&mut arbiter, Bytes::mib(100), &[idle(1, 1000)], 1000);
    assert!(command(&down, 1).is_some());
    assert!(arbiter.target(Key(1)).is_some());
    arbiter.rebooted(Key(1));
    let fresh = guest(1, gib(8), gib(7), 2000);
    let decided = pass(&mut arbiter, gib(30), &[fresh], 2000);
    assert!(decided.outcomes.is_empty());
    assert_ne!(of(&decided, 1).map(|d| d.clause), Some(Clause::Foreign));
    pass(&mut arbiter, gib(30), &[], 3000);
    assert_eq!(arbiter, {
        let mut other = Arbiter::new();
        pass(&mut other, gib(30), &[fresh], 2000);
        pass(&mut other, gib(30), &[], 3000);
        other
    });
}

#[test]
fn a_move_has_a_direction() {
    let mut arbiter = Arbiter::new();
    let guests = [idle(1, 1000), starved(2, gib(2), 1000)];
    let decided = pass(&mut arbiter, config().reserve.plus(Bytes::mib(64)), &guests, 1000);
    for one in &decided.decisions {
        match one.action {
            Action::Grow => assert!(one.to > one.from),
            Action::Shrink => assert!(one.to < one.from),
            Action::Hold => assert_eq!(one.to, one.from),
        }
    }
}

#[test]
fn silent_growing_guest_costs_no_more_than_its_open_grant() {
    let mut arbiter = Arbiter::new();
    let mut now_ms = 1000;
    let first = pass(&mut arbiter, gib(10), &[starved(1, gib(4), now_ms), idle(2, now_ms)], now_ms);
    let to = command(&first, 1).expect("a grant");
    assert!(to > gib(4) && to < gib(7));
    for _ in 0..20 {
        now_ms += 1000;
        let silent = GuestSample {
            actual: None,
            usable: Usable::No("its hypervisor does not answer"),
            ..starved(1, gib(4), 1000)
        };
        let next = pass(&mut arbiter, gib(10), &[silent, idle(2, now_ms)], now_ms);
        assert_eq!(command(&next, 2), None, "the host is at its set point");
    }
}

#[test]
fn guest_with_unmeasured_gifts_does_not_replace_others() {
    let alone = pass(&mut Arbiter::new(), gib(5), &[idle(2, 1000)], 1000);
    let mut arbiter = Arbiter::new();
    let unseen = |at_ms| GuestSample {
        resident: None,
        limits: Limits { min: GIB, ordered: false, max: gib(4096), shares: 1, mode: Mode::Managed },
        ..guest(1, gib(4096), gib(4000), at_ms)
    };
    let first = pass(&mut arbiter, gib(5), &[unseen(1000), idle(2, 1000)], 1000);
    assert!(command(&first, 2).is_some(), "{first:?}");
    assert_eq!(command(&first, 2), command(&alone, 2), "it gives no less than alone");
}

#[test]
fn size_fixed_by_the_operator_is_reached_in_steps() {
    let mut arbiter = Arbiter::new();
    let limited = |actual, at_ms| {
        let mut sample = guest(1, actual, gib(1), at_ms);
        sample.limits = Limits { max: gib(2), ..sample.limits };
        sample
    };
    let first = pass(&mut arbiter, gib(30), &[limited(gib(8), 1000)], 1000);
    let to = command(&first, 1).expect("above its maximum");
    assert!(to >= gib(6), "{} MiB in one step of a guest that uses seven GiB", to.as_mib());
    let again = pass(&mut arbiter, gib(30), &[limited(gib(7), 2000)], 2000);
    assert_eq!(command(&again, 1), None, "the first step comes first");
    let mut actual = to;
    for second in 3..30 {
        let now_ms = second * 1000;
        let next = pass(&mut arbiter, gib(30), &[limited(actual, now_ms)], now_ms);
        actual = command(&next, 1).unwrap_or(actual);
    }
    assert_eq!(actual, gib(2));
}

#[test]
fn a_pinned_guest_grows_neither_by_wish_nor_by_asking() {
    let mut arbiter = Arbiter::new();
    let pinned = |at_ms| {
        let sample = GuestSample { asks: true, request: Some(gib(8)), ..starved(1, gib(4), at_ms) };
        let limits = Limits { mode: Mode::Pinned(gib(2)), ..sample.limits };
        GuestSample { limits, ..sample }
    };
    for second in 1..10 {
        let now_ms = second * 1000;
        let next = pass(&mut arbiter, gib(40), &[pinned(now_ms)], now_ms);
        assert_eq!(command(&next, 1), None, "{next:?}");
    }
}

#[test]
fn request_of_own_rules_is_no_ceiling_for_a_guest_in_need() {
    let mut arbiter = Arbiter::new();
    let content = |sample| GuestSample { request: Some(gib(2)), ..sample };
    let first = pass(&mut arbiter, gib(30), &[content(starved(1, gib(2), 1000))], 1000);
    assert_eq!(of(&first, 1).map(|d| d.clause), Some(Clause::Need));
    let grown = command(&first, 1).unwrap();
    assert!(grown > gib(2));
    // The guest keeps the grant while its wait is recent, and then until the cool-down is over.
    let (mut has, mut shrunk_s) = (grown, None);
    for second in 2..240 {
        let sample = content(guest(1, has, Bytes::mib(300), second * 1000));
        let now = pass(&mut arbiter, gib(30), &[sample], second * 1000);
        if let Some(to) = command(&now, 1).filter(|to| *to < has) {
            assert_eq!(of(&now, 1).unwrap().clause, Clause::Request);
            (has, shrunk_s) = (to, shrunk_s.or(Some(second)));
        }
    }
    assert_eq!(has, gib(2));
    assert!(shrunk_s.is_some_and(|at| at > 30), "{shrunk_s:?}");
}

#[test]
fn a_reservation_that_lacks_a_crumb_gets_it() {
    let mut arbiter = Arbiter::new();
    let reserve = config().reserve;
    let free = reserve.plus(gib(10)).less(Bytes(200 << 10));
    assert!(arbiter.reserve(7, gib(10), 20_000, 60_000));
    let decided = pass(&mut arbiter, free, &[idle(1, 1000)], 1000);
    assert!(command(&decided, 1).is_some_and(|to| to < gib(4)), "200 KiB short forever");
}
