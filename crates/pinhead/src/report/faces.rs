//! Checks that each number of a recorded hour is the same everywhere. The test compares the text,
//! CSV, JSON and page of a report, the report from metrics, `pinhead ps` and `pinhead top`.

use super::*;
use crate::listing::ListingArgs;
use crate::manage;
use clap::Parser;
use jiff::tz::TimeZone;
use manager::control::{GuestRow, HostRow, KsmRow, Ps};
use metrics::text::Format;
use model::{Field, GuestField as G, HostField as H, Interval, Kind, Moment, Over, Row, Unit};
use reports::recorded;
use reports::{Part, REPORTS, field, shown, testing};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ReportArgs,
}

/// Start of the hour, and interval between two samples.
const FROM_MS: i64 = testing::DAY_MS + 11 * 60 * MINUTE_MS;
const STEP_S: u64 = 10;
/// Width at which no table is broken.
const WIDE: usize = 1_000;

/// Returns a row's values at a moment. Counters grow evenly, and sizes grow by a page a second.
fn at<F: Field>(over: &Over<F>, second: u64) -> Row<F> {
    let mut row = Row::default();
    for (field, value) in F::ALL.iter().filter_map(|field| Some((*field, over.get(*field)?))) {
        let value = match (field.kind(), field.unit()) {
            (Kind::Counter, _) => value / 3600 * second,
            (Kind::Gauge, Unit::Bytes) => value + second * 4096,
            (Kind::Gauge, _) => value,
        };
        row.set(field, Some(value));
    }
    row
}

/// Returns the moments of an hour of three guests.
fn moments() -> Vec<Moment> {
    let mut day = testing::day(3, 60);
    let hour = day.intervals.swap_remove(11);
    let moment = |second: u64| {
        let mut moment = Moment {
            at_ms: FROM_MS + i64::try_from(second * 1000).expect("a time"),
            host: at(&hour.host, second),
            ..Moment::default()
        };
        for (who, over) in &hour.guests {
            moment.guests.insert(who.clone(), at(over, second));
        }
        for (name, over) in &hour.tiers {
            moment.tiers.insert(name.clone(), at(over, second));
        }
        for (who, all) in hour.processes.iter().filter(|_| second.is_multiple_of(60)) {
            let rows = all.iter().map(|(name, over)| (name.clone(), at(over, second)));
            moment.processes.insert(who.clone(), rows.collect());
        }
        moment
    };
    (0..=3600 / STEP_S).map(|step| moment(step * STEP_S)).collect()
}

/// Returns the response of an engine that has scraped a moment.
fn scraped(moment: &Moment) -> Vec<u8> {
    let text = metrics::text::render(moment, "p390", "1", Format::OpenMetrics);
    let seconds = moment.at_ms as f64 / 1000.0;
    let series = |line: &str| {
        let (name, rest) = line.split_once('{').expect("labels");
        let (labels, value) = rest.rsplit_once("} ").expect("a value");
        let mut metric = Map::new();
        metric.insert("__name__".into(), name.into());
        for label in labels.trim_end_matches('"').split("\",") {
            let (key, text) = label.split_once("=\"").expect("a label");
            metric.insert(key.into(), text.into());
        }
        json!({"metric": metric, "values": [[seconds, value]]})
    };
    let result: Vec<Value> =
        text.lines().filter(|line| !line.starts_with('#')).map(series).collect();
    let answer = json!({"status": "success", "data": {"resultType": "matrix", "result": result}});
    answer.to_string().into_bytes()
}

fn record(dir: &Path, moments: &[Moment]) {
    let _ = std::fs::remove_dir_all(dir);
    let mut recorder = store::Recorder::new(dir, store::Keep::USUAL);
    moments.iter().for_each(|moment| drop(recorder.record(moment)));
    recorder.close().expect("closed");
}

/// Prints a report of the hour that is recorded in a directory.
fn printed(dir: &Path, name: &str, format: &str) -> String {
    let words = format!(
        "report {name} --from 2026-11-21T11:00 --to 2026-11-21T12:00 --interval 15m \
         --format {format}"
    );
    let args = Line::try_parse_from(words.split_whitespace()).expect("arguments").args;
    let now = Now { ms: FROM_MS + 2 * 60 * MINUTE_MS, zone: TimeZone::UTC };
    let local = |wanted: &Wanted| Ok(recorded::local(Some(dir), Some("p390"), wanted)?);
    answer(&local, &args, &now, WIDE).unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// A row of a CSV: its cells by name.
type Cells<'a> = BTreeMap<&'a str, &'a str>;

fn rows(csv: &str) -> Vec<Cells<'_>> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    lines.map(|cells| head.iter().copied().zip(cells).collect()).collect()
}

