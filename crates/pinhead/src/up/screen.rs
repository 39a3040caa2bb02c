//! Screen of running guests. The screen shows a table, or nothing until the end.

use super::managed::Managed;
use super::table;
use crate::args::UpFormat;
use crate::tell::own_name;
use base::{Fitted, clip, columns, wrapped};
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

pub(super) struct Screen {
    format: UpFormat,
    terminal: bool,
    pub(super) next_ms: u64,
    /// Lengths of the lines on the terminal that the next table replaces.
    drawn: Vec<usize>,
    /// Formats the table, for a terminal of this many columns or for other output.
    pub(super) draw: fn(&Fleet, &Managed, Option<usize>) -> Fitted,
    managed: Managed,
}

impl Screen {
    pub(super) fn new(format: UpFormat) -> Screen {
        let terminal = std::io::stdout().is_terminal();
        let (drawn, managed) = (Vec::new(), Managed::default());
        Screen { format, terminal, next_ms: 0, drawn, draw: table::draw, managed }
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
        self.managed.refresh(fleet, now);
        let out = if self.terminal {
            let size @ (width, _) = size();
            let table = (self.draw)(fleet, &self.managed, Some(width));
            let is_managed = |member: &Member| *member.state() == State::Managed;
            let others = match fleet.members().iter().any(is_managed) {
                true => Some(self.managed.others(fleet)),
                false => None,
            };
            let foot = footer(now / 1000, &own_name(), others);
            self.redraw(page(table, &foot, size), width)
        } else {
            format!("{} s\n{}\n", now / 1000, (self.draw)(fleet, &self.managed, None).text())
        };
        let written = std::io::stdout().write_all(out.as_bytes());
        written.and_then(|()| std::io::stdout().flush()).is_ok()
    }

    /// Removes the table from the terminal, so that a message can take its place. The next table
    /// follows below the message.
    pub(super) fn erase(&mut self) {
        if !self.drawn.is_empty() {
            let out = format!("{}\x1b[J", up(&self.drawn, size().0));
            // The next table detects that the reader has gone.
            let _ = std::io::stdout().write_all(out.as_bytes());
            (self.drawn, self.next_ms) = (Vec::new(), 0);
        }
    }

    /// Returns the output that replaces the drawn lines with new lines.
    fn redraw(&mut self, lines: Vec<String>, width: usize) -> String {
        let mut out = up(&self.drawn, width);
        self.drawn = lines.iter().map(|line| columns(line)).collect();
        // Each line is cleared to its end, so that nothing remains of a longer line.
        out.extend(lines.iter().map(|line| format!("{line}\x1b[K\n")));
        out + "\x1b[J"
    }
}

/// Returns the sequence that moves the cursor up to the first of the drawn lines. A terminal that
/// became narrower has broken lines of the earlier width. Some terminals cut such lines instead.
/// There the cursor moves too far up, and earlier output is lost.
fn up(drawn: &[usize], width: usize) -> String {
    let lines: usize = drawn.iter().map(|length| length.div_ceil(width.max(1)).max(1)).sum();
    if lines > 0 { format!("\x1b[{lines}A\r") } else { String::new() }
}

/// Returns the lines of a screen: the guests that fit, the number of the other guests, and the line
/// below the table. If not all guests fit, each guest has only one line.
fn page(table: Fitted, foot: &str, (width, height): (usize, usize)) -> Vec<String> {
    let foot: Vec<String> = wrapped(foot, width, 2).lines().map(str::to_owned).collect();
    let mut room = height.saturating_sub(3 + foot.len()).max(1);
    let mut rows = table.rows;
    if rows.iter().map(Vec::len).sum::<usize>() > room {
        rows.iter_mut().for_each(|row| row.truncate(1));
    }
    let count = rows.len();
    let mut lines: Vec<String> = table.head.into_iter().collect();
    let fits = |row: &Vec<String>| {
        let is_fitting = row.len() <= room;
        room = room.saturating_sub(row.len());
        is_fitting
    };
    let shown: Vec<Vec<String>> = rows.into_iter().take_while(fits).collect();
    let others = count - shown.len();
    lines.extend(shown.into_iter().flatten());
    if others > 0 {
        lines.push(format!("... and {others} more"));
    }
    lines.extend(foot);
    lines.iter().map(|line| clip(line, width)).collect()
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

/// Returns the line below the table. `others` is the number of guests of other farms, if a manager
/// has the guests.
fn footer(seconds: u64, program: &str, others: Option<usize>) -> String {
    let hint = match others {
        None => String::new(),
        Some(0) => format!("; `{program} top` shows managed guests"),
        Some(others) => {
            let others = base::counted(others as u64, "guest");
            format!("; the manager has {others} of other farms, too: see `{program} top`")
        }
    };
    format!("{seconds} s; Ctrl-C ends all guests{hint}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(rows: &[&[&str]]) -> Fitted {
        let rows = rows.iter().map(|row| row.iter().map(|&line| line.to_owned()).collect());
        Fitted { head: Some("GUEST".into()), rows: rows.collect(), hidden: Vec::new() }
    }

    #[test]
    fn page_has_whole_rows_and_the_number_of_others() {
        let rows = || fitted(&[&["g1", "  busy"], &["g2"], &["g3", "  busy"], &["g4"]]);
        let shown = |height| page(rows(), "7 s; Ctrl-C", (80, height));
        assert_eq!(shown(24), ["GUEST", "g1", "  busy", "g2", "g3", "  busy", "g4", "7 s; Ctrl-C"]);
        assert_eq!(shown(8), ["GUEST", "g1", "g2", "g3", "g4", "7 s; Ctrl-C"], "without reasons");
        assert_eq!(shown(7), ["GUEST", "g1", "g2", "g3", "... and 1 more", "7 s; Ctrl-C"]);
        assert!(
            (1..=24).all(|height| shown(height).len() < height.max(5)),
            "the last line is free"
        );
    }

    #[test]
    fn narrower_terminal_keeps_nothing_of_a_wider_table() {
        let mut screen = Screen::new(UpFormat::Table);
        let wide = vec!["x".repeat(80), String::new(), "x".repeat(41)];
        assert!(screen.redraw(wide.clone(), 80).starts_with('x'), "nothing was drawn");
        assert!(screen.redraw(wide.clone(), 80).starts_with("\x1b[3A\r"));
        let narrow = screen.redraw(vec!["y".to_owned()], 40);
        assert_eq!(narrow, "\x1b[5A\ry\x1b[K\n\x1b[J", "the lines took 2, 1 and 2 lines");
        assert!(screen.redraw(wide, 200).starts_with("\x1b[1A\r"));
    }

    #[test]
    fn footer_leads_to_top_when_a_manager_has_guests() {
        assert_eq!(footer(7, "pinhead", None), "7 s; Ctrl-C ends all guests\n");
        let managed = footer(86_400, "pinhead", Some(0));
        assert!(managed.contains("pinhead top") && managed.trim_end().len() <= 80, "{managed}");
        let others = footer(7, "target/release/pinhead", Some(40));
        assert!(others.contains("the manager has 40 guests of other farms"), "{others}");
        assert!(others.contains("`target/release/pinhead top`"), "{others}");
    }
}
