//! Password prompt and password file.

use crate::error::Error;
use ::web::write_password;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::Path;

/// The byte that Ctrl-C sends.
const INTERRUPT: u8 = 3;
/// Longest password, in bytes.
const PASSWORD_MAX: u64 = 1_024;

/// Reads a password twice from a terminal without showing it, and writes the password file.
pub fn ask(path: &Path) -> Result<(), Error> {
    let stdin = std::io::stdin();
    let unread = |source| Error::Unread(source);
    let password = if stdin.is_terminal() {
        let first = unseen("Password: ").map_err(unread)?;
        if unseen("Again: ").map_err(unread)? != first {
            return Err(Error::Mismatch);
        }
        first
    } else {
        line(b"\n").map_err(unread)?
    };
    write_password(path, &password)?;
    println!("The password is now set in {}", path.display());
    Ok(())
}

/// Reads a typed line up to one of the bytes `ends`, and returns the line without this byte.
fn line(ends: &[u8]) -> io::Result<String> {
    let mut input = io::stdin().lock().take(PASSWORD_MAX + 1);
    let mut line = Vec::new();
    loop {
        let bytes = input.fill_buf()?;
        let end = bytes.iter().position(|byte| ends.contains(byte));
        let taken = end.map_or(bytes.len(), |at| at + 1);
        line.extend(&bytes[..taken]);
        input.consume(taken);
        if end.is_some() || taken == 0 {
            break;
        }
    }
    let line =
        String::from_utf8(line).map_err(|_| io::Error::other("the password is not valid UTF-8"))?;
    let line = line.trim_end_matches(['\n', '\r']);
    if line.len() as u64 >= PASSWORD_MAX {
        let message = format!("the password has more than {} bytes", PASSWORD_MAX - 1);
        return Err(io::Error::other(message));
    }
    Ok(line.to_owned())
}

/// Prompts for a line at a terminal, which does not show the typed text.
fn unseen(question: &str) -> io::Result<String> {
    let stdin = io::stdin();
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes -= LocalModes::ECHO;
    hidden.local_modes |= LocalModes::ECHONL;
    // Ctrl-C only ends the line. If Ctrl-C ended the process, the terminal's settings would stay
    // changed.
    hidden.local_modes -= LocalModes::ISIG;
    hidden.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
    let mut err = io::stderr();
    write!(err, "{question}")?;
    err.flush()?;
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let read = line(&[b'\n', INTERRUPT]);
    tcsetattr(&stdin, OptionalActions::Flush, &shown)?;
    match read {
        Ok(text) if text.ends_with(char::from(INTERRUPT)) => {
            Err(io::Error::new(io::ErrorKind::Interrupted, "Ctrl-C was pressed"))
        }
        read => read,
    }
}
