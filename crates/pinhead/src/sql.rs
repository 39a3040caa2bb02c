//! `pinhead sql`: read-only queries of recordings by the user.

use crate::Error;
use base::{Column, Table, csv_record, csv_text, is_plain, left, right};
use clap::{Args, ValueEnum};
use reports::recorded;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use store::{Cell, Records};

/// Maximum number of cells in a text table. The whole table is in memory, because each column is as
/// wide as its widest cell. Cells of full width take 40 MB.
const TEXT_CELLS_MAX: usize = 150_000;
/// Maximum length of a cell in a text table, in characters.
const CELL_MAX: usize = 120;

/// `pinhead sql`
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// SELECT statement over the tables of `pinhead schema`
    pub query: String,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: SqlFormat,
    /// Directory of recordings instead of the manager's
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Output format of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SqlFormat {
    /// A human-readable table
    Text,
    /// Comma-separated values with a header (RFC 4180); missing is empty
    Csv,
    /// An array of objects; missing is null
    Json,
}

/// Writes the query's result to `out`, and returns a remark on the result.
pub fn run(args: &SqlArgs, out: &mut dyn Write) -> Result<Option<String>, Error> {
    let sql = Records::open(&recorded::dir(args.dir.as_deref())?)?.sql()?;
    let mut printer = Printer::new(args.format, out);
    sql.ask(&args.query, &mut |names: &[String], cells: &[Cell]| printer.row(names, cells))?;
    let cut =
        printer.end().map_err(|source| Error::Read { path: "standard output".into(), source });
    let mut remarks = Vec::new();
    if let Some(cut) = cut? {
        remarks.push(format!("Only the first {cut} rows are shown; --format csv prints all rows"));
    }
    if !sql.left_out().is_empty() {
        remarks.push(format!("Too many files: these are left out: {}", sql.left_out().join(", ")));
    }
    Ok((!remarks.is_empty()).then(|| remarks.join("\n")))
}

struct Printer<'a> {
    format: SqlFormat,
    out: &'a mut dyn Write,
    failed: Option<std::io::Error>,
    names: Vec<String>,
    rows: Vec<Vec<Cell>>,
    count: usize,
    is_cut: bool,
}

impl<'a> Printer<'a> {
    fn new(format: SqlFormat, out: &'a mut dyn Write) -> Printer<'a> {
        let (names, rows) = (Vec::new(), Vec::new());
        Printer { format, out, failed: None, names, rows, count: 0, is_cut: false }
    }

    /// Adds a row. The first call has only the names, and each later call has the cells of a row.
    fn row(&mut self, names: &[String], cells: &[Cell]) -> ControlFlow<()> {
        if cells.is_empty() {
            self.names = names.to_vec();
            if self.format == SqlFormat::Csv {
                return self.put_record(names.iter().map(|name| printable(name)));
            }
            return ControlFlow::Continue(());
        }
        self.count += 1;
        match self.format {
            SqlFormat::Csv => self.put_record(cells.iter().map(|cell| match cell {
                Cell::Null => String::new(),
                Cell::Text(text) => printable(&csv_text(text)),
                cell => shown(cell),
            })),
            SqlFormat::Json => {
                let comma = if self.count > 1 { ",\n" } else { "[\n" };
                let object = object(names, cells);
                self.put(&format!("{comma}  {object}"))
            }
            SqlFormat::Text if self.rows.len() < TEXT_CELLS_MAX / cells.len() => {
                self.rows.push(cells.iter().map(clipped).collect());
                ControlFlow::Continue(())
            }
            SqlFormat::Text => {
                self.is_cut = true;
                ControlFlow::Break(())
            }
        }
    }

    fn put_record<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) -> ControlFlow<()> {
        let mut record = String::new();
        csv_record(&mut record, cells);
        self.put(&record)
    }

