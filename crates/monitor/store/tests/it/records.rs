//! Tests of recordings. Moments are written, and minutes, quarters of an hour and samples are read.

use crate::common::{Dir, START_MS};
use crate::day::World;
use model::{Gap, GuestField, Interval, Moment, Over, Parts, ProcessField, ProcessName, Row};
use std::ops::ControlFlow;
use store::{Cell, Error, Keep, News, Recorder, Records, Span};

const MINUTE_MS: i64 = 60_000;
const QUARTER_MS: i64 = 15 * MINUTE_MS;

/// Returns evenly spaced moments from a time on.
fn moments(guests: usize, from_ms: i64, step_ms: i64, count: i64) -> Vec<Moment> {
    let mut world = World::new(guests, from_ms);
    (0..count).map(|number| world.at(from_ms + number * step_ms)).collect()
}

fn record(dir: &Dir, keep: Keep, moments: &[Moment]) -> Recorder {
    let mut recorder = Recorder::new(&dir.0, keep);
    for moment in moments {
        let news = recorder.record(moment);
        assert!(news.is_none(), "{news:?}");
    }
    recorder
}

/// Returns the expected sum of moments, with processes counted when they were reported.
fn sum(moments: &[Moment]) -> Interval {
    let mut sum = Interval::default();
    for pair in moments.windows(2) {
        sum.add(&Interval::between(&pair[0], &pair[1]));
    }
    sum
}

fn raw(records: &Records, from_ms: i64, to_ms: i64) -> Vec<Moment> {
    let mut found = Vec::new();
    let visit = |moment| {
        found.push(moment);
        ControlFlow::Continue(())
    };
    records.raw(from_ms, to_ms, visit).expect("read");
    found
}

#[test]
fn a_field_has_a_column_from_its_first_value_on() {
    let dir = Dir::new("records-columns");
    let field = GuestField::BalloonFree;
    let mut moments = moments(3, START_MS, 1_000, 241);
    for row in moments[130..].iter_mut().flat_map(|moment| moment.guests.values_mut()) {
        row.set(field, Some(7 << 20));
    }
    drop(record(&dir, Keep::USUAL, &moments[..125]));
    let records = Records::open(&dir.0).expect("opened");
    let file = dir.0.join("2026-11-21.db");
    let count = |text: &str| {
        let opened = rusqlite::Connection::open(&file).expect("opened");
        opened.query_row(text, [], |row| row.get::<_, i64>(0)).map_err(|error| error.to_string())
    };
    let bare = count("SELECT count(balloon_free_bytes) FROM minute_guest").expect_err("no column");
    assert!(bare.contains("no such column"), "{bare}");
    let known = "SELECT count(balloon_free_bytes), count(*) FROM minute_guest";
    assert_eq!(ask(&records, known).expect("asked"), [[0, 6].map(Cell::Integer)]);
    record(&dir, Keep::USUAL, &moments[125..]).close().expect("written");
    assert_eq!(ask(&records, known).expect("asked"), [[6, 12].map(Cell::Integer)]);
    let found = records.intervals(START_MS, START_MS + 4 * MINUTE_MS, MINUTE_MS).expect("read");
    for (minute, found) in found.iter().enumerate() {
        assert_eq!(found.guests, sum(&moments[minute * 60..=minute * 60 + 60]).guests);
    }
}

