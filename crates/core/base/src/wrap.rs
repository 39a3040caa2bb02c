//! Text broken into lines between words.

use crate::columns;

/// Breaks each line longer than `width` between words. If two blanks divide a line into columns,
/// the continuation begins below the second column. The continuation of any other line is indented
/// by `hang` more than the line itself. A word longer than a line stays whole.
pub fn wrapped(text: &str, width: usize, hang: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if columns(line) <= width {
            out.push_str(line);
        } else {
            let (start, indent) = indent_of(line, width, hang);
            let (before, text) = line.split_at(start);
            let rooms = [columns(before), indent].map(|taken| width.saturating_sub(taken));
            out.push_str(before);
            out.push_str(&broken(text, rooms).join(&format!("\n{:indent$}", "")));
        }
        out.push_str(end);
    }
    out
}

/// Returns the byte where a line's text begins, and the indent of further lines. No indent takes
/// more than half of the width.
fn indent_of(line: &str, width: usize, hang: usize) -> (usize, usize) {
    let blanks = |text: &str| text.len() - text.trim_start_matches(' ').len();
    let leading = blanks(line);
    let gap = line[leading..].find("  ").map(|at| leading + at);
    if let Some(start) = gap.map(|at| at + blanks(&line[at..])) {
        let indent = columns(&line[..start]);
        if indent <= width / 2 {
            return (start, indent);
        }
    }
    (leading.min(width / 2), (leading + hang).min(width / 2))
}

/// Breaks a text between words into lines. `rooms` has the width of the first line and the width of
/// each further line.
pub fn broken(text: &str, rooms: [usize; 2]) -> Vec<String> {
    flowed(text.split_whitespace(), " ", rooms)
}

/// Breaks a text between its parts into lines. `rooms` has the width of the first line and the
/// width of each further line. The parts in a line are separated by `gap`. A part longer than a
/// line stays whole.
pub fn flowed<'a>(
    parts: impl Iterator<Item = &'a str>,
    gap: &str,
    [first, others]: [usize; 2],
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut taken = 0;
    for part in parts {
        let room = if lines.len() <= 1 { first } else { others };
        let length = columns(part);
        match lines.last_mut() {
            Some(line) if taken + gap.len() + length <= room => {
                line.push_str(gap);
                line.push_str(part);
                taken += gap.len() + length;
            }
            _ => {
                lines.push(part.to_owned());
                taken = length;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "The host lacks memory\n  the guest keeps its cache\n\nshort\n";
        let lines = "The host\n lacks\n memory\n  the guest\n   keeps its\n   cache\n\nshort\n";
        assert_eq!(wrapped(text, 12, 1), lines);
        assert_eq!(wrapped(text, 80, 1), text);
        assert_eq!(wrapped("no end", 3, 0), "no\nend");
    }

    #[test]
    fn second_column_continues_below_itself() {
        let text = "  -n, --number <N>  Number of guests, from 1 on";
        let lines = "  -n, --number <N>  Number of guests,\n                    from 1 on";
        assert_eq!(wrapped(text, 40, 2), lines);
        // With little room, the columns no longer stand beside each other.
        assert_eq!(
            wrapped("  --a-long-option <N>  of it", 22, 2),
            "  --a-long-option <N>\n    of it"
        );
    }

    #[test]
    fn long_words_and_wide_letters_stay_whole() {
        assert_eq!(
            wrapped("see /run/user/1000/pinhead/up now", 10, 0),
            "see\n/run/user/1000/pinhead/up\nnow"
        );
        assert_eq!(wrapped("网页 网页 网", 9, 0), "网页 网页\n网");
    }
}
