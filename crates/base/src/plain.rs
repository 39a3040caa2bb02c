//! Text from outside, made safe for a terminal, a table and a page.

use crate::columns;

/// Whether a terminal shows a character and does nothing else with it. Control characters move
/// cursors; the format characters of Unicode turn the direction of writing and hide text.
pub fn is_plain(c: char) -> bool {
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

/// The text with everything that a terminal would obey replaced, clipped to `width` columns.
/// Characters that take no column count as well: it has no more than `width`. Guests choose names
/// and reasons; none of them may move a cursor.
pub fn plain(text: &str, width: usize) -> String {
    let cleaned = |c| if is_plain(c) { c } else { '\u{fffd}' };
    // One character more than is shown tells whether there is more.
    let cleaned: String = text.chars().take(width.saturating_add(1)).map(cleaned).collect();
    clip(&cleaned, width)
}

/// JSON for a terminal. JSON itself escapes only some of what a terminal obeys; the rest can only
/// stand in its strings, where it is escaped in the same way.
pub fn plain_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || is_plain(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// The text, clipped to `width` columns and characters with a mark that it was.
pub fn clip(text: &str, width: usize) -> String {
    let (mut used, mut kept) = (0, 0);
    for (count, (at, c)) in text.char_indices().enumerate() {
        used += columns::of(c);
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

#[cfg(test)]
mod tests {
    use super::*;

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
