//! A printable result: tables with published figures, charts, verdicts.
//!
//! Each experiment makes a [`View`] from its [`Outcome`](crate::Outcome). The text and the page
//! print any view.

use crate::Finding;
use base::Spread;

/// The contents derived from a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Description of the experiment, in a paragraph.
    pub about: String,
    /// Claims with their verdicts.
    pub findings: Vec<Finding>,
    /// The tables, some with published figures next to the measured ones.
    pub tables: Vec<Table>,
    /// The charts.
    pub charts: Vec<Chart>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Title of the table.
    pub title: String,
    /// Headings of the columns. The first column has the names of the rows.
    pub heads: Vec<String>,
    /// Rows, each as long as the headings.
    pub rows: Vec<Vec<String>>,
    /// Remark below the table.
    pub note: String,
}

/// Groups of bars side by side: a group for each row, a bar for each series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Title of the chart, with its unit.
    pub title: String,
    /// Names of the bars in a group.
    pub series: Vec<String>,
    /// The groups.
    pub groups: Vec<Group>,
}

/// Bars that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// A bar for each series; `None` if the series has no value here.
    pub bars: Vec<Option<Bar>>,
}

/// A bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Length of the bar.
    pub value: f64,
    /// Ends of the value's interval.
    pub spread: Option<(f64, f64)>,
}

impl Table {
    /// Makes a table with a note below it.
    pub fn new(title: &str, heads: &[&str], rows: Vec<Vec<String>>, note: &str) -> Table {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Table { title: title.to_owned(), heads, rows, note: note.to_owned() }
    }
}

impl Chart {
    /// Makes a chart with a group for each name, and a bar for each series.
    pub fn new<'a, S>(
        title: &str,
        groups: impl IntoIterator<Item = &'a str>,
        series: &[(&str, S)],
        spread: impl Fn(&str, &S) -> Option<Spread>,
    ) -> Chart {
        let group = |name: &str| Group {
            name: name.to_owned(),
            bars: series.iter().map(|(_, one)| spread(name, one).map(Bar::from)).collect(),
        };
        Chart {
            title: title.to_owned(),
            series: series.iter().map(|(name, _)| (*name).to_owned()).collect(),
            groups: groups.into_iter().map(group).collect(),
        }
    }
}

impl From<Spread> for Bar {
    fn from(spread: Spread) -> Bar {
        let ends = (spread.count > 1).then_some((spread.low, spread.high));
        Bar { value: spread.median, spread: ends }
    }
}

/// Returns a cell of a table. A missing value is a hyphen.
pub fn cell(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
