//! Messages from a process that goes on without a reader, and parts of an answer on the way.

use crate::Error;
use std::io::Write;

/// Longest message, in characters.
const WIDTH: usize = 600;

/// Writes a line to standard error. The standard library's macros panic if standard error is a pipe
/// without a reader, a terminal that is gone or a full disk; the guests of a farm end with its
/// process.
pub(crate) fn tell(by: &str, text: &str) {
    // The line is written in one piece, so that no other process writes into it.
    let line = format!("{by}: {}\n", base::plain(text, WIDTH));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Writes a part of the answer to standard output at once, while more is to come.
pub(crate) fn say(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout();
    let said = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    said.map_err(|error| Error::step("Cannot write the answer", error))
}
