//! Catalog of the reports and their columns.

mod definition;
mod guest;
mod host;

pub use definition::{Chart, ChartKind, Definition, Part};

use crate::Error;
use base::{correction, nearest};

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
    host::LEVERS,
    host::PAGE,
    host::CACHE,
    guest::VDISK,
    guest::GIO,
    guest::PROC,
    guest::IDLE,
    guest::LNXS,
    host::ADV,
];

/// Returns the reports with this name, here or in other monitors. A name of another monitor may
/// stand for two reports, as `ESAUSR2` does.
pub fn find(name: &str) -> Result<Vec<&'static Definition>, Error> {
    let is_it = |known: &str| known.eq_ignore_ascii_case(name);
    let of_name: Vec<_> = REPORTS.iter().filter(|report| is_it(report.name)).collect();
    if !of_name.is_empty() {
        return Ok(of_name);
    }
    let inherited = |report: &&Definition| report.heritage.iter().any(|old| is_it(old));
    let of_old: Vec<_> = REPORTS.iter().filter(inherited).collect();
    if of_old.is_empty() {
        let names = REPORTS.iter().map(|report| report.name);
        let old = REPORTS.iter().flat_map(|report| report.heritage.iter().copied());
        let hint = hint(name, names.chain(old));
        return Err(Error::UnknownReport { name: name.to_owned(), hint });
    }
    Ok(of_old)
}

/// Returns the nearest names of reports. If none is near, the name may be a guest's.
fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let is_near = !nearest(name, known.clone()).is_empty();
    let hint = correction(name, known);
    if is_near { hint } else { format!("{hint}. With --guest NAME a report shows one guest") }
}

/// Returns the report names of other monitors in alphabetical order, with the reports that replace
/// them.
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
    fn there_are_seventeen_and_all_their_columns_exist() {
        assert_eq!(REPORTS.len(), 17);
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
        let near = find("gest1").expect_err("no report").to_string();
        assert_eq!(near, "No report is called gest1: did you mean `GUEST1` or `GUEST2`?");
        let guest = find("webserver1").expect_err("no report").to_string();
        assert!(guest.ends_with("With --guest NAME a report shows one guest"), "{guest}");
        assert!(heritage().len() >= 15);
    }
}
