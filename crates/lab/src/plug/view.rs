//! What a result says, beside the study's table.

use super::{ALL, DYNAMIC, HAND, OURS, STEAL, cases, phase};
use crate::view::{Chart, Finding, Group, Table, View, figure};
use crate::{Outcome, Spread, published};

const ABOUT: &str = "Two triplets and two combined servers under clients without think time. \
    Every figure is relative to the same guests sized by hand, in the same repetition. After the \
    study of cpuplugd's rules (Doelle and Sutera, 2012), which concludes that one set of rules \
    cannot keep both throughput and size.";

/// The measures that are compared with those of the baseline.
const MEASURES: [(&str, &str); 4] = [
    ("throughput", "throughput"),
    ("CPU", "CPU"),
    ("size, Linux view", "size, Linux view"),
    ("size, hypervisor view", "size, hypervisor view"),
];

/// Everything there is to show.
pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![beside(outcome), intervals(outcome), dynamic(outcome)],
        charts: vec![chart(outcome)],
    }
}

/// A case against the baseline.
fn against(outcome: &Outcome, case: &str, measure: &str) -> Option<Spread> {
    let ours = outcome.values(case, phase::LOAD, measure);
    Spread::of_ratios(&ours, &outcome.values(HAND, phase::LOAD, measure))
}

fn median(outcome: &Outcome, case: &str, phase: &str, measure: &str) -> Option<f64> {
    let values = outcome.values(case, phase, measure);
    Spread::of(values.into_iter().map(|(_, value)| value)).map(|spread| spread.median)
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let percent = |measure| against(outcome, OURS, measure).map(|s| s.median * 100.0);
    let steal = median(outcome, STEAL, phase::BUILD, "steal");
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

fn beside(outcome: &Outcome) -> Table {
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
    let ran = outcome.cases();
    let row = |(case, _): &(&'static str, Option<&'static str>)| {
        let known = published::PLUG.iter().find(|row| row.name == *case);
        let theirs = [
            known.map(|row| row.throughput),
            known.map(|row| row.cpu),
            known.and_then(|row| row.linux),
            known.and_then(|row| row.hypervisor),
        ];
        let mut cells = vec![(*case).to_owned()];
        for ((_, measure), theirs) in MEASURES.iter().zip(theirs) {
            let ours = against(outcome, case, measure);
            cells.push(ours.map_or("-".to_owned(), |spread| spread.percent()));
            cells.push(theirs.map_or("-".to_owned(), |percent| format!("{percent} %")));
        }
        cells
    };
    Table {
        title: "Relative to sizing by hand".into(),
        heads: heads.map(str::to_owned).to_vec(),
        rows: cases().iter().filter(|(case, _)| ran.contains(case)).map(row).collect(),
        note: format!(
            "`{ALL}` has all CPUs and all memory. `{OURS}` has the CPUs of `cpu-loadavg`, \
             and memory from the manager. The hypervisor's view is what lies in the host's \
             memory, QEMU's own included. Our sizes by hand were chosen once and not refined by \
             trying others."
        ),
    }
}

fn intervals(outcome: &Outcome) -> Table {
    let rows = [("memory 2", "1 s"), ("memory 9 (2 s)", "2 s"), ("memory 10 (5 s)", "5 s")];
    let row = |(case, interval): (&str, &str)| {
        let shown = |measure| {
            against(outcome, case, measure).map_or("-".to_owned(), |spread| spread.percent())
        };
        vec![interval.to_owned(), shown("throughput"), shown("CPU"), shown("size, Linux view")]
    };
    Table {
        title: "The same rules at other intervals".into(),
        heads: ["UPDATE", "throughput", "CPU", "size, Linux view"].map(str::to_owned).to_vec(),
        rows: rows.map(row).to_vec(),
        note: "Published: no cost of a short interval was seen.".into(),
    }
}

fn dynamic(outcome: &Outcome) -> Table {
    let cell =
        |phase, measure| median(outcome, DYNAMIC, phase, measure).map_or("-".to_owned(), figure);
    let row = |phase: &&'static str| {
        vec![
            (*phase).to_owned(),
            cell(phase, "throughput"),
            cell(phase, "size, Linux view"),
            cell(phase, "size, hypervisor view"),
        ]
    };
    let hand = outcome.settings.get("hand-sized memory of all, MiB");
    Table {
        title: "Load that moves from one half of the guests to the other".into(),
        heads: ["Phase", "throughput, 1/s", "size, Linux view, MiB", "hypervisor view, MiB"]
            .map(str::to_owned)
            .to_vec(),
        rows: phase::DYNAMIC.iter().map(row).collect(),
        note: format!(
            "Sized by hand all guests have {} MiB. Published: guests give memory back in the \
             waits, and the total stays about 1.5 GB below sizing by hand.",
            hand.map_or("unknown", String::as_str)
        ),
    }
}

fn chart(outcome: &Outcome) -> Chart {
    let ran = outcome.cases();
    let percent = |spread: Spread| {
        Spread {
            median: spread.median * 100.0,
            low: spread.low * 100.0,
            high: spread.high * 100.0,
            count: spread.count,
        }
        .into()
    };
    let group = |(case, _): &(&'static str, Option<&'static str>)| Group {
        name: (*case).to_owned(),
        bars: MEASURES
            .iter()
            .map(|(_, measure)| against(outcome, case, measure).map(percent))
            .collect(),
    };
    Chart {
        title: "Percent of sizing by hand".into(),
        series: MEASURES.map(|(title, _)| title.to_owned()).to_vec(),
        groups: cases().iter().filter(|(case, _)| ran.contains(case)).map(group).collect(),
    }
}
