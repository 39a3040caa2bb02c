//! The quick forms of the experiments. They check that everything works, but not the measured
//! values.

use lab::{Outcome, catalog, shelf};
use std::path::Path;
use std::process::Command;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs an experiment's quick form, and returns the result, which must have no failed phase.
fn quick(name: &str, more: &[&str]) -> Option<Outcome> {
    if !is_root() {
        e2e::skipped("limits of memory and Debian's images need root");
        return None;
    }
    let _alone = e2e::alone();
    let out = e2e::scratch(name);
    let run = Command::new(Path::new(e2e::program()).with_file_name("pinhead-lab"))
        .args(["experiment", name, "--quick", "--out"])
        .arg(out.path())
        .args(more)
        .output()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{name}: {stderr}");
    let found = shelf::list(out.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let [(path, Ok(outcome))] = found.as_slice() else { panic!("{name}: {found:?}") };
    assert!(outcome.quick && outcome.failures().is_empty(), "{name}: {stderr}");
    has_page(path, outcome);
    Some(outcome.clone())
}

/// Asserts that the result's page has every table and a chart.
fn has_page(path: &Path, outcome: &Outcome) {
    let page = std::fs::read_to_string(path.with_extension("html"));
    let page = page.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let view = catalog::view(outcome);
    assert!(!view.tables.is_empty() && !view.charts.is_empty());
    for title in view.tables.iter().map(|table| &table.title) {
        assert!(page.contains(title.as_str()), "no table {title:?}");
    }
    assert!(page.contains("<svg"), "no chart");
}

/// Asserts that a phase of a case has a measure.
fn has(outcome: &Outcome, case: &str, phase: &str, measure: &str) {
    let values = outcome.values(case, phase, measure);
    assert!(!values.is_empty(), "{case}, {phase}: no {measure:?}");
}

#[test]
fn penguins() {
    let more = ["--guests", "3", "--case", "no limit", "--case", "limited, managed"];
    let Some(outcome) = quick("penguins", &more) else { return };
    for case in ["no limit", "limited, managed"] {
        for phase in ["first wipe", "second wipe", "third wipe"] {
            assert_eq!(outcome.values(case, phase, "answered"), [(1, 3.0)], "{case}, {phase}");
            assert_eq!(outcome.values(case, phase, "failed"), [(1, 0.0)], "{case}, {phase}");
        }
        has(&outcome, case, "idle", "CPU a guest");
        has(&outcome, case, "idle", "memory a guest, shared");
    }
    has(&outcome, "no limit", "reboot", "CPU");
}

#[test]
fn a_count_of_parked_servers() {
    let Some(outcome) = quick("penguins", &["--count", "3"]) else { return };
    assert_eq!(outcome.values("3 servers", "start", "servers that answer"), [(1, 3.0)]);
    assert_eq!(outcome.values("3 servers", "idle", "dispatches of virtual CPUs"), [(1, 0.0)]);
    for phase in ["first answers", "second answers"] {
        assert_eq!(outcome.values("3 servers", phase, "answered"), [(1, 3.0)], "{phase}");
    }
    for measure in ["memory of the host", "private", "compressed", "page tables"] {
        has(&outcome, "3 servers", "all are parked", measure);
    }
    has(&outcome, "3 servers", "end", "took");
}

#[test]
fn swap() {
    let more = ["--case", "small guest, swap in memory"];
    let Some(outcome) = quick("swap", &more) else { return };
    let case = "small guest, swap in memory";
    for measure in ["average", "under 0.2 s", "its CPU", "its wait for memory", "a tar"] {
        has(&outcome, case, "the tar runs", measure);
    }
}

#[test]
fn cmm() {
    let Some(outcome) = quick("cmm", &["--case", "OLTP: both", "--case", "claim: both"]) else {
        return;
    };
    has(&outcome, "OLTP: both", "transactions", "transactions");
    has(&outcome, "OLTP: both", "transactions", "left by the balloon, a guest");
    for size in ["small claim", "medium claim", "large claim"] {
        has(&outcome, "claim: both", size, "claim");
    }
}

#[test]
fn cmm_on_a_disk() {
    if !farm::tiers::can_limit_reads() {
        e2e::skipped("this machine cannot limit reads of zram");
        return;
    }
    let Some(outcome) = quick("cmm", &["--case", "OLTP, disk: both"]) else { return };
    has(&outcome, "OLTP, disk: both", "transactions", "transactions");
    has(&outcome, "OLTP, disk: both", "transactions", "left by the balloon, a guest");
}

#[test]
fn plug() {
    let more = ["--case", "memory 4", "--case", "pinhead"];
    let Some(outcome) = quick("plug", &more) else { return };
    has(&outcome, "sizes by hand", "sizes", "comboa, memory");
    has(&outcome, "calibration", "a step", "CPU a request");
    has(&outcome, "calibration", "found", "rate");
    for case in ["hand-sized", "memory 4", "pinhead"] {
        for measure in ["throughput", "p50", "p95", "CPU a request", "CPUs on", "size, Linux view"]
        {
            has(&outcome, case, "load", measure);
        }
        for view in ["Linux's own", "private", "private and compressed"] {
            has(&outcome, case, "load", &format!("{view} x time"));
        }
        assert_eq!(outcome.values(case, "load", "failed"), [(1, 0.0)], "{case}");
    }
    let found = outcome.values("sizes by hand", "sizes", "comboa, CPUs");
    assert_eq!(outcome.values("hand-sized", "load", "CPUs on"), found, "the others are off");
}
