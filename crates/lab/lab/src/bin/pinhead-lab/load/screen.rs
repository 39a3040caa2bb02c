//! Progress of a load, as a line on a terminal.

use pinhead::up::progress::{Progress, Step};
use std::time::Duration;

/// Time after which the progress of a load is shown.
const SHOWN_FROM: Duration = Duration::from_secs(2);

/// The progress line, which is removed at the end.
pub(super) struct Screen(Progress);

impl Screen {
    pub(super) fn new() -> Screen {
        Screen(Progress::on_terminal())
    }

    /// Shows the part that is done, if the whole is known.
    pub(super) fn show(&mut self, elapsed: Duration, what: &str, done: Option<(u64, u64)>) {
        if elapsed >= SHOWN_FROM {
            self.0.report(step(elapsed, what, done));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.0.clear();
    }
}

fn step(elapsed: Duration, what: &str, done: Option<(u64, u64)>) -> Step {
    let permille = |(done, of): (u64, u64)| done.min(of).saturating_mul(1000).checked_div(of);
    Step::Making {
        making: format!("{what}, for {} s", elapsed.as_secs()),
        permille: done.and_then(permille).and_then(|permille| u16::try_from(permille).ok()),
        bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_the_finished_part_and_the_time() {
        let shown = |done| match step(Duration::from_millis(7_900), "5 answered", done) {
            Step::Making { making, permille, .. } => (making, permille),
            step => panic!("{step:?}"),
        };
        let words = "5 answered, for 7 s".to_owned();
        assert_eq!(shown(Some((1, 4))), (words.clone(), Some(250)));
        assert_eq!(shown(Some((9, 4))), (words.clone(), Some(1000)), "the last requests are late");
        assert_eq!((shown(None), shown(Some((0, 0)))), ((words.clone(), None), (words, None)));
    }
}
