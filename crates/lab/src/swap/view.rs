//! What a result says, beside the study's table.

use super::{CASES, phase};
use crate::view::{Chart, Finding, Group, Table, View, figure};
use crate::{Outcome, Spread, published};

const ABOUT: &str = "The same tar in a large guest, whose cache it fills, in a small one with \
    swap on compressed memory, and in a small one without, while other guests answer a few hits \
    a second; all of them share one limit. After a study of swap on a virtual disk (Velocity \
    Software, 2001).";

/// Everything there is to show.
pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![beside(outcome)],
        charts: vec![chart(outcome)],
    }
}

fn spread(outcome: &Outcome, case: &str, phase: &str, measure: &str) -> Option<Spread> {
    Spread::of(outcome.values(case, phase, measure).into_iter().map(|(_, value)| value))
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let of = |at: usize| {
        let case = CASES.get(at)?.name;
        spread(outcome, case, phase::TAR, "average").map(|spread| spread.median)
    };
    let ratio = |small: Option<f64>, large: Option<f64>| Some(small? / large?);
    vec![Finding::at_most(
        "others' average response beside the small guest that swaps to memory, against beside the \
         large one (published: 0.33)",
        ratio(of(1), of(0)),
        1.0,
        "x",
    )]
}

fn beside(outcome: &Outcome) -> Table {
    let ran = outcome.cases();
    let mut rows = Vec::new();
    for (case, theirs) in CASES.iter().zip(published::SWAP) {
        if !ran.contains(&case.name) {
            continue;
        }
        let cell = |phase, measure| {
            spread(outcome, case.name, phase, measure)
                .map_or("-".to_owned(), |spread| figure(spread.median))
        };
        rows.push(vec![
            case.name.to_owned(),
            cell(phase::TAR, "its wait for memory"),
            cell(phase::TAR, "its CPU"),
            cell(phase::TAR, "its CPU wait"),
            cell(phase::TAR, "its wait for disks"),
            cell(phase::TAR, "its memory on the host"),
            cell(phase::TAR, "it swaps"),
            cell(phase::TAR, "under 0.2 s"),
            cell(phase::TAR, "average"),
            cell(phase::TAR, "a tar"),
        ]);
        let (page, cpu, wait, io) = theirs.states;
        rows.push(vec![
            "  published".to_owned(),
            page.to_string(),
            cpu.to_string(),
            wait.to_string(),
            io.map_or("-".to_owned(), |percent| percent.to_string()),
            theirs.wss_mib.to_string(),
            theirs.paging.to_string(),
            theirs.trivial.to_string(),
            format!("{}", theirs.response),
            "-".to_owned(),
        ]);
    }
    let heads = [
        "Case",
        "page wait, %",
        "CPU, %",
        "CPU wait, %",
        "I/O, %",
        "memory, MiB",
        "paging, 1/s",
        "others < 0.2 s, %",
        "average, s",
        "tar, s",
    ];
    Table {
        title: "The guest with the tar, and the others".into(),
        heads: heads.map(str::to_owned).to_vec(),
        rows,
        note: "Waits for memory and for disks are what the guest's own kernel counts (PSI); the \
               study's page wait is the host's paging of the guest. Memory here is the guest's \
               part of the host with QEMU's own; the study's is a working set."
            .into(),
    }
}

fn chart(outcome: &Outcome) -> Chart {
    let ran = outcome.cases();
    let group = |case: &super::Case| Group {
        name: case.name.to_owned(),
        bars: [phase::ALONE, phase::TAR]
            .iter()
            .map(|phase| spread(outcome, case.name, phase, "average").map(Into::into))
            .collect(),
    };
    Chart {
        title: "Average response of the others, s".into(),
        series: vec!["without the tar".into(), "while it runs".into()],
        groups: CASES.iter().filter(|case| ran.contains(&case.name)).map(group).collect(),
    }
}
