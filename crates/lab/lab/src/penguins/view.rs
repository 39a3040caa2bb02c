//! The view of a result, next to the talk's figures.

use super::{BOTH, CASES, FORTY, FREE, LIMITED, PAGED, PRIVATE, SHARED, SQUEEZED, phase};
use crate::figure::figure;
use crate::view::{Chart, Table, View, cell};
use crate::{Finding, Outcome, promotion, published};
use base::Spread;

const ABOUT: &str = "Web servers from one template get one hit after the other (\"wipe\"): \
    without a memory limit, with shared memory, squeezed to 17 MiB each, and limited to a quarter \
    of their memory without sharing. After Penguins on a Pin Head (van der Heij, \
    2006): 100 Linux servers on a P/390 with 128 MB.";

/// Columns of our own table: heading, phase, measure.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("all answer, s", phase::START, "all answer after"),
    ("resident, MiB", phase::AFTER, "resident a guest"),
    ("shared, MiB", phase::AFTER, "memory a guest, shared"),
    ("private, MiB", phase::IDLE, PRIVATE),
    ("and compressed", phase::IDLE, BOTH),
    ("idle CPU, %", phase::IDLE, "CPU a guest"),
    ("wake-ups/min", phase::IDLE, "wake-ups a guest"),
    ("T:V idle", phase::IDLE, "T:V"),
    ("first, s", phase::WIPES[0], "average"),
    ("p50", phase::WIPES[0], "p50"),
    ("p99", phase::WIPES[0], "p99"),
    ("second, s", phase::WIPES[1], "average"),
    ("third, s", phase::WIPES[2], "average"),
    ("swap in/s", phase::WIPES[0], "swap in"),
    ("failed", phase::WIPES[0], "failed"),
];

pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![ours(outcome), comparison(outcome)],
        charts: charts(outcome),
    }
}

/// Returns the ratio of a case's average response time to the average without a limit, for the same
/// wipe.
fn against_free(outcome: &Outcome, case: &str, phase: &str) -> Option<Spread> {
    outcome.ratio(case, FREE, phase, "average")
}

fn ran(outcome: &Outcome) -> impl Iterator<Item = &'static str> {
    let ran = outcome.cases();
    CASES.iter().map(|case| case.name).filter(move |name| ran.contains(name))
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let failed = |case| {
        let wipes = phase::WIPES.iter().flat_map(|wipe| outcome.values(case, wipe, "failed"));
        wipes.map(|(_, failed)| failed).collect::<Vec<f64>>()
    };
    // A claim must hold for the worse wipe, which is the wipe with the higher upper end of the
    // interval.
    let worse = |a: Spread, b: Spread| if b.high > a.high { b } else { a };
    let paged = phase::WIPES[1..].iter();
    let paged = paged.filter_map(|wipe| outcome.ratio(PAGED, SHARED, wipe, "average"));
    let paged = paged.reduce(worse);
    let later = phase::WIPES[1..].iter().filter_map(|wipe| against_free(outcome, LIMITED, wipe));
    let later = later.reduce(worse);
    let first = against_free(outcome, LIMITED, phase::WIPES[0]);
    let at_most = |promise: &str, case, phase, measure, bound| {
        Finding::at_most(promise, outcome.interval(case, phase, measure), bound, "")
    };
    let shared = "memory a guest, shared";
    let mut findings = vec![
        at_most("all answer, s (<= 30)", SHARED, phase::START, "all answer after", 30.0),
        at_most("memory a guest once shared, MiB (<= 35)", SHARED, phase::AFTER, shared, 35.0),
        at_most("memory a guest when squeezed, MiB (<= 18)", SQUEEZED, phase::AFTER, shared, 18.0),
        at_most("idle CPU a guest, % of a core (<= 0.2)", SHARED, phase::IDLE, "CPU a guest", 0.2),
        Finding::at_most(
            "first wipe with a quarter of the memory, compared with no limit (<= 1.5x)",
            first,
            1.5,
            "x",
        ),
        Finding::at_most("the worse later wipe, against no limit (<= 1.1x)", later, 1.1, "x"),
        Finding::never("no request fails with this limit", &failed(LIMITED)),
        at_most("paged out: private memory a guest, MiB (<= 8)", PAGED, phase::IDLE, PRIVATE, 8.0),
        at_most("paged out: the same with compressed, MiB (<= 15)", PAGED, phase::IDLE, BOTH, 15.0),
        at_most("paged out: first wipe, p95, s (<= 0.04)", PAGED, phase::WIPES[0], "p95", 0.04),
        Finding::at_most(
            "paged out: the worse later wipe, compared with no manager (<= 1.15x)",
            paged,
            1.15,
            "x",
        ),
        Finding::never("paged out: no request fails", &failed(PAGED)),
    ];
    findings.extend(promotion::findings(outcome, &[(PAGED, phase::IDLE)]));
    findings
}

