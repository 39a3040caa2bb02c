//! Tests of the current minute and of restricted queries. The recorded part of the current minute
//! must be read exactly once.

use crate::common::{Dir, START_MS};
use crate::day::World;
use model::{Field, GuestField, Interval, Moment, Over, Parts, ProcessField};
use std::ops::ControlFlow;
use store::{Keep, Pick, Processes, Recorder, Records, Span};

const MINUTE_MS: i64 = 60_000;

fn moments(seconds: i64) -> Vec<Moment> {
    let mut world = World::new(5, START_MS);
    (0..=seconds).map(|second| world.at(START_MS + second * 1_000)).collect()
}

fn record(dir: &Dir, moments: &[Moment]) -> Recorder {
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    for moment in moments {
        let news = recorder.record(moment);
        assert!(news.is_none(), "{news:?}");
    }
    recorder
}

/// Returns the expected interval of some moments.
fn host(moments: &[Moment]) -> Interval {
    let mut sum = Interval::default();
    for pair in moments.windows(2) {
        sum.add(&Interval::between(&pair[0], &pair[1]));
    }
    sum
}

fn minutes(dir: &Dir, step_ms: i64) -> Vec<Interval> {
    let records = Records::open(&dir.0).expect("opened");
    records.intervals(START_MS, START_MS + 60 * MINUTE_MS, step_ms).expect("read")
}

#[test]
fn first_seconds_of_a_recording_are_readable() {
    let dir = Dir::new("records-running-first");
    let moments = moments(7);
    let _recorder = record(&dir, &moments);
    let found = minutes(&dir, MINUTE_MS);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].from_ms, found[0].length_ms), (START_MS, 7_000));
    let expected = host(&moments);
    assert_eq!(found[0].host, expected.host);
    assert_eq!(found[0].guests, expected.guests);
    assert_eq!(found[0].tiers, expected.tiers);
}

#[test]
fn the_running_minute_follows_the_others_and_is_counted_once() {
    let dir = Dir::new("records-running");
    let moments = moments(160);
    let recorder = record(&dir, &moments);
    let check = |what: &str| {
        let found = minutes(&dir, MINUTE_MS);
        let spans: Vec<(i64, u64)> =
            found.iter().map(|one| (one.from_ms - START_MS, one.host.covered_ms)).collect();
        assert_eq!(spans, [(0, 60_000), (60_000, 60_000), (120_000, 40_000)], "{what}");
        let whole = minutes(&dir, 60 * MINUTE_MS);
        assert_eq!(whole.len(), 1, "{what}");
        assert_eq!(whole[0].host.covered_ms, 160_000, "{what}");
        let run = |one: &Over<GuestField>| one.get(GuestField::VcpuRun);
        let expected = host(&moments);
        for (who, over) in &whole[0].guests {
            assert_eq!(run(over), run(&expected.guests[who]), "{what}: {}", who.name);
        }
    };
    check("while it is recorded");
    // After the close, both the rows and the samples of the minute exist.
    recorder.close().expect("written");
    check("after it was closed");
    // A recorder that continues the minute knows more of the minute than the rows.
    let dir_ends = minutes(&dir, MINUTE_MS)[2].host.covered_ms;
    let mut world = World::new(5, START_MS);
    let later: Vec<Moment> = (0..=175).map(|second| world.at(START_MS + second * 1_000)).collect();
    let _recorder = record(&dir, &later[161..]);
    let found = minutes(&dir, MINUTE_MS);
    assert_eq!((dir_ends, found[2].host.covered_ms), (40_000, 55_000));
}

/// Sums processes from the intervals that contain them.
fn straight(records: &Records, span: Span) -> Processes {
    let mut sum = Processes::new();
    records
        .visit(span, Parts::ALL, |interval| {
            for (who, all) in interval.processes {
                let of_guest = sum.entry(who).or_default();
                for (name, over) in all {
                    of_guest.entry(name).or_default().add(&over);
                }
            }
            ControlFlow::Continue(())
        })
        .expect("read");
    sum
}

#[test]
fn processes_of_a_time_are_those_of_its_steps() {
    let dir = Dir::new("records-running-processes");
    let _recorder = record(&dir, &moments(20 * 60 + 30));
    let records = Records::open(&dir.0).expect("opened");
    for step_ms in [MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS] {
        let span = Span { from_ms: START_MS, to_ms: START_MS + 60 * MINUTE_MS, step_ms };
        let found = records.processes(span, ProcessField::ALL).expect("read");
        assert!(found.values().map(|all| all.len()).sum::<usize>() > 20);
        assert_eq!(found, straight(&records, span), "{step_ms}");
    }
}

#[test]
fn only_wanted_fields_are_read_and_with_unchanged_values() {
    let dir = Dir::new("records-running-fields");
    let _recorder = record(&dir, &moments(200));
    let records = Records::open(&dir.0).expect("opened");
    let span = Span { from_ms: START_MS, to_ms: START_MS + 60 * MINUTE_MS, step_ms: MINUTE_MS };
    let wanted = [GuestField::OwnFree, GuestField::VcpuRun];
    let pick = Pick { guests: Some(wanted.to_vec()), tiers: None, processes: None };
    let mut all = minutes(&dir, MINUTE_MS).into_iter();
    let mut count = 0;
    let visit = |some: Interval| {
        let whole = all.next().expect("as many");
        assert_eq!((some.from_ms, &some.host), (whole.from_ms, &whole.host));
        assert!(some.tiers.is_empty() && some.processes.is_empty());
        for (who, over) in &some.guests {
            for field in GuestField::ALL {
                let expected = whole.guests[who].get(*field).filter(|_| wanted.contains(field));
                assert_eq!(over.get(*field), expected, "{field:?}");
            }
            assert_eq!(over.covered_ms, whole.guests[who].covered_ms);
            count += 1;
        }
        ControlFlow::Continue(())
    };
    records.visit(span, pick, visit).expect("read");
    assert_eq!(count, 4 * 5);
}
