//! A report as CSV (RFC 4180): one header, the same number of fields in every line.
//!
//! The tables of a report stand under each other; the first column says which one a line is
//! of, and a column that its table does not have is empty, as is a value that is missing.

use crate::build::Report;
use crate::number::shown;
use crate::time::{Zone, rfc3339};

/// Prints a report.
pub fn csv(report: &Report, zone: &dyn Zone) -> String {
    let mut labels: Vec<&str> = Vec::new();
    let mut ids: Vec<&str> = Vec::new();
    for table in &report.tables {
        let new = |known: &Vec<&str>, name: &str| !known.contains(&name);
        for label in &table.labels {
            if new(&labels, label) {
                labels.push(label);
            }
        }
        for field in &table.fields {
            if new(&ids, field.id) {
                ids.push(field.id);
            }
        }
    }
    let mut out = String::new();
    let head = ["table", "row", "from", "to", "covered_s"].into_iter();
    record(&mut out, head.chain(labels.iter().copied()).chain(ids.iter().copied()));
    for table in &report.tables {
        let label_at: Vec<Option<usize>> = labels
            .iter()
            .map(|label| table.labels.iter().position(|known| known == label))
            .collect();
        let value_at: Vec<Option<usize>> =
            ids.iter().map(|id| table.fields.iter().position(|field| field.id == *id)).collect();
        for line in &table.lines {
            let length = i64::try_from(line.length_ms).unwrap_or(i64::MAX);
            let to_ms = line.from_ms.saturating_add(length);
            let covered = format!("{}", line.covered_ms as f64 / 1000.0);
            let mut cells = vec![
                table.part.id.to_owned(),
                line.kind.name().to_owned(),
                rfc3339(line.from_ms, zone),
                rfc3339(to_ms, zone),
                covered,
            ];
            let label = |at: &Option<usize>| at.map(|at| harmless(&line.labels[at]));
            cells.extend(label_at.iter().map(|at| label(at).unwrap_or_default()));
            let value = |at: &Option<usize>| {
                let at = (*at)?;
                let value = line.values[at]?;
                Some(shown(Some(value), table.fields[at].decimals))
            };
            cells.extend(value_at.iter().map(|at| value(at).unwrap_or_default()));
            record(&mut out, cells.iter().map(String::as_str));
        }
    }
    out
}

fn record<'a>(out: &mut String, cells: impl Iterator<Item = &'a str>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.push(',');
        }
        if cell.contains([',', '"', '\r', '\n']) {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(cell);
        }
    }
    out.push_str("\r\n");
}

/// A name that a spreadsheet would take for a formula gets an apostrophe: guests choose names.
fn harmless(name: &str) -> String {
    if name.starts_with(['=', '+', '-', '@']) { format!("'{name}") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_no_formula_comes_through() {
        let mut out = String::new();
        record(&mut out, ["a,b", "say \"x\"", "plain", ""].into_iter());
        assert_eq!(out, "\"a,b\",\"say \"\"x\"\"\",plain,\r\n");
        assert_eq!(harmless("=HYPERLINK(1)"), "'=HYPERLINK(1)");
    }
}
