//! Terminal control: setup, drawing, and restoring, even after a panic.

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use rustix::termios::tcgetwinsize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// Size of a terminal that does not report its size.
const USUAL: (usize, usize) = (80, 24);

/// Signals for the end and for a new size, as sockets.
pub(super) struct Signals {
    pub(super) end: UnixStream,
    pub(super) resized: UnixStream,
}

impl Signals {
    /// Redirects the signals to sockets.
    pub(super) fn collect() -> io::Result<Signals> {
        let pipe = |signals: &[i32]| -> io::Result<UnixStream> {
            let (receiver, sender) = UnixStream::pair()?;
            receiver.set_nonblocking(true)?;
            for signal in signals {
                signal_hook::low_level::pipe::register(*signal, sender.try_clone()?)?;
            }
            Ok(receiver)
        };
        Ok(Signals { end: pipe(&[SIGINT, SIGTERM, SIGHUP])?, resized: pipe(&[SIGWINCH])? })
    }

    /// Acknowledges the signal for a new size.
    pub(super) fn resized_seen(&self) {
        // An empty socket is no error.
        let _ = (&self.resized).read(&mut [0; 64]);
    }
}

/// Style of the first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// Inverse video.
    Inverse,
    /// No attributes.
    Plain,
}

/// The terminal during the display.
pub(super) struct Terminal {
    paint: Paint,
    drawn: Vec<String>,
}

impl Terminal {
    /// Sets the terminal up.
    pub(super) fn take(paint: Paint) -> io::Result<Terminal> {
        enable_raw_mode()?;
        // From here on a drop restores the terminal.
        let terminal = Terminal { paint, drawn: Vec::new() };
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            usual(info);
        }));
        // The sequence selects the alternate screen, hides the cursor and disables line wrap.
        let all = Clear(ClearType::All);
        execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap, all)?;
        Ok(terminal)
    }

    /// Returns the number of columns and of lines.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (usize::from(size.ws_col), usize::from(size.ws_row))
            }
            _ => USUAL,
        }
    }

    /// Marks the screen as overwritten, so that all lines are drawn again.
    pub(super) fn forget(&mut self) {
        self.drawn.clear();
    }

    /// Draws the changed lines.
    pub(super) fn show(&mut self, lines: Vec<String>) -> io::Result<()> {
        let mut out = Vec::new();
        if self.drawn.is_empty() {
            queue!(out, Clear(ClearType::All))?;
        }
        for (index, line) in lines.iter().enumerate() {
            if self.drawn.get(index) == Some(line) {
                continue;
            }
            queue!(out, MoveTo(0, row(index)), Clear(ClearType::UntilNewLine))?;
            let stands_out = index == 0 && self.paint == Paint::Inverse;
            if stands_out {
                queue!(out, SetAttribute(Attribute::Reverse))?;
            }
            out.extend_from_slice(line.as_bytes());
            if stands_out {
                queue!(out, SetAttribute(Attribute::Reset))?;
            }
        }
        if self.drawn.len() > lines.len() {
            queue!(out, MoveTo(0, row(lines.len())), Clear(ClearType::FromCursorDown))?;
        }
        self.drawn = lines;
        let mut stdout = io::stdout().lock();
        stdout.write_all(&out)?;
        stdout.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. Errors are ignored, because the terminal may be gone.
fn give_back() {
    let plain = SetAttribute(Attribute::Reset);
    let _ = execute!(io::stdout(), plain, EnableLineWrap, Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

fn row(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}
