//! A result, next to the study's table.

use super::{ALL, DYNAMIC, HAND, OURS, STEAL, cases, phase};
use crate::view::{Chart, Finding, Table, View, cell, figure, percent};
use crate::{Outcome, published};
use base::Spread;

const ABOUT: &str = "Two triplets and two combined servers under clients without think time. \
    Every figure is relative to the same guests sized by hand, in the same repetition. After the \
    study of cpuplugd's rules (Doelle and Sutera, 2012), which concludes that one set of rules \
    cannot keep both throughput and size.";

/// The measures that are compared with those of the baseline.
const MEASURES: [&str; 4] = ["throughput", "CPU", "size, Linux view", "size, hypervisor view"];

/// All that is shown.
pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![comparison(outcome), intervals(outcome), dynamic(outcome)],
        charts: vec![chart(outcome)],
    }
}

/// A case against the baseline.
fn against(outcome: &Outcome, case: &str, measure: &str) -> Option<Spread> {
    outcome.ratio(case, HAND, phase::LOAD, measure)
}

/// The same for a cell of a table.
fn against_cell(outcome: &Outcome, case: &str, measure: &str) -> String {
    cell(against(outcome, case, measure).map(percent))
}

/// The configurations that were run.
fn ran(outcome: &Outcome) -> impl Iterator<Item = &'static str> {
    let ran = outcome.cases();
    cases().into_iter().map(|(case, _)| case).filter(move |case| ran.contains(case))
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let percent = |measure| against(outcome, OURS, measure).map(|s| s.median * 100.0);
    let steal = outcome.median(STEAL, phase::BUILD, "steal");
    vec![
        Finding::at_least(
            "our policy: throughput against sizing by hand (>= 99 %)",
            percent("throughput"),
            99.0,
            "%",
        ),
        Finding::at_most(
            "our policy: memory, Linux view (<= 100 %)",
            percent("size, Linux view"),
            100.0,
            "%",
        ),
        Finding::at_most(
            "our policy: memory, hypervisor view (<= 100 %)",
            percent("size, hypervisor view"),
            100.0,
            "%",
        ),
        Finding::at_most("steal of a build while the pool grows (<= 4 %)", steal, 4.0, "%"),
    ]
}

fn comparison(outcome: &Outcome) -> Table {
    let heads = [
        "Configuration",
        "throughput",
        "published",
        "CPU",
        "published",
        "size, Linux",
        "published",
        "size, hypervisor",
        "published",
    ];
    let row = |case: &'static str| {
        let known = published::PLUG.iter().find(|row| row.name == case);
        let sizes = known.and_then(|row| row.sizes).unzip();
        let theirs = [known.map(|row| row.throughput), known.map(|row| row.cpu), sizes.0, sizes.1];
        let mut cells = vec![case.to_owned()];
        for (measure, theirs) in MEASURES.iter().zip(theirs) {
            cells.push(against_cell(outcome, case, measure));
            cells.push(cell(theirs.map(|percent| format!("{percent} %"))));
        }
        cells
    };
    Table::new(
        "Relative to sizing by hand",
        &heads,
        ran(outcome).map(row).collect(),
        &format!(
            "`{ALL}` has all CPUs and all memory. `{OURS}` has the CPUs of `cpu-loadavg`, \
             and memory from the manager. The hypervisor's view is what lies in the host's \
             memory, QEMU's own included. Our sizes by hand were chosen once and not refined by \
             trying others."
        ),
    )
}

fn intervals(outcome: &Outcome) -> Table {
    let row = |(case, interval): (&str, &str)| {
        let shown = |measure| against_cell(outcome, case, measure);
        vec![interval.to_owned(), shown("throughput"), shown("CPU"), shown("size, Linux view")]
    };
    let rows = [("memory 2", "1 s"), ("memory 9 (2 s)", "2 s"), ("memory 10 (5 s)", "5 s")];
    Table::new(
        "The same rules at other intervals",
        &["UPDATE", "throughput", "CPU", "size, Linux view"],
        rows.map(row).to_vec(),
        "Published: no cost of a short interval was seen.",
    )
}

fn dynamic(outcome: &Outcome) -> Table {
    let row = |phase: &&str| {
        let shown = |measure| cell(outcome.median(DYNAMIC, phase, measure).map(figure));
        let measures = ["throughput", "size, Linux view", "size, hypervisor view"];
        std::iter::once((*phase).to_owned()).chain(measures.map(shown)).collect()
    };
    let hand = outcome.settings.get("hand-sized memory of all, MiB");
    Table::new(
        "Load that moves from one half of the guests to the other",
        &["Phase", "throughput, 1/s", "size, Linux view, MiB", "hypervisor view, MiB"],
        phase::DYNAMIC.iter().map(row).collect(),
        &format!(
            "Sized by hand all guests have {} MiB. Published: guests give memory back in the \
             waits, and the total stays about 1.5 GB below sizing by hand.",
            hand.map_or("unknown", String::as_str)
        ),
    )
}

fn chart(outcome: &Outcome) -> Chart {
    let series = MEASURES.map(|measure| (measure, measure));
    Chart::new("Percent of sizing by hand", ran(outcome), &series, |case, measure| {
        against(outcome, case, measure).map(|spread| spread.times(100.0))
    })
}
