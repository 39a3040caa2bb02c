//! What a result says, beside the talk's figures.

use super::{CASES, FORTY, FREE, LIMITED, SHARED, SQUEEZED, phase};
use crate::view::{Chart, Finding, Group, Table, View, figure};
use crate::{Outcome, Spread, published};

const ABOUT: &str = "Web servers from one template, one hit after the other over all of them \
    (\"wipe\"), without a limit of their memory, shared, squeezed to 17 MiB each, and limited \
    to a quarter of what they have without sharing. After Penguins on a Pin Head (van der Heij, \
    2006): 100 Linux servers on a P/390 with 128 MB.";

/// A column of our own table: its head, the phase, the measure.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("all answer, s", phase::START, "all answer after"),
    ("resident, MiB", phase::AFTER, "resident a guest"),
    ("shared, MiB", phase::AFTER, "memory a guest, shared"),
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

/// Everything there is to show.
pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![ours(outcome), beside(outcome)],
        charts: charts(outcome),
    }
}

fn spread(outcome: &Outcome, case: &str, phase: &str, measure: &str) -> Option<Spread> {
    Spread::of(outcome.values(case, phase, measure).into_iter().map(|(_, value)| value))
}

fn median(outcome: &Outcome, case: &str, phase: &str, measure: &str) -> Option<f64> {
    spread(outcome, case, phase, measure).map(|spread| spread.median)
}

/// How much slower a wipe of a case is than the same one without a limit.
fn against_free(outcome: &Outcome, case: &str, phase: &str) -> Option<f64> {
    let ours = outcome.values(case, phase, "average");
    let free = outcome.values(FREE, phase, "average");
    Spread::of_ratios(&ours, &free).map(|spread| spread.median)
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let failed: Vec<f64> = phase::WIPES
        .iter()
        .flat_map(|wipe| outcome.values(LIMITED, wipe, "failed"))
        .map(|(_, failed)| failed)
        .collect();
    let failed = (!failed.is_empty()).then(|| failed.iter().sum());
    let later = phase::WIPES[1..].iter().filter_map(|wipe| against_free(outcome, LIMITED, wipe));
    let later = later.reduce(f64::max);
    let first = against_free(outcome, LIMITED, phase::WIPES[0]);
    let of = |case, phase, measure| median(outcome, case, phase, measure);
    vec![
        Finding::at_most(
            "all answer, s (<= 30)",
            of(SHARED, phase::START, "all answer after"),
            30.0,
            "",
        ),
        Finding::at_most(
            "memory a guest once shared, MiB (<= 35)",
            of(SHARED, phase::AFTER, "memory a guest, shared"),
            35.0,
            "",
        ),
        Finding::at_most(
            "memory a guest when squeezed, MiB (<= 18)",
            of(SQUEEZED, phase::AFTER, "memory a guest, shared"),
            18.0,
            "",
        ),
        Finding::at_most(
            "idle CPU a guest, % of a core (<= 0.2)",
            of(SHARED, phase::IDLE, "CPU a guest"),
            0.2,
            "",
        ),
        Finding::at_most(
            "first wipe in a quarter of the memory, against no limit (<= 1.5x)",
            first,
            1.5,
            "x",
        ),
        Finding::at_most("later wipes, the worse, against no limit (<= 1.1x)", later, 1.1, "x"),
        Finding::at_most("requests that failed in them (0)", failed, 0.0, ""),
    ]
}

fn ours(outcome: &Outcome) -> Table {
    let ran = outcome.cases();
    let row = |case: &&super::Case| {
        let cell = |(_, phase, measure): &(&str, &str, &str)| {
            spread(outcome, case.name, phase, measure)
                .map_or("-".to_owned(), |spread| figure(spread.median))
        };
        let mut row = vec![case.name.to_owned()];
        row.extend(COLUMNS.iter().map(cell));
        row
    };
    let mut heads = vec!["Case".to_owned()];
    heads.extend(COLUMNS.iter().map(|(head, _, _)| (*head).to_owned()));
    Table {
        title: "What was measured, a guest".into(),
        heads,
        rows: CASES.iter().filter(|case| ran.contains(&case.name)).map(|case| row(&case)).collect(),
        note: "Resident counts what is shared in full for each; shared divides it. Both include \
               QEMU's own."
            .into(),
    }
}

/// Pages a second that came from further away than compressed memory.
fn disks(outcome: &Outcome, phase: &str) -> String {
    let of = |measure| median(outcome, LIMITED, phase, measure);
    match (of("swap in"), of("in from zram")) {
        (Some(all), Some(zram)) => format!("{} pages/s", figure((all - zram).max(0.0))),
        _ => "-".to_owned(),
    }
}

fn beside(outcome: &Outcome) -> Table {
    let text = |case: &str, phase: &str, measure: &str, unit: &str| {
        median(outcome, case, phase, measure)
            .map_or("-".to_owned(), |value| format!("{} {unit}", figure(value)).trim().to_owned())
    };
    let pair = |a: String, b: String| format!("{a}, {b}");
    let forty = if outcome.cases().contains(&FORTY) { FORTY } else { SHARED };
    let [first, second, _] = phase::WIPES;
    let cpu_ms = median(outcome, SHARED, phase::IDLE, "CPU a guest");
    let idle_all = median(outcome, forty, phase::IDLE, "host busy");
    let found = [
        cpu_ms.map_or("-".to_owned(), |percent| format!("{} ms a minute", figure(percent * 600.0))),
        text(SHARED, phase::IDLE, "wake-ups a guest", "a minute"),
        idle_all.map_or("-".to_owned(), |percent| format!("{} % of the host", figure(percent))),
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
    Table {
        title: "Beside the published figures".into(),
        heads: ["What", "Published", "Here"].map(str::to_owned).to_vec(),
        rows: rows
            .map(|((what, figure), here)| vec![(*what).into(), (*figure).into(), here])
            .collect(),
        note: "Published: P/390, 3 to 4 MIPS, 128 MB and 256 MB of expanded storage. Only what \
               each shows within itself can be compared."
            .into(),
    }
}

fn charts(outcome: &Outcome) -> Vec<Chart> {
    let ran = outcome.cases();
    let chart = |title: &str, series: &[(&str, &str, &str)]| {
        let group = |case: &super::Case| Group {
            name: case.name.to_owned(),
            bars: series
                .iter()
                .map(|(_, phase, measure)| {
                    spread(outcome, case.name, phase, measure).map(Into::into)
                })
                .collect(),
        };
        let cases = CASES.iter().filter(|case| ran.contains(&case.name));
        Chart {
            title: title.to_owned(),
            series: series.iter().map(|(name, _, _)| (*name).to_owned()).collect(),
            groups: cases.map(group).collect(),
        }
    };
    vec![
        chart(
            "Average of a hit, s",
            &[
                ("first wipe", phase::WIPES[0], "average"),
                ("second wipe", phase::WIPES[1], "average"),
                ("third wipe", phase::WIPES[2], "average"),
            ],
        ),
        chart(
            "Memory of a guest with its QEMU, MiB",
            &[
                ("idle at first", phase::IDLE, "memory a guest, shared"),
                ("after the wipes", phase::AFTER, "memory a guest, shared"),
            ],
        ),
        chart("CPU of an idle guest, % of a core", &[("idle", phase::IDLE, "CPU a guest")]),
    ]
}
