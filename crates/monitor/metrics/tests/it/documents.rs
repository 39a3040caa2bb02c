//! Checks that the manual contains all metrics, and that manual and dashboard contain no other
//! metrics.

use metrics::names::{self, Table};
use model::{GuestField, HostField, Kind, ProcessField, TierField};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Environment variable that makes the test write the generated part again.
const WRITE: &str = "PINHEAD_WRITE_DOCS";
/// Line before the generated part.
const MADE: &str = "<!-- The rest is made from the tables of fields: \
                    PINHEAD_WRITE_DOCS=1 cargo test -p metrics -->\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn table<F: Table>(title: &str, out: &mut String) {
    write!(out, "\n## {title}\n\n| metric | kind | is | source |\n|---|---|---|---|\n")
        .expect("a text takes all");
    for (field, metric) in F::ALL.iter().zip(F::metrics()) {
        let kind = match field.kind() {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let (name, doc, source) = (&metric.name, field.doc(), field.source());
        writeln!(out, "| `{name}` | {kind} | {doc} | {source} |").expect("a text takes all");
    }
}

#[test]
fn the_manual_has_every_metric() {
    let mut made = String::new();
    table::<HostField>("The host", &mut made);
    table::<GuestField>("Guests", &mut made);
    table::<TierField>("Memory tiers", &mut made);
    table::<ProcessField>("Processes of guests", &mut made);
    let manual = read("docs/metrics.md");
    let (written, rest) = manual.split_once(MADE).expect("the line where the tables begin");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(root().join("docs/metrics.md"), format!("{written}{MADE}{made}")).unwrap();
    } else {
        assert_eq!(rest, made, "docs/metrics.md is out of date: run with {WRITE}=1");
    }
}

/// Collects all expressions of a dashboard, in panels and in variables.
fn expressions<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                match (key.as_str(), value) {
                    ("expr" | "definition", Value::String(text)) => found.push(text),
                    _ => expressions(value, found),
                }
            }
        }
        Value::Array(entries) => entries.iter().for_each(|entry| expressions(entry, found)),
        _ => {}
    }
}

fn is_known(name: &str) -> bool {
    let tables = [HostField::metrics(), GuestField::metrics(), TierField::metrics()];
    let mut all = tables.into_iter().flatten().chain(ProcessField::metrics());
    [names::GUEST_INFO, names::HOST_INFO, names::SAMPLED].contains(&name)
        || all.any(|metric| metric.name == name || metric.exact.as_deref() == Some(name))
}

#[test]
fn the_dashboard_queries_only_existing_metrics() {
    let text = read("packaging/grafana-pinhead.json");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    assert!(found.len() > 40, "{} expressions", found.len());
    for expression in found {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names: Vec<_> = words.filter(|word| word.starts_with("pinhead_")).collect();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            assert!(is_known(name), "{name} in {expression}");
            let is_counter = name.ends_with("_total");
            let is_rate = expression.contains(&format!("rate({name}{{"));
            assert_eq!(is_counter, is_rate, "a rate is of counters, and of them always: {name}");
        }
    }
}

#[test]
fn panels_have_distinct_ids_and_do_not_overlap() {
    let dashboard: Value =
        serde_json::from_str(&read("packaging/grafana-pinhead.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let place = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(x < 24 && taken.insert((x, y)), "{} at {x}, {y}", panel["title"]);
            }
        }
    }
}