#[test]
fn minutes_come_out_as_they_went_in() {
    let dir = Dir::new("records-minutes");
    let moments = moments(5, START_MS, 1_000, 301);
    record(&dir, Keep::USUAL, &moments).close().expect("written");
    let records = Records::open(&dir.0).expect("opened");
    let end_ms = START_MS + 5 * MINUTE_MS;
    assert_eq!(records.extent().expect("read"), Some((START_MS, end_ms)));
    let found = records.intervals(START_MS, end_ms, MINUTE_MS).expect("read");
    assert_eq!(found.len(), 5);
    for (minute, found) in found.iter().enumerate() {
        let expected = sum(&moments[minute * 60..=minute * 60 + 60]);
        assert_eq!((found.from_ms, found.length_ms), (expected.from_ms, 60_000));
        assert_eq!(found.host, expected.host);
        assert_eq!(found.guests, expected.guests);
        assert_eq!(found.tiers, expected.tiers);
    }
    // Processes are reported once a minute, and the values of a minute are the growth between two
    // reports. Processes that were hardly active and had no major faults are counted later.
    let reports: Vec<&Moment> = moments.iter().filter(|m| !m.processes.is_empty()).collect();
    let (who, first) = reports[0].processes.first_key_value().expect("a guest");
    let second = &reports[1].processes[who];
    let minute = found.iter().find(|found| found.processes.contains_key(who)).expect("there");
    let busy: Vec<_> = first
        .iter()
        .filter(|(name, row)| {
            let grown = |field| second[name].grown(field, row).unwrap_or(0);
            grown(ProcessField::Run) >= 1_000_000 || grown(ProcessField::MajorFaults) > 0
        })
        .collect();
    assert!(!busy.is_empty() && busy.len() == minute.processes[who].len());
    for (name, row) in busy {
        assert_eq!(minute.processes[who][name], Over::between(row, &second[name], 60_000));
    }
    assert_eq!(records.gaps(i64::MIN, i64::MAX).expect("read"), []);
}

#[test]
fn raw_samples_come_out_as_they_went_in() {
    let dir = Dir::new("records-raw");
    let mut moments = moments(5, START_MS, 1_000, 200);
    // Some values are missing or extreme, and some guests are left out.
    for (number, moment) in moments.iter_mut().enumerate() {
        for (place, row) in moment.guests.values_mut().enumerate() {
            let value = [None, Some(0), Some(u64::MAX), Some(1)][(number + place) % 4];
            row.set(GuestField::OwnOomKills, value);
        }
        if number % 7 == 3 {
            moment.guests.pop_first();
        }
    }
    let recorder = record(&dir, Keep::USUAL, &moments);
    let records = Records::open(&dir.0).expect("opened");
    // During recording: blocks, and the current minute.
    assert_eq!(raw(&records, i64::MIN, i64::MAX), moments);
    assert_eq!(raw(&records, START_MS + 59_000, START_MS + 63_000), moments[59..63]);
    drop(recorder);
    assert_eq!(raw(&records, i64::MIN, i64::MAX), moments);
}

#[test]
fn a_recorder_goes_on_where_the_one_before_ended() {
    let whole = Dir::new("records-whole");
    let parts = Dir::new("records-parts");
    let moments = moments(6, START_MS, 1_000, 250);
    drop(record(&whole, Keep::USUAL, &moments));
    for part in moments.chunks(17) {
        drop(record(&parts, Keep::USUAL, part));
    }
    let read = |dir: &Dir| {
        let records = Records::open(&dir.0).expect("opened");
        let rows = records.intervals(START_MS, i64::MAX, MINUTE_MS).expect("read");
        (rows, raw(&records, i64::MIN, i64::MAX), records.gaps(i64::MIN, i64::MAX).expect("read"))
    };
    assert_eq!(read(&parts), read(&whole));
    assert_eq!(read(&parts).0.len(), 5, "four that are over, and the one that runs");
}

#[test]
fn a_guest_that_sleeps_is_covered_and_used_nothing() {
    let dir = Dir::new("records-sleep");
    let mut moments = moments(2, START_MS, 1_000, 241);
    let sleeper = moments[0].guests.keys().next().expect("there").clone();
    let first = moments[0].guests[&sleeper].clone();
    // The guest is reported when it wakes, shortly before each minute ends, and is unchanged.
    for (number, moment) in moments.iter_mut().enumerate() {
        moment.guests.remove(&sleeper);
        if number % 55 == 0 {
            moment.guests.insert(sleeper.clone(), first.clone());
        }
    }
    drop(record(&dir, Keep::USUAL, &moments));
    let records = Records::open(&dir.0).expect("opened");
    let found = records.intervals(START_MS, START_MS + 3 * MINUTE_MS, MINUTE_MS).expect("read");
    let mut covered = 0;
    for minute in &found {
        let guest = &minute.guests[&sleeper];
        assert_eq!(guest.get(GuestField::VcpuRun), Some(0));
        assert_eq!(guest.get(GuestField::Resident), first.get(GuestField::Resident));
        covered += guest.covered_ms;
    }
    // Up to ten seconds are counted in the next minute.
    assert!((170_000..=180_000).contains(&covered), "{covered}");
}

