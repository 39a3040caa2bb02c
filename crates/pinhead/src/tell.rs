//! Messages to whoever watches a process that goes on without them, and answers on the way.

use crate::Error;
use std::io::Write;

/// The longest message.
const WIDTH: usize = 600;

/// Writes a line to standard error. The macros of the standard library panic where that is a pipe
/// without a reader, a terminal that is gone or a full disk, and with a farm's process end its
/// guests.
pub(crate) fn tell(by: &str, text: &str) {
    // In one piece, so that no other process writes into it.
    let line = format!("{by}: {}\n", base::plain(text, WIDTH));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Writes a part of the answer to standard output at once, while more is to come.
pub(crate) fn say(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout();
    let said = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    said.map_err(|error| Error::step("Cannot write the answer", error))
}
