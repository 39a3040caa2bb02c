//! Tests of the state machine without a transport.

use super::*;

const PACE: LookPace = LookPace { first_ms: 40, most_ms: 640 };

fn known(second: u64) -> Option<Row<GuestField>> {
    Some(crate::balloon_row(second, base::Bytes::ZERO, []))
}

/// Creates a machine for a guest that was found with this period.
fn question(home_s: u32) -> StatsQuestion {
    let mut question = StatsQuestion::new(PACE);
    question.found(home_s);
    question
}

/// Makes one request from the idle state, with the response at the second poll.
fn ask_once(question: &mut StatsQuestion, now_ms: u64, second: u64, home_s: u32) {
    assert_eq!(question.begin(now_ms), None);
    if question.home_s.is_none() {
        assert_eq!(question.next(), Some(StatsCall::Period));
        question.period_is(home_s);
    }
    assert_eq!(question.next(), Some(StatsCall::Known));
    assert_eq!(question.next(), None, "one call at a time");
    assert_eq!(question.known(known(second - 1), now_ms), None);
    if home_s != 0 {
        assert_eq!(question.next(), Some(StatsCall::SetPeriod(0)));
        question.period_is_set(0, now_ms);
    }
    assert_eq!(question.next(), Some(StatsCall::SetPeriod(MARK_S)));
    question.period_is_set(MARK_S, now_ms);
    assert_eq!(question.next_ms(), Some(now_ms + 40));
    question.due(now_ms + 40);
    assert_eq!(question.next(), Some(StatsCall::Known));
    assert_eq!(question.known(known(second - 1), now_ms + 40), None);
    assert_eq!(question.next_ms(), Some(now_ms + 120));
    question.due(now_ms + 120);
    assert_eq!(question.next(), Some(StatsCall::Known));
    assert_eq!(question.known(known(second), now_ms + 120), known(second));
    assert_eq!(question.next(), Some(StatsCall::SetPeriod(home_s)));
    question.period_is_set(home_s, now_ms + 121);
    assert_eq!((question.next(), question.next_ms(), question.is_away), (None, None, false));
}

#[test]
fn an_answer_is_reported_once_and_the_period_is_put_back() {
    for home_s in [0, 10] {
        for mut question in [question(home_s), StatsQuestion::new(PACE)] {
            ask_once(&mut question, 1_000, 50, home_s);
            ask_once(&mut question, 9_000, 60, home_s);
        }
    }
}

#[test]
fn fresh_response_is_returned_again_within_a_second() {
    let mut question = question(0);
    ask_once(&mut question, 1_000, 50, 0);
    assert_eq!(question.begin(1_300), known(50));
    assert_eq!(question.begin(1_900), None);
    assert_eq!((question.next(), question.next_ms()), (None, Some(2_120)));
    question.due(2_120);
    assert_eq!(question.next(), Some(StatsCall::Known));
    question.give_up();
    question.forget();
    assert_eq!(question.begin(1_300), None, "the response is of the boot before");
}

/// Simulates a guest that responds 30 ms after each request, gets requests at these times, and is
/// reset once. Returns the times of its responses.
fn answers(question: &mut StatsQuestion, asked_ms: &[u64], reset_ms: u64) -> Vec<u64> {
    let (mut answers, mut stats, mut comes) = (Vec::new(), known(1), None);
    for now_ms in 0..6_000 {
        if now_ms == reset_ms {
            question.forget();
        }
        if asked_ms.contains(&now_ms) && question.begin(now_ms).is_some() {
            answers.push(now_ms);
        }
        if comes == Some(now_ms) {
            stats = known(1_000 + now_ms);
        }
        question.due(now_ms);
        while let Some(call) = question.next() {
            match call {
                StatsCall::Period => question.period_is(0),
                StatsCall::Known => {
                    answers.extend(question.known(stats.clone(), now_ms).map(|_| now_ms));
                }
                StatsCall::SetPeriod(period_s) => {
                    comes = (period_s == MARK_S).then_some(now_ms + 30);
                    question.period_is_set(period_s, now_ms);
                }
            }
        }
    }
    answers
}

#[test]
fn report_h01_a_guest_is_asked_after_a_reset_at_any_moment() {
    // Two requests per second are sent, so that some of them must wait.
    let asked_ms: Vec<u64> = (0..12).map(|n| n * 500 + 7).collect();
    for reset_ms in (0..3_000).step_by(3) {
        let mut question = question(0);
        let answers = answers(&mut question, &asked_ms, reset_ms);
        let last_ms = answers.last().copied().unwrap_or_default();
        assert!(last_ms > 4_500, "reset at {reset_ms} ms, and answered at {answers:?}");
    }
}

#[test]
fn silent_guest_is_asked_twice_and_its_period_restored() {
    let mut question = question(0);
    assert_eq!(question.begin(0), None);
    let (mut now_ms, mut looks, mut marks) = (0, 0, 0);
    loop {
        match question.next() {
            Some(StatsCall::Known) => {
                looks += 1;
                assert_eq!(question.known(known(5), now_ms), None);
            }
            Some(StatsCall::SetPeriod(period_s)) => {
                marks += u32::from(period_s == MARK_S);
                question.period_is_set(period_s, now_ms);
            }
            Some(StatsCall::Period) => panic!("it is known"),
            None => match question.next_ms() {
                Some(at_ms) => {
                    now_ms = at_ms;
                    question.due(now_ms);
                }
                None => break,
            },
        }
    }
    assert!((6..=14).contains(&looks), "{looks}");
    assert_eq!((now_ms, marks, question.is_away), (PATIENCE_MS, 2, false));
}

#[test]
fn a_period_that_may_be_set_is_put_back_whatever_happens() {
    let mut question = question(0);
    question.begin(0);
    question.next();
    question.give_up();
    assert_eq!(question.next(), None, "nothing was set");
    question.begin(0);
    question.next();
    question.known(known(5), 0);
    assert_eq!(question.next(), Some(StatsCall::SetPeriod(MARK_S)));
    question.give_up();
    question.failed();
    question.period_is_set(MARK_S, 0);
    let restored = Some(StatsCall::SetPeriod(0));
    assert_eq!(question.next(), restored, "restored despite the failed call");
    question.failed();
    assert_eq!(question.next(), None, "a failed restore is not retried forever");
    // A period left behind by an earlier manager.
    for mark_s in [MARK_S, OLD_MARK_S] {
        let mut question = StatsQuestion::new(PACE);
        question.found(mark_s);
        assert_eq!(question.next(), restored);
    }
}
