//! The printed table: each figure next to its promise.

use crate::error::Error;
use base::{chain, left, right};

base::named! {
    /// Result of a figure against its promise.
    pub enum Verdict {
        Pass = "PASS",
        Miss = "MISS",
        /// Nothing was promised.
        None = "-",
        /// The figure was not requested.
        Skipped = "skip",
        /// The figure could not be measured.
        Failed = "FAIL",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    name: String,
    value: String,
    promise: String,
    verdict: Verdict,
    notes: Vec<String>,
}

/// A number with its significant digits, and its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub value: f64,
    /// Digits after the point.
    pub digits: usize,
    /// Unit, printed after the number.
    pub unit: &'static str,
}

/// Returns a figure with this many digits after the point.
pub fn figure(value: f64, digits: usize, unit: &'static str) -> Figure {
    Figure { value, digits, unit }
}

impl Figure {
    pub fn text(self) -> String {
        format!("{:.*}{}", self.digits, self.value, self.unit)
    }
}

impl Row {
    /// Returns a row for a figure with a promised maximum, in the same unit.
    pub fn promised(name: &str, figure: Figure, at_most: f64) -> Row {
        // The comparison uses the exact number, not the rounded one that is shown.
        let kept = figure.value <= at_most;
        let promise = format!("<= {}", Figure { value: at_most, ..figure }.text());
        let verdict = if kept { Verdict::Pass } else { Verdict::Miss };
        Row { promise, verdict, ..Row::plain(name, &figure.text()) }
    }

    /// Returns a row for a figure without a promise.
    pub fn plain(name: &str, value: &str) -> Row {
        Row {
            name: name.into(),
            value: value.into(),
            promise: String::new(),
            verdict: Verdict::None,
            notes: Vec::new(),
        }
    }

    /// Returns a row for a figure that is not measured here, with the reason.
    pub fn skipped(name: &str, why: &str) -> Row {
        Row { verdict: Verdict::Skipped, ..Row::plain(name, "") }.note(why)
    }

    /// Returns a row for a figure that could not be measured.
    pub fn failed(name: &str, error: &Error) -> Row {
        Row { verdict: Verdict::Failed, ..Row::plain(name, "") }.note(&chain(error))
    }

    /// Adds a note on the method.
    pub fn note(mut self, note: &str) -> Row {
        self.notes.push(note.into());
        self
    }
}

/// All figures of a run.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub fn new() -> Table {
        Table { rows: Vec::new() }
    }

    /// Adds figures that were measured together, or a row with the error.
    pub fn section(&mut self, name: &str, rows: Result<Vec<Row>, Error>) {
        match rows {
            Ok(rows) => self.rows.extend(rows),
            Err(error) => self.rows.push(Row::failed(name, &error)),
        }
    }

    /// Returns true if every requested figure was measured.
    pub fn is_complete(&self) -> bool {
        self.rows.iter().all(|row| row.verdict != Verdict::Failed)
    }

    pub fn text(&self) -> String {
        let mut table = base::Table::new(&[left(""), right(""), right(""), left("")]);
        for row in &self.rows {
            table.row([&*row.name, &row.value, &row.promise, row.verdict.name()]);
            row.notes.iter().for_each(|note| table.note(&format!("    {note}")));
        }
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64) -> Figure {
        Figure { value, digits: 2, unit: "x" }
    }

    #[test]
    fn a_miss_is_reported_even_if_rounding_hides_it() {
        assert_eq!(Row::promised("a", figure(1.25), 1.25).verdict, Verdict::Pass);
        let row = Row::promised("a", figure(1.2501), 1.25);
        assert_eq!((row.verdict, row.value.as_str()), (Verdict::Miss, "1.25x"));
    }

    #[test]
    fn columns_of_the_table_are_aligned() {
        let mut table = Table::new();
        let rows = vec![
            Row::promised("cpu", figure(0.5), 12.0).note("how"),
            Row::skipped("memory", "not here"),
        ];
        table.section("all", Ok(rows));
        let lines = [
            "cpu     0.50x  <= 12.00x  PASS",
            "    how",
            "memory                    skip",
            "    not here",
        ];
        assert_eq!(table.text().lines().collect::<Vec<_>>(), lines);
        assert!(table.is_complete());
    }

    #[test]
    fn failed_measurement_is_reported() {
        let mut table = Table::new();
        table.section("cpu", Err(Error::Preset("is gone")));
        assert!(table.text().ends_with("FAIL\n    The default preset is gone\n"));
        assert!(!table.is_complete());
    }
}
