//! Bounds on texts and rows in a store. Names and reasons come from guests and from files. Without
//! a bound these texts could fill the disk. Rows must be in order, because a hostile file could
//! return the same row forever.

use crate::Error;
use crate::error::cannot;
use rusqlite::{Connection, Params, Row};

/// Maximum length in bytes of a guest's name, a class, a clause or a kind. Names in requests have
/// the same limit.
pub const NAME_MAX: usize = 255;
/// Maximum length in bytes of a reason or of an event's text.
pub const SENTENCE_MAX: usize = 512;
/// Maximum number of bounds in a decision. The arbiter sets fewer than ten.
pub const BOUNDS_MAX: usize = 16;
/// Maximum length in bytes of a decision's bounds, joined by commas.
pub const BOUNDS_TEXT_MAX: usize = BOUNDS_MAX * (NAME_MAX + 1);
/// Maximum number of inputs of a decision. The arbiter uses about twenty.
pub const INPUTS_MAX: usize = 64;
/// Maximum length in bytes of an input's name.
pub const INPUT_NAME_MAX: usize = 48;
/// Maximum length in bytes of the text of a decision's inputs. The text of `INPUTS_MAX` inputs is
/// shorter.
pub const INPUTS_TEXT_MAX: usize = 8192;

/// Returns the text, cut at a character boundary to at most `max` bytes.
pub fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Reads a text column of a row, and cuts the text to `max` bytes. Another program may have written
/// the file, with longer texts.
pub fn text(row: &Row<'_>, column: usize, max: usize) -> rusqlite::Result<String> {
    let text = row.get_ref(column)?.as_str()?;
    Ok(cut(text, max).to_owned())
}

/// Check that each row has a higher key than the row before. In a hostile file two pointers may
/// lead to the same page, so the rows never end.
#[derive(Debug)]
pub struct Order<K> {
    table: &'static str,
    last: Option<K>,
}

impl<K: PartialOrd> Order<K> {
    /// Creates the check for a table.
    pub fn of(table: &'static str) -> Order<K> {
        Order { table, last: None }
    }

    /// Checks the key of the next row.
    pub fn next(&mut self, key: K, id: i64) -> Result<(), Error> {
        if self.last.as_ref().is_some_and(|last| *last >= key) {
            let reason = "it occurs twice, or in the wrong order: the file is damaged".into();
            return Err(Error::Row { table: self.table, id, reason });
        }
        self.last = Some(key);
        Ok(())
    }
}

/// Reads the rows of a query. `read` returns the value of a row, with the row's key for the order
/// and its number for an error.
pub fn in_order<K: PartialOrd, T>(
    connection: &Connection,
    (table, action): (&'static str, &'static str),
    text: &str,
    values: impl Params,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<(K, i64, T)>,
) -> Result<Vec<T>, Error> {
    let failed = cannot(action);
    let mut statement = connection.prepare_cached(text).map_err(&failed)?;
    let mut rows = statement.query(values).map_err(&failed)?;
    let mut order = Order::of(table);
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(&failed)? {
        let (key, id, value) = read(row).map_err(&failed)?;
        order.next(key, id)?;
        found.push(value);
    }
    Ok(found)
}

/// Converts a size or a count to SQLite's integer. Values too large for the integer, which no
/// machine has, are clamped.
pub fn to_integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("", 0), "");
    }
}
