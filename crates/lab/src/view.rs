//! A result, ready to be printed: tables next to the published ones, charts, verdicts.
//!
//! Each experiment makes a [`View`] from its [`Outcome`](crate::Outcome); the text and the page
//! print any view.

use crate::Finding;
use base::Spread;

/// All that is shown of a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// What the experiment is about, in a paragraph.
    pub about: String,
    /// Claims, and what became of them.
    pub findings: Vec<Finding>,
    /// The tables, ours beside the published.
    pub tables: Vec<Table>,
    /// The charts.
    pub charts: Vec<Chart>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The heads of its columns. The first column has the names of the rows.
    pub heads: Vec<String>,
    /// Its rows, each as long as the heads.
    pub rows: Vec<Vec<String>>,
    /// The remark below it.
    pub note: String,
}

/// Groups of bars beside each other: a group a row, a bar a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What it shows, with its unit.
    pub title: String,
    /// The names of the bars in a group.
    pub series: Vec<String>,
    /// The groups.
    pub groups: Vec<Group>,
}

/// Bars that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Their name.
    pub name: String,
    /// A bar for each series: its length and the ends of its interval. Missing bars stay out.
    pub bars: Vec<Option<Bar>>,
}

/// A bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// How long.
    pub value: f64,
    /// From where to where its interval goes.
    pub spread: Option<(f64, f64)>,
}

impl Table {
    /// A table with a note below it.
    pub fn new(title: &str, heads: &[&str], rows: Vec<Vec<String>>, note: &str) -> Table {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Table { title: title.to_owned(), heads, rows, note: note.to_owned() }
    }
}

impl Chart {
    /// A group of bars for each name, with a bar for each series.
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

/// A cell of a table; what is missing is a hyphen.
pub fn cell(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
