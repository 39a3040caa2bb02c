//! Reports for a terminal; a table wider than the terminal is broken into panels.

use super::{about, advice_of, halves, label_title, labels_shown, time_text};
use crate::fields::Scope;
use crate::header::{cost_text, gaps_text};
use crate::number::shown;
use crate::report::{Line, LineKind, Report, Table};
use crate::time::Zone;
use base::{clip, columns, padded};
use std::fmt::Write;

const LABEL_MAX: usize = 20;
/// Minimum number of rows for which a column with the same value in all rows becomes a sentence.
const CONSTANT_ROWS: usize = 3;

/// Renders a report.
pub fn text(report: &Report, zone: &dyn Zone, width: usize) -> String {
    let mut out = String::new();
    let title = format!("{}  {}", report.definition.name, report.definition.title);
    for line in [title, about(report, zone)] {
        out.push_str(&base::wrapped(&line, width, 2));
        out.push('\n');
    }
    for host in &report.hosts {
        wrapped(&mut out, &format!("host {}, own cost {}", host.name, cost_text(host)), width);
        for (what, how) in host.facts.iter().filter(|_| report.definition.name == "HDR") {
            wrapped(&mut out, &format!("  {what}: {how}"), width);
        }
        if let Some(gaps) = gaps_text(host, zone) {
            wrapped(&mut out, &format!("gaps: {gaps}"), width);
        }
    }
    for table in report.tables.iter().filter(|table| table.has_values()) {
        out.push('\n');
        wrapped(&mut out, table.part.title, width);
        show(&mut out, table, report, zone, width);
        for (rule, advice) in advice_of(table) {
            wrapped(&mut out, &format!("  {rule}: {advice}"), width);
        }
        if table.part.scope == Scope::Finding {
            evidence(&mut out, table, width);
        }
    }
    if !report.notes.is_empty() {
        out.push('\n');
    }
    for note in &report.notes {
        wrapped(&mut out, note, width);
    }
    out
}

fn evidence(out: &mut String, table: &Table, width: usize) {
    out.push('\n');
    wrapped(out, "Evidence: the raw values of the worst interval", width);
    for line in &table.lines {
        wrapped(
            out,
            &format!("  {} {}: {}", line.labels[1], line.labels[2], line.labels[5]),
            width,
        );
    }
}

/// Writes a sentence, broken between words. Further lines are indented by two more columns.
pub(super) fn wrapped(out: &mut String, sentence: &str, width: usize) {
    let indent = sentence.chars().take_while(|c| *c == ' ').count();
    let rooms = [indent, indent + 2].map(|indent| width.saturating_sub(indent));
    let lines = base::broken(sentence, rooms).join(&format!("\n{:1$}", "", indent + 2));
    let _ = writeln!(out, "{:indent$}{lines}", "");
}

/// A block of lines with a common head.
struct Block {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    values: Vec<Vec<String>>,
}

fn show(out: &mut String, table: &Table, report: &Report, zone: &dyn Zone, width: usize) {
    let (intervals, whole) = halves(table);
    let labels = labels_shown(table, report);
    let values = |line: &Line| {
        let cells = line.values.iter().zip(&table.fields);
        cells.map(|(value, field)| shown(*value, field.decimals)).collect::<Vec<_>>()
    };
    let host = (report.hosts.len() > 1).then_some(0);
    let mut blocks = Vec::new();
    if !intervals.is_empty() {
        let mut heads = vec!["Time".to_owned()];
        heads.extend(host.map(|_| "Host".to_owned()));
        let label = |line: &&Line| {
            let mut row = vec![time_text(line, report, zone)];
            row.extend(host.map(|at: usize| clip(&line.labels[at], LABEL_MAX)));
            row
        };
        let rows = intervals.iter().map(label).collect();
        let values = intervals.iter().map(|line| values(line)).collect();
        blocks.push(Block { heads, rows, values });
    }
    if !whole.is_empty() {
        let heads = labels.iter().map(|at| label_title(table.labels[*at]).to_owned()).collect();
        let label = |line: &&Line| {
            labels.iter().map(|at| clip(&line.labels[*at], LABEL_MAX)).collect::<Vec<_>>()
        };
        let rows = whole
            .iter()
            .map(|line| match (line.kind, table.part.scope, host) {
                (LineKind::All, Scope::Host, None) => vec!["all".to_owned()],
                _ => label(line),
            })
            .collect();
        let values = whole.iter().map(|line| values(line)).collect();
        blocks.push(Block { heads, rows, values });
    }
    print(out, &blocks, table, width);
}

/// Columns of a table, and the layout of the table.
struct Layout<'a> {
    /// Heads of all columns: the upper and the lower line.
    heads: Vec<(&'a str, &'a str)>,
    widths: Vec<usize>,
    /// Widths of the labels of each block.
    labels: Vec<Vec<usize>>,
    /// Width of the labels of all blocks.
    first: usize,
    columns: Vec<usize>,
}

