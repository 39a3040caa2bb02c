//! How long a text in a store may be. Names and reasons come from guests and from files, and a
//! row that they could make as long as they like would fill the disk. Rows that are
//! read have an order, for a file of somebody else's may give the same row without an end.

use crate::Error;
use rusqlite::Row;

/// Bytes of a guest's name, its class, a clause, a kind. No guest is named by more in a request.
pub const NAME_MAX: usize = 255;
/// Bytes of a sentence: a reason, what an event says.
pub const SENTENCE_MAX: usize = 512;
/// Names of bounds in a decision; the arbiter has fewer than ten.
pub const BOUNDS_MAX: usize = 16;
/// Bytes of all of them, with the commas between.
pub const BOUNDS_TEXT_MAX: usize = BOUNDS_MAX * (NAME_MAX + 1);
/// Inputs of a decision; the arbiter has about twenty.
pub const INPUTS_MAX: usize = 64;
/// Bytes of an input's name.
pub const INPUT_NAME_MAX: usize = 48;
/// Bytes of the inputs' text that are read back: more than `INPUTS_MAX` inputs can have.
pub const INPUTS_TEXT_MAX: usize = 8192;

/// The text, cut at the end of a character to at most so many bytes.
pub fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// A text of a row, cut to the length that is written: others may have written to the file.
pub fn text(row: &Row<'_>, column: usize, max: usize) -> rusqlite::Result<String> {
    let text = row.get_ref(column)?.as_str()?;
    Ok(cut(text, max).to_owned())
}

/// The order of rows. In a file of ours each row has another number than those before it. In one
/// that was made for an attack, two ways may lead to one page, and rows never end.
#[derive(Debug)]
pub struct Order<K> {
    table: &'static str,
    last: Option<K>,
}

impl<K: PartialOrd> Order<K> {
    /// Begins with the first row of a table.
    pub fn of(table: &'static str) -> Order<K> {
        Order { table, last: None }
    }

    /// Takes the next row, which must be behind the last one.
    pub fn next(&mut self, key: K, id: i64) -> Result<(), Error> {
        if self.last.as_ref().is_some_and(|last| *last >= key) {
            let reason = "it is there twice, or out of order: the file is damaged".into();
            return Err(Error::Row { table: self.table, id, reason });
        }
        self.last = Some(key);
        Ok(())
    }
}

/// A size or a count as SQLite holds it. What is beyond its range is beyond any machine's.
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
