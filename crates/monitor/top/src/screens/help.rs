//! Screen of the keys and the columns.

/// Returns the lines, which fit on the smallest terminal.
pub(super) fn lines() -> Vec<String> {
    TEXT.lines().map(str::to_owned).collect()
}

const TEXT: &str = "
  1 2 3 4      overview, guests, memory, decisions
  up down j k  move the mark, or scroll; also page up and down, home, end
  Enter        one guest: its CPUs, waits, memory, processes, wakers, decisions
  Esc          back; takes a filter away
  s r          sort by the next column (*); the other way round (^)
  /            filter by name or class: text, or a pattern such as LNX1*
  space        freeze the screen, and let it go on
  [ ] { }      in a recording: a step back, a step on; ten back, ten on
  q            quit

  CPU%  CPU time of its process, of one CPU
  STL%  time its virtual CPUs were ready and others ran, of their time
  T:V   CPU time of its process over what the guest itself got
  HAS   MiB that its balloon leaves it, OF what it was started with
  RES   MiB of it in the host's memory
  AVAIL MiB it could hand out without swapping, NEED what it lacks
  PSI%  time some task in it waited for memory
  LAST  the last decision about it, and why
  -     not known;  0 it did not happen;  0.0 it did, below the resolution";
