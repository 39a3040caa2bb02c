//! The view of a result, next to the study's findings.

use super::{
    BOTH, CLAIM, CLAIMS, NO_LIMIT, NOTHING, OLTP, OLTP_DISK, OURS, Way, case, phase, ways,
};
use crate::figure::{figure, percent};
use crate::view::{Chart, Table, View, cell};
use crate::{Finding, Outcome, promotion, published};
use base::Spread;

const ABOUT: &str = "Ways to move memory between guests: databases on a host with half of the \
    guests' configured memory, and a guest that claims memory after all other guests have \
    touched and freed theirs. After a study of CMM1 and CMM2 (Kammerer, 2009).";

/// Loads. Each load runs with every way.
const WHATS: [&str; 3] = [CLAIM, OLTP_DISK, OLTP];

pub fn view(outcome: &Outcome) -> View {
    View {
        about: ABOUT.to_owned(),
        findings: findings(outcome),
        tables: vec![
            oltp(outcome, OLTP, "Databases, memory twice overcommitted"),
            oltp(outcome, OLTP_DISK, "The same on a host that pages to a disk"),
            claims(outcome),
            published(),
        ],
        charts: charts(outcome),
    }
}

/// Returns the ratio of a measure with this way to the measure without any mechanism.
fn against(outcome: &Outcome, what: &str, way: &str, phase: &str, name: &str) -> Option<Spread> {
    outcome.ratio(&case(what, way), &case(what, NOTHING.name), phase, name)
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let large = CLAIMS[2].0;
    let transaction_in = |phase: &str, what: &str, host: &str, way: &Way, told: &str| {
        Finding::at_most(
            &format!(
                "a transaction {host}with {told} against nothing (<= 1/1.4 of the time, \
                 published: 1.5x the transactions)"
            ),
            against(outcome, what, way.name, phase, "average"),
            1.0 / 1.4,
            "x",
        )
    };
    let transaction = |what: &str, host: &str, way: &Way, told: &str| {
        transaction_in(phase::LOAD, what, host, way, told)
    };
    let of = |way: &Way, told: &str| {
        [
            transaction(OLTP, "", way, told),
            Finding::at_most(
                &format!(
                    "a large claim with {told} against nothing (<= 1x, published: both are the \
                     best choice)"
                ),
                against(outcome, CLAIM, way.name, large, "claim"),
                1.0,
                "x",
            ),
        ]
    };
    let ours = [case(OLTP_DISK, OURS.name), case(OLTP, OURS.name)];
    let ours = [(&*ours[0], phase::LOAD), (&*ours[1], phase::LOAD)];
    let promotion = promotion::findings(outcome, &ours);
    let told = "both and page-out";
    let host = "on a host that pages to a disk ";
    let on_disk = [
        transaction(OLTP_DISK, host, &OURS, told),
        transaction_in(phase::WARM, OLTP_DISK, &format!("in the first minute {host}"), &OURS, told),
    ];
    [&on_disk, &of(&OURS, told)[..], &of(&BOTH, "both"), &promotion].concat()
}

fn ran(outcome: &Outcome) -> Vec<Way> {
    let ran = outcome.cases();
    let is_there = |way: &Way| WHATS.iter().any(|what| ran.contains(&&*case(what, way.name)));
    ways().into_iter().filter(is_there).collect()
}

fn oltp(outcome: &Outcome, what: &str, title: &str) -> Table {
    let row = |way: &Way| {
        let name = case(what, way.name);
        let at = |phase, measure| {
            cell(outcome.interval(&name, phase, measure).map(|spread| spread.text(1)))
        };
        let against =
            |phase, measure| cell(against(outcome, what, way.name, phase, measure).map(percent));
        let of = |measure| at(phase::LOAD, measure);
        let ratio = |measure| against(phase::LOAD, measure);
        vec![
            way.name.to_owned(),
            at(phase::WARM, "average"),
            against(phase::WARM, "average"),
            of("transactions"),
            of("done of those asked for"),
            of("average"),
            ratio("average"),
            of("p95"),
            ratio("p95"),
            of("CPU a transaction"),
            of("swap in"),
            of("swap out"),
            of("left by the balloon, a guest"),
        ]
    };
    let heads = [
        "Way",
        "first minute, ms",
        "of nothing",
        "transactions, 1/s",
        "of requested transactions, %",
        "average, ms",
        "of nothing",
        "p95, ms",
        "of nothing",
        "CPU, ms",
        "pages in/s",
        "pages out/s",
        "memory a guest, MiB",
    ];
    let rows = ran(outcome).iter().map(row).collect();
    let note = "Transactions come at a fixed rate, which leaves CPU free; their time is counted \
                from the due time. Results without times come from runs without a rate, in \
                which both CPUs were always busy. The first minute begins after all memory was \
                touched: most pages become resident again then.";
    Table::new(title, &heads, rows, note)
}

fn claims(outcome: &Outcome) -> Table {
    let row = |way: &Way| {
        let name = case(CLAIM, way.name);
        let mut cells = vec![way.name.to_owned()];
        for (size, _) in CLAIMS {
            let seconds = outcome.interval(&name, size, "claim");
            cells.push(cell(seconds.map(|spread| spread.text(2))));
            cells.push(cell(outcome.median(&name, size, "pages out").map(figure)));
        }
        cells
    };
    let sizes = CLAIMS.map(|(size, mib)| format!("{size} ({mib} MiB), s"));
    let mut heads = vec!["Way"];
    heads.extend(sizes.iter().flat_map(|size| [size, "pages out"]));
    let title = "A claim, after the others have touched all of their memory";
    let note = format!(
        "`{}` has memory for all guests, so no way can be faster than a claim there. The \
         difference to a host that does nothing is the maximum gain. A claim comes when memory is \
         at rest, at least three seconds after the others freed their memory; in results before \
         2026-11-28 a claim came at once.",
        NO_LIMIT.name
    );
    Table::new(title, &heads, ran(outcome).iter().map(row).collect(), &note)
}

fn published() -> Table {
    let row = |(what, found): &(&str, &str)| vec![(*what).to_owned(), (*found).to_owned()];
    Table::new(
        "What the study found",
        &["What", "Published"],
        published::CMM.iter().map(row).collect(),
        "Ten guests of 16 GB on 80 GB; claims of 500, 1000 and 1500 MB beside 15 guests.",
    )
}

fn charts(outcome: &Outcome) -> Vec<Chart> {
    let chart = |title: &str, what: &str, series: &[(&str, (&str, &str))]| {
        let ways = ran(outcome);
        Chart::new(title, ways.iter().map(|way| way.name), series, |way, (phase, measure)| {
            outcome.interval(&case(what, way), phase, measure)
        })
    };
    let times = [("average", (phase::LOAD, "average")), ("p95", (phase::LOAD, "p95"))];
    vec![
        chart("Time of a transaction, ms", OLTP, &times),
        chart("The same on a host that pages to a disk, ms", OLTP_DISK, &times),
        chart("Time of a claim, s", CLAIM, &CLAIMS.map(|(size, _)| (size, (size, "claim")))),
    ]
}
