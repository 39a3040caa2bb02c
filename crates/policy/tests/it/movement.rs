//! Shrinks that follow each other for one reason are told once.

use crate::arbiter::{GIB, command, config, gib, guest, host, pass, starved};
use counters::Bytes;
use policy::arbiter::{
    Action, Arbiter, Arrival, Clause, Decision, GuestSample, Outcome, RuleVerdicts, Usable,
};

/// A guest whose own rules are content with 2 GiB; all that it has is resident.
fn content(actual: Bytes, now_ms: u64) -> GuestSample {
    GuestSample { request: Some(gib(2)), ..guest(1, actual, actual.less(GIB), now_ms) }
}

/// What is decided and what comes of it, a pass a second, in a guest that does at once as it is
/// asked. It has 8 GiB at first.
fn told(
    seconds: std::ops::Range<u64>,
    at: impl Fn(Bytes, u64) -> GuestSample,
) -> (Vec<Decision>, Vec<Outcome>) {
    let (mut arbiter, mut actual) = (Arbiter::new(), gib(8));
    let (mut decisions, mut outcomes) = (Vec::new(), Vec::new());
    for second in seconds {
        let now_ms = second * 1000;
        let decided = pass(&mut arbiter, gib(30), &[at(actual, now_ms)], now_ms);
        actual = command(&decided, 1).unwrap_or(actual);
        decisions.extend(decided.decisions);
        outcomes.extend(decided.outcomes);
    }
    (decisions, outcomes)
}

#[test]
fn what_its_own_rules_give_in_steps_is_one_movement() {
    let (decisions, outcomes) = told(1..60, content);
    let moves: Vec<&Decision> = decisions.iter().filter(|d| d.command.is_some()).collect();
    assert!(moves.len() > 2, "it goes in steps");
    assert!(moves.iter().all(|d| (d.action, d.clause) == (Action::Shrink, Clause::Request)));
    let news: Vec<_> = decisions.iter().filter(|d| !d.goes_on).collect();
    let news: Vec<_> = news.iter().map(|d| (d.action, d.from)).collect();
    // Its beginning, and when it is over that nobody needs anything.
    assert_eq!(news, [(Action::Shrink, gib(8)), (Action::Hold, gib(2))]);
    assert_eq!(outcomes.len(), moves.len());
    let last = outcomes.last().expect("its end");
    assert_eq!((last.result, last.reached), (Arrival::Reached, gib(2)));
    assert_eq!(last.got_in_all, Some(gib(6)), "the sum of its steps");
}

#[test]
fn a_rest_or_another_reason_ends_a_movement() {
    // Its rules ask for less after half a minute.
    let two = |actual: Bytes, now_ms| {
        let request = if now_ms < 30_000 { gib(7) } else { gib(6) };
        GuestSample { request: Some(request), ..content(actual, now_ms) }
    };
    let (decisions, _) = told(1..60, two);
    let entries = decisions.iter().filter(|d| d.action == Action::Shrink && !d.goes_on);
    assert_eq!(entries.map(|d| d.from).collect::<Vec<_>>(), [gib(8), gib(7)]);
    // A guest that waits is told of at once.
    let wants = |actual: Bytes, now_ms| match now_ms {
        3000 => GuestSample { request: Some(gib(2)), ..starved(1, actual, now_ms) },
        _ => content(actual, now_ms),
    };
    let (decisions, _) = told(1..4, wants);
    let news: Vec<Action> = decisions.iter().filter(|d| !d.goes_on).map(|d| d.action).collect();
    assert_eq!(news.len(), 2, "{decisions:?}");
    assert_ne!(news[1], Action::Shrink);
}

#[test]
fn a_step_that_ends_after_its_movement_is_added_up_too() {
    let (mut arbiter, mut actual, mut sums) = (Arbiter::new(), gib(8), Vec::new());
    for second in 1..60 {
        let now_ms = second * 1000;
        let decided = pass(&mut arbiter, gib(30), &[content(actual, now_ms)], now_ms);
        sums.extend(decided.outcomes.iter().map(|outcome| outcome.got_in_all));
        let Some(to) = command(&decided, 1) else { continue };
        if !sums.is_empty() {
            // The guest cannot be used for a moment, while its second step is under way.
            let paused = GuestSample { usable: Usable::No("paused"), ..content(actual, now_ms) };
            let held = pass(&mut arbiter, gib(30), &[paused], now_ms + 200);
            assert_eq!(held.decisions.first().map(|d| d.clause), Some(Clause::Unusable));
            let after = pass(&mut arbiter, gib(30), &[content(to, now_ms + 400)], now_ms + 400);
            sums.extend(after.outcomes.iter().map(|outcome| outcome.got_in_all));
            actual = to;
            break;
        }
        actual = to;
    }
    assert_eq!(sums.len(), 2, "{sums:?}");
    assert_eq!(sums[1], Some(gib(8).less(actual)), "{sums:?}");
}