/// Returns the cells of a row as people see them, without the columns that are empty in all rows.
fn seen<'a>(row: &Cells<'a>, part: &Part, all: &[Cells<'a>]) -> Vec<&'a str> {
    let of_table = || all.iter().filter(|row| row["table"] == part.id);
    let is_shown = |id: &&&str| of_table().any(|row| !row[**id].is_empty());
    let cells = part.columns.iter().filter(is_shown).map(|id| row[id]);
    cells.map(|cell| if cell.is_empty() { "-" } else { cell }).collect()
}

#[test]
fn faces_of_a_number_agree_to_the_digit() {
    let temporary = std::env::temp_dir().join(format!("pinhead-faces-{}", std::process::id()));
    let (dir, scraped_dir) = (temporary.join("recorded"), temporary.join("scraped"));
    let moments = moments();
    record(&dir, &moments);
    let rebuilt = moments.iter().flat_map(|moment| {
        let found = metrics::rebuild::moments(&scraped(moment)).expect("moments");
        found.into_values().flat_map(BTreeMap::into_values)
    });
    record(&scraped_dir, &rebuilt.collect::<Vec<_>>());
    let mut compared = 0;
    for definition in REPORTS {
        let of = |format| printed(&dir, definition.name, format);
        let (text, csv, json, html) = (of("text"), of("csv"), of("json"), of("html"));
        for (format, face) in [("text", &text), ("csv", &csv), ("json", &json), ("html", &html)] {
            assert!(*face == printed(&scraped_dir, definition.name, format), "{}", definition.name);
        }
        let lines: BTreeSet<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let document: Value = serde_json::from_str(&json).expect("JSON");
        let rows = rows(&csv);
        for part in definition.parts {
            let tables = document["tables"].as_array().expect("tables");
            let table = tables.iter().find(|table| table["table"] == part.id).expect("a table");
            let in_csv: Vec<&Cells<'_>> =
                rows.iter().filter(|row| row["table"] == part.id).collect();
            let in_json = table["rows"].as_array().expect("rows");
            assert_eq!(in_csv.len(), in_json.len(), "{}", definition.name);
            for (row, numbers) in in_csv.into_iter().zip(in_json) {
                for id in part.columns {
                    let decimals = field(part.scope, id).expect("a field").decimals;
                    let cell = Some(row[id]).filter(|cell| !cell.is_empty()).unwrap_or("-");
                    assert_eq!(shown(numbers[*id].as_f64(), decimals), cell, "{id}: {numbers}");
                    compared += 1;
                }
                let is_each = ["guest", "tier"].iter().any(|label| row.get(label) != Some(&"all"))
                    && row["row"] == "interval";
                if is_each && part.scope != reports::Scope::Host {
                    continue;
                }
                let cells = seen(row, part, &rows);
                let is_there = lines.iter().any(|line| line.ends_with(&cells));
                assert!(is_there, "{}: {cells:?} in {text}", definition.name);
                let tags = format!("<td>{}</td></tr>", cells.join("</td><td>"));
                assert!(html.contains(&tags), "{}: {tags}", definition.name);
            }
        }
    }
    std::fs::remove_dir_all(&temporary).expect("removed");
    assert!(compared > 2_000, "{compared}");
}

/// Columns of `ps` and of `top` that show a field of the reports.
const OF_PS: [(&str, &str); 8] = [
    ("HAS", "actual_mib"),
    ("OF", "memory_mib"),
    ("VMM", "hypervisor_mib"),
    ("SHARED", "together_mib"),
    ("SWAPPED", "swapped_mib"),
    ("COMPR", "compressed_mib"),
    ("AVAIL", "own_available_mib"),
    ("PSI%", "own_psi_some_percent"),
];
const OF_TOP: [(&str, &str); 8] = [
    ("CPU%", "cpu_percent"),
    ("STL%", "cpu_wait_percent"),
    ("T:V", "t_v_ratio"),
    ("HAS", "actual_mib"),
    ("OF", "memory_mib"),
    ("PRIV", "private_mib"),
    ("AVAIL", "own_available_mib"),
    ("PSI%", "own_psi_some_percent"),
];

/// Returns the manager's rows with the values of an interval.
fn state(interval: &Interval) -> Ps {
    let host = HostRow {
        total_bytes: interval.host.get(H::Total),
        available_bytes: interval.host.get(H::Available),
        ..HostRow::default()
    };
    let percent =
        |over: &Over<G>| Some(over.get(G::OwnPsiSome)? as f64 / over.covered_ms as f64 / 1e4);
    let guests = interval.guests.iter().map(|(who, over)| GuestRow {
        name: who.name.clone(),
        memory_bytes: over.get(G::Memory).unwrap_or_default(),
        actual_bytes: over.get(G::Actual),
        own_bytes: over.get(G::Hypervisor),
        own_measured: true,
        shared_bytes: over.get(G::Together),
        swapped_bytes: over.get(G::Swapped),
        compressed_bytes: over.get(G::Compressed),
        available_bytes: over.get(G::OwnAvailable),
        psi_permille: percent(over).map(|percent| percent * 10.0),
        ..GuestRow::default()
    });
    Ps { host, ksm: KsmRow::default(), guests: guests.collect() }
}

/// Prints a screen of `top` about a quarter of an hour of a recording.
fn screen(dir: &Path, shown: top::Shown, from_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(from_ms).expect("a time");
    let at = at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string();
    let wanted = top::Wanted { path: dir, at: Some(&at), step_s: 900, journal: None };
    let options =
        top::Options { shown, filter: String::new(), once: true, seconds: None, no_color: true };
    let mut out = Vec::new();
    top::print(&wanted, &options, WIDE, &mut out).expect("a screen");
    String::from_utf8(out).expect("text")
}

fn cell_of(row: &str, heads: &str, head: &str) -> String {
    let at = |heads: &str| heads.split_whitespace().position(|one| one == head);
    let at = at(&heads.replace("IN HOST", "IN-HOST").replace('*', "")).expect("a column");
    row.split_whitespace().nth(at).expect("a cell").to_owned()
}

#[test]
fn ps_and_top_agree_with_reports_to_the_digit() {
    let dir = std::env::temp_dir().join(format!("pinhead-screens-{}", std::process::id()));
    record(&dir, &moments());
    let (mut values, mut compared) = (BTreeMap::new(), 0);
    for definition in REPORTS {
        for row in rows(&printed(&dir, definition.name, "csv")) {
            let guest = row.get("guest").copied().unwrap_or("all");
            let part = definition.parts.iter().find(|part| part.id == row["table"]);
            let ids = part.expect("a table").columns.iter().filter(|_| row["row"] == "interval");
            values.extend(
                ids.map(|id| ([row["from"], guest, id].map(str::to_owned), row[id].to_owned())),
            );
        }
    }
    let records = store::Records::open(&dir).expect("a recording");
    let quarters = records.intervals(FROM_MS, FROM_MS + 60 * MINUTE_MS, 15 * MINUTE_MS);
    for interval in quarters.expect("intervals") {
        let from = jiff::Timestamp::from_millisecond(interval.from_ms).expect("a time").to_string();
        let ps = manage::ps::show(&state(&interval), &ListingArgs::default(), None);
        let guests = screen(&dir, top::Shown::Guests, interval.from_ms);
        for (face, columns) in [(&ps, OF_PS), (&guests, OF_TOP)] {
            let heads = face.lines().find(|line| line.contains("GUEST")).expect("heads");
            for (who, over) in &interval.guests {
                let is_of =
                    |line: &&str| line.trim_start_matches([' ', '>']).starts_with(&who.name);
                let row = face.lines().find(is_of).expect("a guest").trim_start_matches('>');
                for (head, id) in columns {
                    let key = [from.as_str(), who.name.as_str(), id].map(str::to_owned);
                    // A guest's configured size may be missing from the rows of intervals.
                    let wanted = match values.get(&key).map(String::as_str) {
                        Some("") => "-",
                        Some(value) => value,
                        None if id == "memory_mib" => &reports::mib(over.get(G::Memory)),
                        None => panic!("{id} is in no report"),
                    };
                    assert_eq!(cell_of(row, heads, head), wanted, "{head} is {id}: {face}");
                    compared += 1;
                }
            }
        }
        let of_host = |id: &str| &values[&[from.as_str(), "all", id].map(str::to_owned)];
        let (total, available) = (of_host("total_mib"), of_host("available_mib"));
        assert!(ps.contains(&format!("host {total} MiB, {available} available")), "{ps}");
        let overview = screen(&dir, top::Shown::Overview, interval.from_ms);
        assert!(overview.contains(&format!("{total} MiB")), "{total}: {overview}");
        assert!(overview.contains(&format!("available {available}")), "{available}: {overview}");
        assert!(
            overview.contains(&format!("CPU      {} %", of_host("busy_percent"))),
            "{overview}"
        );
    }
    std::fs::remove_dir_all(&dir).expect("removed");
    assert_eq!(compared, 4 * 3 * 16);
}
