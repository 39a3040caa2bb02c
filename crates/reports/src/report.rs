//! A report as lines and values: what building gives, and what becomes text, CSV, JSON or a page.

use crate::catalog::{Definition, Part};
use crate::fields::Derived;
use crate::gather::By;
use crate::header::HostHeader;

/// A report, before it is text.
#[derive(Debug)]
pub struct Report {
    /// Which one.
    pub definition: &'static Definition,
    /// Its hosts.
    pub hosts: Vec<HostHeader>,
    /// When the first interval began, in milliseconds since 1970.
    pub from_ms: i64,
    /// When the last one ended.
    pub to_ms: i64,
    /// How long an interval is.
    pub interval_ms: u64,
    /// What a row is about.
    pub by: By,
    /// Which guests it is about; empty for all.
    pub pattern: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// What stands at its foot.
    pub notes: Vec<String>,
}

/// A table of a report.
#[derive(Debug)]
pub struct Table {
    /// Its definition.
    pub part: &'static Part,
    /// What the labels of its lines are.
    pub labels: Vec<&'static str>,
    /// Its columns.
    pub fields: Vec<&'static Derived>,
    /// Its lines: of intervals first, then of the whole time.
    pub lines: Vec<Line>,
}

/// A line of a table.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it is about.
    pub kind: LineKind,
    /// When it begins.
    pub from_ms: i64,
    /// How long it is.
    pub length_ms: u64,
    /// How much of that is known.
    pub covered_ms: u64,
    /// Its labels. They are safe for a terminal, and no more than that.
    pub labels: Vec<String>,
    /// Its values.
    pub values: Vec<Option<f64>>,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// All of a host in an interval.
    Interval,
    /// One guest, class or tier in an interval.
    IntervalOf,
    /// One guest, class, tier or process in the whole time.
    Whole,
    /// Those that are not among the top, in the whole time.
    Rest,
    /// All of a host in the whole time.
    All,
}

impl LineKind {
    /// Its name in CSV and JSON.
    pub fn name(self) -> &'static str {
        match self {
            LineKind::Interval | LineKind::IntervalOf => "interval",
            LineKind::Whole => "summary",
            LineKind::Rest => "rest",
            LineKind::All => "all",
        }
    }
}
