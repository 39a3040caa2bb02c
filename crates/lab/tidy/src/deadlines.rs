//! Check that each constant named like a deadline has a row in the table of ARCHITECTURE.md.

use crate::lexer::code_only;
use crate::modules::without_tests;
use crate::tree::{File, in_crate};

const TABLE: &str = "ARCHITECTURE.md";
/// Last words of a deadline's name, before the unit.
const WORDS: &[&str] = &[
    "PATIENCE", "GRACE", "SILENCE", "SILENT", "ANSWER", "STALE", "STUCK", "STILL", "DEADLINE",
    "DEATH", "GREETING", "RESCUE", "SURE", "LATE", "TIMEOUT", "UNREAD",
];
/// Units at the end of a deadline's name.
const UNITS: &[&str] = &["_MS", "_S"];
const TYPES: &[&str] = &["u32", "u64", "i64", "Duration"];
/// Crates without rows in the table. Their timeouts only end a test or a measurement.
const TESTS: &[&str] = &["e2e", "fuzz_targets", "lab", "sim", "tidy"];

/// Returns a complaint for each deadline without a row in the table.
pub fn complaints(files: &[File]) -> Vec<String> {
    let table = files.iter().find(|file| file.path == TABLE);
    let rows: Vec<&str> = table.map_or("", |file| &file.text).lines().collect();
    let mut found = Vec::new();
    for file in files {
        let Some((of, path)) = source(&file.path) else { continue };
        if TESTS.contains(&of) {
            continue;
        }
        let code = without_tests(&code_only(&file.text));
        for name in code.lines().filter_map(deadline) {
            let (link, name) = (format!("[`{path}`]"), format!("`{name}`"));
            if !rows.iter().any(|row| row.contains(&link) && row.contains(&name)) {
                found.push(format!(
                    "{}: {name} is not among the deadlines of {TABLE}: say there what is waited \
                     for, what is done then, and what decides",
                    file.path
                ));
            }
        }
    }
    found
}

/// Returns the crate of a source file, and the file's path from the crate's name on.
fn source(path: &str) -> Option<(&str, &str)> {
    let (of, rest) = in_crate(path)?;
    let is_code = rest.starts_with("src/") && rest.ends_with(".rs");
    let path = &path[path.len() - rest.len() - 1 - of.len()..];
    (is_code && !rest.contains("/tests")).then_some((of, path))
}

/// Returns the constant in a line, if it is named like a deadline.
fn deadline<'a>(line: &'a str) -> Option<&'a str> {
    let (_, rest) = line.split_once("const ")?;
    let (name, kind) = rest.split_once(": ")?;
    let kind = kind.split(" =").next()?;
    let is_time = TYPES.contains(&kind.rsplit("::").next()?);
    let longest = |words: &'a str| words.strip_suffix("_MAX").unwrap_or(words);
    let words = UNITS.iter().find_map(|unit| name.strip_suffix(unit)).map_or(name, longest);
    (is_time && WORDS.contains(&words.rsplit('_').next()?)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str, table: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        complaints(&[file(TABLE, table), file("crates/farm/farm/src/a.rs", code)])
    }

    #[test]
    fn deadline_that_is_not_in_the_table_is_a_complaint() {
        let code = "/// A bound.\npub(super) const BIRTH_PATIENCE_MS: u64 = 5;\n";
        let told = found(code, "| [`farm/src/b.rs`](b) `BIRTH_PATIENCE_MS` | x |");
        assert!(
            told[0].starts_with("crates/farm/farm/src/a.rs: `BIRTH_PATIENCE_MS` is not"),
            "{told:?}"
        );
        assert!(found(code, "| [`farm/src/a.rs`](a) `BIRTH_PATIENCE_MS` | x |").is_empty());
        for name in ["ANSWER: std::time::Duration", "ANSWER_MAX_MS: u32", "TIMEOUT_S: i64"] {
            assert_eq!(found(&format!("const {name} = x;"), "").len(), 1, "{name}");
        }
    }

    #[test]
    fn constant_of_another_kind_is_none() {
        for name in ["ANSWER_MAX: u32", "QUESTION: u32", "PATIENCE: &str", "LATER_MS: u64"] {
            assert!(found(&format!("const {name} = x;"), "").is_empty(), "{name}");
        }
        assert!(found("#[cfg(test)]\nconst PATIENCE: Duration = x;", "").is_empty());
    }

    #[test]
    fn deadline_below_a_module_of_tests_is_seen() {
        let of = |modules: &str| found(&format!("{modules}\nconst PATIENCE: Duration = x;"), "");
        assert_eq!(of("#[cfg(test)]\nmod tests;").len(), 1, "it is in a file of its own");
        assert_eq!(of("#[cfg(test)]\npub(crate) mod testing;\nmod a;").len(), 1);
        assert!(of("#[cfg(test)]\nmod tests {").is_empty());
    }
}
