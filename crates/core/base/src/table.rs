//! Tables for a terminal: columns as wide as their cells, without control characters.
//!
//! A table can be fitted into a width. Its column of prose, such as a reason, then continues on
//! further lines. Columns with a rank are left out if they do not fit.

use crate::wrap::{broken, wrapped};
use crate::{clip, columns, natural, plain};

/// Blanks between two columns, if the column does not set another number.
const GAP: usize = 2;
/// Minimum room for prose beside the other columns. With less room, prose stands below the other
/// columns.
const PROSE_MIN: usize = 40;
/// Indent of prose below its row.
const INDENT: usize = 2;

/// A column: its head, its alignment and its width.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    head: &'static str,
    is_right: bool,
    is_prose: bool,
    gap: usize,
    least: usize,
    most: usize,
    rank: u8,
}

/// Creates a left-aligned column, for words.
pub const fn left(head: &'static str) -> Column {
    let (is_right, is_prose) = (false, false);
    Column { head, is_right, is_prose, gap: GAP, least: 0, most: usize::MAX, rank: 0 }
}

/// Creates a right-aligned column, for numbers.
pub const fn right(head: &'static str) -> Column {
    Column { is_right: true, ..left(head) }
}

/// Creates a column for sentences, which is always the last column. In a narrow table, the
/// sentences continue on further lines.
pub const fn prose(head: &'static str) -> Column {
    Column { is_prose: true, ..left(head) }
}

impl Column {
    /// Sets the minimum width, so that a table that is redrawn keeps its shape.
    pub const fn least(self, least: usize) -> Column {
        Column { least, ..self }
    }

    /// Sets the maximum width: longer cells are clipped.
    pub const fn most(self, most: usize) -> Column {
        Column { most, ..self }
    }

    /// Sets the exact width.
    pub const fn width(self, width: usize) -> Column {
        self.least(width).most(width)
    }

    /// Sets the number of blanks before the column.
    pub const fn gap(self, gap: usize) -> Column {
        Column { gap, ..self }
    }

    /// Sets the order in which columns are left out of a narrow table: the highest rank first.
    /// Columns without a rank stay.
    pub const fn rank(self, rank: u8) -> Column {
        Column { rank, ..self }
    }
}

/// A table that is filled row by row.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<String>),
    /// A line across the columns.
    Note(String),
}

/// A table in the lines of a terminal.
#[derive(Clone, Debug, Default)]
pub struct Fitted {
    /// Line of the heads; none if no column has a head.
    pub head: Option<String>,
    /// Lines of each row.
    pub rows: Vec<Vec<String>>,
    /// Heads of the columns that are left out.
    pub hidden: Vec<&'static str>,
}

impl Fitted {
    /// Returns all lines.
    pub fn text(&self) -> String {
        let lines = self.head.iter().chain(self.rows.iter().flatten());
        lines.map(|line| line.clone() + "\n").collect()
    }
}

/// The columns that are shown, with their widths.
struct Layout {
    shown: Vec<(usize, usize)>,
    /// Index of the column of prose, and the room beside the other columns; `None` if prose stands
    /// below the other columns.
    prose: Option<(usize, Option<usize>)>,
    hidden: Vec<&'static str>,
}

impl Table {
    /// Creates a table without rows.
    pub fn new(columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. Cells are escaped, and clipped if their column has a maximum width.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().zip(&self.columns);
        let cells = cells.map(|(cell, column)| plain(cell.as_ref(), column.most)).collect();
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a line across the columns.
    pub fn note(&mut self, note: &str) {
        self.rows.push(Row::Note(plain(note, usize::MAX)));
    }

    /// Returns the heads of all columns.
    pub fn heads(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.head).collect()
    }

    /// Returns the index of the column with this head. Case, blanks and signs do not count, so
    /// `in-host` is `IN HOST` and `cpu` is `CPU%`. If a head contains a comma, the part before the
    /// comma is enough.
    pub fn column(&self, name: &str) -> Option<usize> {
        let key = |text: &str| -> String {
            text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
        };
        let name = key(name);
        let is_it =
            |head: &str| key(head) == name || head.split(',').next().map(key) == Some(name.clone());
        self.columns.iter().position(|column| !name.is_empty() && is_it(column.head))
    }

    /// Keeps only these columns, in this order. A column of prose stays the last one.
    pub fn choose(&mut self, chosen: &[usize]) {
        let (texts, others): (Vec<usize>, Vec<usize>) =
            chosen.iter().partition(|at| self.columns[**at].is_prose);
        let order: Vec<usize> = others.into_iter().chain(texts).collect();
        self.columns = order.iter().map(|at| self.columns[*at]).collect();
        for row in &mut self.rows {
            if let Row::Cells(cells) = row {
                *cells =
                    order.iter().map(|at| cells.get(*at).cloned().unwrap_or_default()).collect();
            }
        }
    }