    fn put(&mut self, text: &str) -> ControlFlow<()> {
        match self.out.write_all(text.as_bytes()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Ends the result. If rows were left out, returns the number of rows shown.
    fn end(mut self) -> Result<Option<usize>, std::io::Error> {
        let _ = match self.format {
            SqlFormat::Csv => ControlFlow::Continue(()),
            SqlFormat::Json if self.count == 0 => self.put("[]\n"),
            SqlFormat::Json => self.put("\n]\n"),
            SqlFormat::Text => {
                let table = table(&self.names, &self.rows);
                self.put(&table)
            }
        };
        match self.failed {
            // A reader that closes the pipe early wants only the beginning, so this is not an
            // error.
            Some(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(self.is_cut.then_some(self.rows.len())),
        }
    }
}

/// Replaces the characters of a foreign text that a terminal would act on.
fn printable(text: &str) -> String {
    text.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect()
}

fn clipped(cell: &Cell) -> Cell {
    match cell {
        Cell::Text(text) => Cell::Text(base::plain(text, CELL_MAX)),
        other => other.clone(),
    }
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Null => "-".into(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => number.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Bytes(count) => format!("({count} bytes)"),
    }
}

/// Formats a table. Numbers are aligned to the right, everything else to the left.
fn table(names: &[String], rows: &[Vec<Cell>]) -> String {
    let column = |place: usize| {
        let mut cells = rows.iter().map(|cells| &cells[place]).filter(|cell| **cell != Cell::Null);
        let is_number = cells.all(|cell| matches!(cell, Cell::Integer(_) | Cell::Real(_)));
        if is_number { right("") } else { left("") }.most(CELL_MAX)
    };
    let columns: Vec<Column> = (0..names.len()).map(column).collect();
    let mut table = Table::new(&columns);
    table.row(names);
    rows.iter().for_each(|cells| table.row(cells.iter().map(shown)));
    table.text()
}

/// Formats a row as an object. The names stay in the order of the query, which a map would lose.
fn object(names: &[String], cells: &[Cell]) -> String {
    let value = |cell: &Cell| match cell {
        Cell::Null => serde_json::Value::Null,
        Cell::Integer(number) => (*number).into(),
        Cell::Real(number) => (*number).into(),
        Cell::Text(text) => text.as_str().into(),
        Cell::Bytes(_) => shown(cell).into(),
    };
    let name = |name: &String| serde_json::Value::from(name.as_str());
    let pairs = names.iter().zip(cells).map(|(n, cell)| format!("{}: {}", name(n), value(cell)));
    base::plain_json(&format!("{{{}}}", pairs.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: SqlFormat, expected: &str) {
        let names = ["guest".to_owned(), "n".to_owned()];
        let rows = [
            [Cell::Text("we,b\"1\u{1b}\u{9b}".into()), Cell::Integer(-12)],
            [Cell::Null, Cell::Real(0.5)],
        ];
        let mut out = Vec::new();
        let mut printer = Printer::new(format, &mut out);
        let _ = printer.row(&names, &[]);
        for row in &rows {
            let _ = printer.row(&names, row);
        }
        assert_eq!(printer.end().expect("written"), None);
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn answers_are_tables_csv_and_json() {
        check(SqlFormat::Text, "guest       n\nwe,b\"1\u{fffd}\u{fffd}  -12\n-         0.5\n");
        check(SqlFormat::Csv, "guest,n\r\n\"we,b\"\"1\u{fffd}\u{fffd}\",-12\r\n,0.5\r\n");
        check(
            SqlFormat::Json,
            "[\n  {\"guest\": \"we,b\\\"1\\u001b\\u009b\", \"n\": -12},\n  \
             {\"guest\": null, \"n\": 0.5}\n]\n",
        );
    }

    #[test]
    fn finding_16_formula_is_text_and_numbers_keep_their_minus() {
        let mut out = Vec::new();
        let mut printer = Printer::new(SqlFormat::Csv, &mut out);
        let names = ["guest".to_owned(), "n".to_owned()];
        let _ = printer.row(&names, &[]);
        let _ = printer.row(&names, &[Cell::Text("=HYPERLINK(1)".into()), Cell::Integer(-12)]);
        printer.end().expect("written");
        assert_eq!(String::from_utf8(out).expect("text"), "guest,n\r\n'=HYPERLINK(1),-12\r\n");
    }

    #[test]
    fn no_rows_are_an_answer_too() {
        for (format, expected) in [(SqlFormat::Text, "n\n"), (SqlFormat::Json, "[]\n")] {
            let mut out = Vec::new();
            let mut printer = Printer::new(format, &mut out);
            let _ = printer.row(&["n".into()], &[]);
            printer.end().expect("written");
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }

    #[test]
    fn a_directory_without_recordings_is_an_error() {
        let dir = std::env::temp_dir().join("pinhead-no-such-recordings");
        let args = SqlArgs { query: "SELECT 1".into(), format: SqlFormat::Text, dir: Some(dir) };
        let error = run(&args, &mut Vec::new()).expect_err("not there").to_string();
        assert!(error.contains("pinhead-no-such-recordings"), "{error}");
    }

    #[test]
    fn finding2_07_text_table_is_bounded_in_cells_and_their_length() {
        let mut out = Vec::new();
        let mut printer = Printer::new(SqlFormat::Text, &mut out);
        let names: Vec<String> = (0..100).map(|name| name.to_string()).collect();
        let cells = vec![Cell::Text("x".repeat(1_000)); names.len()];
        let _ = printer.row(&names, &[]);
        let rows = (0..TEXT_CELLS_MAX).find(|_| printer.row(&names, &cells).is_break());
        assert_eq!(rows, Some(TEXT_CELLS_MAX / names.len()));
        let kept = printer.rows.iter().flatten();
        assert!(kept.map(shown).all(|text| text.chars().count() == CELL_MAX));
        assert_eq!(printer.end().expect("written"), rows);
    }
}
