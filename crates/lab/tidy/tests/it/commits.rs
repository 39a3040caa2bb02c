//! First lines of the newest commits are short.

use std::process::Command;
use tidy::{commits, tree};

/// The test is skipped in a tree without a history, such as an unpacked archive. In a shallow
/// clone, only the existing commits are checked.
#[test]
fn first_lines_of_commits_are_short() {
    let root = tree::root();
    if !root.join(".git").exists() {
        base::skipped!("this tree is no clone, so it has no commits");
        return;
    }
    let count = format!("-{}", commits::CHECKED);
    let mut git = Command::new("git");
    git.current_dir(&root).args(["log", &count, "--no-merges", "--format=%h %s"]);
    let log = match git.output() {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr);
            base::skipped!("git cannot read the history: {}", reason.trim());
            return;
        }
        Err(error) => {
            base::skipped!("git does not run: {error}");
            return;
        }
    };
    let found = commits::complaints(&String::from_utf8_lossy(&log));
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