#[test]
fn a_process_that_does_little_is_counted_later_and_whole() {
    let dir = Dir::new("records-little");
    let mut moments = moments(1, START_MS, 5_000, 30 * 12 + 2);
    let who = moments[0].guests.keys().next().expect("there").clone();
    let name = |name: &str| ProcessName { name: name.into(), pid: 0 };
    for (number, moment) in moments.iter_mut().enumerate() {
        moment.processes.clear();
        if number % 12 == 6 {
            let minute = number as u64 / 12;
            let row = |run_ns: u64| {
                let mut row = Row::default();
                row.set(ProcessField::Run, Some(minute * run_ns));
                row
            };
            let processes = [(name("little"), row(1_000)), (name("much"), row(1_000_000))];
            let processes = processes.into_iter().chain([(name("none"), row(0))]).collect();
            moment.processes.insert(who.clone(), processes);
        }
    }
    for part in moments.chunks(101) {
        drop(record(&dir, Keep::USUAL, part));
    }
    let records = Records::open(&dir.0).expect("opened");
    let found = records.intervals(START_MS, i64::MAX, MINUTE_MS).expect("read");
    let all = |wanted: &str| -> Vec<(usize, u64, u64)> {
        let rows = found.iter().enumerate();
        rows.filter_map(|(minute, interval)| {
            let over = interval.processes.get(&who)?.get(&name(wanted))?;
            Some((minute, over.covered_ms, over.get(ProcessField::Run)?))
        })
        .collect()
    };
    assert_eq!(all("little"), [(10, 600_000, 10_000), (20, 600_000, 10_000)]);
    assert_eq!(all("none"), []);
    assert_eq!(all("much").len(), 29);
    assert!(all("much").iter().all(|(_, ms, run)| (*ms, *run) == (60_000, 1_000_000)));
}

#[test]
fn gaps_are_gaps() {
    let dir = Dir::new("records-gaps");
    let mut world = World::new(2, START_MS);
    let times = |from: i64, to: i64| (from..to).map(|second| START_MS + second * 1_000);
    let mut feed = |times: Vec<i64>| -> Vec<Moment> {
        times.into_iter().map(|at_ms| world.at(at_ms)).collect()
    };
    // A delay of 8 s is no gap. A delay of 40 s is a gap, and so is the time between two processes.
    drop(record(&dir, Keep::USUAL, &feed(times(0, 20).chain(times(28, 40)).collect())));
    let late = feed(times(80, 100).chain(times(140, 150)).collect());
    drop(record(&dir, Keep::USUAL, &late));
    drop(record(&dir, Keep::USUAL, &feed(times(151, 300).collect())));
    let records = Records::open(&dir.0).expect("opened");
    let gap = |from: i64, to: i64, reason: &str| Gap {
        from_ms: START_MS + from * 1_000,
        to_ms: START_MS + to * 1_000,
        reason: reason.into(),
    };
    let gaps = records.gaps(i64::MIN, i64::MAX).expect("read");
    assert_eq!(gaps, [gap(39, 80, "restart"), gap(99, 140, "late")]);
    assert_eq!(records.gaps(START_MS, START_MS + 50_000).expect("read"), gaps[..1]);
    let found = records.intervals(START_MS, START_MS + 4 * MINUTE_MS, MINUTE_MS).expect("read");
    let covered: Vec<u64> = found.iter().map(|minute| minute.host.covered_ms).collect();
    assert_eq!(covered, [39_000, 19_000, 40_000, 60_000]);
}

