//! A result for a terminal.

use crate::view::{Finding, Table, View};
use crate::{Outcome, Phase};
use std::fmt::Write;

/// A column is at most this wide; what is longer is wrapped nowhere and cut by nobody, so that
/// figures stay whole, but the other columns do not move for it.
const WIDE: usize = 48;

/// Prints a result: its head, verdicts and tables.
pub fn text(outcome: &Outcome, view: &View) -> String {
    let mut out = head(outcome);
    if !view.findings.is_empty() {
        out.push('\n');
        for finding in &view.findings {
            let Finding { promise, measured, .. } = finding;
            let _ = writeln!(out, "{}  {promise}: {measured}", verdict(finding));
        }
    }
    for table in &view.tables {
        let _ = write!(out, "\n{}", self::table(table));
    }
    for failure in outcome.failures() {
        let _ = writeln!(out, "\nfailed: {failure}");
    }
    for note in &outcome.notes {
        let _ = writeln!(out, "\n{note}");
    }
    out
}

/// A word for whether a promise was kept.
pub fn verdict(finding: &Finding) -> &'static str {
    match finding.kept {
        Some(true) => "kept  ",
        Some(false) => "MISSED",
        None => "-     ",
    }
}

/// What was run, when and on what.
fn head(outcome: &Outcome) -> String {
    let machine = &outcome.machine;
    let quick = if outcome.quick { ", the quick form: figures mean nothing" } else { "" };
    let commit = outcome.commit.as_deref().unwrap_or("not known");
    format!(
        "{}, {}{quick}\n  command  {}\n  commit   {commit}\n  machine  {} x {}, {} MiB, Linux {}, \
         {}\n  took     {:.0} s\n",
        outcome.experiment,
        outcome.started,
        outcome.command,
        machine.cpus,
        machine.processor,
        machine.memory_mib,
        machine.kernel,
        machine.qemu,
        outcome.seconds
    )
}

/// Prints a table in columns as wide as they need to be.
pub fn table(table: &Table) -> String {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        let cells = cells.chain(table.heads.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).min(WIDE)
    };
    let widths: Vec<usize> = (0..table.heads.len()).map(width).collect();
    let line = |row: &[String]| {
        let mut out = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match at {
                0 => write!(out, "{cell:<width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
        }
        format!("{}\n", out.trim_end())
    };
    let mut out = format!("{}\n{}", table.title, line(&table.heads));
    for row in &table.rows {
        out.push_str(&line(row));
    }
    if !table.note.is_empty() {
        let _ = writeln!(out, "{}", table.note);
    }
    out
}

/// A line about a phase as soon as it is over, for who watches.
pub fn phase_line(phase: &Phase) -> String {
    let measures: Vec<String> = phase
        .measures
        .iter()
        .map(|one| format!("{} {} {}", one.name, crate::view::figure(one.value), one.unit))
        .collect();
    let failed = phase.failed.as_ref().map(|why| format!("; FAILED: {why}")).unwrap_or_default();
    let measures = measures.join(", ");
    format!("{}, {:.1} s: {measures}{failed}", phase.name, phase.seconds)
}