    /// Sorts the rows by a column: numbers largest first, words in natural order. Rows without a
    /// number come last.
    pub fn sort(&mut self, at: usize) {
        let cell = |row: &Row| match row {
            Row::Cells(cells) => cells.get(at).cloned().unwrap_or_default(),
            Row::Note(_) => String::new(),
        };
        let number = |row: &Row| cell(row).trim_start_matches('~').parse::<f64>().ok();
        let is_right = self.columns.get(at).is_some_and(|column| column.is_right);
        self.rows.sort_by(|one, other| match (is_right, number(one), number(other)) {
            (false, ..) => natural(&cell(one), &cell(other)),
            (true, Some(one), Some(other)) => other.total_cmp(&one),
            (true, one, other) => other.is_some().cmp(&one.is_some()),
        });
    }

    /// Returns the whole table, with one line for each row.
    pub fn text(&self) -> String {
        self.fit(usize::MAX).text()
    }

    /// Returns the table within a width. Prose that does not fit continues on further lines, beside
    /// the other columns or below them. If the other columns do not fit, columns with a rank are
    /// left out, and a long first cell gets lines of its own.
    pub fn fit(&self, width: usize) -> Fitted {
        let layout = self.layout(width);
        let has_heads = self.columns.iter().any(|column| !column.head.is_empty());
        let head = has_heads.then(|| {
            let text = layout.prose.filter(|(_, room)| room.is_some());
            let text = text.map_or("", |(at, _)| self.columns[at].head);
            clip(&self.line(&layout, |at| self.columns[at].head, text), width)
        });
        let rows = self.rows.iter().map(|row| match row {
            Row::Cells(cells) => self.lines(&layout, cells, width),
            Row::Note(note) => {
                wrapped(note, width, INDENT).split('\n').map(str::to_owned).collect()
            }
        });
        Fitted { head, rows: rows.collect(), hidden: layout.hidden }
    }

    fn layout(&self, width: usize) -> Layout {
        let whole = |at: &usize| (*at, self.width(*at));
        let (prose, others): (Vec<usize>, Vec<usize>) =
            (0..self.columns.len()).partition(|at| self.columns[*at].is_prose);
        let mut shown: Vec<(usize, usize)> = others.iter().map(whole).collect();
        let is_over = |shown: &[(usize, usize)]| self.taken(shown) > width;
        let longest = shown.first().map_or(0, |(_, longest)| *longest);
        if is_over(&shown)
            && let Some((at, width)) = shown.first_mut()
            && !self.columns[*at].is_right
        {
            *width = self.columns[*at].least.max(columns(self.columns[*at].head)).min(longest);
        }
        let mut hidden = Vec::new();
        while is_over(&shown) {
            let others = shown.iter().enumerate().skip(1);
            let ranks = others.map(|(place, (at, _))| (self.columns[*at].rank, place));
            let Some((_, place)) = ranks.filter(|(rank, _)| *rank > 0).max() else { break };
            hidden.push(self.columns[shown.remove(place).0].head);
        }
        let spare = width.saturating_sub(self.taken(&shown));
        if let Some((_, width)) = shown.first_mut() {
            *width = longest.min(width.saturating_add(spare));
        }
        let prose = prose.first().map(whole).map(|(at, longest)| {
            let gap = if shown.is_empty() { 0 } else { self.columns[at].gap };
            let room = width.saturating_sub(self.taken(&shown)).saturating_sub(gap);
            let is_beside = shown.is_empty() || room >= longest.min(PROSE_MIN);
            (at, is_beside.then_some(room))
        });
        Layout { shown, prose, hidden }
    }

    /// Returns the total width of the columns and of the blanks between them.
    fn taken(&self, shown: &[(usize, usize)]) -> usize {
        let gaps = shown.iter().skip(1).map(|(at, _)| self.columns[*at].gap);
        shown.iter().map(|(_, width)| *width).chain(gaps).sum()
    }

