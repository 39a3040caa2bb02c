use super::*;
use crate::listing::testing::check_widths_in;
use clap::Parser;
use jiff::tz::TimeZone;
use model::{GuestField, GuestIdentity, HostField, Moment, Row};
use reports::recorded;
use reports::testing;
use std::ops::RangeInclusive;
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ReportArgs,
}

fn args(words: &str) -> ReportArgs {
    let line = Line::try_parse_from(std::iter::once("report").chain(words.split_whitespace()));
    line.expect("arguments").args
}

/// Returns a time in the evening of the made-up day.
fn now() -> Now {
    Now { ms: testing::DAY_MS + 20 * 60 * MINUTE_MS, zone: TimeZone::UTC }
}

/// Returns data of a made-up day, like a source without other data.
fn made_up(wanted: &Wanted) -> Result<Vec<HostData>, Error> {
    let minutes = u64::try_from(wanted.step_ms / MINUTE_MS).expect("a step");
    let mut day = testing::day(5, minutes);
    day.intervals.retain(|one| one.from_ms >= wanted.from_ms && one.from_ms < wanted.to_ms);
    let mut host = HostData { name: day.name, ..HostData::default() };
    day.intervals.into_iter().for_each(|one| host.add(one));
    host.recorded = day.recorded;
    Ok(vec![host])
}

fn printed(words: &str) -> Result<String, Error> {
    answer(&made_up, &args(words), &now(), 80)
}

#[test]
fn every_report_in_every_format() {
    for report in reports::REPORTS {
        for format in ["text", "csv", "json", "html"] {
            let words = format!("{} --from 2026-11-21 --format {format}", report.name);
            let text = printed(&words).unwrap_or_else(|error| panic!("{words}: {error}"));
            assert!(text.ends_with('\n') && text.len() > 200, "{words}: {text}");
        }
        let text = printed(&format!("{} --format json", report.name)).expect("a report");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(json["report"], report.name);
    }
}

#[test]
fn an_old_name_may_have_become_two_reports() {
    let text = printed("esausr2").expect("two reports");
    assert!(text.contains("GUEST1") && text.contains("GUEST2"));
    let error = printed("ESAUSR2 --format csv").expect_err("two tables").to_string();
    assert!(error.contains("GUEST1 or GUEST2"), "{error}");
    assert!(printed("ESAXYZ").expect_err("no report").to_string().contains("STORE1"));
}

#[test]
fn times_make_whole_intervals() {
    let check = |words: &str, from_min: i64, to_min: i64, step_min: i64| {
        let found = reports::find("PROC").expect("a report");
        let wanted = wanted(&args(words), &now(), &found).expect("a time");
        let minute = |at: i64| (at - testing::DAY_MS) / MINUTE_MS;
        assert_eq!((minute(wanted.from_ms), minute(wanted.to_ms)), (from_min, to_min), "{words}");
        assert_eq!(wanted.step_ms, step_min * MINUTE_MS, "{words}");
        assert!(!wanted.needs.processes.is_empty());
    };
    check("PROC", 1140, 1200, 5);
    check("PROC --from 2026-11-21", 0, 1200, 60);
    check("PROC --from 00:07 --to 01:00 --interval 15m", 0, 60, 15);
    check("PROC --from 00:07 --to 01:00 --format html", 7, 60, 1);
    let wrong = |words: &str| printed(words).expect_err("no time").to_string();
    assert!(wrong("MAIN --from 12:00 --to 11:00").contains("before it begins"));
    assert!(wrong("MAIN --interval 10s").contains("at least a minute"));
}

#[test]
fn only_some_guests() {
    let text = printed("GUEST1 --from 00:00 --class LNX1001").expect("a report");
    assert!(text.contains("LNX1001") && !text.contains("LNX1000"), "{text}");
    let text = printed("GUEST1 --from 00:00 --class d* --by class").expect("a report");
    assert!(text.contains("\ndb ") && !text.contains("\nweb "), "{text}");
}

#[test]
fn every_report_fits_every_width() {
    for report in reports::REPORTS {
        let args = args(&format!("{} --from 12:00 --to 13:00", report.name));
        let wanted = wanted(&args, &now(), &[report]).expect("a time");
        let (recorded, zone) = (made_up(&wanted).expect("data"), reports::Utc);
        let (detail, top) = (Detail::Sums, 10);
        let options = Options { by: By::Guest, pattern: None, top, detail, zone: &zone };
        let report = reports::build(report, &recorded, &options).expect("a report");
        // The names, times and fields of a finding need 48 columns.
        let least = if report.definition.name == "ADV" { 48 } else { 40 };
        check_widths_in(least..=300, |width| reports::text(&report, &zone, width));
    }
}

#[test]
fn report_of_one_guest_is_over_time() {
    let text = printed("GUEST1 --from 00:00 --guest LNX1001").expect("a report");
    assert!(text.contains(", guest LNX1001\n"), "{text}");
    assert!(text.contains("\nLNX1001 ") && !text.contains("\nall "), "{text}");
    let row = |text: &str, start: &str| {
        text.lines().find(|line| line.starts_with(start)).map(str::to_owned).expect(start)
    };
    let other = printed("GUEST1 --from 00:00").expect("a report");
    let cells = |row: String| row.split_whitespace().take(9).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(cells(row(&text, "LNX1001 ")), cells(row(&other, "LNX1001 ")));
    assert_ne!(cells(row(&text, "12:00")), cells(row(&other, "12:00")));
    // No other guest has this name in another case.
    assert_eq!(printed("GUEST1 --from 00:00 --guest lnx1001").expect("a report"), text);
}

