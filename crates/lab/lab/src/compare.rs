//! Two results side by side: each measure of one result against the same measure of the other.

use crate::Outcome;
use crate::figure::figure;
use crate::view::Table;
use base::Spread;

/// Returns the table of common measures. A note has the number of measures that only one result
/// has.
pub fn compare(a: &Outcome, b: &Outcome) -> Table {
    let (in_a, in_b) = (keys(a), keys(b));
    let mut rows = Vec::new();
    for key in in_a.iter().filter(|key| in_b.contains(key)) {
        let [case, phase, measure, unit] = *key;
        let of = |outcome: &Outcome| outcome.spread(case, phase, measure);
        let (Some(left), Some(right)) = (of(a), of(b)) else { continue };
        let ratio = match left.median {
            0.0 => "-".to_owned(),
            base => format!("{:.2}", right.median / base),
        };
        let apart = left.low > right.high || right.low > left.high;
        rows.push(vec![
            format!("{case}: {phase}: {measure}"),
            unit.to_owned(),
            shown(&left),
            shown(&right),
            ratio,
            if apart { "apart" } else { "overlap" }.to_owned(),
        ]);
    }
    let only = |mine: &[Key], other: &[Key]| mine.iter().filter(|key| !other.contains(key)).count();
    let mut note = String::new();
    let (left, right) = (only(&in_a, &in_b), only(&in_b, &in_a));
    if left + right > 0 {
        note = format!("{left} measures are only in the first result, {right} only in the second.");
    }
    if a.machine != b.machine {
        note.push_str(" The machines differ: compare ratios within each result only.");
    }
    let title =
        format!("{} of {} beside {} of {}", a.experiment, a.started, b.experiment, b.started);
    let heads = ["Measure", "Unit", "First", "Second", "Ratio", "Spreads"];
    Table::new(&title, &heads, rows, note.trim())
}

/// Identity of a measure: case, phase, name and unit.
type Key<'a> = [&'a str; 4];

fn keys(outcome: &Outcome) -> Vec<Key<'_>> {
    let mut found = Vec::new();
    for run in &outcome.runs {
        for phase in &run.phases {
            for measure in &phase.measures {
                let key = [run.case.as_str(), &phase.name, &measure.name, &measure.unit];
                if !found.contains(&key) {
                    found.push(key);
                }
            }
        }
    }
    found
}

fn shown(spread: &Spread) -> String {
    match spread.count {
        1 => figure(spread.median),
        _ => format!("{} ({}-{})", figure(spread.median), figure(spread.low), figure(spread.high)),
    }
}