    fn width(&self, at: usize) -> usize {
        let column = &self.columns[at];
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => cells.get(at).map(String::as_str),
            Row::Note(_) => None,
        });
        let cells = cells.chain([column.head]).map(columns);
        cells.max().unwrap_or(0).max(column.least)
    }

    fn lines(&self, layout: &Layout, cells: &[String], width: usize) -> Vec<String> {
        let cell = |at: usize| cells.get(at).map_or("", String::as_str);
        let mut lines = Vec::new();
        let long = layout.shown.first().filter(|(at, width)| columns(cell(*at)) > *width);
        let long = long.map(|(at, _)| *at);
        lines.extend(long.into_iter().flat_map(|at| broken(cell(at), [width, width])));
        let short = |at| if Some(at) == long { "" } else { cell(at) };
        let text = layout.prose.map_or("", |(at, _)| cell(at));
        let Some(room) = layout.prose.and_then(|(_, room)| room) else {
            lines.push(clip(&self.line(layout, short, ""), width));
            if !text.is_empty() {
                let room = width.saturating_sub(INDENT);
                lines.extend(
                    broken(text, [room, room]).iter().map(|line| format!("{:INDENT$}{line}", "")),
                );
            }
            return lines;
        };
        let mut texts = broken(text, [room, room]).into_iter();
        lines.push(self.line(layout, short, &texts.next().unwrap_or_default()));
        lines.extend(texts.map(|text| self.line(layout, |_| "", &text)));
        lines
    }

    /// Returns a line with the cells of the shown columns, and prose beside them.
    fn line<'a>(&self, layout: &Layout, cell: impl Fn(usize) -> &'a str, text: &str) -> String {
        let mut line = String::new();
        for (place, (at, width)) in layout.shown.iter().enumerate() {
            let (column, cell) = (&self.columns[*at], cell(*at));
            let pad = " ".repeat(width.saturating_sub(columns(cell)));
            line.push_str(&" ".repeat(if place == 0 { 0 } else { column.gap }));
            let (before, behind) = if column.is_right { (pad.as_str(), "") } else { ("", &*pad) };
            line.push_str(before);
            line.push_str(cell);
            line.push_str(behind);
        }
        if let Some((at, Some(_))) = layout.prose {
            let gap = if layout.shown.is_empty() { 0 } else { self.columns[at].gap };
            line.push_str(&" ".repeat(gap));
            line.push_str(text);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new(&[left("GUEST").most(6), right("MIB").least(5), left("WHY")]);
        table.row(["web1", "96", "it has nothing to spare"]);
        table.note("    a note");
        table.row(["\u{1b}[2Jmail", "1024", ""]);
        let lines = [
            "GUEST     MIB  WHY",
            "web1       96  it has nothing to spare",
            "    a note",
            "\u{fffd}[2Jm…   1024",
        ];
        assert_eq!(table.text().lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn columns_stand_below_each_other_after_wide_letters() {
        let mut table = Table::new(&[left("GUEST").most(6), right("MIB")]);
        table.row(["网页1", "96"]);
        table.row(["数据库服务器", "8"]);
        assert_eq!(table.text(), "GUEST  MIB\n网页1   96\n数据…    8\n");
    }

    #[test]
    fn a_table_without_heads_has_no_line_for_them() {
        let mut table = Table::new(&[left(""), right("").gap(1)]);
        table.row(["a", "1"]);
        table.row(["bc", "12"]);
        assert_eq!(table.text(), "a   1\nbc 12\n");
    }

    fn guests() -> Table {
        let columns = [
            left("GUEST").least(5),
            right("IN HOST").gap(1).rank(1),
            right("VMM").gap(1).rank(2),
            prose("LAST, AND WHY").most(200),
        ];
        let mut table = Table::new(&columns);
        let why = "hold at 96 MiB: the host has enough memory, and this guest keeps its cache";
        table.row(["vm10", "140", "~48", why]);
        table.row(["vm2-of-the-shop", "7", "3", "no demand"]);
        table.row(["vm1", "-", "50", ""]);
        table
    }

    #[test]
    fn narrow_table_leaves_columns_out_and_keeps_its_prose() {
        let fitted = guests().fit(16);
        assert_eq!(fitted.hidden, ["VMM"]);
        let lines = [
            "GUEST    IN HOST",
            "vm10         140",
            "  hold at 96",
            "  MiB: the host",
            "  has enough",
            "  memory, and",
            "  this guest",
            "  keeps its",
            "  cache",
            "vm2-of-the-shop",
            "               7",
            "  no demand",
            "vm1            -",
        ];
        assert_eq!(fitted.text().lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn prose_continues_beside_columns_when_there_is_room() {
        let fitted = guests().fit(72);
        let why = "hold at 96 MiB: the host has enough memory,";
        let lines = [
            format!("{:27}  {}", "GUEST           IN HOST VMM", "LAST, AND WHY"),
            format!("{:27}  {why}", "vm10                140 ~48"),
            format!("{:27}  {}", "", "and this guest keeps its cache"),
        ];
        assert_eq!(fitted.text().lines().take(3).collect::<Vec<_>>(), lines);
        assert_eq!(fitted.rows.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1]);
    }

    #[test]
    fn columns_are_found_chosen_and_sorted_by() {
        let mut table = guests();
        let found =
            ["in-host", "last", "VMM", "Last and why", "", "n"].map(|name| table.column(name));
        assert_eq!(found, [Some(1), Some(3), Some(2), Some(3), None, None]);
        let first = |table: &Table| -> Vec<String> {
            let rows = table.fit(99).rows;
            rows.iter().map(|row| row[0].split(' ').next().unwrap_or_default().to_owned()).collect()
        };
        table.sort(0);
        assert_eq!(first(&table), ["vm1", "vm2-of-the-shop", "vm10"]);
        table.sort(1);
        assert_eq!(
            first(&table),
            ["vm10", "vm2-of-the-shop", "vm1"],
            "an unknown value comes last"
        );
        table.sort(2);
        assert_eq!(first(&table), ["vm1", "vm10", "vm2-of-the-shop"]);
        table.choose(&[3, 2, 0]);
        assert_eq!(table.heads(), ["VMM", "GUEST", "LAST, AND WHY"]);
        assert_eq!(table.text().lines().nth(1), Some(" 50  vm1"));
    }
}
