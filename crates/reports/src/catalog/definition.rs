//! What a report is made of: its tables, their columns and charts.

use crate::fields::Scope;

/// Names of columns, as they stand beside each other.
macro_rules! columns {
    ($($name:ident)+) => { &[$(stringify!($name)),+] };
}
pub(super) use columns;

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
    /// What its rows are about.
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

pub(super) const fn lines(title: &'static str, columns: &'static [&'static str]) -> Chart {
    Chart { title, kind: ChartKind::Lines, columns }
}

pub(super) const fn stack(title: &'static str, columns: &'static [&'static str]) -> Chart {
    Chart { title, kind: ChartKind::Stack, columns }
}

pub(super) const fn bars(title: &'static str, columns: &'static [&'static str]) -> Chart {
    Chart { title, kind: ChartKind::Bars, columns }
}

pub(super) const fn part(
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
    pub(super) const fn without_intervals(self) -> Part {
        Part { has_intervals: false, ..self }
    }

    pub(super) const fn compressed(self) -> Part {
        Part { only_compressed: true, ..self }
    }
}
