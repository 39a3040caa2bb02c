//! Golden recordings of every released version.
//!
//! `write` below wrote `tests/data/records-v1` and the directories after it, each with the fields
//! of its version. Version 2 is the first with all fields that a balloon and a daemon report. A
//! later version adds another directory, and existing directories are never changed. A recording
//! lacks the fields that are newer than the recording.

use crate::common::{Dir, START_MS};
use crate::day;
use model::{Field, Gap, GuestIdentity, Interval, Moment, ProcessName, Row};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use store::{Keep, Recorder, Records};

/// Environment variable that makes the test write the latest version's files again.
const WRITE: &str = "PINHEAD_WRITE_GOLDEN";
/// Number of fields of a host, a guest, a tier and a process in a version.
type Fields = [usize; 4];
const VERSION_1: Fields = [62, 56, 13, 10];
const VERSION_2: Fields = [71, 122, 13, 10];
/// The minute before 15:00, which is the last minute of a quarter of an hour.
const FROM_MS: i64 = START_MS + 59 * 60_000;

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/records-v{version}"))
}

/// Returns a row of a version's fields with distinct values. The last value is missing.
fn row<F: Field>(fields: usize, seed: u64) -> Row<F> {
    let mut row = day::numbered::<F>(seed);
    for field in &F::ALL[fields - 1..] {
        row.set(*field, None);
    }
    row
}

fn moments([host, guest, tier, process]: Fields) -> Vec<Moment> {
    let web = GuestIdentity {
        uuid: "6b1f0000-0000-4000-8000-000000000001".into(),
        name: "web1".into(),
        class: "web".into(),
        pid: Some(4_242),
        start_ticks: Some(991),
        boot: "1".into(),
    };
    let other = GuestIdentity { name: "grüße\u{1b}".into(), ..GuestIdentity::default() };
    let times = (0..26).filter(|number| !(14..18).contains(number)).map(|number| number * 5);
    times
        .map(|second| {
            let seed = second as u64;
            let name = ProcessName { name: "nginx".into(), pid: 17 };
            let all = ProcessName { name: "kworker".into(), pid: 0 };
            let processes = [(name, row(process, seed)), (all, row(process, 2 * seed))];
            Moment {
                at_ms: FROM_MS + second * 1_000,
                host: row(host, seed),
                guests: [(web.clone(), row(guest, seed)), (other.clone(), row(guest, 3 * seed))]
                    .into(),
                tiers: [("/dev/zram0".into(), row(tier, seed))].into(),
                processes: match second % 30 {
                    0 => [(web.clone(), processes.into())].into(),
                    _ => Default::default(),
                },
            }
        })
        .collect()
}

/// Writes all kinds of rows: two minutes, a quarter of an hour, a gap, blocks and seconds.
fn write(dir: &Path, fields: Fields) {
    let mut recorder = Recorder::new(dir, Keep::USUAL);
    for moment in moments(fields) {
        assert!(recorder.record(&moment).is_none());
    }
}

type All = (Vec<Interval>, Vec<Interval>, Vec<Gap>, Vec<Moment>);

fn read(dir: &Path) -> All {
    let records = Records::open(dir).expect("opened");
    let mut raw = Vec::new();
    let visit = |moment| {
        raw.push(moment);
        ControlFlow::Continue(())
    };
    records.raw(i64::MIN, i64::MAX, visit).expect("read");
    let minutes = records.intervals(FROM_MS, i64::MAX, 60_000).expect("read");
    let quarters = records.intervals(START_MS, i64::MAX, 900_000).expect("read");
    (minutes, quarters, records.gaps(i64::MIN, i64::MAX).expect("read"), raw)
}

#[test]
fn version_1_is_read() {
    is_read(1, VERSION_1);
}

#[test]
fn version_2_is_read() {
    is_read(2, VERSION_2);
}

fn is_read(version: u32, fields: Fields) {
    let data = golden(version);
    if std::env::var_os(WRITE).is_some() {
        let _ = std::fs::remove_dir_all(&data);
        write(&data, fields);
    }
    let dir = Dir::new(&format!("records-golden-{version}"));
    let (fresh, copy) = (dir.0.join("fresh"), dir.0.join("copy"));
    write(&fresh, fields);
    let today = read(&fresh);
    assert_eq!(today.3, moments(fields));
    let (minutes, quarters, gaps, _) = &today;
    // The third minute is the current minute, which has only samples.
    assert_eq!((minutes.len(), quarters.len(), gaps.len()), (3, 2, 1));
    // The reader gets copies of the files, because a reader may create an index next to a file.
    std::fs::create_dir(&copy).expect("made");
    for name in ["2026-11-21.db", "2026-11.db", "raw.db"] {
        std::fs::copy(data.join(name), copy.join(name)).expect("the golden file is there");
    }
    assert_eq!(read(&copy), today);
    // A recorder appends to the files, and earlier data stays.
    let mut recorder = Recorder::new(&copy, Keep::USUAL);
    let mut next = moments(fields).pop().expect("there");
    next.at_ms += 60_000;
    assert!(recorder.record(&next).is_none());
    let found = read(&copy);
    assert_eq!(found.0[..2], today.0[..2]);
    assert_eq!(found.3[..found.3.len() - 1], today.3[..]);
}
