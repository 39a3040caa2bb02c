//! `pinhead schema`: the tables of recordings, column by column.

use crate::args::Format;
use crate::escape::json;
use crate::{Error, RecordingsError};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use store::{Column, TableText, tables};

/// `pinhead schema`
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Only this table
    pub table: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Lists the tables that `pinhead sql` can query, or one of them.
pub fn run(args: &SchemaArgs) -> Result<String, Error> {
    let mut all = tables();
    if let Some(wanted) = &args.table {
        let known = all.iter().map(|table| table.name.clone()).collect();
        all.retain(|table| table.name == *wanted);
        if all.is_empty() {
            return Err(RecordingsError::NoTable { name: wanted.clone(), known }.into());
        }
    }
    match args.format {
        Format::Text => Ok(text(&all)),
        Format::Json => json(&to_json(&all)),
    }
}

fn text(all: &[TableText]) -> String {
    let mut out = String::new();
    for table in all {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{gap}{}: {}", table.name, table.words);
        for Column { name, unit, kind, source, words } in &table.columns {
            let source = if source.is_empty() { String::new() } else { format!(" ({source})") };
            let line = format!("  {name:<28} {unit:<6} {kind:<8} {words}{source}");
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

fn to_json(all: &[TableText]) -> Value {
    let column = |column: &Column| {
        json!({
            "name": column.name,
            "unit": column.unit,
            "kind": column.kind,
            "source": column.source,
            "words": column.words,
        })
    };
    let table = |table: &TableText| {
        let columns: Vec<_> = table.columns.iter().map(column).collect();
        json!({"name": table.name, "words": table.words, "columns": columns})
    };
    let tables: Vec<_> = all.iter().map(table).collect();
    json!({ "tables": tables })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_schema_has_unit_kind_and_source_of_each_column() {
        let args = SchemaArgs { table: Some("minute_guest".into()), format: Format::Text };
        let text = run(&args).expect("a schema");
        assert!(text.starts_with("minute_guest: a guest in a minute\n"));
        let line = text.lines().find(|line| line.contains("vcpu_delay_ns")).expect("there");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..3], ["vcpu_delay_ns", "ns", "counter"]);
        assert!(line.ends_with("(task/TID/schedstat)"));
        let args = SchemaArgs { table: Some("minutes".into()), format: Format::Text };
        let refused = run(&args).expect_err("no such table").to_string();
        assert!(refused.contains("minute_host"), "{refused}");
        let args = SchemaArgs { table: None, format: Format::Json };
        let json: serde_json::Value =
            serde_json::from_str(&run(&args).expect("a schema")).expect("JSON");
        assert_eq!(json["tables"].as_array().map(Vec::len), Some(10));
    }

    /// Returns the expected tables of the document.
    fn markdown() -> String {
        let mut out = String::new();
        // Tables of quarter hours have the same columns as other tables, so they are left out.
        for table in tables().iter().filter(|table| !table.name.starts_with("quarter_")) {
            let _ = writeln!(out, "### `{}`\n\nA row is {}.\n", table.name, table.words);
            out.push_str("| column | unit | kind | what it is | source |\n|---|---|---|---|---|\n");
            for Column { name, unit, kind, source, words } in &table.columns {
                let _ = writeln!(out, "| `{name}` | {unit} | {kind} | {words} | {source} |");
            }
            out.push('\n');
        }
        out
    }

    #[test]
    fn the_document_has_the_tables_of_today() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recordings.md");
        let text = std::fs::read_to_string(&path).expect("it is there");
        let begin = "<!-- tables: made from the fields -->\n\n";
        let (head, rest) = text.split_once(begin).expect("the mark before the tables");
        if rest.trim_end() != markdown().trim_end() {
            if std::env::var_os("PINHEAD_WRITE_DOCS").is_some() {
                let whole = format!("{head}{begin}{}\n", markdown().trim_end());
                std::fs::write(&path, whole).expect("written");
            } else {
                panic!("docs/recordings.md is stale: run this test with PINHEAD_WRITE_DOCS=1");
            }
        }
    }
}