/// Its balloon drops cold cache and waits for that, as the kernel counts it. So does a guest that
/// lacks memory, where nobody has asked it for any.
#[test]
fn who_waits_for_its_own_balloon_keeps_on_giving_down_to_what_it_is_left() {
    for (asked, cold, gives) in [(true, 1500, true), (true, 900, false), (false, 1500, false)] {
        let mut arbiter = Arbiter::new();
        let request = asked.then(|| gib(4));
        let mut decided = Vec::new();
        for second in 1..4 {
            let now_ms = second * 1000;
            let taken = Bytes::mib(if asked && second == 3 { 200 } else { 0 });
            let actual = gib(9).less(taken);
            // It uses 7 GiB and more: what it is left in any case is a GiB, and usually two.
            let available = if second < 3 { gib(2) } else { Bytes::mib(cold) };
            let mut one = GuestSample { request, ..guest(1, actual, available, now_ms) };
            one.limits.max = gib(12);
            if let Some(memory) = &mut one.memory {
                (memory.free, memory.active_file) = (Some(Bytes::mib(10)), Some(Bytes::ZERO));
                memory.psi_some_us = Some(if second < 3 { 0 } else { 990_000 });
            }
            decided.push(pass(&mut arbiter, gib(30), &[one], now_ms));
        }
        let grows = decided[2].decisions.iter().any(|d| d.action == Action::Grow);
        assert_eq!(grows, !gives, "asked {asked}, {cold} MiB cold: {:?}", decided[2].decisions);
    }
}

/// One report is answered once: what has come since it was made is in the answer. And who waited
/// until it was given memory has what it waited for, if the next report says so.
#[test]
fn a_guest_is_given_memory_once_for_each_report_of_its_lack() {
    let mut arbiter = Arbiter::new();
    let report = |actual: Bytes, available: Bytes, psi_us, now_ms| {
        let mut one = guest(1, actual, available, now_ms);
        one.limits.max = gib(32);
        if let Some(memory) = &mut one.memory {
            (memory.free, memory.active_file) = (Some(Bytes::mib(10)), Some(Bytes::ZERO));
            memory.psi_some_us = Some(psi_us);
        }
        one
    };
    let mut pass_at = |one: &GuestSample, now_ms| {
        // The host has what is needed, and nothing for a mere wish.
        let decided = pass(&mut arbiter, gib(7), &[*one], now_ms);
        let is_need = |d: &&Decision| (d.action, d.clause) == (Action::Grow, Clause::Need);
        decided.decisions.iter().find(is_need).map(|d| d.to)
    };
    assert_eq!(pass_at(&report(gib(8), Bytes::mib(900), 0, 1_000), 1_000), None);
    // It uses 7 GiB and more, of which an eighth is what it is left in any case.
    let waits = report(gib(8), Bytes::mib(500), 500_000, 2_000);
    let to = pass_at(&waits, 2_000).expect("it is in need");
    let came = GuestSample { actual: Some(to), ..waits };
    assert_eq!(pass_at(&came, 2_200), None, "it has come, and is not asked yet whether it does");
    let enough = report(to, Bytes::mib(1_500), 900_000, 3_000);
    assert_eq!(pass_at(&enough, 3_000), None, "it waited before that");
    let again = report(to, Bytes::mib(500), 1_900_000, 4_000);
    assert!(pass_at(&again, 4_000) > Some(to), "it lacks memory still");
}

/// What a guest lacks of its minimum is seen without a report of its own.
#[test]
fn a_guest_below_its_minimum_is_given_the_rest_before_it_reports_again() {
    let mut report = guest(1, gib(1), Bytes::mib(512), 1_000);
    report.limits.min = gib(2);
    let given = |arbiter: &mut Arbiter, free, actual, now_ms| {
        let one = GuestSample { actual: Some(actual), ..report };
        command(&pass(arbiter, free, &[one], now_ms), 1)
    };
    // The host has half of it above its reserve, and then enough.
    let half = Bytes::mib(512);
    for (has, what) in [(gib(1), "is on its way"), (gib(1).plus(half), "has come")] {
        let mut arbiter = Arbiter::new();
        let to = given(&mut arbiter, config().reserve.plus(half), gib(1), 1_000);
        assert_eq!(to, Some(gib(1).plus(half)));
        assert_eq!(given(&mut arbiter, gib(30), has, 1_400), Some(gib(2)), "half of it {what}");
    }
}

/// An operator's rule is answered by the report that it holds for, once.
#[test]
fn what_a_rule_gives_is_given_once_a_report() {
    let mut arbiter = Arbiter::new();
    let report = guest(1, gib(4), Bytes::mib(512), 1_000);
    let mut verdicts = |_, _: &_| RuleVerdicts { grow: Some(true), ..RuleVerdicts::default() };
    let mut pass_at = |one: &GuestSample, now_ms| {
        let host = host(gib(30), now_ms);
        command(&arbiter.pass(&config(), Some(&host), &[*one], &mut verdicts, now_ms), 1)
    };
    let to = pass_at(&report, 1_000).expect("the rule gives");
    assert!(to > gib(4));
    let came = GuestSample { actual: Some(to), ..report };
    assert_eq!(pass_at(&came, 1_200), None, "it has come, and the rule knows no more than before");
    let again = guest(1, to, Bytes::mib(512), 2_000);
    assert!(pass_at(&again, 2_000) > Some(to), "it holds by the next report too");
}
