//! Golden journals of every released version.
//!
//! `write` below wrote `tests/data/journal-v1.db`. A later version adds another file, and this file
//! is never changed.

use crate::common::{Dir, EVER, MIB, START_MS, decision, guest};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use store::{Decided, Decision, Event, Fate, Found, GuestRow, Journal, Outcome, Policy, Query};

/// Environment variable that makes the test write the latest version's file again.
const WRITE: &str = "PINHEAD_WRITE_GOLDEN";

/// Fates in the first version's journals. The second fate was then named "partly", and no decision
/// had that fate.
const FATES: [Fate; 8] = [
    Fate::Reached,
    Fate::Stuck,
    Fate::Stuck,
    Fate::Refused,
    Fate::Superseded,
    Fate::Gone,
    Fate::TookBack,
    Fate::Foreign,
];

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/journal-v{version}.db"))
}

fn write(path: &Path) {
    let mut journal = Journal::open(path).expect("made");
    let web = journal.guest(&guest("web1"), START_MS).expect("written");
    let mut unknown = guest("grüße\u{1b}");
    (unknown.pid, unknown.start_ticks) = (None, None);
    let unknown = journal.guest(&unknown, START_MS + 1).expect("written");
    let start = Event { at_ms: START_MS, kind: "manager-start".into(), text: "Begun.".into() };
    journal.event(None, &start).expect("written");
    let found = Event { at_ms: START_MS + 1, kind: "found".into(), text: String::new() };
    journal.event(Some(unknown), &found).expect("written");
    let id = journal.decision(web, &decision(START_MS + 2, 2048, 1792)).expect("written");
    for (number, fate) in FATES.into_iter().enumerate() {
        let number = number as u64;
        let outcome = Outcome {
            at_ms: START_MS + 3 + number as i64,
            fate,
            reached_bytes: number * MIB,
            host_got_bytes: (number > 2).then_some(number),
        };
        journal.outcome(id, &outcome).expect("written");
    }
    let shadow = Decision {
        policy: Policy::Shadow,
        bounds: Vec::new(),
        inputs: Vec::new(),
        acted: false,
        ..decision(START_MS + 2, 2048, 2048)
    };
    journal.decision(web, &shadow).expect("written");
}

type All = (Vec<GuestRow>, Vec<Decided>, Vec<Found>);

fn read(path: &Path) -> All {
    let journal = Journal::read_only(path).expect("opened");
    let rows = journal.guests().expect("read");
    let guests: Vec<_> = rows.iter().map(|row| row.key).collect();
    let mut decisions = Vec::new();
    let query = Query { guests: guests.clone(), range: EVER, policy: None };
    let visit = |decided| {
        decisions.push(decided);
        ControlFlow::Continue(())
    };
    journal.decisions(&query, visit).expect("read");
    let events = journal.events(&guests, EVER, 100).expect("read");
    (rows, decisions, events)
}

#[test]
fn version_1_is_read() {
    if std::env::var_os(WRITE).is_some() {
        write(&golden(1));
    }
    let dir = Dir::new("golden");
    write(&dir.file());
    let today = read(&dir.file());
    assert_eq!((today.0.len(), today.1.len(), today.2.len()), (2, 2, 2));
    // The file has whole sentences as reasons. The clause, the inputs and the bounds give the same
    // sentences. The reader gets a copy of the file, because a reader may create an index next to
    // its file.
    let copy = dir.file().with_extension("copy");
    std::fs::copy(golden(1), &copy).expect("the golden file is there");
    assert_eq!(read(&copy), today);
    let reasons: Vec<_> = today.1.iter().map(|one| one.decision.reason()).collect();
    let reason = "the host has less free memory than its set point";
    assert_eq!(reasons, [&format!("{reason} (bounded by step, minimum)"), reason]);
    // A writer migrates the file, and its contents stay the same.
    drop(Journal::open(&copy).expect("opened"));
    assert_eq!(read(&copy), today);
}
