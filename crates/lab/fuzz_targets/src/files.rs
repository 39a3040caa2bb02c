//! Targets for files that other users may have written. These are journals, recordings queried with
//! SQL, records of tiers, results of experiments, and recorded scenarios.

use crate::bounded;
use base::is_plain;
use pinhead::escape::plain_lines;
use pinhead::sql::{SqlArgs, SqlFormat};
use std::ops::ControlFlow;
use std::path::Path;
use store::{GuestKey, Journal, Policy, Query, Range};
use vm::Scratch;

/// Maximum size of an input. The memory limit holds for files up to this size.
const FILE_MAX: usize = 100 << 10;
/// The queries on a directory of recordings.
const QUESTIONS: [&str; 4] = [
    "SELECT * FROM minute_guest",
    "SELECT * FROM quarter_host",
    "SELECT name, count(*) FROM minute_guest GROUP BY name",
    "SELECT * FROM raw",
];

/// Runs `look` on a directory with this file.
pub(crate) fn beside(name: &str, bytes: &[u8], look: impl FnOnce(&Path)) {
    if bytes.len() > FILE_MAX {
        return;
    }
    let Ok(dir) = Scratch::new("fuzz-file") else { return };
    if std::fs::write(dir.join(name), bytes).is_ok() {
        bounded(|| look(dir.path()));
    }
}

/// Checks that text of a foreign file contains no control characters.
fn shown(text: &str) {
    let is_shown = |c| is_plain(c) || c == '\n';
    assert!(text.chars().all(is_shown), "{text:?}");
}

/// Opens a journal, which must be accepted or refused. Decisions must be ordered by time and within
/// the requested range, and the output of `why` must be printable.
pub(crate) fn journal(data: &[u8]) {
    beside("journal.db", data, |dir| {
        let Ok(journal) = Journal::read_only(&dir.join("journal.db")) else { return };
        let Ok(guests) = journal.guests() else { return };
        let keys: Vec<GuestKey> = guests.iter().map(|guest| guest.key).collect();
        for policy in [None, Some(Policy::Active), Some(Policy::Shadow)] {
            let range = Range { from_ms: 0, to_ms: i64::MAX };
            let query = Query { guests: keys.clone(), range, policy };
            let mut last_ms = 0;
            let _ = journal.decisions(&query, |decided| {
                assert!(decided.decision.at_ms >= last_ms);
                last_ms = decided.decision.at_ms;
                ControlFlow::Continue(())
            });
            let _ = journal.span(&keys, policy);
        }
        for policy in [Policy::Active, Policy::Shadow] {
            let _ = journal.in_force(&keys, policy, i64::MAX);
            let _ = journal.last_move(&keys, policy, i64::MAX);
        }
        let _ = journal.events(&keys, Range { from_ms: i64::MIN, to_ms: i64::MAX }, 100);
        for time in ["100000h", "1s"] {
            let question = why::Question {
                guest: "*".into(),
                time: why::Time::Last(time.into()),
                policy: Policy::Active,
            };
            if let Ok(answer) = why::answer(&journal, &question, why::now()) {
                shown(&plain_lines(&answer.text()));
            }
        }
    });
}

/// Queries a day file or a file of samples with SQL. The first byte selects the file. Every answer
/// must be printable.
pub(crate) fn sql_views(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    let name = if kind & 1 == 0 { "2026-11-21.db" } else { "raw.db" };
    beside(name, bytes, |dir| {
        for (query, format) in QUESTIONS.into_iter().zip([
            SqlFormat::Text,
            SqlFormat::Csv,
            SqlFormat::Json,
            SqlFormat::Text,
        ]) {
            let args = SqlArgs { query: query.into(), format, dir: Some(dir.into()) };
            let mut out = Vec::new();
            let answered = pinhead::sql::run(&args, &mut out);
            if answered.is_ok() {
                // A line of CSV ends with two characters.
                let text = std::str::from_utf8(&out).expect("text in UTF-8");
                shown(&text.replace("\r\n", "\n"));
            }
        }
    });
}

/// Reads a record of tiers, from which root undoes changes. An accepted record must stay the same
/// when it is written again. It must contain no path to a parent directory.
pub(crate) fn tier_record(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(again) = farm::tiers::record_again(text) else { return };
    assert_eq!(farm::tiers::record_again(&again), Some(again.clone()));
    assert!(!again.contains("/../") && !again.contains("/..\""), "{again}");
}

/// Reads a result of an experiment. The output of an accepted result must be printable, and the
/// page of the result must contain no foreign tag.
pub(crate) fn experiment_result(data: &[u8]) {
    let outcome = match lab::shelf::parse(data) {
        Ok(outcome) => outcome,
        Err(reason) => return assert!(!reason.is_empty()),
    };
    let view = lab::catalog::view(&outcome);
    for width in [None, Some(80)] {
        shown(&plain_lines(&lab::text(&outcome, &view, width)));
    }
    shown(&plain_lines(&lab::table(&lab::compare(&outcome, &outcome), Some(80))));
    let page = lab::page(&outcome, &view).to_ascii_lowercase();
    for tag in ["<script", "<img", "<iframe", "<object", "<link", "<a "] {
        assert!(!page.contains(tag), "{tag}");
    }
    assert!(!lab::shelf::file_name(&outcome).is_empty());
}

/// Reads recorded scenarios. Each scenario must give a verdict, and each message must be one plain
/// line.
pub(crate) fn scenarios(data: &[u8]) {
    match pinhead::conform::scenarios(data, Path::new("scenarios.jsonl")) {
        Ok(report) => {
            assert_eq!(report.agree + report.differences.len(), report.total);
            assert!(report.differences.iter().all(|line| line.chars().all(is_plain)));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
