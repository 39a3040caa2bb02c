//! Screen of the keys and the columns.

use super::super::text::wrapped;
use super::room::Line;
use base::columns;

const FIRST: usize = 15;

/// Returns the lines, which fit on a terminal of 80 columns and 24 lines.
pub(super) fn lines(width: usize) -> Vec<Line> {
    TEXT.lines().flat_map(|line| fitted(line, width)).map(Line::from).collect()
}

fn fitted(line: &str, width: usize) -> Vec<String> {
    let rest = line.get(FIRST..).filter(|_| columns(line) > width);
    let Some(rest) = rest else { return vec![line.to_owned()] };
    let mut lines = wrapped(rest, FIRST, width);
    if let Some(first) = lines.first_mut() {
        first.replace_range(..FIRST, &line[..FIRST]);
    }
    lines
}

const TEXT: &str = "  1 2 3 4      overview, guests, memory, decisions
  up down j k  move the mark (>), or scroll; page up and down, home, end
  Enter        the marked guest alone: its waits, memory, processes, wakers
  Esc          go back, or remove the filter
  c l w        console (Ctrl-] leaves), log, and decisions of the marked guest
  p i          park or wake the marked guest; pin or unpin its size
  s r          sort by the next column (*); reverse the order (^)
  /            filter by name or class: text, or a pattern such as LNX1*
  space        freeze the screen, and resume
  [ ] { }      in a recording: one step back or on; ten steps back or on
  q            quit

  graphs       newest at the right, a column a second or a step
  CPU%         CPU time of the guest's process, in percent of one CPU
  STL%         share of virtual CPUs' time spent ready, without a host CPU
  T:V          CPU time of the guest's process, divided by the guest's own
  HAS OF       memory that the balloon leaves to the guest; its memory at start
  PRIV         memory of the host that only the guest's process uses
  AVAIL NEEDS  memory that the guest can use without swapping; memory it lacks
  PSI%         time in which a task in the guest waited for memory
  LAST         the last decision about the guest, with its reason
  -            unknown; 0: nothing happened; 0.0: below the resolution";
