//! Line breaks between words and between fields.

use base::{columns, plain};

const TEXT_MAX: usize = 2_000;
/// Indentation of a line's fields, behind its label.
pub(super) const LABEL: usize = 9;

/// Breaks a text into lines between words.
pub(super) fn wrapped(text: &str, indent: usize, width: usize) -> Vec<String> {
    let text = plain(text, TEXT_MAX);
    indented(text.split_whitespace(), " ", indent, width)
}

/// Breaks a line with a label between its fields, which have two blanks or more between them.
pub(super) fn flowed(line: String, width: usize) -> Vec<String> {
    let body = line.get(LABEL..).filter(|_| columns(&line) > width);
    let Some(body) = body else { return vec![line] };
    let fields = body.split("  ").map(str::trim).filter(|field| !field.is_empty());
    let mut lines = indented(fields, "   ", LABEL, width);
    if let Some(first) = lines.first_mut() {
        first.replace_range(..LABEL, &line[..LABEL]);
    }
    lines
}

fn indented<'a>(
    parts: impl Iterator<Item = &'a str>,
    gap: &str,
    indent: usize,
    width: usize,
) -> Vec<String> {
    let room = width.saturating_sub(indent).max(1);
    let lines = base::flowed(parts, gap, [room; 2]);
    lines.into_iter().map(|line| format!("{:indent$}{line}", "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_between_words_and_fields_only() {
        assert_eq!(wrapped("网页 网页", 0, 8), ["网页", "网页"]);
        let line = "CPU      5 %   of 4 CPUs   wakes 440 /s";
        assert_eq!(flowed(line.to_owned(), 39), [line]);
        let lines = ["CPU      5 %   of 4 CPUs", "         wakes 440 /s"];
        assert_eq!(flowed(line.to_owned(), 25), lines);
        assert_eq!(flowed("网页网页".to_owned(), 2), ["网页网页"], "no label, no field");
    }
}
