//! The positions of the requested lines in a table.
//!
//! A kernel prints the lines of /proc/meminfo and /proc/vmstat in an order that never changes while
//! it runs. The line number of each wanted name is therefore determined once. Later readings skip
//! to these lines and only verify the names. If a name differs, the whole file is scanned again.

use crate::parse::lines;
use crate::parse::table::{Style, skip_lines, value};

/// Bytes by which numbers may grow until the next reading without a second system call.
const ASK_SLACK_BYTES: usize = 192;

/// The line number of a name that was not found yet.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug)]
struct Want {
    name: Box<str>,
    slot: usize,
    /// Counted from 0.
    line: u32,
}

/// The wanted lines of one file.
#[derive(Debug)]
pub(crate) struct Table {
    style: Style,
    /// The wanted names, in the order of their lines as soon as the lines are known.
    wants: Vec<Want>,
    /// Length of the wanted lines in bytes, with some slack. The kernel formats only the requested
    /// part of /proc/vmstat.
    ask: usize,
}

/// A wanted name that a text lacks, or that has no number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// No line has the name of the counter in this slot.
    Name(usize),
    /// The line (from 1) has no number.
    Value(usize),
}

impl Table {
    pub(crate) fn new(style: Style) -> Table {
        Table { style, wants: Vec::new(), ask: usize::MAX }
    }

    pub(crate) fn want(&mut self, name: &str, slot: usize) {
        self.wants.push(Want { name: name.into(), slot, line: UNKNOWN });
    }

    /// Returns the number of bytes to request at first.
    pub(crate) fn ask(&self) -> usize {
        self.ask
    }

    /// Fills the row from the names' known lines. Returns `false` if a name is not in its line, or
    /// `bytes` end too early. The row is then invalid.
    pub(crate) fn fill(&self, bytes: &[u8], at_end: bool, row: &mut [f64]) -> bool {
        let mut at = 0;
        let mut line = 0;
        for want in &self.wants {
            if want.line == UNKNOWN {
                return false;
            }
            let number = skip_lines(bytes, at, want.line - line).and_then(|start| {
                at = start;
                line = want.line;
                value(self.style.after(&bytes[at..], &want.name)?, at_end)
            });
            match number {
                Some(number) => row[want.slot] = number as f64,
                None => return false,
            }
        }
        true
    }

    /// Finds each wanted name in the text of the whole file, and fills the row.
    pub(crate) fn learn(&mut self, text: &[u8], row: &mut [f64]) -> Result<(), Lack> {
        let result = self.scan(text, row);
        if result.is_err() {
            // Positions learned from a part of the text are invalid.
            self.forget();
        }
        result
    }

    fn scan(&mut self, text: &[u8], row: &mut [f64]) -> Result<(), Lack> {
        self.forget();
        let mut bytes = 0;
        let mut last_wanted = 0;
        for (number, line) in lines(text).enumerate() {
            bytes += line.len() + 1;
            // If a name occurs twice, its first line counts.
            for want in self.wants.iter_mut().filter(|want| want.line == UNKNOWN) {
                let Some(rest) = self.style.after(line, &want.name) else { continue };
                row[want.slot] = value(rest, true).ok_or(Lack::Value(number + 1))? as f64;
                // The text is at most MAX_FILE_BYTES long, so the number of its lines fits.
                want.line = number as u32;
                last_wanted = bytes;
            }
        }
        if let Some(missing) = self.wants.iter().find(|want| want.line == UNKNOWN) {
            return Err(Lack::Name(missing.slot));
        }
        self.wants.sort_unstable_by_key(|want| want.line);
        self.ask = last_wanted + ASK_SLACK_BYTES;
        Ok(())
    }

    fn forget(&mut self) {
        self.ask = usize::MAX;
        for want in &mut self.wants {
            want.line = UNKNOWN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"pgpgin 12\npgpgout 7\npswpin 0\nlast 44\n";

    fn table(names: &[&str]) -> Table {
        let mut table = Table::new(Style::Blank);
        for (slot, name) in names.iter().enumerate() {
            table.want(name, slot);
        }
        table
    }

    #[test]
    fn lines_are_found_once_and_then_known() {
        // Names out of the file's order, and one name twice.
        let mut table = table(&["last", "pgpgin", "pswpin", "pgpgin"]);
        let mut row = [f64::NAN; 4];
        assert!(!table.fill(TEXT, true, &mut row), "nothing is learned yet");
        assert_eq!(table.learn(TEXT, &mut row), Ok(()));
        assert_eq!(row, [44.0, 12.0, 0.0, 12.0]);
        let later = b"pgpgin 1300\npgpgout 7\npswpin 5\nlast 45\n";
        assert!(table.fill(later, false, &mut row));
        assert_eq!(row, [45.0, 1300.0, 5.0, 1300.0]);
    }

    #[test]
    fn a_line_that_moved_is_not_mistaken_for_another() {
        let mut table = table(&["pgpgin", "last"]);
        let mut row = [f64::NAN; 2];
        table.learn(TEXT, &mut row).unwrap();
        let moved = b"nr_new 1\npgpgin 13\nlast 46\n";
        assert!(!table.fill(moved, true, &mut row));
        assert_eq!(table.learn(moved, &mut row), Ok(()));
        assert_eq!(row, [13.0, 46.0]);
        assert!(table.fill(moved, true, &mut row));
    }

    #[test]
    fn bytes_that_end_too_early_fill_nothing() {
        let mut table = table(&["pgpgin", "last"]);
        let mut row = [f64::NAN; 2];
        table.learn(TEXT, &mut row).unwrap();
        for cut in 0..TEXT.len() {
            assert!(!table.fill(&TEXT[..cut], false, &mut row), "cut at {cut}");
        }
        assert!(table.fill(TEXT, false, &mut row));
        assert!(table.fill(&TEXT[..TEXT.len() - 1], true, &mut row), "no last newline");
    }

    #[test]
    fn missing_name_is_reported_and_positions_are_dropped() {
        let mut table = table(&["pgpgin", "nowhere"]);
        let mut row = [f64::NAN; 2];
        assert_eq!(table.learn(TEXT, &mut row), Err(Lack::Name(1)));
        assert!(!table.fill(TEXT, true, &mut row));
        assert_eq!(table.learn(b"nowhere 1\npgpgin x\n", &mut row), Err(Lack::Value(2)));
        assert_eq!(table.learn(b"nowhere 1\npgpgin 2", &mut row), Ok(()));
        assert_eq!(row, [2.0, 1.0]);
    }

    #[test]
    fn no_more_is_asked_for_than_the_wanted_lines_take() {
        let mut table = table(&["pgpgout"]);
        assert_eq!(table.ask(), usize::MAX);
        table.learn(TEXT, &mut [0.0]).unwrap();
        assert_eq!(table.ask(), "pgpgin 12\npgpgout 7\n".len() + ASK_SLACK_BYTES);
    }
}
