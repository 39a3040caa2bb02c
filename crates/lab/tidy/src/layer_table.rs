//! The table of layers in ARCHITECTURE.md, generated from the rows of [`crate::layers`] and from
//! the heads of the crates.

use crate::heads::purpose;
use crate::layers::{Crate, LAYERS};
use crate::tree::{File, in_crate};

/// Lines of ARCHITECTURE.md around the table.
const OPEN: &str = "<!-- Made from tidy's layers::LAYERS and the first lines of each crate: \
                    PINHEAD_WRITE_DOCS=1 cargo test -p tidy -->\n\n";
const CLOSE: &str = "\n<!-- End of the table of layers -->";

/// Returns ARCHITECTURE.md with the current table, or a complaint.
pub fn renewed(document: &str, files: &[File]) -> Result<String, String> {
    let marks = document.split_once(OPEN);
    let Some((before, (_, after))) =
        marks.and_then(|(before, rest)| Some((before, rest.split_once(CLOSE)?)))
    else {
        return Err("ARCHITECTURE.md has lost the marks around the table of layers".into());
    };
    Ok(format!("{before}{OPEN}{}{CLOSE}{after}", table(files)?))
}

fn table(files: &[File]) -> Result<String, String> {
    let mut out =
        "| layer | crate | purpose | begin at | must not |\n|---|---|---|---|---|\n".into();
    for layer in LAYERS {
        for row in layer.crates {
            push(&mut out, layer.name, row, files)?;
        }
    }
    Ok(out)
}

fn push(out: &mut String, layer: &str, row: &Crate, files: &[File]) -> Result<(), String> {
    let Crate { name, begin, must_not, .. } = row;
    let root = ["lib.rs", "main.rs"].iter().find_map(|file| {
        let path = format!("{name}/src/{file}");
        files.iter().find(|one| one.path == path || one.path.ends_with(&format!("/{path}")))
    });
    let Some(File { path, text }) = root else {
        return Err(format!("There is no crate {name}: remove its row in tidy's layers::LAYERS"));
    };
    let dir = path.rsplit_once("/src/").map_or("", |(dir, _)| dir);
    let inside: Vec<&File> =
        files.iter().filter(|file| file.path.starts_with(&format!("{dir}/"))).collect();
    if let Some(gone) = items(begin).find(|item| !inside.iter().any(|file| has(file, item))) {
        return Err(format!("{name}: `{gone}` is not there: correct its row in layers::LAYERS"));
    }
    let purpose = purpose(text).replace('|', "\\|");
    out.push_str(&format!("| {layer} | [`{name}`]({path}) | {purpose} | {begin} | {must_not} |\n"));
    Ok(())
}

/// Returns the last names of the items in backticks.
fn items(begin: &str) -> impl Iterator<Item = &str> {
    let quoted = begin.split('`').skip(1).step_by(2);
    quoted.map(|item| item.rsplit("::").next().unwrap_or(item).trim_end_matches(['!', '/']))
}

/// Returns true if a file has an item's name as a word, or is in the directory of that name.
/// Macros define some items, so a definition has no fixed form.
fn has(file: &File, item: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_in =
        in_crate(&file.path).is_some_and(|(_, path)| path.split('/').any(|dir| dir == item));
    is_in || file.text.split(|c| !is_word(c)).any(|word| word == item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_needs_marks_and_existing_items() {
        assert!(renewed("# Architecture\n", &[]).unwrap_err().contains("marks"));
        let marked = format!("a\n{OPEN}old\n{CLOSE}\nb\n");
        assert!(renewed(&marked, &[]).unwrap_err().contains("no crate base"));
        let root = File { path: "crates/core/base/src/lib.rs".into(), text: "//! A|B.\n".into() };
        let gone = renewed(&marked, std::slice::from_ref(&root)).unwrap_err();
        assert!(gone.starts_with("base: `Bytes` is not there"), "{gone}");
    }

    #[test]
    fn row_has_purpose_and_path_of_its_crate() {
        let text = "//! A|B.\npub struct Bytes(u64);\npub struct Bytesize;\n".into();
        let file = File { path: "crates/core/base/src/lib.rs".into(), text };
        let row =
            Crate { name: "base", ours: None, others: "", begin: "`Bytes`", must_not: "wait" };
        let mut out = String::new();
        push(&mut out, "0 pure", &row, &[file]).unwrap();
        let line = "| 0 pure | [`base`](crates/core/base/src/lib.rs) | A\\|B | `Bytes` | wait |\n";
        assert_eq!(out, line);
        assert_eq!(
            items("`a::B`, `table!`, `tests/`").collect::<Vec<_>>(),
            ["B", "table", "tests"]
        );
    }
}
