use super::*;
use std::path::PathBuf;

const KIND: Kind = Kind { application_id: 77, migrations: &["CREATE TABLE a (b);"] };
const LATER: Kind = Kind {
    application_id: 77,
    migrations: &["CREATE TABLE a (b);", "ALTER TABLE a ADD COLUMN c DEFAULT 5;"],
};
const OTHER: Kind = Kind { application_id: 78, migrations: &["CREATE TABLE z (y);"] };

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let name = format!("pinhead-db-{}-{name}", std::process::id());
        let dir = Dir(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&dir.0).expect("the temporary directory can be written to");
        dir
    }

    fn file(&self) -> PathBuf {
        self.0.join("50% ?#é.db")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // A remaining directory does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn value(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).expect("a row")
}

#[test]
fn a_file_of_an_older_version_is_migrated() {
    let dir = Dir::new("older");
    let old = open(&dir.file(), &KIND).expect("made");
    old.execute("INSERT INTO a VALUES (3)", []).expect("written");
    drop(old);
    let new = open(&dir.file(), &LATER).expect("opened");
    assert_eq!(value(&new, "SELECT b + c FROM a"), 8);
    assert_eq!(value(&new, "PRAGMA user_version"), 2);
    assert_eq!(value(&new, "PRAGMA auto_vacuum"), 2, "incremental");
}

#[test]
fn a_file_of_a_later_version_is_refused_and_unchanged() {
    let dir = Dir::new("newer");
    drop(open(&dir.file(), &LATER).expect("made"));
    for opened in [open(&dir.file(), &KIND), open_read_only(&dir.file(), &KIND)] {
        let error = opened.expect_err("a newer version is refused");
        assert!(matches!(error, Error::Newer { found: 2, known: 1, .. }), "{error}");
    }
}

#[test]
fn files_of_other_programs_are_refused_and_unchanged() {
    let dir = Dir::new("foreign");
    drop(open(&dir.file(), &OTHER).expect("made"));
    let text = dir.0.join("text");
    std::fs::write(&text, "not a database, and longer than a header of one is, so that it is read")
        .expect("written");
    let before = std::fs::read(&text).expect("there");
    for path in [dir.file(), text.clone()] {
        for opened in [open(&path, &KIND), open_read_only(&path, &KIND)] {
            let error = opened.expect_err("a foreign file is refused");
            assert!(matches!(error, Error::Foreign { .. }), "{error}");
        }
    }
    assert_eq!(std::fs::read(&text).expect("there"), before);
}

#[test]
fn an_empty_file_is_refused_by_readers_and_used_by_writers() {
    let dir = Dir::new("empty");
    std::fs::write(dir.file(), "").expect("written");
    let error = open_read_only(&dir.file(), &KIND).expect_err("an empty file is refused");
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    drop(open(&dir.file(), &KIND).expect("it becomes one"));
    drop(open_read_only(&dir.file(), &KIND).expect("it is one"));
}

/// The writer was killed after it wrote the first bytes of the file, and before it removed the
/// rollback journal. A reader without write access cannot roll the journal back.
#[test]
fn a_file_whose_writer_died_at_the_first_page_has_no_tables() {
    let dir = Dir::new("first-page");
    drop(open(&dir.file(), &Kind { application_id: 0, migrations: &[] }).expect("made"));
    assert_eq!(std::fs::metadata(dir.file()).expect("there").len(), 4096, "its first page");
    // A rollback journal without pages, for a file that had no pages. The header has a magic, the
    // number of records and a nonce. The old number of pages and the sizes of a sector and of a
    // page follow.
    let mut journal = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7".to_vec();
    for word in [0_u32, 1, 0, 512, 4096] {
        journal.extend(word.to_be_bytes());
    }
    journal.resize(512, 0);
    let beside = dir.0.join("50% ?#é.db-journal");
    std::fs::write(&beside, journal).expect("written");
    assert!(open_if_begun(&dir.file(), &KIND, BUSY).expect("read").is_none());
    drop(open(&dir.file(), &KIND).expect("started again"));
    assert!(!beside.exists(), "the writer rolled the journal back");
    assert!(open_if_begun(&dir.file(), &KIND, BUSY).expect("read").is_some());
}

#[test]
fn missing_file_is_not_created_by_a_reader() {
    let dir = Dir::new("missing");
    let error = open_read_only(&dir.file(), &KIND).expect_err("a missing file is an error");
    assert!(matches!(error, Error::File { .. }), "{error}");
    assert!(!dir.file().exists());
    let nowhere = dir.0.join("no/such/file");
    assert!(matches!(open(&nowhere, &KIND), Err(Error::File { .. })));
}

#[test]
fn readers_create_no_files_next_to_an_unused_file() {
    let dir = Dir::new("rest");
    let written = open(&dir.file(), &KIND).expect("made");
    written.execute("INSERT INTO a VALUES (3)", []).expect("written");
    drop(written);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let (read, _) = open_at_rest(&dir.file(), flags, &KIND).expect("opened");
    assert_eq!(value(&read, "SELECT b FROM a"), 3);
    let there = std::fs::read_dir(&dir.0).expect("there").count();
    assert_eq!(there, 1);
}
