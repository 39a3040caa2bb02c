//! Messages to whoever watches a process that goes on without them.

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
