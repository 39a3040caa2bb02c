//! Which reports there are, and which columns each one has.

mod guest;
mod host;

use crate::Error;
use crate::fields::Scope;

/// A report.
#[derive(Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a few words.
    pub title: &'static str,
    /// The names under which other monitors have known it.
    pub heritage: &'static [&'static str],
    /// Its tables.
    pub parts: &'static [Part],
    /// What its models show and it does not, and why; empty if there is nothing.
    pub left_out: &'static str,
}

/// A table of a report.
#[derive(Debug)]
pub struct Part {
    /// Its name in CSV and JSON.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What its rows tell of.
    pub scope: Scope,
    /// Its columns.
    pub columns: &'static [&'static str],
    /// The column by which the top is chosen.
    pub sort: &'static str,
    /// Its charts.
    pub charts: &'static [Chart],
    /// It has a row for every interval.
    pub has_intervals: bool,
    /// Of tiers, only those that compress what is in them.
    pub only_compressed: bool,
}

/// A chart of a report.
#[derive(Debug)]
pub struct Chart {
    /// Its heading.
    pub title: &'static str,
    /// Its form.
    pub kind: ChartKind,
    /// The columns that it shows, all in one unit.
    pub columns: &'static [&'static str],
}

/// The form of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartKind {
    /// A line a column, over time.
    Lines,
    /// Areas on top of each other, over time.
    Stack,
    /// A bar for each of the top rows.
    Bars,
}

const fn lines(title: &'static str, columns: &'static [&'static str]) -> Chart {
    Chart { title, kind: ChartKind::Lines, columns }
}

const fn stack(title: &'static str, columns: &'static [&'static str]) -> Chart {
    Chart { title, kind: ChartKind::Stack, columns }
}

const fn bars(title: &'static str, columns: &'static [&'static str]) -> Chart {
    Chart { title, kind: ChartKind::Bars, columns }
}

const fn part(
    id: &'static str,
    title: &'static str,
    scope: Scope,
    sort: &'static str,
    columns: &'static [&'static str],
    charts: &'static [Chart],
) -> Part {
    let has_intervals = true;
    Part { id, title, scope, columns, sort, charts, has_intervals, only_compressed: false }
}

impl Part {
    const fn without_intervals(self) -> Part {
        Part { has_intervals: false, ..self }
    }

    const fn compressed(self) -> Part {
        Part { only_compressed: true, ..self }
    }
}

/// All reports, in the order in which an operator reads them.
pub static REPORTS: &[Definition] = &[
    host::HDR,
    host::MAIN,
    guest::GUEST1,
    guest::GUEST2,
    guest::STATE,
    guest::QUEUE,
    host::STORE1,
    host::STORE2,
    host::PAGE,
    host::CACHE,
    guest::VDISK,
    guest::GIO,
    guest::PROC,
    guest::IDLE,
    guest::LNXS,
    host::ADV,
];

/// The reports of a name, or of the name that it had in other monitors: `ESAUSR2` has become
/// two.
pub fn find(name: &str) -> Result<Vec<&'static Definition>, Error> {
    let is_it = |known: &str| known.eq_ignore_ascii_case(name);
    let of_name: Vec<_> = REPORTS.iter().filter(|report| is_it(report.name)).collect();
    if !of_name.is_empty() {
        return Ok(of_name);
    }
    let inherited = |report: &&Definition| report.heritage.iter().any(|old| is_it(old));
    let of_old: Vec<_> = REPORTS.iter().filter(inherited).collect();
    if of_old.is_empty() {
        return Err(Error::UnknownReport { name: name.to_owned() });
    }
    Ok(of_old)
}

/// The old names with the reports that have come of them, in the order of the alphabet.
pub fn heritage() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut names: Vec<&str> = REPORTS.iter().flat_map(|report| report.heritage).copied().collect();
    names.sort_unstable();
    names.dedup();
    let of = |old: &&'static str| {
        let here = REPORTS.iter().filter(|report| report.heritage.contains(old));
        (*old, here.map(|report| report.name).collect())
    };
    names.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::field;

    #[test]
    fn there_are_sixteen_and_all_their_columns_exist() {
        assert_eq!(REPORTS.len(), 16);
        for report in REPORTS {
            for part in report.parts {
                let known = |id: &str| field(part.scope, id).unwrap_or_else(|| panic!("{id}"));
                assert!(part.columns.contains(&part.sort), "{}", report.name);
                part.columns.iter().for_each(|id| {
                    known(id);
                });
                for chart in part.charts {
                    let mut units = chart.columns.iter().map(|id| known(id).unit);
                    let first = units.next().expect("a column");
                    assert!(units.all(|unit| unit == first), "{}: {}", report.name, chart.title);
                    assert!(chart.columns.iter().all(|id| part.columns.contains(id)));
                }
            }
        }
    }

    #[test]
    fn old_names_are_known() {
        let names = |name: &str| {
            find(name).map(|found| found.iter().map(|report| report.name).collect::<Vec<_>>())
        };
        assert_eq!(names("ESAUSR2"), Ok(vec!["GUEST1", "GUEST2"]));
        assert_eq!(names("esaxact"), Ok(vec!["STATE"]));
        assert_eq!(names("Main"), Ok(vec!["MAIN"]));
        let error = names("\x1b[2JX").expect_err("no report").to_string();
        assert!(error.contains("STORE1") && !error.contains('\x1b'), "{error}");
        assert!(heritage().len() >= 15);
    }
}
