//! Audit findings on hostile files.

use crate::common::{Dir, START_MS, decision, guest};
use crate::day::World;
use model::Parts;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use store::{Error, Journal, Keep, Recorder, Records, Span};

const DAY: &str = "2026-11-21.db";
const MONTH: &str = "2026-11.db";
const EVER: Span = Span { from_ms: START_MS, to_ms: i64::MAX, step_ms: 60_000 };

fn recorded(name: &str) -> Dir {
    let dir = Dir::new(name);
    let mut world = World::new(4, START_MS);
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    for second in (1..=1_200).step_by(10) {
        assert!(recorder.record(&world.at(START_MS + second * 1_000)).is_none());
    }
    dir
}

fn change(path: &Path, sql: &str) {
    let file = rusqlite::Connection::open(path).expect("opened");
    file.execute_batch(sql).expect("changed");
}

fn read(dir: &Dir) -> Result<(), Error> {
    let records = Records::open(&dir.0)?;
    records.visit(EVER, Parts::ALL, |_| ControlFlow::Continue(()))?;
    records.gaps(i64::MIN, i64::MAX)?;
    records.raw(i64::MIN, i64::MAX, |_| ControlFlow::Continue(()))?;
    records.passes(i64::MIN, i64::MAX, |_| ControlFlow::Continue(()))
}

/// Returns the name of the foreign object for which a file was refused.
fn altered(result: Result<(), Error>) -> Option<String> {
    match result {
        Err(Error::Altered { name, .. }) => Some(name),
        _ => None,
    }
}

#[test]
fn finding2_07_computed_column_is_refused() {
    let long = "(printf('%.*c', 20000000, 'x'))";
    for (at, (file, table, sql)) in [
        (DAY, "guest", format!("ALTER TABLE guest ADD COLUMN x TEXT AS {long}")),
        (DAY, "minute_guest", format!("ALTER TABLE minute_guest ADD COLUMN x INTEGER AS {long}")),
        (MONTH, "tier", "ALTER TABLE tier ADD COLUMN x TEXT DEFAULT 'long'".into()),
        (DAY, "v", "CREATE VIEW v AS SELECT 1".into()),
        (MONTH, "i", "CREATE INDEX i ON guest (name || name)".into()),
        (DAY, "t", "CREATE TRIGGER t AFTER INSERT ON tier BEGIN SELECT 1; END".into()),
        (DAY, "f", "CREATE VIRTUAL TABLE f USING fts5(x)".into()),
        ("raw.db", "raw", "ALTER TABLE raw ADD COLUMN x DEFAULT 'long'".into()),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = recorded(&format!("computed-{at}"));
        read(&dir).expect("as it was recorded");
        change(&dir.0.join(file), &sql);
        assert_eq!(altered(read(&dir)).as_deref(), Some(table), "{sql}");
        let asked = Records::open(&dir.0).expect("opened").sql().map(drop);
        assert_eq!(altered(asked).as_deref(), Some(table), "{sql}");
    }
}

#[test]
fn finding2_07_computed_column_of_a_journal_is_refused() {
    let dir = Dir::new("computed-journal");
    drop(Journal::open(&dir.file()).expect("made"));
    change(&dir.file(), "ALTER TABLE event ADD COLUMN x TEXT AS (kind || text)");
    let error = Journal::read_only(&dir.file()).expect_err("it is refused").to_string();
    assert!(error.contains("contains `event`, which"), "{error}");
}

#[test]
fn finding2_07_file_of_a_later_version_has_more_columns() {
    let dir = recorded("later");
    change(&dir.0.join(DAY), "ALTER TABLE minute_guest ADD COLUMN of_a_later_version INTEGER");
    change(&dir.0.join("raw.db"), "ALTER TABLE raw ADD COLUMN packed_9 INTEGER");
    read(&dir).expect("the recording is read");
}

/// Makes all pointers in the root of a table lead to the same page.
fn lead_to_one_page(path: &Path, table: &str) {
    let file = rusqlite::Connection::open(path).expect("opened");
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    file.query_row(checkpoint, [], |_| Ok(())).expect("the log is checkpointed");
    let ask = "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = ?";
    let [root, size]: [u32; 2] =
        file.query_row(ask, [table], |row| Ok([row.get(0)?, row.get(1)?])).expect("there");
    let [root, size] = [root as usize, size as usize];
    drop(file);
    let mut bytes = fs::read(path).expect("there");
    let page = &mut bytes[(root - 1) * size..root * size];
    let cells = usize::from(u16::from_be_bytes([page[3], page[4]]));
    assert!(page[0] == 5 && cells > 1, "{table} has too few rows for a tree");
    let place = |page: &[u8], cell: usize| {
        usize::from(u16::from_be_bytes([page[12 + 2 * cell], page[13 + 2 * cell]]))
    };
    let first = place(page, 0);
    let child: [u8; 4] = page[first..first + 4].try_into().expect("four bytes");
    for cell in 1..cells {
        let at = place(page, cell);
        page[at..at + 4].copy_from_slice(&child);
    }
    fs::write(path, bytes).expect("written");
}

