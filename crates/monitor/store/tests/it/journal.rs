//! Tests of the journal: reading back, bounds, and pruning.

use crate::common::{Dir, EVER, MIB, START_MS, decision, guest, keys, read};
use std::ops::ControlFlow;
use store::{Event, Fate, Found, Journal, Outcome, Policy, Pruned, Query, Range, Word};

fn event(at_ms: i64, kind: &'static str) -> Event {
    Event { at_ms, kind: kind.into(), text: "It happened.".into() }
}

#[test]
fn decisions_come_back_as_they_were_written() {
    let mut journal = Journal::in_memory().expect("memory");
    let key = journal.guest(&guest("web1"), START_MS).expect("written");
    let written = decision(START_MS, 2048, 1792);
    let id = journal.decision(key, &written).expect("written");
    let outcomes = [
        Outcome {
            at_ms: START_MS + 500,
            fate: Fate::Stuck,
            reached_bytes: 1900 * MIB,
            host_got_bytes: None,
        },
        Outcome {
            at_ms: START_MS + 1_200,
            fate: Fate::Reached,
            reached_bytes: 1797 * MIB,
            host_got_bytes: Some(248 * MIB),
        },
    ];
    for outcome in &outcomes {
        journal.outcome(id, outcome).expect("written");
    }
    let found = read(&journal, &[key], EVER);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, found[0].guest), (id, key));
    assert_eq!(found[0].decision, written);
    assert_eq!(found[0].outcomes, outcomes);
}

#[test]
fn process_and_boot_identify_a_guest_and_its_name_does_not() {
    let mut journal = Journal::in_memory().expect("memory");
    let first = guest("web1");
    let key = journal.guest(&first, START_MS).expect("written");
    let others = [
        model::GuestIdentity { boot: "2".into(), ..first.clone() },
        model::GuestIdentity { pid: Some(5), ..first.clone() },
        model::GuestIdentity { start_ticks: None, ..first.clone() },
        model::GuestIdentity { uuid: "another".into(), ..first.clone() },
    ];
    for other in &others {
        assert_ne!(journal.guest(other, START_MS).expect("written"), key);
        let again = journal.guest(other, START_MS + 1).expect("written");
        assert_eq!(again, journal.guest(other, START_MS).expect("written"));
    }
    let renamed = model::GuestIdentity { name: "web2".into(), ..first };
    assert_eq!(journal.guest(&renamed, START_MS + 120_000).expect("written"), key);
    let rows = journal.guests().expect("read");
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[0].guest.name, "web2");
    assert_eq!((rows[0].first_ms, rows[0].last_ms), (START_MS, START_MS + 120_000));
}

#[test]
fn the_decision_in_force_and_the_last_move_are_found() {
    let mut journal = Journal::in_memory().expect("memory");
    let old = journal.guest(&guest("web1"), START_MS).expect("written");
    let booted = model::GuestIdentity { boot: "2".into(), ..guest("web1") };
    let new = journal.guest(&booted, START_MS + 5_000).expect("written");
    let moved = journal.decision(old, &decision(START_MS, 2048, 1792)).expect("written");
    journal.decision(old, &decision(START_MS + 1_000, 1792, 1792)).expect("written");
    let hold = journal.decision(new, &decision(START_MS + 5_000, 1792, 1792)).expect("written");
    let shadow =
        store::Decision { policy: Policy::Shadow, ..decision(START_MS + 5_000, 1792, 1024) };
    journal.decision(new, &shadow).expect("written");
    let both = [old, new];
    let in_force = |at| journal.in_force(&both, Policy::Active, at).expect("read");
    assert_eq!(in_force(START_MS - 1), None);
    assert_eq!(in_force(START_MS).map(|found| found.id), Some(moved));
    assert_eq!(in_force(i64::MAX).map(|found| found.id), Some(hold));
    let last = journal.last_move(&both, Policy::Active, i64::MAX).expect("read");
    assert_eq!(last.map(|found| found.id), Some(moved));
    let last = journal.last_move(&both, Policy::Shadow, i64::MAX).expect("read");
    let last = last.expect("the shadow moved it");
    assert!(!last.decision.acted, "a shadow policy does not act");
    let span = journal.span(&both, Some(Policy::Shadow)).expect("read");
    assert_eq!(span, Some(Range { from_ms: START_MS + 5_000, to_ms: START_MS + 5_000 }));
    assert_eq!(journal.span(&[], None).expect("read"), None);
}

