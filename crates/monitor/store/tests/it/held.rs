//! Locks of a process with read access only, which must not block any writing.

use crate::common::{Dir, EVER, START_MS, decision, guest, keys, read};
use crate::day::World;
use base::duration::DAY_MS;
use std::fs::{File, Permissions, metadata, set_permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Journal, Keep, News, Recorder, Records, Writer};

/// Environment variable of the child: path of the file to lock.
const FILE: &str = "PINHEAD_TEST_HELD";
/// Longer than a copy takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// Shorter than the timeout of a reader on ten locked files.
const SOON: Duration = Duration::from_secs(15);
/// User and group of `nobody`.
const NOBODY: u32 = 65_534;

/// This test is also the child, if the variable is set. The child opens a file for reading and
/// locks it until its input ends.
#[test]
fn child_that_keeps_a_file_locked() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = File::open(path).expect("its group may read it");
    let shared = rustix::fs::FlockOperation::NonBlockingLockShared;
    rustix::fs::fcntl_lock(&file, shared).expect("a reader's lock");
    // The harness would capture `println`.
    writeln!(std::io::stderr().lock(), "locked").expect("the parent listens");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Another process with a lock on a file. If the test runs as root, the other process runs as
/// another user.
struct Locked(Child);

impl Locked {
    fn new(path: &Path) -> Locked {
        let is_root = rustix::process::geteuid().is_root();
        let mut child = Command::new("/proc/self/exe");
        child
            .args(["--exact", "held::child_that_keeps_a_file_locked", "--nocapture"])
            .env(FILE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if is_root {
            chown(path, None, Some(NOBODY)).expect("given to its group");
            child.uid(NOBODY).gid(NOBODY);
        }
        let mut child = child.spawn().expect("the child starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let line = lines.next().expect("a line").expect("text");
        assert_eq!(line, "locked");
        Locked(child)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("gone");
    }
}

/// Returns the path of a replaced file, after a check that the news contain the process.
fn replaced(news: &[News], locked: &Locked) -> PathBuf {
    let [News::Failed(_), News::Held { path, by }, rest @ ..] = news else { panic!("{news:?}") };
    assert!(matches!(rest, [] | [News::Recovered { lost: 0 }]), "{news:?}");
    assert!(by.starts_with(&format!("process {} (", locked.0.id())), "{by}");
    path.clone()
}

/// Returns all news until the writer has recovered.
fn until_recovered(mut turn: impl FnMut() -> Option<News>) -> Vec<News> {
    let mut news = Vec::new();
    wait_until(|| {
        news.extend(turn());
        matches!(news.last(), Some(News::Recovered { .. }))
    });
    news
}

#[allow(clippy::disallowed_methods, reason = "a deadline for another thread")]
fn wait_until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG);
        std::thread::yield_now();
    }
}

#[test]
fn finding2_03_readers_lock_does_not_stop_the_journal() {
    let dir = Dir::new("held");
    let mut writer = Writer::new(&dir.file());
    let web = Arc::new(guest("web1"));
    writer.decision(&web, decision(START_MS, 2, 1));
    assert!(writer.flush().is_none());
    let locked = Locked::new(&dir.0.join("journal.db-shm"));
    writer.decision(&web, decision(START_MS + 1, 1, 2));
    let news = until_recovered(|| writer.flush());
    assert_eq!(replaced(&news, &locked), dir.file());
    // The group had one lock, and cannot get another.
    assert_eq!(metadata(dir.file()).expect("there").mode() & 0o777, 0o600);
    let known = Journal::read_only(&dir.file()).expect("opened");
    assert_eq!(read(&known, &keys(&known), EVER).len(), 2);
}

