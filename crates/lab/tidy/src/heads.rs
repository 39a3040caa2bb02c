//! Checks of the crates' heads. A head has the crate's purpose, then a diagram of its data flow if
//! there is one, then its rules.

use crate::tree::File;

/// Maximum number of lines of a purpose, which fills a cell of the table of layers.
const PURPOSE_MAX: usize = 3;
const DIAGRAM: &str = "```text";

/// Returns the complaints about the heads of all crates.
pub fn complaints(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| is_crate_root(&file.path)).filter_map(complaint).collect()
}

/// Returns true if a file is the first file of a crate.
pub fn is_crate_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

/// Returns the purpose of a crate, the first paragraph of its head, on one line. Links to items
/// become plain code.
pub fn purpose(root: &str) -> String {
    let lines = head(root).take_while(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`");
    text.trim_end_matches('.').to_owned()
}

fn head(root: &str) -> impl Iterator<Item = &str> {
    root.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim)
}

fn complaint(file: &File) -> Option<String> {
    let File { path, text } = file;
    let purpose = head(text).take_while(|line| !line.is_empty()).count();
    if purpose == 0 {
        return Some(format!("{path}: a crate begins with its purpose (`//!`)"));
    }
    if purpose > PURPOSE_MAX {
        return Some(format!(
            "{path}: a purpose of {purpose} lines; {PURPOSE_MAX} fit: move its details below"
        ));
    }
    let diagram = head(text).position(|line| line == DIAGRAM)?;
    (diagram != purpose + 1).then(|| {
        let at = diagram + 1;
        format!("{path}:{at}: the diagram follows the purpose: move the text between them below")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let file = File { path: "a/src/lib.rs".into(), text: text.into() };
        match (complaint(&file), expected) {
            (None, None) => {}
            (Some(found), Some(part)) => assert!(found.contains(part), "{found}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn diagram_follows_the_purpose() {
        check("//! A.\n//! Of [`B`].\n//!\n//! ```text\n//! ```\n//!\n//! Rules.\n", None);
        check("//! A.\n//!\n//! Rules, without a diagram.\n", None);
        check(
            "//! A.\n//!\n//! Rules.\n//!\n//! ```text\n//! ```\n",
            Some("lib.rs:5: the diagram"),
        );
        check("//! A.\n//! ```text\n//! ```\n", Some("lib.rs:2: the diagram"));
        check("//! A.\n//! B.\n//! C.\n//! D.\n", Some("of 4 lines"));
        check("use a::B;\n", Some("begins with its purpose"));
    }

    #[test]
    fn purpose_is_the_first_paragraph_as_plain_text() {
        assert_eq!(purpose("//! Of [`B`],\n//! and C.\n//!\n//! D.\n"), "Of `B`, and C");
        assert_eq!(purpose("fn a() {}\n"), "");
    }
}
