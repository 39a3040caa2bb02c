//! The order in which the kernel kills processes when the host is out of memory.

use std::fs;
use std::io;
use std::sync::OnceLock;

/// OOM score adjustment of the process that owns all guests. The kernel then kills single guests
/// first.
const OWNER: i32 = -500;

/// OOM score adjustment for the children of a spared process.
static CHILDREN: OnceLock<i32> = OnceLock::new();

/// Makes the kernel kill guests before this process, because all guests end with this process.
/// Without CAP_SYS_RESOURCE the call fails.
pub fn spare_this_process() -> io::Result<()> {
    let path = "/proc/self/oom_score_adj";
    let text = fs::read_to_string(path)?;
    let before = text.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
    let (own, children) = scores(before);
    // The result of a second call is ignored, because that call reads the score that the first call
    // has set.
    let _ = CHILDREN.set(children);
    fs::write(path, own.to_string())
}

/// Returns the scores for this process and for its children, from the score that this process had
/// at its start.
fn scores(before: i32) -> (i32, i32) {
    (before.min(OWNER), before.max(0))
}

/// Resets the score that a child has inherited from this process.
pub(crate) fn expose(child: u32) {
    if let Some(score) = CHILDREN.get() {
        set_of_child(child, *score);
    }
}

fn set_of_child(child: u32, score: i32) {
    // If the kernel refuses, the child stays as unlikely to be killed as its owner.
    let _ = fs::write(format!("/proc/{child}/oom_score_adj"), score.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;
    use std::process::Command;

    #[test]
    fn finding2_17_guests_are_killed_before_their_farm() {
        assert_eq!(scores(0), (-500, 0));
        assert_eq!(scores(200), (-500, 200), "a login's own score stays its guests'");
        assert_eq!(scores(-900), (-900, 0), "a unit's own score stays the farm's");
        let mut tail = Command::new("tail");
        tail.args(["-f", "/dev/null"]);
        let child = Process::start(tail, vec![]).unwrap();
        set_of_child(child.id(), 300);
        let score = fs::read_to_string(format!("/proc/{}/oom_score_adj", child.id())).unwrap();
        assert_eq!(score, "300\n");
    }
}