#[test]
fn finding2_03_readers_lock_does_not_stop_recordings() {
    for held in ["raw.db", "2026-11-21.db", "2026-11.db"] {
        let dir = Dir::new("held-records");
        let mut world = World::new(4, START_MS);
        let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
        let mut record = |seconds: std::ops::Range<i64>| {
            let mut news = Vec::new();
            for second in seconds {
                news.extend(recorder.record(&world.at(START_MS + second * 10_000)));
                // In real time a copy is over before the next sample, or soon after it.
                wait_until(|| !recorder.is_copying());
            }
            news
        };
        assert!(record(1..200).is_empty());
        let locked = Locked::new(&dir.0.join(format!("{held}-shm")));
        assert_eq!(replaced(&record(200..600), &locked), dir.0.join(held));
        assert!(record(600..700).is_empty());
        let records = Records::open(&dir.0).expect("opened");
        let minutes = records.intervals(START_MS, START_MS + 6_960_000, 60_000).expect("read");
        assert!(minutes.iter().all(|minute| minute.host.covered_ms > 0), "{held}");
        assert_eq!(minutes.len(), 116);
    }
}

#[test]
fn finding2_03_recorder_that_ends_waits_for_a_copy() {
    let dir = Dir::new("held-end");
    let mut world = World::new(4, START_MS);
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    let mut moments = (1..).map(|second| world.at(START_MS + second * 10_000));
    for moment in moments.by_ref().take(30) {
        assert!(recorder.record(&moment).is_none());
    }
    let _locked = Locked::new(&dir.0.join("raw.db-shm"));
    // The third attempt fails seven turns after the first, and a copy begins.
    let mut last_ms = 0;
    for moment in moments.take(9) {
        last_ms = moment.at_ms;
        let news = recorder.record(&moment);
        assert!(matches!(news, None | Some(News::Failed(_) | News::Held { .. })), "{news:?}");
    }
    recorder.close().expect("the copy is free of the lock");
    let mut seen_ms = 0;
    let visit = |moment: model::Moment| {
        seen_ms = moment.at_ms;
        std::ops::ControlFlow::Continue(())
    };
    Records::open(&dir.0).expect("opened").raw(0, i64::MAX, visit).expect("read");
    assert_eq!(seen_ms, last_ms);
}

/// Returns a journal with one entry that another process has locked, after some flushes.
fn locked_journal(dir: &Dir, flushes: i64) -> (Writer, Locked) {
    let mut writer = Writer::new(&dir.file());
    let web = Arc::new(guest("web1"));
    writer.decision(&web, decision(START_MS, 2, 1));
    assert!(writer.flush().is_none());
    let locked = Locked::new(&dir.0.join("journal.db-shm"));
    for flush in 1..=flushes {
        writer.decision(&web, decision(START_MS + flush, 1, 2));
        writer.flush();
    }
    (writer, locked)
}

#[test]
fn journal_that_ends_waits_for_a_copy() {
    let dir = Dir::new("held-journal-end");
    // The third attempt fails with the seventh flush, and a copy begins.
    let (mut writer, _locked) = locked_journal(&dir, 7);
    writer.finish();
    assert_eq!(writer.queued(), 0);
    drop(writer);
    let known = Journal::read_only(&dir.file()).expect("opened");
    assert_eq!(read(&known, &keys(&known), EVER).len(), 8);
}

#[test]
fn journal_that_ends_is_copied_when_it_was_just_locked() {
    let dir = Dir::new("held-journal-soon");
    let (mut writer, locked) = locked_journal(&dir, 0);
    writer.decision(&Arc::new(guest("web1")), decision(START_MS + 1, 1, 2));
    assert_eq!(replaced(&writer.finish(), &locked), dir.file());
    assert_eq!(writer.queued(), 0);
}

/// Creates a copy of the day's file under a name, and locks it exclusively.
fn hold(dir: &Dir, name: &str) -> rusqlite::Connection {
    let path = dir.0.join(name);
    let today = dir.0.join("2026-11-21.db");
    let log = rusqlite::Connection::open(&today).expect("opened");
    log.execute_batch("PRAGMA wal_checkpoint").expect("taken over");
    std::fs::copy(today, &path).expect("copied");
    let held = rusqlite::Connection::open(&path).expect("opened");
    held.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").expect("locked");
    held
}

