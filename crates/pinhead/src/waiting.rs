//! Wait that shows its progress on a terminal.

use crate::up::progress::{Progress, Step};
use std::time::Duration;

/// Shortest total time that is shown.
const SHOWN_MIN: Duration = Duration::from_secs(2);
/// Interval between two drawings.
const REDRAW: Duration = Duration::from_millis(250);

/// A wait of one or several parts.
pub(crate) struct Waiting {
    what: String,
    total: Duration,
    done: Duration,
    progress: Progress,
}

impl Waiting {
    /// Creates a wait of this total time. A short wait is not shown.
    pub(crate) fn new(what: String, total: Duration) -> Waiting {
        let progress = if total < SHOWN_MIN { Progress::silent() } else { Progress::on_terminal() };
        Waiting { what, total, done: Duration::ZERO, progress }
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.done + time;
        while self.done < end {
            let step = self.step();
            self.progress.report(step);
            let pause = REDRAW.min(end - self.done);
            std::thread::sleep(pause);
            self.done += pause;
        }
    }

    fn step(&self) -> Step {
        let (done, total) = (self.done.as_millis(), self.total.as_millis().max(1));
        let permille = u16::try_from(done * 1000 / total).unwrap_or(1000).min(1000);
        let (done_s, total_s) = (self.done.as_secs(), self.total.as_secs());
        let making = format!("{}, {done_s} of {total_s} s", self.what);
        Step::Making { making, permille: Some(permille), bytes: None }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.progress.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_show_the_part_of_the_time_that_has_passed() {
        let mut waiting = Waiting::new("watching g1".into(), Duration::from_secs(60));
        waiting.done = Duration::from_millis(15_500);
        let expected = Step::Making {
            making: "watching g1, 15 of 60 s".into(),
            permille: Some(258),
            bytes: None,
        };
        assert_eq!(waiting.step(), expected);
        waiting.done = Duration::from_secs(61);
        assert!(matches!(waiting.step(), Step::Making { permille: Some(1000), .. }));
    }
}
