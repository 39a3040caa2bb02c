//! Reports as lines and values, between building and rendering.

use crate::catalog::{Definition, Part};
use crate::fields::Derived;
use crate::gather::By;
use crate::header::HostHeader;
use crate::time::SLACK_MS;

/// A report before rendering.
#[derive(Debug)]
pub struct Report {
    /// Definition of the report.
    pub definition: &'static Definition,
    /// Hosts of the report.
    pub hosts: Vec<HostHeader>,
    /// Start of the first interval, in milliseconds since 1970.
    pub from_ms: i64,
    /// End of the last interval.
    pub to_ms: i64,
    /// Length of an interval.
    pub interval_ms: u64,
    /// Subject of the rows.
    pub by: By,
    /// Pattern of the guests; empty for all.
    pub pattern: String,
    /// True if the pattern is the name of a guest.
    pub is_guest: bool,
    /// Tables of the report.
    pub tables: Vec<Table>,
    /// Notes at the foot.
    pub notes: Vec<String>,
}

/// A table of a report.
#[derive(Debug)]
pub struct Table {
    /// Definition of the table.
    pub part: &'static Part,
    /// Names of the labels of its lines.
    pub labels: Vec<&'static str>,
    /// Columns of the table.
    pub fields: Vec<&'static Derived>,
    /// Lines: of intervals first, then of the whole time.
    pub lines: Vec<Line>,
}

impl Table {
    /// Returns the columns that have a value in some line.
    pub(crate) fn columns_shown(&self) -> Vec<usize> {
        let has_value =
            |column: &usize| self.lines.iter().any(|line| line.values[*column].is_some());
        (0..self.fields.len()).filter(has_value).collect()
    }

    pub(crate) fn has_values(&self) -> bool {
        self.lines.iter().any(|line| line.values.iter().any(Option::is_some))
    }
}

/// A line of a table.
#[derive(Clone, Debug)]
pub struct Line {
    /// Subject of the line.
    pub kind: LineKind,
    /// Start of the line's time.
    pub from_ms: i64,
    /// Length of the line's time.
    pub length_ms: u64,
    /// Recorded part of the line's time.
    pub covered_ms: u64,
    /// Labels, safe for a terminal but not escaped for CSV or HTML.
    pub labels: Vec<String>,
    /// Values, one per column.
    pub values: Vec<Option<f64>>,
}

/// Recorded percentage of an interval below which its time is marked.
const KNOWN_PERCENT: u64 = 95;

impl Line {
    /// Returns true if a part of the line's time is not recorded.
    pub(crate) fn is_partial(&self) -> bool {
        let is_less =
            self.covered_ms.saturating_mul(100) < self.length_ms.saturating_mul(KNOWN_PERCENT);
        is_less && self.length_ms.saturating_sub(self.covered_ms) > SLACK_MS
    }
}

/// Subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// All of a host in an interval.
    Interval,
    /// One guest, class or tier in an interval.
    IntervalOf,
    /// One guest, class, tier or process in the whole time.
    Whole,
    /// All rows that are not among the top rows, in the whole time.
    Rest,
    /// All of a host in the whole time.
    All,
}

impl LineKind {
    /// Returns the name in CSV and JSON.
    pub fn name(self) -> &'static str {
        match self {
            LineKind::Interval | LineKind::IntervalOf => "interval",
            LineKind::Whole => "summary",
            LineKind::Rest => "rest",
            LineKind::All => "all",
        }
    }
}
