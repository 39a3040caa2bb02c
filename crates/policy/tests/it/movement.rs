//! Shrinks that follow each other for one reason are told once.

use crate::arbiter::{GIB, command, gib, guest, pass, starved};
use counters::Bytes;
use policy::arbiter::{Action, Arbiter, Arrival, Clause, Decision, GuestSample, Outcome};

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