impl<'a> Layout<'a> {
    fn of(blocks: &[Block], table: &'a Table) -> Layout<'a> {
        let heads: Vec<(&str, &str)> = table
            .fields
            .iter()
            .map(|field| field.title.split_once('|').unwrap_or(("", field.title)))
            .collect();
        let widths: Vec<usize> = heads
            .iter()
            .enumerate()
            .map(|(at, (above, below))| {
                let cells = blocks.iter().flat_map(|block| &block.values);
                let cells = cells.map(|row| columns(&row[at])).max().unwrap_or(0);
                cells.max(columns(above)).max(columns(below))
            })
            .collect();
        let label_widths = |block: &Block| -> Vec<usize> {
            let of = |at: usize| {
                block.rows.iter().map(|row| row.get(at).map_or(0, |s| columns(s))).max()
            };
            let heads = block.heads.iter().enumerate();
            heads.map(|(at, head)| of(at).unwrap_or(0).max(columns(head))).collect()
        };
        let labels: Vec<Vec<usize>> = blocks.iter().map(label_widths).collect();
        let label_width = |widths: &Vec<usize>| widths.iter().map(|width| width + 1).sum::<usize>();
        let first = labels.iter().map(label_width).max().unwrap_or(0).saturating_sub(1);
        Layout { heads, widths, labels, first, columns: table.columns_shown() }
    }

    fn width(&self, gap: usize) -> usize {
        self.first + self.columns.iter().map(|at| self.widths[*at] + gap).sum::<usize>()
    }

    /// Removes and returns the columns with the same value in all rows.
    fn take_constants(&mut self, blocks: &[Block]) -> Vec<usize> {
        let rows = || blocks.iter().flat_map(|block| &block.values);
        let Some(first) = rows().next() else { return Vec::new() };
        // Sums of processes have only some columns.
        let is_constant = |at: &usize| {
            let same = rows().filter(|row| row[*at] == first[*at]).count();
            let others = rows().filter(|row| row[*at] != first[*at]);
            first[*at] != "-" && same >= CONSTANT_ROWS && others.clone().all(|row| row[*at] == "-")
        };
        let (constant, others): (Vec<usize>, Vec<usize>) =
            self.columns.iter().partition(|at| is_constant(at));
        if others.is_empty() {
            return Vec::new();
        }
        self.columns = others;
        constant
    }

    /// Keeps the columns that fit into the width, and returns the other columns.
    fn take_rest(&mut self, width: usize) -> Vec<usize> {
        let panels = panels(&self.columns, &self.widths, width.saturating_sub(self.first), 1);
        let fit = panels.first().map_or(0, |panel| panel.len());
        self.columns.split_off(fit)
    }
}

/// Prints the blocks of a table. Columns without values are left out. If the table is too wide, a
/// column with the same value in all rows becomes a sentence, and the table is broken into panels.
fn print(out: &mut String, blocks: &[Block], table: &Table, width: usize) {
    let mut layout = Layout::of(blocks, table);
    let (mut constant, mut rest) = (Vec::new(), Vec::new());
    if layout.width(1) > width {
        constant = layout.take_constants(blocks);
    }
    if layout.width(1) > width && table.part.is_one_table {
        rest = layout.take_rest(width);
    }
    // Columns are two blanks apart if they fit, and otherwise one blank, so that fewer tables are
    // broken.
    let gap = if layout.width(2) <= width { 2 } else { 1 };
    let Layout { heads, widths, labels, first, columns: chosen } = &layout;
    for panel in panels(chosen, widths, width.saturating_sub(*first), gap) {
        for (block, labels) in blocks.iter().zip(labels) {
            let row = |out: &mut String, label: &[String], cells: &dyn Fn(usize) -> String| {
                let mut line = String::new();
                for (at, width) in labels.iter().enumerate() {
                    let text = label.get(at).map_or("", String::as_str);
                    line.push_str(&padded(text, *width));
                    line.push(' ');
                }
                line.truncate(line.trim_end().len());
                let pad = first.saturating_sub(columns(&line));
                line.push_str(&" ".repeat(pad));
                for at in panel {
                    let _ = write!(line, "{:>width$}", cells(*at), width = widths[*at] + gap);
                }
                let _ = writeln!(out, "{}", line.trim_end());
            };
            row(out, &[], &|at| heads[at].0.to_owned());
            row(out, &block.heads, &|at| heads[at].1.to_owned());
            for (label, values) in block.rows.iter().zip(&block.values) {
                row(out, label, &|at| values[at].clone());
            }
            out.push('\n');
        }
    }
    // A blank line stands between blocks, and none after the last block.
    out.truncate(out.trim_end_matches('\n').len());
    out.push('\n');
    let sentence = |columns: &[usize], values: &[String]| {
        let one = |at: &usize| format!("{} {}", table.fields[*at].heading(), values[*at]);
        columns.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let rows = || blocks.iter().flat_map(|block| &block.values);
    if let Some(values) = rows().next().filter(|_| !constant.is_empty()) {
        wrapped(out, &format!("In all rows: {}.", sentence(&constant, values)), width);
    }
    if !rest.is_empty() {
        let whole = blocks.last().map_or(&[][..], |block| &block.rows).iter();
        for (label, values) in whole.zip(blocks.last().map_or(&[][..], |block| &block.values)) {
            let who = label.join(" ");
            wrapped(out, &format!("Also, {who}: {}.", sentence(&rest, values)), width);
        }
    }
}

/// Groups columns into panels that fit the width; each panel has at least one column.
fn panels<'a>(columns: &'a [usize], widths: &[usize], room: usize, gap: usize) -> Vec<&'a [usize]> {
    let mut found = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (place, at) in columns.iter().enumerate() {
        if place > start && used + widths[*at] + gap > room {
            found.push(&columns[start..place]);
            (start, used) = (place, 0);
        }
        used += widths[*at] + gap;
    }
    found.push(&columns[start..]);
    found
}
