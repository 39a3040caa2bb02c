//! Tests of recorded passes.

use crate::common::{Dir, START_MS};
use model::{GuestIdentity, PassField, PassGuest, PassGuestField, PassInput};
use std::ops::ControlFlow;
use store::{Keep, News, PassRecorder, Recorder, Records};

/// Returns one pass per second, with one guest of growing memory.
fn pass(number: u64) -> PassInput {
    let mut pass = PassInput {
        number,
        // A pass at the exact end of a minute belongs to that minute.
        at_ms: START_MS + (number + 1).cast_signed() * 1000,
        now_ms: number * 1000,
        ..PassInput::default()
    };
    pass.host.set(PassField::Available, Some(number << 20));
    let who = GuestIdentity { name: "web".into(), ..GuestIdentity::default() };
    let mut guest = PassGuest { who: who.into(), ..PassGuest::default() };
    guest.row.set(PassGuestField::Actual, Some(number << 12));
    pass.guests.insert(7, guest);
    pass
}

fn dir(name: &str) -> Dir {
    let dir = Dir::new(name);
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    assert!(recorder.record(&model::Moment { at_ms: START_MS, ..Default::default() }).is_none());
    recorder.close().expect("closed");
    dir
}

fn read(dir: &Dir, from_ms: i64, to_ms: i64) -> Vec<u64> {
    let mut found = Vec::new();
    let records = Records::open(&dir.0).expect("opened");
    let visit = |seen: PassInput| {
        assert_eq!(seen, pass(seen.number));
        found.push(seen.number);
        ControlFlow::Continue(())
    };
    records.passes(from_ms, to_ms, visit).expect("read");
    found
}

const DAY_MS: i64 = 86_400_000;
const MOST: u64 = 1 << 20;

#[test]
fn passes_are_written_by_the_minute_and_read_by_their_times() {
    let dir = dir("passes");
    assert!(read(&dir, 0, i64::MAX).is_empty(), "a recording without passes");
    let mut recorder = PassRecorder::new(&dir.0, DAY_MS, MOST);
    for number in 0..150 {
        assert!(recorder.record(&pass(number)).is_none());
    }
    assert_eq!(read(&dir, 0, i64::MAX), (0..120).collect::<Vec<_>>(), "minutes that are over");
    recorder.close().expect("closed");
    assert_eq!(read(&dir, 0, i64::MAX), (0..150).collect::<Vec<_>>());
    let from = START_MS + 59_000;
    assert_eq!(read(&dir, from, from + 4_000), [58, 59, 60, 61]);
    // The next process appends.
    let mut recorder = PassRecorder::new(&dir.0, DAY_MS, MOST);
    (200..210).for_each(|number| assert!(recorder.record(&pass(number)).is_none()));
    recorder.close().expect("closed");
    assert_eq!(
        read(&dir, START_MS + 150_000, i64::MAX),
        [149].into_iter().chain(200..210).collect::<Vec<_>>()
    );
}

#[test]
fn old_passes_are_removed_and_readers_may_stop_early() {
    let dir = dir("passes-old");
    let mut recorder = PassRecorder::new(&dir.0, 120_000, MOST);
    (0..600).for_each(|number| assert!(recorder.record(&pass(number)).is_none()));
    drop(recorder);
    let kept = read(&dir, 0, i64::MAX);
    assert_eq!(kept.first(), Some(&420), "two minutes before the last one was over");
    let mut count = 0;
    let visit = |_| {
        count += 1;
        ControlFlow::Break(())
    };
    Records::open(&dir.0).expect("opened").passes(0, i64::MAX, visit).expect("read");
    assert_eq!(count, 1);
}

#[test]
fn damaged_files_are_set_aside_and_damaged_blocks_reported() {
    let dir = dir("passes-damaged");
    let file = dir.0.join("passes.db");
    std::fs::write(&file, [7; 8192]).expect("written");
    let mut recorder = PassRecorder::new(&dir.0, DAY_MS, MOST);
    let news: Vec<News> = (0..70).filter_map(|number| recorder.record(&pass(number))).collect();
    assert!(matches!(&news[..], [News::SetAside { .. }]), "{news:?}");
    recorder.close().expect("closed");
    assert_eq!(read(&dir, 0, i64::MAX).len(), 70);
    let opened = rusqlite::Connection::open(&file).expect("opened");
    opened.execute("UPDATE pass SET bytes = x'0102' WHERE number = 2", []).expect("changed");
    drop(opened);
    let records = Records::open(&dir.0).expect("opened");
    let mut count = 0;
    let visit = |_| {
        count += 1;
        ControlFlow::Continue(())
    };
    let error = records.passes(0, i64::MAX, visit).expect_err("damaged").to_string();
    assert!(error.contains("the rows before and after this row can be read"), "{error}");
    assert_eq!(count, 60);
}
