//! The view of a result, next to the study's table.

use super::{LARGE, MANAGED, SMALL, cases, phase};
use crate::figure::figure;
use crate::view::{Chart, Table, View, cell};
use crate::{Finding, Outcome, promotion, published};

const ABOUT: &str = "The same tar in a large guest, whose cache the tar fills, in a small guest \
    with swap on compressed memory, and in a small guest without swap, while other guests answer \
    a few hits a second. All guests share one limit. After a study of swap on a virtual disk \
    (Velocity Software, 2001).";

pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![comparison(outcome)],
        charts: vec![chart(outcome)],
    }
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let ratio = |name| outcome.ratio(name, LARGE.name, phase::TAR, "average");
    let mut findings = vec![
        Finding::at_most(
            "average response of the other guests: with the small guest that swaps to memory, \
             compared with the large guest (<= 0.5x, published: 0.33)",
            ratio(SMALL.name),
            0.5,
            "x",
        ),
        Finding::at_most(
            "the same with the large guest under pinhead's manager (<= 0.5x)",
            ratio(MANAGED.name),
            0.5,
            "x",
        ),
    ];
    findings.extend(promotion::findings(outcome, &[(MANAGED.name, phase::TAR)]));
    findings
}

fn comparison(outcome: &Outcome) -> Table {
    let ran = outcome.cases();
    let mut rows = Vec::new();
    for (at, case) in cases().iter().enumerate() {
        if !ran.contains(&case.name) {
            continue;
        }
        let measures = [
            "its wait for memory",
            "its CPU",
            "its CPU wait",
            "its wait for disks",
            "its memory on the host",
            "it swaps",
            "under 0.2 s",
            "average",
            "a tar",
        ];
        let cells = measures
            .map(|measure| cell(outcome.median(case.name, phase::TAR, measure).map(figure)));
        rows.push(std::iter::once(case.name.to_owned()).chain(cells).collect());
        let Some(theirs) = published::SWAP.get(at) else { continue };
        let (page, cpu, wait, io) = theirs.states;
        rows.push(vec![
            "  published".to_owned(),
            page.to_string(),
            cpu.to_string(),
            wait.to_string(),
            cell(io.map(|percent| percent.to_string())),
            theirs.wss_mib.to_string(),
            theirs.paging.to_string(),
            theirs.trivial.to_string(),
            theirs.response.to_string(),
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
    Table::new(
        "The guest with the tar, and the others",
        &heads,
        rows,
        "Waits for memory and for disks are counted by the guest's own kernel (PSI); the study's \
         page wait is the host's paging of the guest. The memory here is the guest's memory on \
         the host, including QEMU's own. The memory in the study is a working set.",
    )
}

fn chart(outcome: &Outcome) -> Chart {
    let ran = outcome.cases();
    let cases = cases().into_iter().map(|case| case.name).filter(|name| ran.contains(name));
    let series = [("without the tar", phase::ALONE), ("while it runs", phase::TAR)];
    Chart::new("Average response of the others, s", cases, &series, |case, phase| {
        outcome.interval(case, phase, "average")
    })
}
