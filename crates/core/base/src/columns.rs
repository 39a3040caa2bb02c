//! Columns of a terminal: Chinese, Japanese and Korean letters and most emoji take two columns
//! each.

use crate::is_plain;
use unicode_width::UnicodeWidthStr;

/// Returns the number of columns of a text. Several characters that a terminal shows as one
/// character are counted together.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Returns the text padded with blanks up to this number of columns.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(columns(text)))
}

/// Returns the text without control characters for a terminal, clipped to `width` columns. Some
/// characters take no column, so the result also has at most two characters for each column. Guests
/// choose names and reasons, and must not be able to move a cursor.
pub fn plain(text: &str, width: usize) -> String {
    let cleaned = |c| if is_plain(c) { c } else { '\u{fffd}' };
    // One character more than `clip` may keep, so that `clip` notices a longer text.
    let most = chars_max(width).saturating_add(1);
    let cleaned: String = text.chars().take(most).map(cleaned).collect();
    clip(&cleaned, width)
}

/// Clips a text to `width` columns and to two characters for each column. A clipped text ends with
/// a mark.
pub fn clip(text: &str, width: usize) -> String {
    let most = chars_max(width);
    let is_short = text.chars().nth(most).is_none();
    if is_short && columns(text) <= width {
        return text.to_owned();
    }
    // The mark takes a column and a character.
    let mut kept: String = text.chars().take(most.saturating_sub(1)).collect();
    while columns(&kept) >= width && kept.pop().is_some() {}
    kept + "…"
}

/// Returns the maximum number of characters in `width` columns. In real text, a letter has at most
/// one combining accent on average.
fn chars_max(width: usize) -> usize {
    width.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_take_two_columns() {
        for (text, width) in [
            ("web1", 4),
            ("Grüße", 5),
            ("网页1", 5),
            ("🦀", 2),
            ("e\u{301}", 1),
            ("👍\u{1f3fd}", 2),
            ("❤\u{fe0f}", 2),
        ] {
            assert_eq!(columns(text), width, "{text}");
            assert_eq!(columns(&padded(text, 8)), 8, "{text}");
        }
        assert_eq!(padded("网页", 3), "网页");
    }

    #[test]
    fn accents_of_their_own_take_no_columns_from_a_text() {
        let accents = "e\u{301}".repeat(8);
        assert_eq!([plain(&accents, 8), clip(&accents, 8)], [accents.clone(), accents.clone()]);
        assert_eq!(clip(&accents, 7), format!("{}…", "e\u{301}".repeat(6)));
    }

    #[test]
    fn fitting_text_is_not_clipped() {
        assert_eq!(clip("abcd", 4), "abcd");
        assert_eq!(clip("abcdef", 4), "abc…");
        assert_eq!(clip("Grüße", 5), "Grüße");
    }

    #[test]
    fn wide_letters_are_clipped_to_the_columns_that_they_take() {
        assert_eq!(clip("网页网页", 8), "网页网页");
        assert_eq!(clip("网页网页", 7), "网页网…");
        assert_eq!(clip("网页网页", 6), "网页…");
        assert_eq!(plain("网页网页", 2), "…");
        assert_eq!(clip("", 0), "");
        let piled = plain(&"\u{301}".repeat(1000), 64);
        assert_eq!(piled.chars().count(), 128, "letters without columns are bounded too");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_comes_through() {
        assert_eq!(plain("a\x1b[2Jb\u{9b}c\r\n", 80), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}");
        assert_eq!(plain("\u{202e}evil", 80), "\u{fffd}evil");
        assert_eq!(plain("a\x1b[2J\u{202e}b", 64), "a\u{fffd}[2J\u{fffd}b");
        assert_eq!(plain("so\u{ad}ft\u{61c}", 80), "so\u{fffd}ft\u{fffd}");
        assert_eq!(plain("Grüße", 80), "Grüße");
        assert_eq!(plain("long text", 5), "long…");
        assert_eq!(plain(&"x".repeat(1000), 64).chars().count(), 64);
    }
}
