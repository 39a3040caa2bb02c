//! The terminal: taken, drawn on, and given back as it was, also by a panic.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// The other screen, no cursor, and no line that goes on in the next.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// A terminal that does not tell its size is so large.
const USUAL: (usize, usize) = (80, 24);

/// Ends that are asked for, and changes of the size.
pub(super) struct Signals {
    pub(super) end: UnixStream,
    pub(super) resized: UnixStream,
}

impl Signals {
    /// From now on they come here.
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

    /// A change of the size was seen.
    pub(super) fn resized_seen(&self) {
        // Nothing there is as good as everything read.
        let _ = (&self.resized).read(&mut [0; 64]);
    }
}

/// How the first line stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// Dark on light where the rest is light on dark, or the other way round.
    Inverse,
    /// Not at all.
    Plain,
}

/// The terminal while it is ours.
pub(super) struct Terminal {
    before: Termios,
    paint: Paint,
    drawn: Vec<String>,
}

impl Terminal {
    /// Takes it.
    pub(super) fn take(paint: Paint) -> io::Result<Terminal> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        // From here on it is given back, whatever happens.
        let terminal = Terminal { before: before.clone(), paint, drawn: Vec::new() };
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back(&before);
            usual(info);
        }));
        write(ENTER)?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (usize::from(size.ws_col), usize::from(size.ws_row))
            }
            _ => USUAL,
        }
    }

    /// What was drawn is not there any more.
    pub(super) fn forget(&mut self) {
        self.drawn.clear();
    }

    /// Draws the lines that have changed.
    pub(super) fn show(&mut self, lines: Vec<String>) -> io::Result<()> {
        let mut out = String::new();
        if self.drawn.is_empty() {
            out.push_str("\x1b[2J");
        }
        for (index, line) in lines.iter().enumerate() {
            if self.drawn.get(index) == Some(line) {
                continue;
            }
            let (on, off) = match (index, self.paint) {
                (0, Paint::Inverse) => ("\x1b[7m", "\x1b[0m"),
                _ => ("", ""),
            };
            out.push_str(&format!("\x1b[{};1H\x1b[K{on}{line}{off}", index + 1));
        }
        if self.drawn.len() > lines.len() {
            out.push_str(&format!("\x1b[{};1H\x1b[J", lines.len() + 1));
        }
        self.drawn = lines;
        if out.is_empty() { Ok(()) } else { write(&out) }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back(&self.before);
    }
}

/// A terminal that is gone needs nothing back.
fn give_back(before: &Termios) {
    let _ = write(LEAVE);
    let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
