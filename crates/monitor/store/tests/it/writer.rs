//! Tests of the writer, which keeps unwritten records, reports a failure once, and never blocks its
//! caller.

use crate::common::{Dir, EVER, MIB, START_MS, decision, guest, keys, read};
use std::sync::Arc;
use store::{Event, Fate, Journal, News, Outcome, QUEUE_MAX, Writer};

fn outcome() -> Outcome {
    Outcome { at_ms: START_MS + 9, fate: Fate::Reached, reached_bytes: MIB, host_got_bytes: None }
}

/// Flushes until there is news. More flushes than the longest pause are an error.
fn flush_until_news(writer: &mut Writer) -> News {
    (0..40).find_map(|_| writer.flush()).expect("there is news within the longest pause")
}

#[test]
fn outcome_finds_its_decision_in_the_same_or_a_later_flush() {
    let mut writer = Writer::to(Journal::in_memory().expect("memory"));
    let web = Arc::new(guest("web1"));
    let first = writer.decision(&web, decision(START_MS, 2, 1));
    writer.outcome(first, outcome());
    let second = writer.decision(&web, decision(START_MS + 1, 2, 1));
    assert!(writer.flush().is_none());
    writer.outcome(second, outcome());
    assert!(writer.flush().is_none());
    assert_eq!((writer.queued(), writer.lost()), (0, 0));
    let journal = writer.journal().expect("open");
    let found = read(journal, &keys(journal), EVER);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|found| found.outcomes == [outcome()]), "{found:?}");
}

#[test]
fn a_lock_is_reported_once_and_nothing_is_lost() {
    let dir = Dir::new("lock");
    let mut writer = Writer::new(&dir.file());
    let web = Arc::new(guest("web1"));
    let moved = writer.decision(&web, decision(START_MS, 2, 1));
    assert!(writer.flush().is_none());
    let mut other = Journal::open(&dir.file()).expect("opened");
    other.begin().expect("begun");
    writer.outcome(moved, outcome());
    writer.decision(&web, decision(START_MS + 1, 1, 2));
    let news = writer.flush();
    assert!(matches!(news, Some(News::Failed(_))), "{news:?}");
    for _ in 0..4 {
        assert!(writer.flush().is_none(), "the failure is reported once");
    }
    assert_eq!(writer.queued(), 2);
    other.roll_back();
    let news = flush_until_news(&mut writer);
    assert!(matches!(news, News::Recovered { lost: 0 }), "{news:?}");
    let found = read(&other, &keys(&other), EVER);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].outcomes, [outcome()]);
}

#[test]
fn a_full_queue_loses_its_oldest_and_the_journal_says_how_many() {
    let dir = Dir::new("full");
    let late = dir.file().with_file_name("late");
    let mut writer = Writer::new(&late.join("journal.db"));
    let web = Arc::new(guest("web1"));
    for second in 0..QUEUE_MAX as i64 + 5 {
        writer.decision(&web, decision(START_MS + second, 2, 1));
    }
    let news = writer.flush();
    assert!(matches!(news, Some(News::Failed(_))), "{news:?}: there is no such directory");
    assert_eq!((writer.queued(), writer.lost()), (QUEUE_MAX, 5));
    std::fs::create_dir(&late).expect("made");
    let news = flush_until_news(&mut writer);
    assert!(matches!(news, News::Recovered { lost: 5 }), "{news:?}");
    while writer.queued() > 0 {
        assert!(writer.flush().is_none());
    }
    let journal = writer.journal().expect("open");
    assert_eq!(read(journal, &keys(journal), EVER).len(), QUEUE_MAX);
    let events = journal.events(&[], EVER, 10).expect("read");
    assert_eq!(events.len(), 1);
    assert!(events[0].event.text.starts_with("5 records are missing"), "{events:?}");
    assert_eq!(events[0].event.at_ms, START_MS + 5);
}

#[test]
fn removed_journal_is_started_again() {
    let dir = Dir::new("away");
    let mut writer = Writer::new(&dir.file());
    let web = Arc::new(guest("web1"));
    writer.decision(&web, decision(START_MS, 2, 1));
    assert!(writer.flush().is_none());
    std::fs::rename(dir.file(), dir.file().with_extension("old")).expect("moved");
    writer.decision(&web, decision(START_MS + 1, 2, 1));
    writer.event(Some(&web), Event { at_ms: START_MS, kind: "gone".into(), text: String::new() });
    assert!(writer.flush().is_none());
    let fresh = Journal::read_only(&dir.file()).expect("the journal exists again");
    let found = read(&fresh, &keys(&fresh), EVER);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].decision.at_ms, START_MS + 1);
}

#[test]
fn old_rows_are_pruned_by_time_and_by_size() {
    let mut writer = Writer::to(Journal::in_memory().expect("memory"));
    let web = Arc::new(guest("web1"));
    assert_eq!(writer.prune(START_MS, 1).expect("pruned").rows, 0);
    for second in 0..3_000 {
        writer.decision(&web, decision(START_MS + second * 1_000, 2, 1));
    }
    assert!(writer.flush().is_none());
    let pruned = writer.prune(START_MS + 1_000_000, u64::MAX).expect("pruned");
    assert_eq!((pruned.rows, pruned.more), (1_000, false));
    while writer.prune(0, 64 * 1024).expect("pruned").more {}
    let bytes = writer.journal().expect("open").bytes().expect("a size");
    assert!(bytes <= 64 * 1024, "{bytes}");
}

/// The writer can be moved to another thread, so that its manager never waits for a disk.
#[test]
fn a_writer_can_be_given_to_a_thread() {
    let mut writer = Writer::to(Journal::in_memory().expect("memory"));
    writer.decision(&Arc::new(guest("web1")), decision(START_MS, 2, 1));
    let thread = std::thread::spawn(move || (writer.flush().is_none(), writer.queued()));
    assert_eq!(thread.join().expect("it ends"), (true, 0));
}
