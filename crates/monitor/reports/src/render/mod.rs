//! Rendering of a report as text, CSV, JSON or a page.

mod csv;
mod html;
mod json;
mod legend;
mod svg;
mod text;

pub use csv::csv;
pub use html::{html, html_body, key};
pub use json::json;
pub use legend::legend;
pub use svg::{Frame, Mark, OWNERS, STATES, Series, colours};
pub use text::text;

use crate::fields::Scope;
use crate::report::{Line, LineKind, Report, Table};
use crate::time::{Zone, clock_text, date_text, moment_text, span_text};

/// Returns the time of a line, marked if the interval is not fully recorded.
fn time_text(line: &Line, report: &Report, zone: &dyn Zone) -> String {
    let clock = clock_text(line.from_ms, zone);
    let mark = if line.is_partial() { "~" } else { "" };
    if report.to_ms.saturating_sub(report.from_ms) <= 86_400_000 {
        return format!("{clock}{mark}");
    }
    let date = date_text(line.from_ms, zone);
    format!("{} {clock}{mark}", date.get(5..).unwrap_or_default())
}

/// Returns the subject and time of the report in one line.
fn about(report: &Report, zone: &dyn Zone) -> String {
    let (from, to) = (report.from_ms, report.to_ms);
    if from == to {
        return "nothing is recorded in this time".into();
    }
    let first = moment_text(from, zone);
    let is_one_day = date_text(from, zone) == date_text(to, zone);
    let last = if is_one_day { clock_text(to, zone) } else { moment_text(to, zone) };
    let chosen = match report.pattern.as_str() {
        "" => String::new(),
        name if report.is_guest => format!(", guest {name}"),
        pattern => format!(", guests {pattern}"),
    };
    let every = span_text(report.interval_ms);
    format!("{first} to {last}, every {every}, by {}{chosen}", report.by.name())
}

/// Returns the labels that are shown. The name of a single host, a class next to each guest, and a
/// column without values are left out.
fn labels_shown(table: &Table, report: &Report) -> Vec<usize> {
    let is_single = report.hosts.len() <= 1;
    let is_empty = |at: usize| table.lines.iter().all(|line| line.labels[at].is_empty());
    let is_shown = |at: &usize| match table.labels[*at] {
        "host" => !is_single || table.labels.len() == 1,
        "class" => table.labels.len() < 3 || table.labels[1] == "class",
        "evidence" => false,
        _ => !is_empty(*at),
    };
    (0..table.labels.len()).filter(is_shown).collect()
}

/// Returns the lines of intervals, newest first for each host, and the lines of the whole time.
fn halves(table: &Table) -> (Vec<&Line>, Vec<&Line>) {
    let count = |kind| table.lines.iter().filter(|line| line.kind == kind).count();
    let is_single = count(LineKind::Whole) == 1 && table.part.scope == Scope::Guest;
    let is_shown = |line: &&Line| match line.kind {
        LineKind::IntervalOf => false,
        // A single row is its own sum.
        LineKind::All => !is_single || count(LineKind::Rest) > 0,
        _ => true,
    };
    let is_interval = |line: &&Line| line.kind == LineKind::Interval;
    let (mut intervals, whole): (Vec<_>, Vec<_>) =
        table.lines.iter().filter(is_shown).partition(is_interval);
    intervals.chunk_by_mut(|a, b| a.labels[0] == b.labels[0]).for_each(<[_]>::reverse);
    (intervals, whole)
}

fn label_title(label: &str) -> &'static str {
    match label {
        "host" => "Host",
        "guest" => "Guest",
        "class" => "Class",
        "tier" => "Tier",
        "process" => "Process",
        "pid" => "Pid",
        "rule" => "Rule",
        "who" => "Who",
        "field" => "Value",
        "at" => "Worst at",
        _ => "Evidence",
    }
}

/// Returns the rules that have findings, with their advice.
fn advice_of(table: &Table) -> Vec<(&'static str, &'static str)> {
    if table.part.scope != Scope::Finding {
        return Vec::new();
    }
    let found = |name: &str| table.lines.iter().any(|line| line.labels[1] == name);
    let rules = crate::RULES.iter().filter(|rule| found(rule.name));
    rules.map(|rule| (rule.name, rule.advice)).collect()
}
