//! Client of a running farm's socket.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use manager::control::{self, Answer, Ask, FarmTable};
use vm::{Deadline, Mark, OUTPUT_BYTES_MAX, Output, read_before};

use crate::Error;

/// Timeout for an answer. A farm answers within one turn of its loop, and a turn with a thousand
/// busy guests is slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a request to a farm, and returns its answer. A refusal is an error.
pub fn ask(socket: &Path, ask: &Ask) -> Result<Answer, Error> {
    ask_within(socket, ask, PATIENCE)
}

/// Does the same as [`ask`], with the given timeout.
pub fn ask_within(socket: &Path, ask: &Ask, patience: Duration) -> Result<Answer, Error> {
    Ok(open_within(socket, ask, patience)?.1)
}

/// Does the same as [`ask`], and also returns the connection, which some requests turn into a
/// stream.
pub fn open(socket: &Path, ask: &Ask) -> Result<(UnixStream, Answer), Error> {
    open_within(socket, ask, PATIENCE)
}

fn open_within(
    socket: &Path,
    ask: &Ask,
    patience: Duration,
) -> Result<(UnixStream, Answer), Error> {
    control::open(socket, ask, patience).map_err(|error| {
        let socket = socket.to_path_buf();
        let silent = |socket, reason: &str| Error::Silent { socket, reason: reason.to_owned() };
        match error {
            control::Error::Garbled { reason, .. } => Error::Version { socket, reason },
            control::Error::Refused(failure) => {
                Error::Service { socket, reason: failure.to_string() }
            }
            control::Error::NoRight { .. } => silent(socket, "belongs to another user"),
            control::Error::NoManager { .. } => silent(socket, "does not run"),
            control::Error::Closed { .. } => silent(socket, "closed the connection"),
            control::Error::NoAnswer { .. } => {
                silent(socket, "does not respond, or accepts no connections")
            }
            error => Error::Silent { socket, reason: base::chain(&error) },
        }
    })
}

/// Returns the table of a farm and its guests.
pub fn table(socket: &Path) -> Result<FarmTable, Error> {
    table_within(socket, PATIENCE)
}

/// Does the same as [`table`], with the given timeout.
pub fn table_within(socket: &Path, patience: Duration) -> Result<FarmTable, Error> {
    match ask_within(socket, &Ask::Farm, patience)? {
        Answer::Farm(table) => Ok(table),
        _ => Err(Error::other(socket)),
    }
}

/// Runs a command in a guest, and returns its exit status. Up to `output_max` bytes of output are
/// written to `output` as they arrive.
pub fn exec(
    socket: &Path,
    guest: &str,
    command: &str,
    output_max: u64,
    deadline: Deadline,
    output: &mut dyn Write,
) -> Result<i32, Error> {
    let wrong = |reason| vm::Error::Ctl { command: command.to_owned(), reason };
    let ask = Ask::Exec { guest: guest.to_owned(), command: command.to_owned() };
    let (mut stream, _) = open(socket, &ask)?;
    let mut mark = Mark::default();
    let mut chunk = [0; 16 * 1024];
    let mut output_bytes = 0;
    let waiting_for = format_args!("the end of guest command {command:?}");
    loop {
        let count = read_before(&mut stream, &mut chunk, deadline, "exec", &waiting_for)?;
        let fed = mark.feed(&chunk[..count]);
        output_bytes += fed.text.len() as u64;
        output
            .write_all(&fed.text)
            .map_err(|source| vm::Error::Channel { channel: "out", source })?;
        match fed.end {
            Some(Some(code)) => return Ok(code),
            Some(None) => return Err(wrong("the guest's answer has no exit status").into()),
            None if output_bytes > output_max => return Err(wrong("its output is too long").into()),
            None => {}
        }
    }
}

/// Runs a command in a guest, and returns its output and exit status.
pub fn run(socket: &Path, guest: &str, command: &str, deadline: Deadline) -> Result<Output, Error> {
    let mut output = Vec::new();
    let code = exec(socket, guest, command, OUTPUT_BYTES_MAX as u64, deadline, &mut output)?;
    Ok(Output { code, text: String::from_utf8_lossy(&output).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn finding_06_full_queue_of_listener_does_not_block() {
        let dir = vm::Scratch::new("full").unwrap();
        let path = dir.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut kept = Vec::new();
        while let Ok(stream) = reactor::connect(&path) {
            kept.push(stream);
            assert!(kept.len() < 10_000);
        }
        let asked = ask_within(&path, &Ask::Farm, Duration::from_millis(200));
        let error = asked.unwrap_err().to_string();
        assert!(error.contains("accepts no connections"), "{error}");
    }
}
