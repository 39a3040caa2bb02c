//! Standard output of the commands.

use std::io::Write;

/// Writes to standard output. If the reader closes early (`| head`), this is not an error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
