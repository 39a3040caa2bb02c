//! Asks a farm that runs, through its socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde_json::{Value, json};
use vm::{Deadline, Mark, OUTPUT_BYTES_MAX, Output, read_before};

use super::FarmTable;
use crate::Error;

/// The longest answer: a table of all guests, or a console's last words.
const ANSWER_MAX: usize = 4 << 20;
/// What is looked at in one go.
const PEEK_BYTES: usize = 64 << 10;
/// A farm answers within a turn; one that is busy with a thousand guests takes some.
const PATIENCE: Duration = Duration::from_secs(10);

/// One question and its answer, with the connection that they came through: after some questions
/// it goes on. A refusal is an error.
pub fn ask(socket: &Path, question: &Value) -> Result<(UnixStream, Value), Error> {
    ask_within(socket, question, PATIENCE)
}

/// The same; the answer may take so long.
pub fn ask_within(
    socket: &Path,
    question: &Value,
    patience: Duration,
) -> Result<(UnixStream, Value), Error> {
    let wrong = |reason: String| Error::Service { socket: socket.to_path_buf(), reason };
    let failed = |source| vm::Error::Channel { channel: "control", source };
    let stream = match reactor::connect_within(socket, patience) {
        Err(error) if reactor::is_passing(&error) => {
            return Err(wrong("it takes nobody: too many wait to be answered".to_owned()));
        }
        stream => stream.map_err(failed)?,
    };
    if !reactor::is_own_user(&stream) {
        return Err(wrong("it belongs to another user".to_owned()));
    }
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    (&stream).write_all(format!("{question}\n").as_bytes()).map_err(failed)?;
    let line = read_line(&stream).map_err(failed)?;
    Ok((stream, answer(&line).map_err(wrong)?))
}

/// Reads a line, and nothing of what comes behind it, which would be a guest's: so it is looked at
/// before it is taken.
fn read_line(mut stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut seen = vec![0; PEEK_BYTES];
    while line.len() < ANSWER_MAX {
        let (count, _) = match recv(stream, seen.as_mut_slice(), RecvFlags::PEEK) {
            Err(Errno::INTR) => continue,
            answer => answer?,
        };
        let end = seen[..count].iter().position(|byte| *byte == b'\n');
        let count = end.map_or(count, |at| at + 1);
        stream.read_exact(&mut seen[..count])?;
        line.extend_from_slice(&seen[..count]);
        if count == 0 || end.is_some() {
            break;
        }
    }
    Ok(line)
}

/// What a farm has answered. A refusal is an error, in its words.
pub fn answer(line: &[u8]) -> Result<Value, String> {
    let value: Value =
        serde_json::from_slice(line).map_err(|error| format!("its answer is no JSON: {error}"))?;
    match value.get("error").and_then(Value::as_str) {
        Some(error) => Err(error.to_owned()),
        None => Ok(value),
    }
}

/// The table in an answer.
pub fn table(answer: Value) -> Result<FarmTable, String> {
    serde_json::from_value(answer)
        .map_err(|error| format!("its table is not as it should be: {error}"))
}

/// A farm and its guests, as it sees them.
pub fn ps(socket: &Path) -> Result<FarmTable, Error> {
    let (_, answer) = ask(socket, &json!({ "ps": true }))?;
    let wrong = |reason| Error::Service { socket: socket.to_path_buf(), reason };
    table(answer).map_err(wrong)
}

/// Runs a command in a guest, writes its output to `output` as it comes, at most `output_max`
/// bytes, and gives its exit status.
pub fn exec(
    socket: &Path,
    guest: &str,
    command: &str,
    output_max: u64,
    deadline: Deadline,
    output: &mut dyn Write,
) -> Result<i32, Error> {
    let wrong = |reason| vm::Error::Ctl { command: command.to_owned(), reason };
    let (mut stream, _) = ask(socket, &json!({ "exec": guest, "command": command }))?;
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
            None if output_bytes > output_max => return Err(wrong("it says too much").into()),
            None => {}
        }
    }
}

/// Runs a command in a guest and gives its output and its exit status.
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
    fn what_comes_behind_an_answer_is_left_for_who_goes_on() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let long = "x".repeat(2 * PEEK_BYTES);
        there.write_all(format!("{long}\nof the guest").as_bytes()).unwrap();
        assert_eq!(read_line(&here).unwrap(), format!("{long}\n").as_bytes());
        drop(there);
        // One that hangs up in the middle of a line has said no more.
        assert_eq!(read_line(&here).unwrap(), b"of the guest");
        assert_eq!(read_line(&here).unwrap(), b"");
    }

    #[test]
    fn finding_06_a_listener_with_a_full_queue_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("pinhead-full-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut kept = Vec::new();
        while let Ok(stream) = reactor::connect(&path) {
            kept.push(stream);
            assert!(kept.len() < 10_000);
        }
        let asked = ask_within(&path, &json!({ "ps": true }), Duration::from_millis(200));
        std::fs::remove_file(&path).unwrap();
        let error = asked.unwrap_err().to_string();
        assert!(error.contains("it takes nobody"), "{error}");
    }
}