fn ours(outcome: &Outcome) -> Table {
    let row = |case: &str| {
        let cells = COLUMNS
            .iter()
            .map(|(_, phase, measure)| cell(outcome.median(case, phase, measure).map(figure)));
        std::iter::once(case.to_owned()).chain(cells).collect()
    };
    let heads: Vec<&str> =
        std::iter::once("Case").chain(COLUMNS.iter().map(|(head, _, _)| *head)).collect();
    Table::new(
        "Measured values of a guest",
        &heads,
        ran(outcome).map(row).collect(),
        "Resident counts shared memory in full for each guest; shared divides it. Both include \
         QEMU's own.",
    )
}

/// Formats the pages per second that came from storage slower than compressed memory.
fn disks(outcome: &Outcome, phase: &str) -> String {
    let of = |measure| outcome.median(LIMITED, phase, measure);
    match (of("swap in"), of("in from zram")) {
        (Some(all), Some(zram)) => format!("{} pages/s", figure((all - zram).max(0.0))),
        _ => "-".to_owned(),
    }
}

fn comparison(outcome: &Outcome) -> Table {
    let text = |case: &str, phase: &str, measure: &str, unit: &str| {
        let value = outcome.median(case, phase, measure);
        cell(value.map(|value| format!("{} {unit}", figure(value)).trim().to_owned()))
    };
    let pair = |a: String, b: String| format!("{a}, {b}");
    let forty = if outcome.cases().contains(&FORTY) { FORTY } else { SHARED };
    let [first, second, _] = phase::WIPES;
    let cpu_ms = outcome.median(SHARED, phase::IDLE, "CPU a guest");
    let idle_all = outcome.median(forty, phase::IDLE, "host busy");
    let found = [
        cell(cpu_ms.map(|percent| format!("{} ms a minute", figure(percent * 600.0)))),
        text(SHARED, phase::IDLE, "wake-ups a guest", "a minute"),
        cell(idle_all.map(|percent| format!("{} % of the host", figure(percent)))),
        text(forty, first, "average", "s"),
        pair(
            text(forty, phase::IDLE, "memory a guest, shared", "MiB"),
            text(forty, phase::AFTER, "memory a guest, shared", "MiB"),
        ),
        text(LIMITED, first, "average", "s"),
        text(LIMITED, second, "average", "s"),
        pair(
            text(LIMITED, phase::IDLE, "resident a guest", "MiB"),
            text(LIMITED, phase::AFTER, "resident a guest", "MiB"),
        ),
        text(LIMITED, first, "swap in", "pages/s, all"),
        text(SQUEEZED, phase::SETTLE, "left by the balloon, a guest", "MiB left of 96"),
        pair(text(LIMITED, phase::IDLE, "host busy", "%"), text(LIMITED, first, "host busy", "%")),
        pair(
            text(LIMITED, phase::IDLE, "in from zram", ""),
            text(LIMITED, first, "in from zram", "pages/s"),
        ),
        pair(disks(outcome, phase::IDLE), disks(outcome, first)),
        text(LIMITED, phase::WIPES[2], "average", "s"),
        pair(text(SHARED, phase::IDLE, "T:V", ""), text(LIMITED, first, "T:V", "")),
        pair(text(FREE, phase::REBOOT, "CPU", "CPU s"), text(FREE, phase::REBOOT, "took", "s")),
        pair(
            text(FREE, phase::HITS, "average", "s"),
            text(FREE, phase::HITS, "CPU a hit", "CPU s"),
        ),
    ];
    let rows = published::PENGUINS.iter().zip(found);
    let rows = rows.map(|((what, figure), here)| vec![(*what).into(), (*figure).into(), here]);
    Table::new(
        "Comparison with the published figures",
        &["What", "Published", "Here"],
        rows.collect(),
        "Published: P/390, 3 to 4 MIPS, 128 MB and 256 MB of expanded storage. Compare \
         ratios within a column, not the absolute figures.",
    )
}

fn charts(outcome: &Outcome) -> Vec<Chart> {
    let chart = |title: &str, series: &[(&str, (&str, &str))]| {
        Chart::new(title, ran(outcome), series, |case, (phase, measure)| {
            outcome.interval(case, phase, measure)
        })
    };
    vec![
        chart("Average of a hit, s", &phase::WIPES.map(|wipe| (wipe, (wipe, "average")))),
        chart(
            "Memory of a guest with its QEMU, MiB",
            &[
                ("idle at first", (phase::IDLE, "memory a guest, shared")),
                ("after the wipes", (phase::AFTER, "memory a guest, shared")),
            ],
        ),
        chart("CPU of an idle guest, % of a core", &[("idle", (phase::IDLE, "CPU a guest"))]),
    ]
}
