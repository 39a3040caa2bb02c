//! `pinhead console`: attaches the terminal to a guest's console.

use super::filter::{Filter, reset};
use super::{ConsoleArgs, LogsArgs, find, logs};
use crate::Error;
use farm::service;
use manager::control::Ask;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read, Stdin, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use vm::Deadline;

/// Key that detaches the terminal: Ctrl-].
const LEAVE: u8 = 0x1d;
/// Maximum number of typed bytes kept for a guest that does not read them.
const UNSENT_MAX: usize = 64 * 1024;
/// Timeout for a command in the guest. A guest that needs longer has a busy shell.
const PATIENCE: Duration = Duration::from_secs(10);

/// Command that starts a shell on the guest's console if none runs. The shell ends with `exit`. A
/// shell is only started on request, because a running shell costs an idle guest memory and
/// wake-ups.
const SHELL: &str = "p=/run/pinhead-console.pid; kill -0 $(cat $p 2>/dev/null) 2>/dev/null || { \
                     t=$(cat /sys/class/tty/console/active); t=/dev/${t##* }; setsid -c sh -c \
                     \"echo \\$\\$ > $p; stty sane; export TERM=vt100 PS1='\\$(hostname)# '; exec \
                     sh -i\" < $t > $t 2>&1 & }";

/// Attaches the terminal to a guest's console until Ctrl-], or prints the kept part of the console.
pub fn console(args: &ConsoleArgs) -> Result<String, Error> {
    if args.log {
        return logs(&LogsArgs { guest: args.guest.clone(), follow: false });
    }
    let at = find::guest(&args.guest)?;
    let (stream, _) = service::open(&at.socket, &Ask::Console { guest: at.guest.clone() })?;
    let started = service::run(&at.socket, &at.guest, SHELL, Deadline::after(PATIENCE));
    if !started.is_ok_and(|output| output.code == 0) {
        eprintln!("{} has no shell on its console: only the console's output is shown", args.guest);
    }
    let stdin = std::io::stdin();
    let raw = Raw::set(&stdin)?;
    if raw.is_some() {
        eprint!("{}: Ctrl-] detaches the terminal\r\n", args.guest);
    }
    let left = relay(stream, &stdin, raw.is_some());
    let mut stdout = std::io::stdout();
    if stdout.is_terminal() {
        // If the terminal is gone, its modes need not be reset.
        let _ = reset(&mut stdout);
    }
    let line_end = if raw.is_some() { "\n" } else { "" };
    drop(raw);
    left.map(|()| line_end.to_owned())
        .map_err(|e| Error::step("The connection to the console is broken", e))
}

/// A terminal in raw mode, in which keys go to the guest unchanged. Dropping this value restores
/// the terminal's settings.
struct Raw<'a> {
    stdin: &'a Stdin,
    before: Termios,
}

impl Raw<'_> {
    /// Sets raw mode. Returns `None` if the input is not a terminal.
    fn set(stdin: &Stdin) -> Result<Option<Raw<'_>>, Error> {
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let wrong = |e| Error::step("Cannot change the terminal's settings", e);
        let before = tcgetattr(stdin).map_err(wrong)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &raw).map_err(wrong)?;
        Ok(Some(Raw { stdin, before }))
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        // Pending input is dropped, because it may contain the terminal's responses to cursor
        // queries of a guest. The user's shell would take these responses for typed keys. A call
        // for a terminal that is gone fails without harm.
        let _ = tcsetattr(self.stdin, OptionalActions::Flush, &self.before);
    }
}

/// Moves bytes in both directions until Ctrl-], the end of the input, or the end of the guest. A
/// user can detach a terminal even if the guest reads no keys. Input from a file is sent only as
/// fast as the guest reads it.
fn relay(mut stream: UnixStream, stdin: &impl AsFd, is_terminal: bool) -> std::io::Result<()> {
    stream.set_read_timeout(None)?;
    let mut filter = Filter::default();
    let mut unsent = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let (keys, words) = {
            let out = if unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let mut fds =
                [PollFd::new(stdin, PollFlags::IN), PollFd::new(&stream, PollFlags::IN | out)];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let words = fds[1].revents().difference(PollFlags::OUT);
            (!fds[0].revents().is_empty(), !words.is_empty())
        };
        if words {
            let count = stream.read(&mut chunk)?;
            if count == 0 {
                return Ok(());
            }
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&filter.pass(&chunk[..count]))?;
            stdout.flush()?;
        }
        let mut is_over = false;
        if keys {
            // This read bypasses the standard library's buffer, because buffered bytes would be
            // invisible to poll.
            let count = rustix::io::read(stdin, &mut chunk)?;
            let typed = &chunk[..count];
            let end = typed.iter().position(|key| *key == LEAVE);
            is_over = end.is_some() || count == 0;
            let typed = &typed[..end.unwrap_or(count)];
            match is_terminal {
                // Keys beyond the limit are lost, as in a terminal's own queue.
                true => unsent.extend(typed.iter().take(UNSENT_MAX - unsent.len())),
                false => stream.write_all(typed)?,
            }
        }
        send(&stream, &mut unsent)?;
        if is_over {
            return Ok(());
        }
    }
}

/// Sends as many bytes as the guest accepts now.
fn send(stream: &UnixStream, unsent: &mut Vec<u8>) -> std::io::Result<()> {
    if unsent.is_empty() {
        return Ok(());
    }
    match rustix::net::send(stream, unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(count) => drop(unsent.drain(..count)),
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_can_be_left_if_the_guest_reads_no_keys() {
        let (ours, _guest) = UnixStream::pair().unwrap();
        let (terminal, mut user) = UnixStream::pair().unwrap();
        let (done, left) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(relay(ours, &terminal, true).is_ok()));
        // The text exceeds a socket's buffer.
        user.write_all(&[b'x'; 2 << 20]).unwrap();
        user.write_all(&[LEAVE]).unwrap();
        assert_eq!(left.recv_timeout(Duration::from_secs(60)), Ok(true));
    }
}
