//! Screen of running guests. The screen shows a table, or nothing until the end.

use super::table;
use crate::args::UpFormat;
use farm::fleet::{Fleet, Member, State};
use std::io::{IsTerminal, Write};

/// Interval between two tables, on a terminal and in other output.
pub(super) const REDRAW_MS: u64 = 1_000;
const REWRITE_MS: u64 = 5_000;
/// Maximum length of a note, in characters.
pub(super) const NOTE_WIDTH: usize = 400;

pub(super) fn all_ended(fleet: &Fleet) -> bool {
    fleet.members().iter().all(|m| matches!(m.state(), State::Ended(_)))
}

/// The user's screen while the guests run.
pub(super) struct Screen {
    format: UpFormat,
    terminal: bool,
    pub(super) next_ms: u64,
    drawn_lines: usize,
    /// Formats the table for a number of columns.
    pub(super) draw: fn(&Fleet, usize) -> String,
}

impl Screen {
    pub(super) fn new(format: UpFormat) -> Screen {
        let terminal = std::io::stdout().is_terminal();
        let draw = |fleet: &Fleet, columns| table::draw(fleet.members().iter(), columns);
        Screen { format, terminal, next_ms: 0, drawn_lines: 0, draw }
    }

    /// Returns true if the screen shows a table instead of one object at the end.
    pub(super) fn is_table(&self) -> bool {
        self.format == UpFormat::Table
    }

    /// Draws the table when it is due. Returns false if the reader has gone.
    pub(super) fn show(&mut self, fleet: &Fleet) -> bool {
        let now = fleet.now_ms();
        if self.format == UpFormat::Json {
            self.next_ms = u64::MAX;
            return true;
        }
        if now < self.next_ms {
            return true;
        }
        self.next_ms = now + if self.terminal { REDRAW_MS } else { REWRITE_MS };
        let (columns, lines) = size();
        let mut text = (self.draw)(fleet, columns);
        let mut out = String::new();
        if self.terminal {
            // If there are more guests than lines, only some guests are shown, with the number of
            // the others.
            let room = lines.saturating_sub(3).max(3);
            let count = text.lines().count();
            if count > room {
                text = text.lines().take(room).map(|line| format!("{line}\n")).collect();
                text.push_str(&format!("... and {} more\n", count - room));
            }
            let is_managed = |member: &Member| *member.state() == State::Managed;
            text.push_str(&footer(now / 1000, fleet.members().iter().any(is_managed)));
            if self.drawn_lines > 0 {
                out.push_str(&format!("\x1b[{}A", self.drawn_lines));
            }
            self.drawn_lines = text.lines().count();
            // Each line is cleared to its end, so that nothing remains of a longer line.
            out.extend(text.lines().map(|line| format!("{line}\x1b[K\n")));
            out.push_str("\x1b[J");
        } else {
            out = format!("{} s\n{text}\n", now / 1000);
        }
        let written = std::io::stdout().write_all(out.as_bytes());
        written.and_then(|()| std::io::stdout().flush()).is_ok()
    }
}

fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => (usize::from(size.ws_col), usize::from(size.ws_row)),
        _ => (100, 40),
    }
}

/// Lists guests that failed, with the last lines of their consoles.
pub(super) fn failures(fleet: &Fleet) -> String {
    let mut out = String::new();
    for member in fleet.members() {
        if let State::Ended(reason) = member.state() {
            let console = String::from_utf8_lossy(member.console());
            out.push_str(&format!("{}: {}\n", member.spec().name, base::plain(reason, 400)));
            let words: Vec<&str> = console.lines().rev().take(5).collect();
            for line in words.iter().rev() {
                out.push_str(&format!("  console: {}\n", base::plain(line, 160)));
            }
        }
    }
    out
}

/// Returns the line below the table. The table has no figures of guests that a manager has.
fn footer(seconds: u64, is_managed: bool) -> String {
    let hint = if is_managed { "; `pinhead top` shows managed guests" } else { "" };
    format!("{seconds} s; Ctrl-C ends all guests{hint}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_leads_to_top_when_a_manager_has_guests() {
        assert_eq!(footer(7, false), "7 s; Ctrl-C ends all guests\n");
        let managed = footer(86_400, true);
        assert!(managed.contains("pinhead top") && managed.trim_end().len() <= 80, "{managed}");
    }
}