#[test]
fn a_clock_that_is_set_back_does_no_harm() {
    let dir = Dir::new("records-clock");
    let mut world = World::new(1, START_MS - 7_200_000);
    let back: Vec<Moment> = (0..70).map(|n| world.at(START_MS - 7_200_000 + n * 1_000)).collect();
    let moments = moments(1, START_MS, 1_000, 130);
    let mut recorder = record(&dir, Keep::USUAL, &moments);
    assert!(recorder.record(&moments[127]).is_none(), "a little back: left out");
    for moment in &back {
        assert!(recorder.record(moment).is_none());
    }
    let records = Records::open(&dir.0).expect("opened");
    let found = records.intervals(START_MS - 7_200_000, i64::MAX, 7_200_000).expect("read");
    let covered: Vec<u64> = found.iter().map(|minute| minute.host.covered_ms).collect();
    assert_eq!(covered, [69_000, 129_000]);
}

#[test]
fn quarters_say_what_their_minutes_say() {
    let dir = Dir::new("records-quarters");
    // Across midnight, and across the end of a month.
    let from_ms = 1_796_083_200_000 - 3_600_000;
    let moments = moments(4, from_ms, 10_000, 6 * 60 * 2 + 7);
    drop(record(&dir, Keep::USUAL, &moments));
    let records = Records::open(&dir.0).expect("opened");
    let names = std::fs::read_dir(&dir.0).expect("there");
    let mut names: Vec<String> =
        names.map(|name| name.expect("there").file_name().into_string().expect("text")).collect();
    names.retain(|name| name.ends_with(".db"));
    names.sort();
    assert_eq!(names, ["2026-11-30.db", "2026-11.db", "2026-12-01.db", "2026-12.db", "raw.db"]);
    let to_ms = from_ms + 8 * QUARTER_MS;
    let coarse = records.intervals(from_ms, to_ms, QUARTER_MS).expect("read");
    let fine = records.intervals(from_ms, to_ms, MINUTE_MS).expect("read");
    assert_eq!((coarse.len(), fine.len()), (8, 120));
    for (coarse, fine) in coarse.iter().zip(fine.chunks(15)) {
        let mut sum = Interval::default();
        fine.iter().for_each(|minute| sum.add(minute));
        assert_eq!(coarse, &sum);
    }
    // Only this part of the year is recorded.
    let year = records.intervals(0, i64::MAX, 86_400_000).expect("read");
    assert_eq!(year.len(), 2);
    assert_eq!(year[0].from_ms, from_ms + 3_600_000 - 86_400_000);
    // The months alone are sufficient, without the days.
    for day in ["2026-11-30.db", "2026-12-01.db"] {
        std::fs::remove_file(dir.0.join(day)).expect("there");
    }
    assert_eq!(records.intervals(from_ms, to_ms, QUARTER_MS).expect("read"), coarse);
    let by_minute = records.intervals(from_ms, to_ms, MINUTE_MS).expect("read");
    assert_eq!(by_minute[15].host, coarse[1].host);
    assert_eq!(by_minute[16].host.covered_ms, 0);
}

