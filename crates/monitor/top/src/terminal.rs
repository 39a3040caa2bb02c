//! Terminal control: setup, drawing, and restoring, even after a panic.

use super::screens::{Line, Tint};
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Color, SetAttribute, SetForegroundColor};
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

/// Sockets that are readable after a signal: to end, or for a new size.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// Colours by meaning, and inverse video.
    Colour,
    /// No attributes.
    Plain,
}

pub(super) struct Terminal {
    paint: Paint,
    drawn: Drawn,
}

/// Lines on the terminal, and the size that they were drawn for.
#[derive(Debug, Default)]
struct Drawn {
    lines: Vec<Line>,
    size: (usize, usize),
}

impl Terminal {
    pub(super) fn take(paint: Paint) -> io::Result<Terminal> {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            usual(info);
        }));
        // From here on, dropping this value restores the terminal.
        let mut terminal = Terminal { paint, drawn: Drawn::default() };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Sets the terminal up again after `leave`.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        self.forget();
        // The sequence selects the alternate screen, hides the cursor and disables line wrap.
        let all = Clear(ClearType::All);
        execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap, all)
    }

    /// Restores the terminal for another program, until `enter`.
    pub(super) fn leave(&self) {
        give_back();
    }

    /// Returns the number of columns and of lines.
    pub(super) fn size(&self) -> (usize, usize) {
        size().unwrap_or(USUAL)
    }

    /// Marks the screen as overwritten, so that all lines are drawn again.
    pub(super) fn forget(&mut self) {
        self.drawn = Drawn::default();
    }

    /// Draws the changed lines. If the terminal's size has changed, draws all lines.
    pub(super) fn show(&mut self, lines: Vec<Line>, size: (usize, usize)) -> io::Result<()> {
        let out = frame(&self.drawn, &lines, size, self.paint)?;
        self.drawn = Drawn { lines, size };
        let mut stdout = io::stdout().lock();
        stdout.write_all(&out)?;
        stdout.flush()
    }
}

/// Returns the size of the terminal at the output, or `None` if the size is unknown.
pub(super) fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    let is_known = size.ws_col > 0 && size.ws_row > 0;
    is_known.then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Returns the bytes that change one screen into another.
fn frame(drawn: &Drawn, lines: &[Line], size: (usize, usize), paint: Paint) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let is_clear = drawn.lines.is_empty() || drawn.size != size;
    let old: &[Line] = if is_clear { &[] } else { &drawn.lines };
    if is_clear {
        queue!(out, Clear(ClearType::All))?;
    }
    for (index, line) in lines.iter().enumerate() {
        if old.get(index) == Some(line) {
            continue;
        }
        queue!(out, MoveTo(0, row(index)), Clear(ClearType::UntilNewLine))?;
        draw(&mut out, line, index == 0, paint)?;
    }
    if old.len() > lines.len() {
        queue!(out, MoveTo(0, row(lines.len())), Clear(ClearType::FromCursorDown))?;
    }
    Ok(out)
}

fn draw(out: &mut Vec<u8>, line: &Line, is_head: bool, paint: Paint) -> io::Result<()> {
    if paint == Paint::Plain {
        out.extend_from_slice(line.text.as_bytes());
        return Ok(());
    }
    match line.tint {
        Tint::Usual => {}
        Tint::Title if is_head => {}
        Tint::Title => queue!(out, SetAttribute(Attribute::Bold))?,
        Tint::Runs => queue!(out, SetForegroundColor(Color::DarkGreen))?,
        Tint::Calm => queue!(out, SetAttribute(Attribute::Dim))?,
        Tint::Parked => queue!(out, SetForegroundColor(Color::DarkCyan))?,
        Tint::Short => queue!(out, SetForegroundColor(Color::DarkYellow))?,
        Tint::Bad => queue!(out, SetForegroundColor(Color::DarkRed))?,
    }
    let stands_out = is_head || line.is_marked;
    if stands_out {
        queue!(out, SetAttribute(Attribute::Reverse))?;
    }
    out.extend_from_slice(line.text.as_bytes());
    if stands_out || line.tint != Tint::Usual {
        queue!(out, SetAttribute(Attribute::Reset))?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, tint: Tint, is_marked: bool) -> Line {
        Line { text: text.to_owned(), tint, is_marked }
    }

    fn bytes(drawn: &Drawn, lines: &[Line], size: (usize, usize), paint: Paint) -> String {
        String::from_utf8(frame(drawn, lines, size, paint).unwrap()).unwrap()
    }

    #[test]
    fn resized_terminal_is_cleared_and_drawn_in_full() {
        let lines = [line("head", Tint::Title, false), line("web1", Tint::Runs, true)];
        let drawn = Drawn { lines: lines.to_vec(), size: (80, 24) };
        assert_eq!(bytes(&drawn, &lines, (80, 24), Paint::Plain), "", "nothing has changed");
        let resized = bytes(&drawn, &lines, (60, 20), Paint::Plain);
        assert!(resized.starts_with("\u{1b}[2J"), "{resized:?}");
        assert!(resized.contains("head") && resized.contains("web1"), "{resized:?}");
        let shorter = bytes(&drawn, &lines[..1], (80, 24), Paint::Plain);
        assert_eq!(shorter, "\u{1b}[2;1H\u{1b}[J", "the rest is cleared");
    }

    #[test]
    fn colour_shows_state_and_plain_lines_have_no_attribute() {
        let lines = [line("head", Tint::Title, false), line(">db", Tint::Short, true)];
        let painted = bytes(&Drawn::default(), &lines, (80, 24), Paint::Colour);
        let [yellow, reverse] = ["\u{1b}[38;5;3m", "\u{1b}[7m"];
        assert!(painted.contains(&format!("{reverse}head\u{1b}[0m")), "{painted:?}");
        assert!(painted.contains(&format!("{yellow}{reverse}>db\u{1b}[0m")), "{painted:?}");
        let plain = bytes(&Drawn::default(), &lines, (80, 24), Paint::Plain);
        assert!(!plain.contains('m'), "{plain:?}");
    }
}
