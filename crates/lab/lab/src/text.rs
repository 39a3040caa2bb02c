//! A result as text for a terminal.

use crate::figure::figure;
use crate::view::{Table, View};
use crate::{Finding, Outcome, Phase, summary};
use base::{Column, left, right};
use std::fmt::Write;

/// Formats a result: its head, findings and tables.
pub fn text(outcome: &Outcome, view: &View) -> String {
    let mut out = head(outcome);
    if !view.findings.is_empty() {
        let _ = writeln!(out, "\n{}\n", summary(&view.findings));
        for Finding { promise, measured, verdict, why } in &view.findings {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            let _ = writeln!(out, "{:12}  {promise}: {measured}{why}", verdict.word());
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

/// Formats a table with columns as wide as needed.
pub fn table(table: &Table) -> String {
    let numbers = table.heads.iter().skip(1).map(|_| right(""));
    let columns: Vec<Column> = std::iter::once(left("")).chain(numbers).collect();
    let mut shown = base::Table::new(&columns);
    shown.row(&table.heads);
    table.rows.iter().for_each(|row| shown.row(row));
    let note = if table.note.is_empty() { String::new() } else { format!("{}\n", table.note) };
    format!("{}\n{}{note}", table.title, shown.text())
}

/// Formats a line about a finished phase, to show progress.
pub fn phase_line(phase: &Phase) -> String {
    let measures: Vec<String> = phase
        .measures
        .iter()
        .map(|one| format!("{} {} {}", one.name, figure(one.value), one.unit))
        .collect();
    let failed = phase.failed.as_ref().map(|why| format!("; FAILED: {why}")).unwrap_or_default();
    let measures = measures.join(", ");
    format!("{}, {:.1} s: {measures}{failed}", phase.name, phase.seconds)
}