#[test]
fn old_recordings_are_removed() {
    let dir = Dir::new("records-old");
    let keep = Keep { minutes_days: 2, quarters_days: 40, raw_hours: 1, ..Keep::USUAL };
    let mut world = World::new(1, START_MS);
    let mut recorder = Recorder::new(&dir.0, keep);
    // Each of 60 days has six minutes with a moment every ten seconds, and then an hour with one
    // moment a minute. This hour is for the upkeep, which runs once a minute.
    for number in 0..60 * 100 {
        let (day, number) = (number / 100 * 86_400_000, number % 100);
        let in_day = if number < 36 { number * 10_000 } else { (number - 30) * 60_000 };
        assert!(recorder.record(&world.at(START_MS + day + in_day)).is_none());
    }
    let names = std::fs::read_dir(&dir.0).expect("there");
    let names: Vec<String> =
        names.map(|name| name.expect("there").file_name().into_string().expect("text")).collect();
    let days = names.iter().filter(|n| n.len() == "2026-11-21.db".len() && n.ends_with(".db"));
    let mut months: Vec<&String> =
        names.iter().filter(|n| n.len() == "2026-11.db".len() && n.starts_with('2')).collect();
    months.sort();
    assert_eq!(days.count(), 3, "{names:?}");
    assert_eq!(months, ["2026-12.db", "2027-01.db"], "{names:?}");
    let records = Records::open(&dir.0).expect("opened");
    let samples = raw(&records, i64::MIN, i64::MAX);
    let first = samples.first().expect("there").at_ms;
    assert!(samples.last().expect("there").at_ms - first < 2 * 3_600_000);
    // Every day of the two months is there, from its quarters of an hour.
    let days = records.intervals(START_MS, i64::MAX, 86_400_000).expect("read");
    assert!(days.iter().all(|day| day.host.covered_ms >= 290_000));
    assert!(days.len() >= 49, "{}", days.len());
}

#[test]
fn the_size_is_bounded() {
    let dir = Dir::new("records-size");
    let keep = Keep { most_bytes: 1, raw_bytes: 200_000, ..Keep::USUAL };
    let mut world = World::new(20, START_MS);
    let mut recorder = Recorder::new(&dir.0, keep);
    for number in 0..10 * 36 {
        let at_ms = START_MS + number / 36 * 86_400_000 + number % 36 * 10_000;
        assert!(recorder.record(&world.at(at_ms)).is_none());
    }
    drop(recorder);
    // The current day and month stay.
    let names = std::fs::read_dir(&dir.0).expect("there");
    let mut names: Vec<String> =
        names.map(|name| name.expect("there").file_name().into_string().expect("text")).collect();
    names.sort();
    assert_eq!(names, ["2026-11-30.db", "2026-11.db", "raw.db"]);
    let raw = std::fs::metadata(dir.0.join("raw.db")).expect("there").len();
    assert!(raw < 1_000_000, "{raw}");
}

