//! Reports as CSV (RFC 4180): one header, the same number of fields in every line.
//!
//! The tables of a report follow each other, and the first column names the table of a line. A
//! column that is not in this table is empty. A missing value is empty, too.

use crate::number::shown;
use crate::report::Report;
use crate::time::{Spans, Zone};
use base::{csv_record, csv_text};
use std::borrow::Cow;

/// Renders a report.
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
    csv_record(&mut out, head.chain(labels.iter().copied()).chain(ids.iter().copied()));
    let mut times = Spans::new(zone);
    for table in &report.tables {
        let label_at: Vec<Option<usize>> = labels
            .iter()
            .map(|label| table.labels.iter().position(|known| known == label))
            .collect();
        let value_at: Vec<Option<usize>> =
            ids.iter().map(|id| table.fields.iter().position(|field| field.id == *id)).collect();
        for line in &table.lines {
            let (from, to) = times.of(line.from_ms, line.length_ms);
            let covered = format!("{}", line.covered_ms as f64 / 1000.0);
            let mut cells: Vec<Cow<'_, str>> = vec![
                table.part.id.into(),
                line.kind.name().into(),
                from.into(),
                to.into(),
                covered.into(),
            ];
            let label = |at: &Option<usize>| at.map(|at| csv_text(&line.labels[at]));
            cells.extend(label_at.iter().map(|at| label(at).unwrap_or_default()));
            let value = |at: &Option<usize>| {
                let at = (*at)?;
                let value = line.values[at]?;
                Some(shown(Some(value), table.fields[at].decimals))
            };
            cells.extend(value_at.iter().map(|at| Cow::from(value(at).unwrap_or_default())));
            csv_record(&mut out, &cells);
        }
    }
    out
}