#[test]
fn finding2_07_page_that_is_there_twice_is_damage() {
    let dir = recorded("twice");
    let mut journal = Journal::open(&dir.file()).expect("made");
    journal.begin().expect("begun");
    for at_ms in 0..2_000 {
        let key = journal.guest(&guest(&at_ms.to_string()), at_ms).expect("written");
        journal.decision(key, &decision(at_ms, 1, 1)).expect("written");
    }
    journal.commit().expect("written");
    drop(journal);
    lead_to_one_page(&dir.file(), "guest");
    let journal = Journal::read_only(&dir.file()).expect("opened");
    assert!(matches!(journal.guests(), Err(Error::Row { table: "guest", .. })));

    let numbers = "WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n LIMIT 2000)";
    let tables = [
        ("guest", "guest", "SELECT i, i, hex(zeroblob(50)), '', 1, 1, '' FROM n"),
        ("minute_host", "host", "SELECT i * 100, 60000 FROM n"),
        ("minute_guest", "guest", "SELECT i, 60000, 1 FROM n"),
    ];
    for (table, named, rows) in tables {
        let dir = recorded(&format!("twice-{table}"));
        let columns = match table {
            "guest" => "key, uuid, name, class, pid, start_ticks, boot",
            "minute_host" => "id, covered_ms",
            _ => "id, covered_ms, guest",
        };
        let day = dir.0.join(DAY);
        change(&day, &format!("{numbers} INSERT OR REPLACE INTO {table} ({columns}) {rows}"));
        lead_to_one_page(&day, table);
        let span = Span { from_ms: 0, ..EVER };
        let records = Records::open(&dir.0).expect("opened");
        let read = records.visit(span, Parts::ALL, |_| ControlFlow::Continue(()));
        let Err(Error::Row { table: found, .. }) = read else { panic!("{table}: {read:?}") };
        assert_eq!(found, named);
    }
}

#[test]
fn finding2_07_long_name_in_a_file_is_cut() {
    let dir = recorded("long");
    change(&dir.0.join(DAY), "UPDATE guest SET name = hex(zeroblob(1000000))");
    let mut longest = 0;
    let visit = |interval: model::Interval| {
        longest = interval.guests.keys().map(|who| who.name.len()).fold(longest, usize::max);
        ControlFlow::Continue(())
    };
    Records::open(&dir.0).expect("opened").visit(EVER, Parts::ALL, visit).expect("read");
    assert_eq!(longest, 255);
}

#[test]
fn finding2_07_value_that_is_too_long_is_refused() {
    let dir = recorded("huge");
    change(&dir.0.join(DAY), "UPDATE guest SET name = zeroblob(40000000)");
    let error = read(&dir).expect_err("it is refused");
    assert!(base::chain(&error).contains("too big"), "{}", base::chain(&error));
}

/// Creates a pipe and opens both of its ends, so that later opens do not block.
fn pipe(path: &Path) -> fs::File {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
    fs::OpenOptions::new().read(true).write(true).open(path).expect("opened at both ends")
}

#[test]
fn finding2_07_pipe_in_place_of_a_file_is_refused() {
    for (at, name) in [DAY, MONTH, "raw.db", "passes.db"].into_iter().enumerate() {
        let dir = recorded(&format!("pipe-{at}"));
        let file = dir.0.join(name);
        fs::OpenOptions::new().append(true).create(true).open(&file).expect("created");
        // The pipe for the file itself comes last and stays.
        for ending in ["-wal", "-shm", "-journal", ""] {
            let path = dir.0.join(format!("{name}{ending}"));
            let _ = fs::remove_file(&path);
            let _other_end = pipe(&path);
            let read = read(&dir);
            let Err(Error::NoFile { path: found }) = read else { panic!("{path:?}: {read:?}") };
            assert_eq!(found, path);
            fs::remove_file(&path).expect("taken away");
        }
    }
}

#[test]
fn finding2_07_pipe_in_place_of_a_journal_is_refused() {
    let dir = Dir::new("pipe-journal");
    let _other_end = pipe(&dir.file());
    assert!(matches!(Journal::read_only(&dir.file()), Err(Error::NoFile { .. })));
    assert!(matches!(Journal::open(&dir.file()), Err(Error::NoFile { .. })));
}

#[test]
fn finding2_15_clock_that_runs_ahead_costs_a_file_an_hour() {
    let dir = Dir::new("ahead");
    let mut world = World::new(1, START_MS);
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    // Ten minutes of each of four days, and ten minutes two months later.
    for begin_ms in [0, 1, 2, 3, 60].map(|day| START_MS + day * 86_400_000) {
        for number in 0..60 {
            assert!(recorder.record(&world.at(begin_ms + number * 10_000)).is_none());
        }
    }
    let left = fs::read_dir(&dir.0).expect("there").flatten().filter(|entry| {
        let name = entry.file_name();
        name.len() == DAY.len() && name.to_string_lossy().ends_with(".db")
    });
    assert_eq!(left.count(), 4, "three of four days, and the current one");
}
