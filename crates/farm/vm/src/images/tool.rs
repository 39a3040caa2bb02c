//! External programs, which are run to their end. The error of a failed program contains its
//! messages.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::images::{Error, sys};

/// Maximum number of bytes of a tool's output in an error message.
const STDERR_BYTES_MAX: usize = 2000;

/// Output of a tool that succeeded.
pub struct Output {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// End of the standard error.
    pub stderr: String,
}

/// Runs a tool to its end. `hint` names the package to install if the tool is missing.
pub fn run(command: &mut Command, hint: &str) -> Result<Output, Error> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| not_started(command.get_program(), hint, source))?;
    let stderr = last_part(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let command = command_line(command);
        return Err(Error::ToolFailed { command, status: output.status, stderr });
    }
    Ok(Output { stdout: output.stdout, stderr })
}

/// Runs a tool like [`run`], and passes on each line of its standard error as it arrives. Lines for
/// which `follow` returns true are progress, and are left out of an error's message. The tool's
/// standard output is discarded. The tool does not outlive this process.
pub(crate) fn run_and_follow(
    command: &mut Command,
    hint: &str,
    follow: &mut dyn FnMut(&str) -> bool,
) -> Result<(), Error> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // The tool is bound to this thread, which stays in this function until the tool has ended.
    sys::bind_child(command, Vec::new());
    let mut child =
        command.spawn().map_err(|source| not_started(command.get_program(), hint, source))?;
    let mut stderr_end = String::new();
    if let Some(stderr) = child.stderr.take() {
        // A line may be endless, so a limited part is read at a time.
        let mut reader = BufReader::new(stderr);
        let mut line = Vec::new();
        let limit = STDERR_BYTES_MAX as u64;
        while let Ok(1..) = reader.by_ref().take(limit).read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line);
            if !follow(text.trim_end()) {
                stderr_end = last_part(&(stderr_end + &text));
            }
            line.clear();
        }
    }
    let status = child.wait().map_err(|source| not_started(command.get_program(), hint, source))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::ToolFailed { command: command_line(command), status, stderr: stderr_end })
}

/// Returns the error for a program that cannot be run. `hint` names the package to install.
pub fn not_started(program: &OsStr, hint: &str, source: io::Error) -> Error {
    let program = program.to_string_lossy().into_owned();
    match source.kind() {
        io::ErrorKind::NotFound => Error::ToolMissing { tool: program, hint: hint.to_owned() },
        _ => Error::Spawn { program, source },
    }
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Returns the end of a text, because tools write the reason for a failure last.
pub(crate) fn last_part(text: &str) -> String {
    let cut = text.len().saturating_sub(STDERR_BYTES_MAX);
    let start = (cut..=text.len()).find(|&index| text.is_char_boundary(index)).unwrap_or(0);
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_followed_and_its_failure_has_its_last_words() {
        let mut lines = Vec::new();
        let mut follow = |line: &str| {
            lines.push(line.to_owned());
            line == "progress"
        };
        let script = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            command
        };
        run_and_follow(&mut script("echo one >&2; echo two >&2"), "", &mut follow).unwrap();
        assert_eq!(lines, ["one", "two"]);
        let mut broken = script("echo progress >&2; echo broken >&2; exit 3");
        let error = run_and_follow(&mut broken, "", &mut |line| line == "progress").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("broken") && !error.ends_with("progress\nbroken"), "{error}");
        let error = run_and_follow(&mut Command::new("no-such-tool"), "get it", &mut |_| false);
        assert!(matches!(error, Err(Error::ToolMissing { hint, .. }) if hint == "get it"));
    }

    #[test]
    fn long_texts_keep_their_end() {
        let text = format!("{}é the reason", "é".repeat(3000));
        let part = last_part(&text);
        assert!(part.len() <= STDERR_BYTES_MAX && part.ends_with("the reason"));
        assert_eq!(last_part("short"), "short");
    }
}
