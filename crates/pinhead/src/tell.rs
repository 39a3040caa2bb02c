//! Messages of a process that continues even if nobody reads them, early parts of an answer, and
//! the program's name in both.

use crate::Error;
use crate::terminal::complain;
use std::io::{ErrorKind, Write};

const WIDTH: usize = 600;

/// Writes a line to standard error. The standard library's macros panic if standard error is a pipe
/// without a reader, a lost terminal or a full disk. A panic would end the process, and with it the
/// guests of a farm.
pub(crate) fn tell(by: &str, text: &str) {
    complain(&format!("{by}: {}", base::plain(text, WIDTH)));
}

/// Writes a part of the answer to standard output immediately, before the rest is known.
pub(crate) fn say(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout();
    let said = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    said.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Error::NoReader,
        _ => Error::step("Cannot write the answer", error),
    })
}

/// Returns the name under which this program was started, for commands that the user can repeat.
pub(crate) fn own_name() -> String {
    let name = std::env::args().next().filter(|name| name.contains('/'));
    name.map_or_else(|| "pinhead".to_owned(), |name| base::plain(&name, 200))
}
