//! Untrusted text, made safe for a terminal.

use crate::Error;
use base::{is_plain, plain, plain_json};
use serde::Serialize;
use std::io::{self, Write};

/// Formats an answer as JSON, with its line end.
pub fn json<T: Serialize + ?Sized>(answer: &T) -> Result<String, Error> {
    serde_json::to_string_pretty(answer)
        .map(|text| plain_json(&text) + "\n")
        .map_err(|error| Error::step("The answer cannot be written as JSON", error))
}

/// Maximum length of an untrusted line, in characters. Longer lines are truncated.
pub const LINE_MAX: usize = 400;

/// Makes a text with untrusted names safe for a terminal, line by line.
pub fn plain_lines(text: &str) -> String {
    text.lines().map(|line| plain(line, LINE_MAX) + "\n").collect()
}

/// A writer that passes untrusted lines to a terminal as they arrive. Line ends and tabs stay. All
/// other control characters are replaced.
#[derive(Debug)]
pub struct Lines<W: Write> {
    out: W,
    /// First bytes of a character that is still incomplete.
    held: Vec<u8>,
}

impl<W: Write> Lines<W> {
    /// Creates a writer to `out`.
    pub fn new(out: W) -> Lines<W> {
        Lines { out, held: Vec::new() }
    }

    /// Writes the remaining bytes.
    pub fn finish(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.held);
        self.show(&String::from_utf8_lossy(&rest))?;
        self.out.flush()
    }

    fn show(&mut self, text: &str) -> io::Result<()> {
        let text = text.chars().filter(|c| *c != '\r');
        let shown: String = text
            .map(|c| if is_plain(c) || c == '\n' || c == '\t' { c } else { '\u{fffd}' })
            .collect();
        self.out.write_all(shown.as_bytes())
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.held) {
            Ok(_) => self.held.len(),
            // Only an incomplete character at the end is kept, because further bytes could complete
            // it.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.held.len(),
        };
        let ready: Vec<u8> = self.held.drain(..whole).collect();
        self.show(&String::from_utf8_lossy(&ready))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_ends_and_split_characters_are_joined() {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out);
        for byte in "Grüße\r\n\t\x1b[2J\u{202e}x".bytes() {
            lines.write_all(&[byte]).unwrap();
        }
        lines.write_all(&[0xff, b'a', 0xc3]).unwrap();
        lines.finish().unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Grüße\n\t\u{fffd}[2J\u{fffd}x\u{fffd}a\u{fffd}"
        );
    }
}