#[test]
fn request_for_what_is_not_recorded_names_what_is() {
    let wrong = |words: &str| printed(words).expect_err("not recorded").to_string();
    assert_eq!(
        wrong("MAIN --from 00:00 --class lnx1oo1"),
        "No guest's name or class matches lnx1oo1. Similar names: LNX1001"
    );
    assert_eq!(
        wrong("MAIN --from 00:00 --class nosuch"),
        "No guest's name or class matches nosuch. Guests of this time: LNX1000, LNX1001, LNX1002, \
         LNX1003, LNX1004; classes: batch, db, web"
    );
    assert!(wrong("MAIN --from 00:00 --guest web").starts_with("No guest is called web. Guests"));
    assert_eq!(
        wrong("MAIN --from 2026-11-19 --to 2026-11-20"),
        "Nothing is recorded in this time. The recording covers 2026-11-21 00:00 to 2026-11-22 \
         00:00; choose a part with --from and --to"
    );
    assert!(wrong("gest1").starts_with("No report is called gest1: did you mean `GUEST1`"));
}

#[test]
fn legend_has_each_column_with_its_unit_and_source() {
    for report in reports::REPORTS {
        let text = run(&args(&format!("{} --legend", report.name))).expect("a legend");
        for id in report.parts.iter().flat_map(|part| part.columns) {
            assert!(text.contains(id), "{}: {id}", report.name);
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }
    let text = run(&args("GUEST1 --legend")).expect("a legend");
    let column = "\n  CPU ms/min (cpu_ms_per_min, in ms/min)\n      CPU time that the guest costs \
                  the host (run time of all threads of the\n        guest's process, per \
                  minute)\n      from vcpu_run_ns, other_run_ns\n";
    let source = "\n  vcpu_run_ns (task/TID/schedstat): pinhead_guest_vcpu_run_seconds_total\n";
    assert!(text.contains(column) && text.contains(source), "{text}");
}

#[test]
fn all_reports_are_listed() {
    let listed = list();
    assert_eq!(listed.lines().count(), 17);
    assert!(listed.contains("STATE") && listed.contains("ESAXACT"));
}

/// Records a host with two CPUs and a guest, from one second of the day to another.
fn record(dir: &Path, seconds: RangeInclusive<u64>) {
    let _ = std::fs::remove_dir_all(dir);
    let mut recorder = store::Recorder::new(dir, store::Keep::USUAL);
    let who =
        GuestIdentity { name: "LNX1001".into(), uuid: "1".into(), ..GuestIdentity::default() };
    for second in seconds {
        let mut guest = Row::default();
        guest.set(GuestField::VcpuRun, Some(second * 250_000_000));
        guest.set(GuestField::OtherRun, Some(second * 50_000_000));
        guest.set(GuestField::Resident, Some(64 << 20));
        let mut host = Row::default();
        host.set(HostField::Cpus, Some(2));
        host.set(HostField::User, Some(second * 100_000_000));
        host.set(HostField::System, Some(second * 300_000_000));
        let at_ms = testing::DAY_MS + i64::try_from(second * 1000).expect("a time");
        let guests = [(who.clone(), guest)].into();
        recorder.record(&Moment { at_ms, host, guests, ..Moment::default() });
    }
    recorder.close().expect("closed");
}

/// Steps begin at round times. The recording begins and ends within a step.
#[test]
fn report_begins_and_ends_with_the_recording() {
    let dir = std::env::temp_dir().join(format!("pinhead-young-{}", std::process::id()));
    let local = |wanted: &Wanted| Ok(recorded::local(Some(&dir), Some("p390"), wanted)?);
    for (seconds, span) in
        [(1_252..=1_280, "00:20:52 to 00:21:20"), (1_252..=1_430, "00:20:52 to 00:23:50")]
    {
        record(&dir, seconds);
        let args = args("MAIN --from 00:00 --to 01:00 --interval 5m");
        let text = answer(&local, &args, &now(), 80).expect("a report");
        assert!(text.contains(&format!("2026-11-21 {span}, every")), "{text}");
        assert!(text.contains("\n00:20:52 ") && !text.contains("gaps:"), "{text}");
    }
    let error = answer(&local, &args("MAIN --from 03:00 --to 04:00"), &now(), 80);
    std::fs::remove_dir_all(&dir).expect("removed");
    let range = "The recording covers 2026-11-21 00:20:52 to 2026-11-21 00:23:50;";
    assert!(error.expect_err("nothing").to_string().contains(range));
}

/// The report contains a guest's activity in one minute that was recorded second by second.
#[test]
fn recorded_minute_is_reported() {
    let dir = std::env::temp_dir().join(format!("pinhead-report-{}", std::process::id()));
    record(&dir, 0..=600);
    let local = |wanted: &Wanted| Ok(recorded::local(Some(&dir), Some("p390"), wanted)?);
    let args = args("GUEST1 --from 2026-11-21 --to 2026-11-22 --interval 5m");
    let text = answer(&local, &args, &now(), 80);
    let main = answer(&local, &self::args("MAIN --from 00:00 --to 00:10"), &now(), 80);
    std::fs::remove_dir_all(&dir).expect("removed");
    let text = text.expect("a report");
    let row = text.lines().find(|line| line.starts_with("LNX1001")).expect("the guest's row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..6], ["18000", "30.0", "15000", "1.20", "64"], "{text}");
    assert!(text.contains("host p390"), "{text}");
    // Guests used 0.3 of the 0.4 CPUs that were busy.
    assert!(main.expect("a report").contains(" 75.0 "));
}
