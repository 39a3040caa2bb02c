//! Tests that kill a process while it writes a journal. Committed data must survive intact, and the
//! file must open.

use crate::common::{Dir, EVER, START_MS, decision, guest, keys, read};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use store::{Journal, Writer};

/// Environment variable of the child: path of the file.
const FILE: &str = "PINHEAD_TEST_JOURNAL";
const KILLS: u64 = 30;
const BATCH: i64 = 7;

/// This test is also the child, if the variable is set. The child runs until it is killed. Without
/// the variable the test does nothing.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let path = Path::new(&path);
    let mut writer = Writer::new(path);
    let web = Arc::new(guest("web1"));
    let known = Journal::open(path).expect("the journal opens");
    let mut next = read(&known, &keys(&known), EVER).len() as i64;
    drop(known);
    loop {
        for _ in 0..BATCH {
            writer.decision(&web, decision(START_MS + next, 2, 1));
            next += 1;
        }
        let news = writer.flush();
        assert!(news.is_none(), "{news:?}");
        assert_eq!(writer.queued(), 0);
        // The harness would capture `println`.
        let mut out = std::io::stderr().lock();
        writeln!(out, "committed {next}").expect("the parent listens");
        let _ = writer.prune(i64::MIN, u64::MAX);
    }
}

#[test]
fn committed_decisions_survive_a_kill() {
    let dir = Dir::new("crash");
    let mut total = 0;
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "crash::child_that_writes_until_it_is_killed", "--nocapture"])
            .env(FILE, dir.file())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        // Each round has a different number of commits, so that the kill happens at a different
        // moment.
        let mut committed = 0;
        for _ in 0..=round * 7 % 23 {
            let line = lines.next().expect("it writes on").expect("text");
            let count = line.strip_prefix("committed ").and_then(|count| count.parse().ok());
            committed = count.unwrap_or_else(|| {
                let rest: Vec<String> = lines.by_ref().map_while(Result::ok).collect();
                panic!("{line}{}", rest.join("\n"))
            });
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        for line in lines.map_while(Result::ok) {
            committed =
                line.strip_prefix("committed ").and_then(|n| n.parse().ok()).unwrap_or(committed);
        }

        // First a reader opens the unchanged log, and then the next writer opens it.
        let journal = Journal::read_only(&dir.file()).expect("the journal opens for reading");
        let seen = read(&journal, &keys(&journal), EVER);
        drop(journal);
        let journal = Journal::open(&dir.file()).expect("the journal opens for writing");
        let found = read(&journal, &keys(&journal), EVER);
        assert_eq!(seen.len(), found.len());
        let count = found.len() as i64;
        assert!(count >= committed, "{committed} were committed and {count} are there");
        assert_eq!(count % BATCH, 0, "a transaction is there as a whole or not at all");
        for (number, found) in found.iter().enumerate() {
            assert_eq!(found.decision.at_ms, START_MS + number as i64);
        }
        assert!(count > total, "the child went on where the last one was killed");
        total = count;
    }
}
