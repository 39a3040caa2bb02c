//! The view of a result, next to the study's table.

use super::load::CPUS_ON;
use super::{ALL, CALIBRATION, DYNAMIC, HAND, OURS, SIZES, STEAL, VIEWS, cases, phase};
use crate::figure::{figure, percent};
use crate::view::{Chart, Table, View, cell};
use crate::{Finding, Outcome, promotion, published};
use base::Spread;

const ABOUT: &str = "Two triplets and two combined servers, with requests at a rate for which \
    guests sized by hand use 55 % of the CPU. In results without a calibration, clients sent \
    requests without pauses. Every figure is relative to the same guests sized by hand, in the \
    same repetition. After the study of cpuplugd's rules (Doelle and Sutera, 2012), which \
    concludes that one set of rules cannot keep both throughput and size.";

/// Measures that are compared with the baseline and with the study.
const MEASURES: [&str; 4] = ["throughput", "CPU", "size, Linux view", "size, hypervisor view"];

/// Measures that the study did not publish.
const OURS_ONLY: [&str; 7] = ["p50", "p95", "CPU a request", CPUS_ON, VIEWS[0], VIEWS[1], VIEWS[2]];

pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![
            comparison(outcome),
            service(outcome),
            intervals(outcome),
            dynamic(outcome),
            sizes(outcome),
            calibration(outcome),
        ],
        charts: vec![chart(outcome)],
    }
}

/// Returns the ratio of a case's measure to the measure of the baseline.
fn against(outcome: &Outcome, case: &str, measure: &str) -> Option<Spread> {
    outcome.ratio(case, HAND, phase::LOAD, measure)
}

fn against_cell(outcome: &Outcome, case: &str, measure: &str) -> String {
    cell(against(outcome, case, measure).map(percent))
}

fn ran(outcome: &Outcome) -> impl Iterator<Item = &'static str> {
    let ran = outcome.cases();
    cases().into_iter().map(|(case, _)| case).filter(move |case| ran.contains(case))
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let percent = |measure| against(outcome, OURS, measure).map(|s| s.times(100.0));
    let at_most =
        |promise: &str, measure, bound| Finding::at_most(promise, percent(measure), bound, "%");
    // At saturation, requests fail for reasons other than the compared rules.
    let is_at_rate = !outcome.values(CALIBRATION, phase::FOUND, "rate").is_empty();
    let failed = outcome.values(OURS, phase::LOAD, "failed").into_iter().filter(|_| is_at_rate);
    let failed: Vec<f64> = failed.map(|(_, count)| count).collect();
    let mut findings = vec![
        Finding::at_least(
            "our policy: throughput against sizing by hand (>= 99 %)",
            percent("throughput"),
            99.0,
            "%",
        ),
        at_most("our policy: p95 against sizing by hand (<= 101 %)", "p95", 101.0),
        Finding::never("our policy: no request fails", &failed),
        at_most("our policy: memory, Linux view (<= 100 %)", "size, Linux view", 100.0),
        at_most("our policy: memory, hypervisor view (<= 100 %)", "size, hypervisor view", 100.0),
    ];
    for view in VIEWS {
        findings.push(at_most(&format!("our policy: memory, {view} (<= 100 %)"), view, 100.0));
    }
    findings.extend(promotion::findings(outcome, &[(OURS, phase::LOAD)]));
    let steal = outcome.interval(STEAL, phase::BUILD, "steal");
    findings.push(Finding::at_most(
        "steal of a build while the pool grows (<= 4 %)",
        steal,
        4.0,
        "%",
    ));
    findings
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
            "`{ALL}` has all CPUs and all memory. `{OURS}` has CPUs by rules (`cpu-steady`, or \
             `cpu-loadavg` in results before 2026-11-26), and memory from the manager. The \
             hypervisor's view is all memory on the host, with QEMU's own."
        ),
    )
}

