//! The view of a result: the counts side by side.

use super::{measure, phase};
use crate::figure::figure;
use crate::view::{Chart, Table, View, cell};
use crate::{Finding, Outcome};

const ABOUT: &str = "Web servers from one template, all at once, each parked after a time without \
    requests: how many of them one machine runs, and their cost. Penguins on a Pin Head \
    (van der Heij, 2006) had 100 Linux servers on a P/390 with 128 MB.";

/// Columns: heading, phase, measure.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("answer", phase::START, measure::ANSWER),
    ("all after, s", phase::START, measure::READY),
    ("first 100, s", phase::START, "the first hundred took"),
    ("last 100", phase::START, "the last hundred took"),
    ("host, MiB", phase::PARKED, measure::USED),
    ("private each", phase::PARKED, measure::PRIVATE),
    ("compressed", phase::PARKED, measure::COMPRESSED),
    ("page tables", phase::PARKED, measure::TABLES),
    ("kernel's", phase::PARKED, measure::REST),
    ("idle CPU, %", phase::IDLE, measure::CPU),
    ("host busy, %", phase::IDLE, "host busy"),
    ("dispatches/min", phase::IDLE, measure::DISPATCHES),
    ("first answer p50, s", phase::WIPES[0], "p50"),
    ("p95", phase::WIPES[0], "p95"),
    ("max", phase::WIPES[0], "max"),
    ("second p50", phase::WIPES[1], "p50"),
    ("failed", phase::WIPES[0], "failed"),
    ("down, s", phase::END, "took"),
];

/// The promises: number of servers, claim, phase, measure, bound.
const PROMISES: &[(u32, &str, &str, &str, f64)] = &[
    (100, "100 answer, s (<= 12)", phase::START, measure::READY, 12.0),
    (100, "private memory of each, MiB (<= 0.5)", phase::PARKED, measure::PRIVATE, 0.5),
    (100, "100: first answers, p95, s (<= 0.06)", phase::WIPES[0], "p95", 0.06),
    (100, "100: first answers, the longest, s (<= 0.5)", phase::WIPES[0], "max", 0.5),
    (1000, "1,000 answer, s (<= 200)", phase::START, measure::READY, 200.0),
    (1000, "1,000: memory of the host, MiB (<= 14,336)", phase::PARKED, measure::USED, 14_336.0),
    (1000, "1,000: CPU of all at rest, % of a core (<= 20)", phase::IDLE, measure::CPU, 20.0),
    (1000, "1,000: first answers, p95, s (<= 0.1)", phase::WIPES[0], "p95", 0.1),
    (1000, "1,000: down, s (<= 7)", phase::END, "took", 7.0),
];

pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![table(outcome)],
        charts: charts(outcome),
    }
}

fn name(servers: u32) -> String {
    format!("{servers} servers")
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let ran = outcome.cases();
    let promised = PROMISES.iter().filter(|(servers, ..)| ran.contains(&&*name(*servers)));
    let mut found: Vec<Finding> = promised
        .map(|(servers, promise, phase, measure, bound)| {
            let measured = outcome.interval(&name(*servers), phase, measure);
            Finding::at_most(promise, measured, *bound, "")
        })
        .collect();
    for case in ran {
        let Some(servers) = case.strip_suffix(" servers").and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        let missing = outcome.values(case, phase::START, measure::ANSWER);
        let missing: Vec<f64> =
            missing.iter().map(|(_, answer)| f64::from(servers) - answer).collect();
        found.push(Finding::never(&format!("all {servers} servers answer"), &missing));
        let failed = phase::WIPES.iter().flat_map(|wipe| outcome.values(case, wipe, "failed"));
        let failed: Vec<f64> = failed.map(|(_, failed)| failed).collect();
        found.push(Finding::never(&format!("no request to the {servers} servers fails"), &failed));
    }
    found
}

fn table(outcome: &Outcome) -> Table {
    let row = |case: &&str| {
        let cells = COLUMNS
            .iter()
            .map(|(_, phase, measure)| cell(outcome.median(case, phase, measure).map(figure)));
        std::iter::once((*case).to_owned()).chain(cells).collect()
    };
    let heads: Vec<&str> =
        std::iter::once("Count").chain(COLUMNS.iter().map(|(head, ..)| *head)).collect();
    Table::new(
        "Servers at the same time",
        &heads,
        outcome.cases().iter().map(row).collect(),
        "Memory is measured when all servers are parked: the decrease of the host's available \
         memory since the start, and each server's part. First answers come from parked servers. \
         Second answers do, too, if a wipe over all servers takes longer than the time after which \
         a server is parked. Idle CPU is the CPU time of all QEMUs and of the farm, in percent of \
         one core. Host busy includes all other programs, in percent of all cores.",
    )
}

fn charts(outcome: &Outcome) -> Vec<Chart> {
    let chart = |title: &str, series: &[(&str, (&str, &str))]| {
        Chart::new(title, outcome.cases(), series, |case, (phase, measure)| {
            outcome.interval(case, phase, measure)
        })
    };
    vec![
        chart("Until all answer, s", &[("start", (phase::START, measure::READY))]),
        chart("Memory of the host, MiB", &[("all parked", (phase::PARKED, measure::USED))]),
        chart(
            "First answer, s",
            &[("p50", (phase::WIPES[0], "p50")), ("p95", (phase::WIPES[0], "p95"))],
        ),
    ]
}
