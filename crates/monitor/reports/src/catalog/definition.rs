//! Definition of a report: its tables, their columns and charts.

use crate::fields::Scope;

/// Names of columns, in their order in the table.
macro_rules! columns {
    ($($name:ident)+) => { &[$(stringify!($name)),+] };
}
pub(super) use columns;

/// A report.
#[derive(Debug)]
pub struct Definition {
    /// Name of the report.
    pub name: &'static str,
    /// Short description.
    pub title: &'static str,
    /// Names of the corresponding reports in other monitors.
    pub heritage: &'static [&'static str],
    /// Tables of the report.
    pub parts: &'static [Part],
    /// Contents of the other monitors' reports that this report omits, with the reason; empty if it
    /// omits nothing.
    pub left_out: &'static str,
}

/// A table of a report.
#[derive(Debug)]
pub struct Part {
    /// Name in CSV and JSON.
    pub id: &'static str,
    /// Heading of the table.
    pub title: &'static str,
    /// Subject of the rows.
    pub scope: Scope,
    /// Columns of the table.
    pub columns: &'static [&'static str],
    /// Column by which the top rows are chosen.
    pub sort: &'static str,
    /// Charts of the table.
    pub charts: &'static [Chart],
    /// True if the table has a row for every interval.
    pub has_intervals: bool,
    /// True if only compressed tiers are shown.
    pub only_compressed: bool,
    /// True if the text format shows one table with the first columns that fit. A line below the
    /// table shows the values of the other columns over the whole time.
    pub is_one_table: bool,
}

/// A chart of a report.
#[derive(Debug)]
pub struct Chart {
    /// Heading of the chart.
    pub title: &'static str,
    /// Form of the chart.
    pub kind: ChartKind,
    /// Columns shown, all in one unit.
    pub columns: &'static [&'static str],
}

/// The form of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartKind {
    /// One line per column, over time.
    Lines,
    /// Stacked areas, over time.
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
    Part {
        id,
        title,
        scope,
        columns,
        sort,
        charts,
        has_intervals: true,
        only_compressed: false,
        is_one_table: false,
    }
}

impl Part {
    pub(super) const fn without_intervals(self) -> Part {
        Part { has_intervals: false, ..self }
    }

    pub(super) const fn one_table(self) -> Part {
        Part { is_one_table: true, ..self }
    }

    pub(super) const fn compressed(self) -> Part {
        Part { only_compressed: true, ..self }
    }
}
