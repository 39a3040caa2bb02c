//! Columns of a terminal: letters of Chinese, Japanese and Korean and most emoji take two.

use crate::is_plain;
use unicode_width::UnicodeWidthChar;

/// The columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(of).sum()
}

/// The text with blanks behind it, up to this number of columns.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(columns(text)))
}

/// The text with everything that a terminal would obey replaced, clipped to `width` columns.
/// Characters that take no column count as well: it has no more than `width`. Guests choose names
/// and reasons; none of them may move a cursor.
pub fn plain(text: &str, width: usize) -> String {
    let cleaned = |c| if is_plain(c) { c } else { '\u{fffd}' };
    // One character more than is shown tells whether there is more.
    let cleaned: String = text.chars().take(width.saturating_add(1)).map(cleaned).collect();
    clip(&cleaned, width)
}

/// The text, clipped to `width` columns and characters with a mark that it was.
pub fn clip(text: &str, width: usize) -> String {
    let (mut used, mut kept) = (0, 0);
    for (count, (at, c)) in text.char_indices().enumerate() {
        used += of(c);
        if count >= width || used > width {
            return format!("{}…", text.get(..kept).unwrap_or_default());
        }
        // The mark takes a column.
        if count + 1 < width && used < width {
            kept = at + c.len_utf8();
        }
    }
    text.to_owned()
}

/// The columns of one character. One that is set on the letter before takes none.
pub(crate) fn of(c: char) -> usize {
    c.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_take_two_columns() {
        for (text, width) in [("web1", 4), ("Grüße", 5), ("网页1", 5), ("🦀", 2), ("e\u{301}", 1)]
        {
            assert_eq!(columns(text), width, "{text}");
            assert_eq!(columns(&padded(text, 8)), 8, "{text}");
        }
        assert_eq!(padded("网页", 3), "网页");
    }

    #[test]
    fn what_fits_is_not_clipped() {
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
        assert_eq!(piled.chars().count(), 64, "letters without columns are bounded too");
    }
}
