//! Consecutive shrinks for one reason are reported once.

use crate::arbiter::{GIB, command, config, gib, guest, host, pass, starved};
use base::Bytes;
use policy::arbiter::{
    Action, Arbiter, Clause, Decision, Fate, GuestSample, Outcome, RuleVerdicts, Usable,
};

/// Returns a guest with own rules that request 2 GiB. All of its memory is resident.
fn content(actual: Bytes, now_ms: u64) -> GuestSample {
    GuestSample { request: Some(gib(2)), ..guest(1, actual, actual.less(GIB), now_ms) }
}

/// Returns the decisions and outcomes of one pass a second, for a guest that reaches each target at
/// once. The guest has 8 GiB at first.
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
fn shrink_by_own_rules_in_steps_is_one_movement() {
    let (decisions, outcomes) = told(1..60, content);
    let moves: Vec<&Decision> = decisions.iter().filter(|d| d.command.is_some()).collect();
    assert!(moves.len() > 2, "several steps");
    assert!(moves.iter().all(|d| (d.action, d.clause) == (Action::Shrink, Clause::Request)));
    let news: Vec<_> = decisions.iter().filter(|d| !d.goes_on).collect();
    let news: Vec<_> = news.iter().map(|d| (d.action, d.from)).collect();
    // The beginning of the movement, and the hold after its end.
    assert_eq!(news, [(Action::Shrink, gib(8)), (Action::Hold, gib(2))]);
    assert_eq!(outcomes.len(), moves.len());
    let last = outcomes.last().expect("its end");
    assert_eq!((last.result, last.reached), (Fate::Reached, gib(2)));
    assert_eq!(last.got_in_all, Some(gib(6)), "the sum of its steps");
}

#[test]
fn a_rest_or_another_reason_ends_a_movement() {
    // The guest's rules request a smaller size after half a minute.
    let two = |actual: Bytes, now_ms| {
        let request = if now_ms < 30_000 { gib(7) } else { gib(6) };
        GuestSample { request: Some(request), ..content(actual, now_ms) }
    };
    let (decisions, _) = told(1..60, two);
    let entries = decisions.iter().filter(|d| d.action == Action::Shrink && !d.goes_on);
    assert_eq!(entries.map(|d| d.from).collect::<Vec<_>>(), [gib(8), gib(7)]);
    // A waiting guest is reported at once.
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
            // The guest is unusable for a moment during its second step.
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

/// A growing balloon makes a guest drop cold cache, which the kernel's counters show as a wait for
/// memory. A guest that lacks memory waits as well, without any request to its balloon.
#[test]
fn guest_waiting_for_its_balloon_gives_down_to_its_headroom() {
    for (asked, cold, gives) in [(true, 1500, true), (true, 900, false), (false, 1500, false)] {
        let mut arbiter = Arbiter::new();
        let request = asked.then(|| gib(4));
        let mut decided = Vec::new();
        for second in 1..4 {
            let now_ms = second * 1000;
            let taken = Bytes::mib(if asked && second == 3 { 200 } else { 0 });
            let actual = gib(9).less(taken);
            // The guest uses over 7 GiB. It counts as strained below about 1 GiB of cold memory, or
            // below 2 GiB if its balloon rests.
            let available = if second < 3 { gib(2) } else { Bytes::mib(cold) };
            let mut one = GuestSample { request, ..guest(1, actual, available, now_ms) };
            one.limits.max = gib(12);
            if let Some(memory) = &mut one.memory {
                (memory.free, memory.active_file) = (Some(Bytes::mib(10)), Some(Bytes::ZERO));
                memory.psi_some_us = Some(if second < 3 { 0 } else { 990_000 });
            }
            // The host has room for the guest's need, but not for its maximum.
            decided.push(pass(&mut arbiter, gib(9), &[one], now_ms));
        }
        let grows = decided[2].decisions.iter().any(|d| d.action == Action::Grow);
        assert_eq!(grows, !gives, "asked {asked}, {cold} MiB cold: {:?}", decided[2].decisions);
    }
}

/// Each report gets only one grant, so memory that arrived after the report is a part of this
/// grant. A guest that waited until its memory arrived has enough memory if its next report shows
/// no need.
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
        // The host has the needed memory, and no surplus for a wish.
        let decided = pass(&mut arbiter, gib(7), &[*one], now_ms);
        let is_need = |d: &&Decision| (d.action, d.clause) == (Action::Grow, Clause::Need);
        decided.decisions.iter().find(is_need).map(|d| d.to)
    };
    assert_eq!(pass_at(&report(gib(8), Bytes::mib(900), 0, 1_000), 1_000), None);
    // The guest uses over 7 GiB, and its headroom is an eighth of that.
    let waits = report(gib(8), Bytes::mib(500), 500_000, 2_000);
    let to = pass_at(&waits, 2_000).expect("a need");
    let came = GuestSample { actual: Some(to), ..waits };
    assert_eq!(pass_at(&came, 2_200), None, "arrived, and not reported on yet");
    let enough = report(to, Bytes::mib(1_500), 900_000, 3_000);
    assert_eq!(pass_at(&enough, 3_000), None, "the wait was before the grant");
    let again = report(to, Bytes::mib(500), 1_900_000, 4_000);
    assert!(pass_at(&again, 4_000) > Some(to), "memory is still lacking");
}

/// A size below the minimum is detected without a report.
#[test]
fn guest_below_its_minimum_gets_the_rest_before_a_new_report() {
    let mut report = guest(1, gib(1), Bytes::mib(512), 1_000);
    report.limits.min = gib(2);
    let given = |arbiter: &mut Arbiter, free, actual, now_ms| {
        let one = GuestSample { actual: Some(actual), ..report };
        command(&pass(arbiter, free, &[one], now_ms), 1)
    };
    // The host first has half of the need above its reserve, and then enough.
    let half = Bytes::mib(512);
    for (has, what) in [(gib(1), "is on its way"), (gib(1).plus(half), "has come")] {
        let mut arbiter = Arbiter::new();
        let to = given(&mut arbiter, config().reserve.plus(half), gib(1), 1_000);
        assert_eq!(to, Some(gib(1).plus(half)));
        assert_eq!(given(&mut arbiter, gib(30), has, 1_400), Some(gib(2)), "half of it {what}");
    }
}

/// An operator's rule takes effect once for each report.
#[test]
fn rule_grows_a_guest_once_per_report() {
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
    assert_eq!(pass_at(&came, 1_200), None, "arrived, and the report is the same");
    let again = guest(1, to, Bytes::mib(512), 2_000);
    assert!(pass_at(&again, 2_000) > Some(to), "the rule holds for the next report too");
}
