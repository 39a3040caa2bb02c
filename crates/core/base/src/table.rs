//! Tables for a terminal: columns as wide as their cells, without control characters.

use crate::{columns, plain};

/// Blanks between two columns, if the column does not set another number.
const GAP: usize = 2;

/// A column: its head, its alignment and its width.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    head: &'static str,
    is_right: bool,
    gap: usize,
    least: usize,
    most: usize,
}

/// Creates a left-aligned column, for texts.
pub const fn left(head: &'static str) -> Column {
    Column { head, is_right: false, gap: GAP, least: 0, most: usize::MAX }
}

/// Creates a right-aligned column, for numbers.
pub const fn right(head: &'static str) -> Column {
    Column { is_right: true, ..left(head) }
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

    /// Returns the table; with heads only if a column has one.
    pub fn text(&self) -> String {
        self.text_within(usize::MAX)
    }

    /// Returns the table, with every line clipped to this width.
    pub fn text_within(&self, width: usize) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|at| self.width(at)).collect();
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        if self.columns.iter().any(|column| !column.head.is_empty()) {
            lines.push(self.line(&widths, self.columns.iter().map(|column| column.head)));
        }
        lines.extend(self.rows.iter().map(|row| match row {
            Row::Cells(cells) => self.line(&widths, cells.iter().map(String::as_str)),
            Row::Note(note) => note.clone(),
        }));
        lines.iter().map(|line| crate::clip(line, width) + "\n").collect()
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

    fn line<'a>(&self, widths: &[usize], cells: impl Iterator<Item = &'a str>) -> String {
        let mut line = String::new();
        for (at, ((cell, column), width)) in cells.zip(&self.columns).zip(widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(columns(cell)));
            line.push_str(&" ".repeat(if at == 0 { 0 } else { column.gap }));
            let (before, behind) = if column.is_right { (pad.as_str(), "") } else { ("", &*pad) };
            line.push_str(before);
            line.push_str(cell);
            line.push_str(behind);
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
        assert_eq!(table.text_within(20).lines().nth(1), Some("web1       96  it h…"));
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
}
