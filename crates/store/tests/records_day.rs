//! A day of 100 guests is small, and read soon.
//!
//! By itself the test makes two hours and reckons; with `PINHEAD_TEST_WHOLE_DAY` set it makes
//! the day, and with `PINHEAD_TEST_STEP_MS=1000` from a moment a second. Its figures are shown
//! with `--nocapture`.

#[path = "common/mod.rs"]
mod common;
#[path = "common/day.rs"]
mod day;

use common::Dir;
use counters::series::Interval;
use day::World;
use std::ops::ControlFlow;
use store::{Keep, Parts, Recorder, Records, Span};

/// Midnight of 2026-11-21.
const MIDNIGHT_MS: i64 = 1_795_219_200_000;
const DAY_MS: i64 = 86_400_000;
/// What a day of 100 guests with their top 20 processes may have, in bytes.
const DAY_MAX: u64 = 60_000_000;

#[test]
fn a_day_of_100_guests_is_small() {
    let is_whole = std::env::var_os("PINHEAD_TEST_WHOLE_DAY").is_some();
    let step = std::env::var("PINHEAD_TEST_STEP_MS").ok().and_then(|text| text.parse().ok());
    let step_ms = step.unwrap_or(10_000);
    let part = if is_whole { 1 } else { 48 };
    let length_ms = DAY_MS / part;
    let dir = Dir::new("records-day");
    let mut world = World::new(100, MIDNIGHT_MS);
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    let meter = Meter::new();
    let (mut spent, mut longest) = (0.0, 0.0_f64);
    for number in 0..=length_ms / step_ms {
        let moment = world.at(MIDNIGHT_MS + number * step_ms);
        let before = meter.seconds();
        assert!(recorder.record(&moment).is_none());
        let took = meter.seconds() - before;
        spent += took;
        longest = longest.max(took);
    }
    recorder.close().expect("written");
    let size = |name: &str| std::fs::metadata(dir.0.join(name)).map_or(0, |found| found.len());
    let rows = size("2026-11-21.db");
    eprintln!(
        "{} min of 100 guests: rows {rows} bytes, quarters {}, raw {}; \
         {:.3} ms of CPU a moment, at most {:.1}",
        length_ms / 60_000,
        size("2026-11.db"),
        size("raw.db"),
        spent * 1_000.0 / (length_ms / step_ms + 1) as f64,
        longest * 1_000.0,
    );
    assert!(rows * part.unsigned_abs() <= DAY_MAX, "{rows} bytes in 1/{part} of a day");
    let records = Records::open(&dir.0).expect("opened");
    let some = Parts { processes: false, ..Parts::ALL };
    for (words, step_ms, parts) in [
        ("minutes without processes", 60_000, some),
        ("minutes with processes", 60_000, Parts::ALL),
        ("quarters of an hour", 900_000, Parts::ALL),
        ("one step", DAY_MS, Parts::ALL),
    ] {
        let before = meter.seconds();
        let mut covered_ms = 0;
        let span = Span { from_ms: MIDNIGHT_MS, to_ms: MIDNIGHT_MS + length_ms, step_ms };
        let visit = |interval: Interval| {
            covered_ms += interval.host.covered_ms;
            assert_eq!(interval.guests.len(), 100);
            ControlFlow::Continue(())
        };
        records.visit(span, parts, visit).expect("read");
        eprintln!("{words}: {:.3} s of CPU", meter.seconds() - before);
        assert_eq!(covered_ms, length_ms.unsigned_abs());
    }
}

/// The CPU time of this thread: other tests run beside it.
struct Meter(Option<std::fs::File>);

impl Meter {
    fn new() -> Meter {
        Meter(std::fs::File::open("/proc/thread-self/schedstat").ok())
    }

    fn seconds(&self) -> f64 {
        use std::os::unix::fs::FileExt;
        let mut text = [0; 64];
        let length = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = std::str::from_utf8(&text[..length.unwrap_or(0)]).unwrap_or_default();
        text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e9)
    }
}