#[test]
fn a_question_is_bounded_and_a_visitor_may_break_off() {
    let dir = Dir::new("records-questions");
    let records = Records::open(&dir.0).expect("opened");
    assert_eq!(records.intervals(0, i64::MAX, MINUTE_MS).expect("read"), []);
    assert!(matches!(Records::open(&dir.0.join("none")), Err(Error::File { .. })));
    drop(record(&dir, Keep::USUAL, &moments(3, START_MS, 10_000, 60)));
    let refused = records.intervals(0, i64::MAX, 1);
    assert!(matches!(refused, Err(Error::Span { .. })));
    let mut seen = 0;
    let span = Span { from_ms: START_MS, to_ms: i64::MAX, step_ms: MINUTE_MS };
    let parts = Parts { guests: false, tiers: false, processes: false };
    let visit = |interval: Interval| {
        assert!(interval.guests.is_empty() && interval.processes.is_empty());
        seen += 1;
        if seen < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    records.visit(span, parts, visit).expect("read");
    assert_eq!(seen, 3);
}

fn ask(records: &Records, text: &str) -> Result<Vec<Vec<Cell>>, Error> {
    let mut rows = Vec::new();
    records.sql()?.ask(text, &mut |_: &[String], cells: &[Cell]| {
        rows.push(cells.to_vec());
        ControlFlow::Continue(())
    })?;
    // The first row has the names.
    Ok(rows.split_off(1))
}

#[test]
fn questions_in_sql_are_answered_and_nothing_can_be_written() {
    let dir = Dir::new("records-sql");
    let records = Records::open(&dir.0).expect("opened");
    assert_eq!(ask(&records, "SELECT * FROM minute_guest").expect("nothing yet"), [[]; 0]);
    let from_ms = 1_796_083_200_000 - 20 * MINUTE_MS;
    let moments = moments(3, from_ms, 10_000, 6 * 40 + 2);
    drop(record(&dir, Keep::USUAL, &moments));
    // Tables contain only finished minutes.
    let fine = records.intervals(from_ms, from_ms + 40 * MINUTE_MS, MINUTE_MS).expect("read");
    let guests = ask(
        &records,
        "SELECT guest, sum(vcpu_run_ns), sum(covered_ms) FROM minute_guest GROUP BY 1 ORDER BY 1",
    );
    let mut expected = Interval::default();
    fine.iter().for_each(|minute| expected.add(minute));
    let number = |n: u64| Cell::Integer(n as i64);
    let expected: Vec<Vec<Cell>> = expected
        .guests
        .iter()
        .map(|(who, over)| {
            let run = number(over.get(GuestField::VcpuRun).expect("there"));
            vec![Cell::Text(who.name.clone()), run, number(over.covered_ms)]
        })
        .collect();
    assert_eq!(guests.expect("answered"), expected);
    let times = ask(&records, "SELECT min(at_ms), max(at_ms), count(*) FROM minute_host");
    let last_ms = from_ms + 39 * MINUTE_MS;
    let expected = [from_ms, last_ms, 40].map(Cell::Integer);
    assert_eq!(times.expect("answered"), [expected]);
    // Every table has the documented columns.
    for table in store::tables() {
        let sql = records.sql().expect("opened");
        let mut found = Vec::new();
        sql.ask(&format!("SELECT * FROM {}", table.name), &mut |names: &[String], _: &[Cell]| {
            found = names.to_vec();
            ControlFlow::Break(())
        })
        .expect("answered");
        let documented: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(found, documented, "{}", table.name);
    }
    let before: Vec<Vec<u8>> = files(&dir);
    for text in [
        "DELETE FROM file_0.minute_host",
        "CREATE TABLE x (y)",
        "ATTACH '/tmp/pinhead-other.db' AS other",
        "VACUUM INTO '/tmp/pinhead-other.db'",
        "PRAGMA file_0.user_version = 9",
        "SELECT 1; DELETE FROM file_0.minute_host",
        "INSERT INTO file_0.gap VALUES (1, 2, 'x') RETURNING *",
        "SELECT load_extension('x')",
        "nonsense",
        "",
    ] {
        let refused = ask(&records, text);
        assert!(
            matches!(refused, Err(Error::Sql { .. } | Error::Refused { .. })),
            "{text}: {refused:?}"
        );
    }
    // A statement that changes only the query's own connection returns rows, and has no effect.
    let _ = ask(&records, "PRAGMA query_only = false");
    let _ = ask(&records, "PRAGMA file_0.journal_mode = DELETE");
    assert!(!std::path::Path::new("/tmp/pinhead-other.db").exists());
    assert_eq!(files(&dir), before);
}

fn files(dir: &Dir) -> Vec<Vec<u8>> {
    let found = std::fs::read_dir(&dir.0).expect("there");
    let mut found: Vec<_> = found.map(|entry| entry.expect("there").path()).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "db"));
    found.sort();
    found.iter().map(|path| std::fs::read(path).expect("read")).collect()
}

#[test]
fn a_foreign_file_of_our_name_is_left_alone_and_reported_once() {
    let dir = Dir::new("records-foreign");
    let path = dir.0.join("2020-01-01.db");
    let somebodys = rusqlite::Connection::open(&path).expect("a database of something else");
    somebodys.execute_batch("CREATE TABLE t (x)").expect("made");
    drop(somebodys);
    let before = std::fs::read(&path).expect("there");
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    let news: Vec<News> =
        moments(1, START_MS, 1_000, 200).iter().filter_map(|m| recorder.record(m)).collect();
    assert!(matches!(&news[..], [News::Failed(Error::Foreign { .. })]), "{news:?}");
    assert_eq!(recorder.waiting(), 0);
    assert_eq!(std::fs::read(&path).expect("there"), before);
}