/// Returns the table of latencies and costs of requests, which the study did not publish.
fn service(outcome: &Outcome) -> Table {
    let mut heads = vec!["Configuration"];
    heads.extend(OURS_ONLY);
    heads.push("failed");
    let row = |case: &'static str| {
        let mut cells = vec![case.to_owned()];
        cells.extend(OURS_ONLY.map(|measure| against_cell(outcome, case, measure)));
        let failed = outcome.values(case, phase::LOAD, "failed");
        let sum = failed.iter().map(|(_, count)| count).sum();
        cells.push(cell((!failed.is_empty()).then(|| figure(sum))));
        cells
    };
    Table::new(
        "Latency, cost and memory over time, relative to sizing by hand",
        &heads,
        ran(outcome).map(row).collect(),
        "Linux's own is the guests' memory without balloon and free memory, measured before and \
         after the load (in results before 2026-11-26: during the load). The CPUs online are \
         counted at the same times. In results before 2026-11-27 16:00, guests sized by hand had \
         no CPUs offline, and an emulator with one CPU is 2 to 10 % faster. Private is a QEMU's \
         memory on the host that is shared with no process; compressed is the size of its swapped \
         memory in zram.",
    )
}

fn sizes(outcome: &Outcome) -> Table {
    let steps = outcome.run(SIZES, 1).map_or(&[][..], |run| &run.phases);
    let classes = super::farms::classes();
    let row = |step: &crate::outcome::Phase| -> Option<Vec<String>> {
        let is_step = [phase::MEMORY, phase::SIZES].contains(&&*step.name);
        let size = |class: &&str| {
            let mib = step.value(&format!("{class}, memory")).map(figure);
            let waits = step.value(&format!("{class} waits")).map(figure);
            let cpus = step.value(&format!("{class}, CPUs")).map(figure);
            cell(mib.map(|mib| match (waits, cpus) {
                (Some(waits), _) => format!("{mib} ({waits} %)"),
                (None, Some(cpus)) => format!("{mib}, CPUs {cpus}"),
                (None, None) => mib,
            }))
        };
        let cells = classes.iter().map(size);
        is_step.then(|| std::iter::once(step.name.clone()).chain(cells).collect())
    };
    let note = match steps.iter().find(|step| step.name == phase::SIZES) {
        Some(found) => format!(
            "The time in brackets is the guest's wait for memory. With the found sizes p95 is {} \
             times ({} to {}) the p95 of guests with more memory than they need.",
            cell(found.value("p95 against large guests").map(figure)),
            cell(found.value("lowest").map(figure)),
            cell(found.value("highest").map(figure)),
        ),
        None => "The sizes of this result were chosen once, without a search.".into(),
    };
    let heads: Vec<&str> = std::iter::once("Step").chain(classes.iter().copied()).collect();
    let title = "Search for the sizes by hand: MiB of each guest";
    Table::new(title, &heads, steps.iter().filter_map(row).collect(), &note)
}

fn calibration(outcome: &Outcome) -> Table {
    let mut rows = Vec::new();
    for run in outcome.runs.iter().filter(|run| run.case == CALIBRATION) {
        rows.extend(run.phases.iter().map(|step| -> Vec<String> {
            let shown = |measure| cell(step.value(measure).map(figure));
            let measures = ["rate", "CPU a request", "host busy", "p95", "failed"];
            std::iter::once(step.name.clone()).chain(measures.map(shown)).collect()
        }));
    }
    Table::new(
        "Search for the rate of the load, on the guests sized by hand",
        &["Step", "rate, 1/s", "CPU a request, ms", "host busy, %", "p95, s", "failed"],
        rows,
        "At the found rate the guests use 55 % of the CPU, computed from the cost of a request. A \
         busier host ran other processes, too.",
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
            "The guests sized by hand have {} MiB together. Published: guests give memory back \
             in the pauses, and the total stays about 1.5 GB below sizing by hand.",
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
