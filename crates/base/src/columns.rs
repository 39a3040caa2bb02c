//! Columns of a terminal: letters of Chinese, Japanese and Korean and most emoji take two.

use unicode_width::UnicodeWidthChar;

/// The columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(of).sum()
}

/// The text with blanks behind it, up to this number of columns.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(columns(text)))
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
}
