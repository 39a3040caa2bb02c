//! Rules of the language of comments and of tests' names.

use crate::tree::File;

/// Words that delay the subject of a sentence. No comment may begin with such a word.
const RIDDLES: [&str; 9] =
    ["What", "Who", "Whose", "Whom", "So", "Such", "How", "Whether", "Where"];
/// Words that no comment may contain: words for persons, and an archaic word.
const BANNED: [&str; 5] = ["who", "whom", "whose", "whoever", "anew"];
/// Words that are no subject, so that no test's name may begin with them.
const NO_SUBJECTS: [&str; 13] = [
    "who", "whoever", "whose", "what", "whatever", "how", "where", "one", "it", "that", "those",
    "so", "nobody",
];
const NAME_MAX: usize = 60;

/// Returns all complaints about comments and tests' names.
pub fn complaints(files: &[File]) -> Vec<String> {
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    rust.flat_map(|file| comments(file).into_iter().chain(names(file))).collect()
}

/// Returns the text of a line that is a comment, without its slashes.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

fn comments(file: &File) -> Vec<String> {
    let File { path, text } = file;
    let mut found = Vec::new();
    let mut is_inside = false;
    for (line, at) in text.lines().zip(1..) {
        let Some(text) = comment(line) else {
            is_inside = false;
            continue;
        };
        let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        if !std::mem::replace(&mut is_inside, true) && RIDDLES.contains(&first) {
            found.push(format!("{path}:{at}: begins with {first:?}: begin with the subject"));
        }
        let words = text.split(|c: char| !(c.is_alphanumeric() || "._".contains(c)));
        for word in words.map(|word| word.trim_end_matches('.')) {
            if BANNED.contains(&word) {
                found.push(format!("{path}:{at}: {word:?}: say it without that word"));
            }
        }
    }
    found
}

fn names(file: &File) -> Vec<String> {
    let File { path, text } = file;
    let mut found = Vec::new();
    let mut is_test = false;
    for (line, at) in text.lines().zip(1..) {
        let line = line.trim();
        is_test |= line == "#[test]";
        let function =
            ["pub ", "async "].iter().fold(line, |line, word| line.trim_start_matches(word));
        let Some(name) = function.strip_prefix("fn ").and_then(|rest| rest.split('(').next())
        else {
            continue;
        };
        if !std::mem::take(&mut is_test) {
            continue;
        }
        let mut words = name.split('_').peekable();
        // A finding's number comes before the subject.
        if words.next_if(|word| word.starts_with("finding") || *word == "report").is_some() {
            words.next_if(|word| word.contains(|c: char| c.is_ascii_digit()));
        }
        if words.next().is_none_or(|word| NO_SUBJECTS.contains(&word)) {
            found.push(format!("{path}:{at}: {name}: a test's name begins with its subject"));
        }
        let length = name.len();
        if length > NAME_MAX {
            found.push(format!("{path}:{at}: {name}: {length} characters; {NAME_MAX} fit"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let file = File { path: "a.rs".into(), text: text.into() };
        complaints(&[file]).into_iter().map(|line| line.replace("a.rs:", "")).collect()
    }

    #[test]
    fn comments_and_names_without_a_subject_are_found() {
        let text =
            "/// Size of it.\n/// What is left.\n\n    // Whose it is.\n//! Reads `who.rs`.\n";
        assert_eq!(of(text), ["4: begins with \"Whose\": begin with the subject"]);
        let found = of("// A guest who is built anew.\n");
        assert_eq!(found.len(), 2, "{found:?}");
        let long = "a".repeat(61);
        let text = format!(
            "#[test]\nfn what_is_it() {{}}\nfn what_helps() {{}}\n#[test]\n#[should_panic]\n\
             fn finding_02_it_is() {{}}\n#[test]\nfn guest_is() {{}}\n#[test]\nfn {long}() {{}}\n"
        );
        let lines: Vec<String> =
            of(&text).iter().map(|line| line.chars().take(2).collect()).collect();
        assert_eq!(lines, ["2:", "6:", "10"]);
    }
}
