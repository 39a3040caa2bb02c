//! A result as text for a terminal.

use crate::figure::figure;
use crate::view::{Table, View};
use crate::{Finding, Outcome, Phase, summary};
use base::{Column, columns, left, prose, right, wrapped};
use pinhead::escape::LINE_MAX;
use std::fmt::Write;

/// Indent of the further lines of a paragraph.
const INDENT: usize = 2;
/// Blanks between two columns of a table.
const GAP: usize = 2;
/// Room for the names of rows in a table that is divided into parts.
const NAMES: usize = 24;

/// Formats a result: its head, findings and tables. Lines are broken to fit the width. Without a
/// width, only lines that are too long to be shown are broken.
pub fn text(outcome: &Outcome, view: &View, width: Option<usize>) -> String {
    let mut out = head(outcome);
    if !view.findings.is_empty() {
        let _ = writeln!(out, "\n{}\n", summary(&view.findings));
        for Finding { promise, measured, verdict, why } in &view.findings {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            let _ = writeln!(out, "{:12}  {promise}: {measured}{why}", verdict.name());
        }
    }
    for table in &view.tables {
        let _ = write!(out, "\n{}", self::table(table, width));
    }
    for failure in outcome.failures() {
        let _ = writeln!(out, "\nfailed: {failure}");
    }
    for note in &outcome.notes {
        let _ = writeln!(out, "\n{note}");
    }
    fitted(&out, width)
}

fn fitted(text: &str, width: Option<usize>) -> String {
    wrapped(text, width.unwrap_or(LINE_MAX), INDENT)
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

/// Formats a table with columns as wide as needed. A table that does not fit the width is divided
/// into parts below each other. Each part has the names of the rows.
pub fn table(table: &Table, width: Option<usize>) -> String {
    let mut out = format!("{}\n", table.title);
    for (number, part) in parts(table, width).iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        out.push_str(&part_text(table, part, width));
    }
    if !table.note.is_empty() {
        let _ = writeln!(out, "{}", table.note);
    }
    fitted(&out, width)
}

/// Returns the columns of each part, without the names of the rows.
fn parts(table: &Table, width: Option<usize>) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (1..table.heads.len()).collect();
    let Some(width) = width else { return vec![all] };
    let taken: usize = all.iter().map(|at| GAP + width_of(table, *at)).sum();
    // Names that are too long for a column stand on lines of their own.
    let head = table.heads.first().map_or(0, |head| columns(head));
    if head + taken <= width {
        return vec![all];
    }
    let names = width_of(table, 0).min(NAMES);
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut taken = names;
    for at in all {
        let own = GAP + width_of(table, at);
        match parts.last_mut().filter(|_| taken + own <= width) {
            Some(part) => {
                part.push(at);
                taken += own;
            }
            None => {
                parts.push(vec![at]);
                taken = names + own;
            }
        }
    }
    parts
}

/// Returns the width of the widest cell of a column.
fn width_of(table: &Table, at: usize) -> usize {
    let cells = table.rows.iter().chain([&table.heads]).filter_map(|row| row.get(at));
    cells.map(|cell| columns(cell)).max().unwrap_or(0)
}

fn part_text(table: &Table, part: &[usize], width: Option<usize>) -> String {
    let names = width_of(table, 0).min(NAMES);
    let is_wide = |at: usize| width.is_some_and(|width| names + GAP + width_of(table, at) > width);
    let column = match part {
        [only] if is_wide(*only) => prose(""),
        _ => right(""),
    };
    let columns: Vec<Column> =
        std::iter::once(left("")).chain(part.iter().map(|_| column)).collect();
    let mut shown = base::Table::new(&columns);
    for row in std::iter::once(&table.heads).chain(&table.rows) {
        let cell = |at: usize| row.get(at).map_or("", String::as_str);
        shown.row(std::iter::once(0).chain(part.iter().copied()).map(cell));
    }
    width.map_or_else(|| shown.text(), |width| shown.fit(width).text())
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
