//! Names from outside, made safe for a terminal, a table of values and a page.

/// More of a name is not shown: guests choose names, and no name makes a report unreadable.
const NAME_MAX: usize = 64;

/// The text without what a terminal obeys, cut to a length that any report can show.
pub(crate) fn plain(text: &str) -> String {
    let cleaned = |c: char| if is_plain(c) { c } else { '\u{fffd}' };
    let mut out: String = text.chars().take(NAME_MAX + 1).map(cleaned).collect();
    if out.chars().count() > NAME_MAX {
        out = cut(&out, NAME_MAX);
    }
    out
}

/// The text, cut to `width` characters with a mark that it was.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Control characters move cursors; the format characters of Unicode turn the direction of
/// writing and hide text.
fn is_plain(c: char) -> bool {
    let hides = matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    );
    !c.is_control() && !hides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_moves_a_cursor_or_fills_a_screen() {
        assert_eq!(plain("a\x1b[2J\u{202e}b"), "a\u{fffd}[2J\u{fffd}b");
        assert_eq!(plain(&"x".repeat(1000)).chars().count(), NAME_MAX);
        assert_eq!(plain("Grüße"), "Grüße");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
