//! Reports of a manager that runs next to real guests. Every report has rows, values in every
//! available column, and only possible numbers.

use e2e::manager::{Manager, Place, Size, observe, wait_until};
use e2e::{Guest, Host, Plan};
use manager::control::{Answer, Ask, ask};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const REPORTS: [&str; 17] = [
    "HDR", "MAIN", "GUEST1", "GUEST2", "STATE", "QUEUE", "STORE1", "STORE2", "LEVERS", "PAGE",
    "CACHE", "VDISK", "GIO", "PROC", "IDLE", "LNXS", "ADV",
];
/// Time between two process reports. Both reports are recorded only if they fall into different
/// minutes.
const APART: Duration = Duration::from_secs(61);
/// Time after which the minute of the second report is over.
const RECORDED: Duration = Duration::from_secs(90);
/// Computes, reads and writes a little, and sleeps in between.
const LOAD: &str = "(while :; do n=0; while [ $n -lt 1000 ]; do n=$((n + 1)); done; \
                    dd if=/dev/zero of=/dev/shm/file bs=64k count=4; cat /proc/meminfo; \
                    sleep 2; done) > /dev/null 2>&1 &";
/// Accepted reasons for an empty column: emulation, no swap space, no cgroup for each guest, or
/// guests without a disk and a network. A column that is empty for another reason is a fault.
const NOT_HERE: [&str; 14] = [
    "KVM",
    "cgroup",
    "ksm",
    "KSM",
    "stat 42",
    "stat 43",
    "zram",
    "zswap",
    "swap",
    "SecPageTables",
    "cachestat",
    "PID/fd",
    "net/dev",
    "statvfs",
];
/// Columns that stay empty if nothing happens: no disk is read, no memory is reclaimed or shared,
/// and no guest has a target.
const OF_NOTHING: [&str; 4] = ["cache_hit_percent", "turn_s", "ksm_ratio", "target_mib"];
/// Columns for the tiers of swap that stay empty if nothing is swapped on this machine.
const OF_NO_SWAPPING: [&str; 4] = ["page_age_s", "write_ms", "cluster_kib", "read_ms"];

fn plan(place: &Place) -> Plan {
    let mut plan = Plan { cpus: 2, memory_mib: 192, ..Plan::holding(place.dir()) };
    // On a busy host, an emulated timer may be too late for the kernel's check of the timer.
    plan.kernel_args.push("no_timer_check".into());
    plan
}

fn report(dir: &Path, name: &str, words: &[&str]) -> String {
    let mut command = Command::new(e2e::program());
    command.args(["report", name, "--dir"]).arg(dir).args(words);
    let output = command.output().expect("a report");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {words:?}: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

fn scan(place: &Place, guest: &str) {
    let question = Ask::Scan { guest: guest.to_owned() };
    let answer = ask(&place.socket(), &question, Duration::from_secs(30));
    assert!(matches!(answer, Ok(Answer::Scan(_))), "{guest}: {answer:?}");
}

struct Column<'a> {
    name: &'a str,
    title: &'a str,
    unit: &'a str,
    values: Vec<Option<f64>>,
}

fn columns<'a>(table: &'a Value, rows: &'a [Value]) -> Vec<Column<'a>> {
    let all = table["columns"].as_array().expect("columns");
    let column = |column: &'a Value| {
        let name = column["name"].as_str().expect("a name");
        let values = rows.iter().map(|row| row[name].as_f64()).collect();
        let text = |of: &str| column[of].as_str().unwrap_or_default();
        Column { name, title: text("title"), unit: text("unit"), values }
    };
    all.iter().map(column).collect()
}

/// Returns the sources of an empty column, as named in the notes of a report.
fn why_empty(notes: &[&str], report: &str, table: &Value, column: &Column<'_>) -> Option<String> {
    let names = |note: &&str| {
        let names = note.strip_prefix("Columns without values: ").unwrap_or_default();
        names.split(". `").next().unwrap_or_default().split(", ").any(|name| name == column.title)
    };
    notes.iter().find(|note| names(note))?;
    let definition = *reports::find(report).expect("a report").first()?;
    let part = definition.parts.iter().find(|part| table["table"] == part.id)?;
    let sources = reports::field(part.scope, column.name)?.sources;
    Some(sources.iter().map(|raw| raw.source()).collect::<Vec<_>>().join(", "))
}

fn has_swap() -> bool {
    std::fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1)
}

/// Returns the reason why a value is impossible in its unit, if it is. `cpus` is the host's number
/// of CPUs.
fn impossible(report: &str, column: &Column<'_>, value: f64, cpus: f64) -> Option<String> {
    // A difference between actual and expected memory may be negative.
    let is_rest = column.name.starts_with("other") || column.name.contains("balance");
    let most = match column.unit {
        "%" if report == "ADV" => return None,
        "%" => 100.0 * cpus.max(2.0) * 1.05,
        "ms/min" => 60_000.0 * cpus * 1.05,
        "MiB" => 64.0 * 1024.0 * 1024.0,
        _ => f64::MAX,
    };
    let is_possible = value.is_finite() && value <= most && (value >= 0.0 || is_rest);
    (!is_possible).then(|| format!("{report}: {} is {value} {}", column.name, column.unit))
}

