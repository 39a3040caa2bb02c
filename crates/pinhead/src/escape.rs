//! Text from outside, made safe for a terminal.

/// The text with everything that a terminal would obey replaced, cut to `width`
/// characters. Guests choose names and reasons; none of them may move a cursor.
pub fn plain(text: &str, width: usize) -> String {
    let mut out: String = text.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect();
    if out.chars().count() > width {
        out = out.chars().take(width.saturating_sub(1)).collect();
        out.push('…');
    }
    out
}

/// Control characters move cursors; the format characters of Unicode turn the
/// direction of writing and hide text.
fn is_plain(c: char) -> bool {
    let hides = matches!(
        c,
        '\u{200b}'..='\u{200f}'
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
    fn nothing_that_a_terminal_obeys_comes_through() {
        assert_eq!(plain("a\x1b[2Jb\u{9b}c\r\n", 80), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}");
        assert_eq!(plain("\u{202e}evil", 80), "\u{fffd}evil");
        assert_eq!(plain("Grüße", 80), "Grüße");
        assert_eq!(plain("long text", 5), "long…");
    }
}
