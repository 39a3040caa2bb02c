//! /proc/loadavg: `0.20 0.18 0.12 1/80 11206`.

use super::{Malformed, decimal, number, skip_blanks, unsigned, words};

/// The two values of /proc/loadavg for rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loadavg {
    /// The first field: load average of the last minute.
    pub one_minute: f64,
    /// The fourth field, before its slash: tasks that can run now.
    pub runnable: u64,
}

/// Parses the text of the file.
pub fn parse(bytes: &[u8]) -> Result<Loadavg, Malformed> {
    let bad = |what| Malformed { line: 1, what };
    let (one_minute, rest) = decimal(bytes).ok_or(bad("does not start with a load average"))?;
    let mut rest = rest;
    for _ in 0..2 {
        (_, rest) = decimal(skip_blanks(rest)).ok_or(bad("has fewer than three load averages"))?;
    }
    let (runnable, _) = unsigned(skip_blanks(rest)).ok_or(bad("has no number of tasks"))?;
    Ok(Loadavg { one_minute, runnable })
}

/// Returns the fifth field: the id of the last task that was started. If it is unchanged, no task
/// has started since.
pub fn last_started(bytes: &[u8]) -> Option<u64> {
    number(words(bytes).nth(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_field_is_the_last_task() {
        assert_eq!(last_started(b"1.26 1.14 1.01 9/186 25839\n"), Some(25_839));
        assert_eq!(last_started(b"1.26 1.14 1.01 9/186\n"), None);
    }

    #[test]
    fn the_first_and_the_fourth_field_are_read() {
        let expect = Loadavg { one_minute: 1.26, runnable: 9 };
        assert_eq!(parse(b"1.26 1.14 1.01 9/186 25839\n"), Ok(expect));
        assert_eq!(parse(b"1.26 1.14 1.01 9"), Ok(expect));
    }

    #[test]
    fn anything_else_is_said_to_be_malformed() {
        for text in ["", "\n", "x", "1.0", "1.0 2.0", "1.0 2.0 3.0", "1.0 2.0 3.0 /7", "-1 2 3 4"] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
