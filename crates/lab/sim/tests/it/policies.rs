//! The table of policies, and its promised values.

use sim::table::{self, Row, Verdict};
use std::path::Path;

const MADE: &str = "<!-- The rest is made by the model: \
                    PINHEAD_WRITE_DOCS=1 cargo test -p sim --test it -->\n\n";
/// Rows in which another policy is better, as the page states. A policy that leaves all memory to
/// the guests serves a burst soonest, as long as the host has the memory. A policy that reclaims
/// nothing takes no memory in vain.
const BEATEN: &[&str] = &[
    "burst from 1 to 5 GiB, half of the host free: time until it is served",
    "20 idle guests: memory taken by balloons without gain for the host",
];

fn check(rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    for row in rows {
        let ours = row.ours();
        if ours.is_none_or(|ours| ours > row.at_most) {
            found.push(format!("{}: {ours:?} is more than {}", row.name, row.at_most));
        }
        let is_beaten = row.verdict() == Verdict::Beaten;
        if is_beaten != BEATEN.contains(&row.name) {
            found.push(format!("{}: {}", row.name, row.sentence()));
        }
    }
    found
}

#[test]
fn ours_is_best_or_near_it_except_in_the_listed_rows() {
    let rows = table::rows();
    let found = check(&rows);
    assert!(found.is_empty(), "{found:#?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/policies.md");
    let page = std::fs::read_to_string(&path).expect("docs/policies.md");
    let (written, made) = page.split_once(MADE).expect("the line where the table begins");
    let table = table::markdown(&rows);
    if std::env::var_os("PINHEAD_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{written}{MADE}{table}")).expect("written");
    } else {
        assert!(made == table, "docs/policies.md is stale: PINHEAD_WRITE_DOCS=1 cargo test -p sim");
    }
}

#[test]
fn a_policy_that_gets_worse_is_noticed() {
    let rows = table::rows();
    for (index, row) in rows.iter().enumerate() {
        for worse in [None, Some(row.at_most + 1)] {
            let mut rows = rows.clone();
            rows[index].values[0] = worse;
            assert!(!check(&rows).is_empty(), "{}: {worse:?}", row.name);
        }
    }
}