#[test]
fn a_range_includes_its_ends_and_a_reader_may_break_off() {
    let mut journal = Journal::in_memory().expect("memory");
    let key = journal.guest(&guest("web1"), START_MS).expect("written");
    for second in 0..10 {
        journal.decision(key, &decision(START_MS + second * 1_000, 1, 1)).expect("written");
    }
    let range = Range { from_ms: START_MS + 2_000, to_ms: START_MS + 4_000 };
    let times: Vec<i64> =
        read(&journal, &[key], range).iter().map(|found| found.decision.at_ms - START_MS).collect();
    assert_eq!(times, [2_000, 3_000, 4_000]);
    let mut seen = 0;
    let query = Query { guests: vec![key], range: EVER, policy: Some(Policy::Active) };
    let visit = |_| {
        seen += 1;
        if seen == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    journal.decisions(&query, visit).expect("read");
    assert_eq!(seen, 4);
}

#[test]
fn events_are_the_guests_own_and_the_hosts() {
    let mut journal = Journal::in_memory().expect("memory");
    let web = journal.guest(&guest("web1"), START_MS).expect("written");
    let mail = journal.guest(&guest("mail"), START_MS).expect("written");
    journal.event(None, &event(START_MS, "manager-start")).expect("written");
    journal.event(Some(web), &event(START_MS + 1, "found")).expect("written");
    journal.event(Some(mail), &event(START_MS + 2, "found")).expect("written");
    let found = journal.events(&[web], EVER, 10).expect("read");
    assert_eq!(
        found,
        [
            Found { event: event(START_MS, "manager-start"), guest: None },
            Found { event: event(START_MS + 1, "found"), guest: Some(web) },
        ]
    );
    let last = journal.events(&[web, mail], EVER, 1).expect("read");
    assert_eq!(last[0].guest, Some(mail));
}

#[test]
fn the_texts_of_a_guest_are_cut_and_stay_text() {
    let mut journal = Journal::in_memory().expect("memory");
    let evil = "'); DROP TABLE decision; --\0\u{1b}[2J".repeat(10_000);
    let hostile = model::GuestIdentity { name: evil.clone(), boot: evil.clone(), ..guest("x") };
    let key = journal.guest(&hostile, START_MS).expect("written");
    let mut hostile_decision = decision(START_MS, 2, 1);
    (hostile_decision.clause, hostile_decision.detail) = ("stale".into(), evil.clone());
    hostile_decision.bounds = vec![Word::from(evil.clone()); 1_000];
    hostile_decision.inputs = vec![(Word::from(evil.clone()), Some(f64::INFINITY)); 1_000];
    hostile_decision.from_bytes = u64::MAX;
    journal.decision(key, &hostile_decision).expect("written");
    journal
        .event(Some(key), &Event { at_ms: START_MS, kind: "found".into(), text: evil })
        .expect("written");
    let found = read(&journal, &[key], EVER);
    let decision = &found[0].decision;
    assert!(decision.detail.starts_with("'); DROP TABLE"));
    assert!(decision.detail.len() <= 512 && decision.bounds.len() <= 16);
    assert!(decision.inputs.len() <= 64 && decision.inputs[0].1.is_none());
    assert_eq!(decision.from_bytes, i64::MAX as u64);
    assert!(journal.guests().expect("read")[0].guest.name.len() <= 255);
    assert!(journal.bytes().expect("a size") < 128 * 1024);
}

#[test]
fn report_h13_name_that_a_request_may_have_is_kept_whole() {
    let mut journal = Journal::in_memory().expect("memory");
    let name = "n".repeat(255);
    journal.guest(&model::GuestIdentity { name: name.clone(), ..guest("x") }, START_MS).expect("a");
    assert_eq!(journal.guests().expect("read")[0].guest.name, name);
}

#[test]
fn an_outcome_of_a_decision_that_went_is_not_kept() {
    let mut journal = Journal::in_memory().expect("memory");
    let key = journal.guest(&guest("web1"), START_MS).expect("written");
    let id = journal.decision(key, &decision(START_MS, 2, 1)).expect("written");
    let outcome =
        Outcome { at_ms: START_MS, fate: Fate::Gone, reached_bytes: MIB, host_got_bytes: None };
    journal.outcome(id, &outcome).expect("written");
    let pruned = journal.prune(START_MS + 1).expect("pruned");
    assert_eq!(pruned, Pruned { rows: 1, more: false });
    journal.outcome(id, &outcome).expect("the outcome is accepted and dropped");
    let next = journal.guest(&guest("web1"), START_MS).expect("written");
    let next = journal.decision(next, &decision(START_MS, 2, 1)).expect("written");
    assert_ne!(next, id, "a number is not given again");
    let found = read(&journal, &keys(&journal), EVER);
    assert_eq!(found[0].outcomes, []);
}

#[test]
fn old_rows_go_first_and_guests_with_them() {
    let mut journal = Journal::in_memory().expect("memory");
    let old = journal.guest(&guest("old"), START_MS).expect("written");
    let young = journal.guest(&guest("younger"), START_MS + 900_000).expect("written");
    journal.begin().expect("begun");
    for second in 0..3_000 {
        journal.decision(old, &decision(START_MS + second, 2, 1)).expect("written");
    }
    journal.commit().expect("written");
    journal.event(Some(old), &event(START_MS, "found")).expect("written");
    journal.decision(young, &decision(START_MS + 900_000, 2, 1)).expect("written");
    let before_ms = START_MS + 800_000;
    let first = journal.prune(before_ms).expect("pruned");
    assert!(first.more && first.rows < 3_000, "{first:?}: a call is bounded");
    assert_eq!(read(&journal, &[old], EVER)[0].decision.at_ms, START_MS + 2_000);
    let second = journal.prune(before_ms).expect("pruned");
    assert_eq!((first.rows + second.rows, second.more), (3_001, false));
    assert_eq!(keys(&journal), [young]);
}

#[test]
fn a_file_is_held_below_a_size_and_its_pages_are_given_back() {
    let dir = Dir::new("size");
    let mut journal = Journal::open(&dir.file()).expect("made");
    let key = journal.guest(&guest("web1"), START_MS).expect("written");
    journal.begin().expect("begun");
    for second in 0..10_000 {
        journal.decision(key, &decision(START_MS + second * 1_000, 2, 1)).expect("written");
    }
    journal.commit().expect("written");
    let before = journal.bytes().expect("a size");
    let most = before / 3;
    let mut calls = 0;
    while journal.prune_to_size(most).expect("pruned").more {
        calls += 1;
        assert!(calls < 100, "pruning ends");
    }
    assert!(journal.bytes().expect("a size") <= most);
    let left = read(&journal, &[key], EVER);
    assert!(left.len() > 1_000, "{} are left", left.len());
    assert_eq!(left.last().map(|last| last.decision.at_ms), Some(START_MS + 9_999_000));
    drop(journal);
    let size = std::fs::metadata(dir.file()).expect("there").len();
    assert!(size <= most, "{size} of {most}");
}

#[test]
fn a_journal_is_read_while_it_is_written() {
    let dir = Dir::new("both");
    let mut writer = Journal::open(&dir.file()).expect("made");
    let reader = Journal::read_only(&dir.file()).expect("opened");
    let key = writer.guest(&guest("web1"), START_MS).expect("written");
    writer.begin().expect("begun");
    writer.decision(key, &decision(START_MS, 2, 1)).expect("written");
    assert_eq!(read(&reader, &[key], EVER).len(), 0);
    writer.commit().expect("written");
    assert_eq!(read(&reader, &[key], EVER).len(), 1);
    writer.begin().expect("begun");
    writer.decision(key, &decision(START_MS, 2, 1)).expect("written");
    writer.roll_back();
    assert_eq!(read(&reader, &[key], EVER).len(), 1);
}
