//! Length of the commits' first lines.

/// Number of commits that are checked, newest first.
pub const CHECKED: usize = 100;
const SUBJECT_MAX: usize = 72;

/// Returns the complaints about `git log --format='%h %s'`.
pub fn complaints(log: &str) -> Vec<String> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    commits
        .map(|(commit, subject)| (commit, subject, subject.chars().count()))
        .filter(|(_, _, length)| *length > SUBJECT_MAX)
        .map(|(commit, subject, length)| {
            format!(
                "commit {commit}: {subject:?} has {length} characters; {SUBJECT_MAX} fit: state \
                 the change there, and the reason in the body"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_subject_is_found() {
        let (fits, long) = ("é".repeat(72), "a".repeat(73));
        let found = complaints(&format!("1a {fits}\n2b {long}\n3c Keep it\n"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("commit 2b") && found[0].contains("73 characters"));
        assert_eq!(complaints(""), [""; 0]);
    }
}