#[test]
fn finding2_03_held_file_of_a_day_before_has_no_other_replaced() {
    let dir = Dir::new("held-before");
    let mut world = World::new(1, START_MS);
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    let mut record = |seconds: std::ops::Range<i64>| -> Vec<News> {
        let moments = seconds.map(|second| world.at(START_MS + second * 10_000));
        moments.filter_map(|moment| recorder.record(&moment)).collect()
    };
    assert!(record(1..200).is_empty());
    let _held = hold(&dir, "2026-11-20.db");
    let news = record(200..230);
    assert!(!news.iter().any(|news| matches!(news, News::Held { .. })), "{news:?}");
    for name in ["raw.db", "2026-11.db", "2026-11-21.db"] {
        assert_eq!(metadata(dir.0.join(name)).expect("there").mode() & 0o777, 0o640, "{name}");
    }
}

#[test]
fn recorder_waits_once_when_files_of_days_are_held() {
    let dir = Dir::new("held-days");
    let mut world = World::new(1, START_MS);
    let mut recorder = Recorder::new(&dir.0, Keep { minutes_days: 30, ..Keep::USUAL });
    let mut moments = (0..).map(move |second| world.at(START_MS + second * 10_000));
    let mut quiet = |moment| assert!(recorder.record(&moment).is_none());
    moments.by_ref().take(178).for_each(&mut quiet);
    let held: Vec<_> = (10..20).map(|day| hold(&dir, &format!("2026-11-{day}.db"))).collect();
    let (ended, end) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // Three minutes pass. In each minute the recorder tries to sum rows of the locked files.
        let news = moments.by_ref().take(18).filter_map(|moment| recorder.record(&moment));
        let _ = ended.send(news.collect::<Vec<_>>());
        drop(held);
        moments.take(600).for_each(|moment| assert!(recorder.record(&moment).is_none()));
    });
    let news = end.recv_timeout(SOON).expect("all files share one timeout");
    assert!(matches!(&news[..], [News::Failed(_)]), "told once: {news:?}");
    thread.join().expect("recorded");
    let before_ms = START_MS - 2 * DAY_MS;
    let records = Records::open(&dir.0).expect("opened");
    let days = records.intervals(before_ms, before_ms + DAY_MS, 900_000).expect("read");
    assert!(days.iter().any(|quarter| quarter.host.covered_ms > 0), "the quarter was summed later");
}

#[test]
fn finding2_03_reader_that_never_ends_does_not_let_the_log_grow() {
    let dir = Dir::new("held-log");
    // The name is a symlink, and the log lies next to the real file.
    let link = dir.0.join("link.db");
    std::os::unix::fs::symlink(dir.file(), &link).expect("a link");
    let mut writer = Writer::new(&link);
    let web = Arc::new(guest("web1"));
    writer.decision(&web, decision(START_MS, 2, 1));
    assert!(writer.flush().is_none());
    let reader = Journal::read_only(&dir.file()).expect("opened");
    // A sparse log of many pages that has not been checkpointed.
    let log = dir.0.join("journal.db-wal");
    let longer = File::options().write(true).open(&log).expect("there");
    longer.set_len((128 << 20) + 1).expect("made longer");
    let (mut written, mut news) = (1, None);
    wait_until(|| {
        if written < 100 {
            writer.decision(&web, decision(START_MS + written, 1, 2));
            written += 1;
        }
        news = writer.flush();
        news.is_some()
    });
    let Some(News::Held { path, .. }) = news else { panic!("{news:?}") };
    assert_eq!(path, dir.file());
    assert!(!log.exists() && link.is_symlink());
    while writer.queued() > 0 {
        assert!(writer.flush().is_none());
    }
    set_permissions(dir.file(), Permissions::from_mode(0o640)).expect("given back");
    assert!(read(&reader, &keys(&reader), EVER).len() as i64 <= written);
    let known = Journal::read_only(&dir.file()).expect("opened");
    assert_eq!(read(&known, &keys(&known), EVER).len() as i64, written);
}

#[test]
fn finding2_03_rest_of_a_copy_is_taken_away() {
    let dir = Dir::new("held-rest");
    let rest = ["copying", "copying-wal", "copying-shm", "copying-journal"].map(|ending| {
        let path = dir.0.join(format!("journal.db.{ending}"));
        std::fs::write(&path, "half of it").expect("written");
        path
    });
    let mut writer = Writer::new(&dir.file());
    writer.decision(&Arc::new(guest("web1")), decision(START_MS, 2, 1));
    assert!(writer.flush().is_none());
    assert!(rest.iter().all(|path| !path.exists()));
}