#[test]
fn every_report_is_made_of_a_manager_that_runs() {
    let place = Place::new();
    let host = Host::start(&[plan(&place), plan(&place)]);
    let mut guests: Vec<Guest<'_>> = (0..2).map(|n| host.guest(n)).collect();
    for guest in &mut guests {
        guest.until("the guest has settled", e2e::PATIENCE, |status| status.settled);
        guest.sh(LOAD);
    }
    host.yield_to_manager();
    let records = place.dir().join("records");
    let monitor = format!("\n[monitor]\ndir = \"{}\"\n", records.display());
    let size = Size::with_free(&host, 2, 512);
    let manager = Manager::start(&place, &place.settings(&size, &monitor));
    manager.knows(2);
    let daemons = || manager.ps().guests.iter().all(|guest| guest.daemon);
    assert!(wait_until(e2e::PATIENCE, daemons).is_some(), "{}", manager.log());
    // On a crowded machine a guest may count as asleep. The manager does not sample a sleeping
    // guest by itself.
    ["g1", "g2"].iter().for_each(|name| scan(&place, name));
    observe(APART);
    ["g1", "g2"].iter().for_each(|name| scan(&place, name));
    let of_both = || {
        let text = report(&records, "PROC", &["--from", "10m ago", "--format", "csv"]);
        text.contains("g1,") && text.contains("g2,")
    };
    assert!(wait_until(RECORDED, of_both).is_some(), "no processes are recorded");

    let cpus = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    let (mut wrong, mut empty) = (Vec::new(), BTreeMap::new());
    for (name, format) in REPORTS.into_iter().zip(["text", "html", "csv"].into_iter().cycle()) {
        // All formats come from the same tables as JSON. JSON is checked below for every report.
        let text = report(&records, name, &["--from", "10m ago", "--format", format]);
        // A host without swap has no swap tiers, and the report notes that.
        let is_bare = name == "PAGE" && !has_swap();
        assert!(text.lines().count() > 2 || is_bare, "{name} as {format}: {text}");
        assert!(format != "html" || text.contains("</html>"), "{name}: no whole page");
        let of_both = ["GUEST1", "GUEST2", "STATE", "QUEUE", "PROC", "IDLE", "LNXS"];
        let both = text.contains("g1") && text.contains("g2");
        if of_both.contains(&name) && !both {
            wrong.push(format!("{name} as {format} does not show both: {text}"));
        }
        let text = report(&records, name, &["--from", "10m ago", "--format", "json"]);
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(json["report"], name);
        let notes: Vec<&str> =
            json["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut count = 0;
        for table in json["tables"].as_array().expect("tables") {
            let rows = table["rows"].as_array().expect("rows");
            count += rows.len();
            for column in columns(table, rows) {
                let known = column.values.iter().flatten();
                wrong.extend(known.filter_map(|value| impossible(name, &column, *value, cpus)));
                let is_number = rows.iter().all(|row| !row[column.name].is_string());
                if is_number && !rows.is_empty() && column.values.iter().all(Option::is_none) {
                    let why = why_empty(&notes, name, table, &column);
                    empty.insert((name, column.name.to_owned()), why);
                }
            }
            if name == "STATE" {
                let sums: Vec<f64> =
                    rows.iter().filter_map(|row| row["states_percent"].as_f64()).collect();
                let is_whole = |sum: &f64| (sum - 100.0).abs() <= 0.5;
                assert!(sums.len() >= 2 && sums.iter().all(is_whole), "{sums:?}");
            }
        }
        println!("{name}: {count} rows");
        // Advice appears only for a reason, and swap tiers only if they exist.
        let may_be_empty = name == "ADV" || (name == "PAGE" && !has_swap());
        if count == 0 && !may_be_empty {
            wrong.push(format!("{name} has no rows: {notes:?}"));
        }
    }
    let named: Vec<String> =
        empty.keys().map(|(report, name)| format!("{report} {name}")).collect();
    println!("empty: {}", named.join(", "));
    let unexplained: Vec<String> = empty
        .into_iter()
        .filter(|((report, column), _)| {
            let is_of = |columns: &[&str]| columns.contains(&column.as_str());
            let is_explained = is_of(&OF_NOTHING) || (*report == "PAGE" && is_of(&OF_NO_SWAPPING));
            !is_explained
        })
        .filter(|(_, why)| {
            let is_accepted = |why: &String| NOT_HERE.iter().any(|word| why.contains(word));
            !why.as_ref().is_some_and(is_accepted)
        })
        .map(|((report, column), why)| format!("{report} {column}: {why:?}"))
        .collect();
    wrong.extend(unexplained.into_iter().map(|column| format!("nothing is in {column}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
