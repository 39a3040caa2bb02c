//! Tests of damaged files. Each damaged file is set aside unchanged and reported once, and
//! recording continues.

use crate::common::{Dir, START_MS};
use crate::day::World;
use model::{Moment, Parts};
use std::ops::ControlFlow;
use std::path::Path;
use store::{Keep, News, Recorder, Records, Span};

const DAY: &str = "2026-11-21.db";
const SECOND_MS: i64 = 1_000;

fn moments(seconds: i64) -> Vec<Moment> {
    let mut world = World::new(4, START_MS);
    (1..=seconds).map(|second| world.at(START_MS + second * SECOND_MS)).collect()
}

fn record(dir: &Dir, moments: &[Moment]) -> Vec<News> {
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    moments.iter().filter_map(|moment| recorder.record(moment)).collect()
}

fn aside(dir: &Dir) -> Vec<String> {
    let entries = std::fs::read_dir(&dir.0).expect("there").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut found: Vec<String> = names.filter(|name| name.contains(".damaged-")).collect();
    found.sort();
    found
}

/// Returns the number of seconds of raw samples, and the number of minutes.
fn known(dir: &Dir) -> (usize, usize) {
    let records = Records::open(&dir.0).expect("opened");
    let (mut raw, mut minutes) = (0, 0);
    records
        .raw(i64::MIN, i64::MAX, |_| {
            raw += 1;
            ControlFlow::Continue(())
        })
        .expect("read");
    let span = Span { from_ms: START_MS, to_ms: i64::MAX, step_ms: 60_000 };
    records
        .visit(span, Parts::ALL, |interval| {
            minutes += usize::from(interval.host.covered_ms > 0);
            ControlFlow::Continue(())
        })
        .expect("read");
    (raw, minutes)
}

fn spoil(path: &Path) {
    let mut bytes = std::fs::read(path).expect("there");
    // The header is valid, but the tables after it are nonsense.
    for (at, byte) in bytes.iter_mut().enumerate().skip(100) {
        *byte = (at * 31 % 251) as u8;
    }
    std::fs::write(path, bytes).expect("written");
}

fn check(name: &str, harm: impl Fn(&Path), set_aside: &str) {
    let dir = Dir::new(name);
    let moments = moments(300);
    let (before, after) = moments.split_at(150);
    assert!(record(&dir, before).is_empty());
    let path = dir.0.join(set_aside);
    harm(&path);
    let damaged = std::fs::read(&path).expect("there");
    let news = record(&dir, after);
    let [News::SetAside { path: from, aside: name }] = &news[..] else { panic!("{news:?}") };
    assert_eq!(*from, path);
    assert_eq!(std::fs::read(name).expect("it is kept"), damaged);
    let names = aside(&dir);
    assert!(names.iter().all(|name| name.starts_with(set_aside)), "{names:?}");
    let (raw, minutes) = known(&dir);
    assert!(raw >= 150 && minutes >= 2, "{raw} seconds, {minutes} minutes");
}

#[test]
fn a_damaged_file_of_samples_is_set_aside() {
    let nonsense = |path: &Path| std::fs::write(path, "no database at all").expect("written");
    check("records-damaged-text", nonsense, "raw.db");
    check("records-damaged-pages", spoil, "raw.db");
}

#[test]
fn a_damaged_file_of_a_day_is_set_aside() {
    let nonsense = |path: &Path| std::fs::write(path, [7; 4_096]).expect("written");
    check("records-damaged-day", nonsense, DAY);
    check("records-damaged-day-pages", spoil, DAY);
}

/// If the writer kept an altered file, readers would refuse the file for as long as the writer used
/// it.
#[test]
fn finding2_07_altered_file_is_set_aside_by_its_writer() {
    let alter = |path: &Path| {
        let file = rusqlite::Connection::open(path).expect("opened");
        file.execute_batch("CREATE VIEW v AS SELECT 1; PRAGMA wal_checkpoint(TRUNCATE)")
            .expect("altered");
    };
    check("records-altered", alter, "raw.db");
    check("records-altered-day", alter, DAY);
    let dir = Dir::new("journal-altered");
    let path = dir.0.join("journal.db");
    drop(store::Journal::open(&path).expect("made"));
    alter(&path);
    let error = store::Journal::open(&path).expect_err("a file with a view is refused");
    assert!(matches!(error, store::Error::Altered { .. }), "{error}");
}

#[test]
fn file_is_still_ours_when_sqlite_has_analysed_it() {
    let dir = Dir::new("records-analysed");
    let moments = moments(300);
    let (before, after) = moments.split_at(150);
    record(&dir, before);
    let journal = dir.0.join("journal.db");
    drop(store::Journal::open(&journal).expect("made"));
    for path in [dir.0.join("raw.db"), dir.0.join(DAY), journal.clone()] {
        let file = rusqlite::Connection::open(&path).expect("opened");
        file.execute_batch("ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)").expect("analysed");
        let count = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'";
        let found: i64 = file.query_row(count, [], |row| row.get(0)).expect("counted");
        assert!(found > 0, "{}", path.display());
    }
    assert!(record(&dir, after).is_empty());
    store::Journal::open(&journal).expect("the file is a journal");
    assert!(known(&dir).0 >= 300 - 10);
}

#[test]
fn file_is_set_aside_when_its_statistics_have_another_text() {
    let alter = |path: &Path| {
        let file = rusqlite::Connection::open(path).expect("opened");
        file.execute_batch(
            "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES ('table', \
             'sqlite_stat1', 'sqlite_stat1', 0, \
             'CREATE TABLE sqlite_stat1(tbl,idx,stat, more INTEGER)')",
        )
        .expect("altered");
        file.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("taken over");
    };
    check("records-statistics", alter, "raw.db");
}

#[test]
fn somebody_elses_database_is_left_where_it_is() {
    let dir = Dir::new("records-damaged-foreign");
    let journal = dir.0.join("journal.db");
    drop(store::Journal::open(&journal).expect("made"));
    std::fs::rename(&journal, dir.0.join("raw.db")).expect("renamed");
    let news = record(&dir, &moments(20));
    assert!(matches!(&news[..], [News::Failed(store::Error::Foreign { .. })]), "{news:?}");
    assert!(aside(&dir).is_empty());
}

#[test]
fn a_disk_that_spoils_every_file_is_not_filled() {
    let dir = Dir::new("records-damaged-often");
    let moments = moments(70);
    for part in moments.chunks(10) {
        std::fs::write(dir.0.join("raw.db"), "spoilt").expect("written");
        let news = record(&dir, part);
        assert!(matches!(&news[..], [News::SetAside { .. }]), "{news:?}");
    }
    assert_eq!(aside(&dir).len(), 3, "{:?}", aside(&dir));
    std::fs::write(dir.0.join(DAY), "spoilt").expect("written");
    record(&dir, &moments);
    let kinds = ["raw.db.", DAY]
        .map(|kind| aside(&dir).iter().filter(|name| name.starts_with(kind)).count());
    assert_eq!(kinds, [3, 1], "each kind has its own");
}
