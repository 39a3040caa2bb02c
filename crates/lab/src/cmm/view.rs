//! What a result says, beside what the study found.

use super::{CLAIM, CLAIMS, OLTP, WAYS, case, phase};
use crate::view::{Chart, Finding, Group, Table, View, figure};
use crate::{Outcome, Spread, published};

const ABOUT: &str = "Databases on half of the memory that they think they have, and a guest that \
    claims memory after the others have touched all of theirs and freed it: four ways to move \
    memory. After a study of CMM1 and CMM2 (Kammerer, 2009).";

/// Everything there is to show.
pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![oltp(outcome), claims(outcome), published()],
        charts: charts(outcome),
    }
}

fn spread(outcome: &Outcome, case: &str, phase: &str, measure: &str) -> Option<Spread> {
    Spread::of(outcome.values(case, phase, measure).into_iter().map(|(_, value)| value))
}

/// A measure of a way against that of doing nothing.
fn against(outcome: &Outcome, what: &str, at: usize, phase: &str, measure: &str) -> Option<Spread> {
    let ours = outcome.values(&case(what, &WAYS[at]), phase, measure);
    let nothing = outcome.values(&case(what, &WAYS[0]), phase, measure);
    Spread::of_ratios(&ours, &nothing)
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let (balloon, both) = (1, 3);
    let large = CLAIMS[2].0;
    vec![
        Finding::at_least(
            "OLTP with the balloon against nothing (published: 1.5x)",
            against(outcome, OLTP, balloon, phase::LOAD, "transactions").map(|s| s.median),
            1.5,
            "x",
        ),
        Finding::at_most(
            "a large claim with both against nothing (published: both are the best choice)",
            against(outcome, CLAIM, both, large, "claim").map(|s| s.median),
            1.0,
            "x",
        ),
    ]
}

fn oltp(outcome: &Outcome) -> Table {
    let row = |at: usize| {
        let name = case(OLTP, &WAYS[at]);
        let cell = |measure| {
            spread(outcome, &name, phase::LOAD, measure)
                .map_or("-".to_owned(), |spread| spread.text(1))
        };
        let ratio = against(outcome, OLTP, at, phase::LOAD, "transactions");
        vec![
            WAYS[at].name.to_owned(),
            cell("transactions"),
            ratio.map_or("-".to_owned(), |spread| spread.percent()),
            cell("swap in"),
            cell("swap out"),
            cell("left by the balloon, a guest"),
        ]
    };
    let heads =
        ["Way", "transactions, 1/s", "of nothing", "pages in/s", "pages out/s", "a guest has, MiB"];
    Table {
        title: "Databases, memory twice overcommitted".into(),
        heads: heads.map(str::to_owned).to_vec(),
        rows: (0..WAYS.len()).map(row).collect(),
        note: String::new(),
    }
}

fn claims(outcome: &Outcome) -> Table {
    let row = |at: usize| {
        let name = case(CLAIM, &WAYS[at]);
        let mut cells = vec![WAYS[at].name.to_owned()];
        for (size, _) in CLAIMS {
            let seconds = spread(outcome, &name, size, "claim");
            cells.push(seconds.map_or("-".to_owned(), |spread| spread.text(2)));
            let pages = spread(outcome, &name, size, "pages out");
            cells.push(pages.map_or("-".to_owned(), |spread| figure(spread.median)));
        }
        cells
    };
    let mut heads = vec!["Way".to_owned()];
    for (size, mib) in CLAIMS {
        heads.push(format!("{size} ({mib} MiB), s"));
        heads.push("pages out".to_owned());
    }
    Table {
        title: "A claim, after the others have touched all of their memory".into(),
        heads,
        rows: (0..WAYS.len()).map(row).collect(),
        note: String::new(),
    }
}

fn published() -> Table {
    let row = |(what, found): &(&str, &str)| vec![(*what).to_owned(), (*found).to_owned()];
    Table {
        title: "What the study found".into(),
        heads: ["What", "Published"].map(str::to_owned).to_vec(),
        rows: published::CMM.iter().map(row).collect(),
        note: "Ten guests of 16 GB on 80 GB; claims of 500, 1000 and 1500 MB beside 15 guests."
            .into(),
    }
}

fn charts(outcome: &Outcome) -> Vec<Chart> {
    let chart = |title: &str, what: &str, series: &[(&str, &str, &str)]| Chart {
        title: title.to_owned(),
        series: series.iter().map(|(name, _, _)| (*name).to_owned()).collect(),
        groups: WAYS
            .iter()
            .map(|way| Group {
                name: way.name.to_owned(),
                bars: series
                    .iter()
                    .map(|(_, phase, measure)| {
                        spread(outcome, &case(what, way), phase, measure).map(Into::into)
                    })
                    .collect(),
            })
            .collect(),
    };
    let claims = CLAIMS.map(|(size, _)| (size, size, "claim"));
    vec![
        chart("Transactions, 1/s", OLTP, &[("all guests", phase::LOAD, "transactions")]),
        chart("Time of a claim, s", CLAIM, &claims),
    ]
}
