//! Waits and long tasks that show their progress on a terminal.

use crate::up::progress::{Progress, Step};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use vm::Clock;

/// Shortest total time that is shown, and time after which a task of unknown length is shown.
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
        step(&self.what, self.done, Some(self.total))
    }
}

/// Returns the step of a wait, or of a task without a total time.
fn step(what: &str, done: Duration, total: Option<Duration>) -> Step {
    let Some(total) = total else {
        let making = format!("{what}, {} s", done.as_secs());
        return Step::Making { making, permille: None, bytes: None };
    };
    let permille = done.as_millis() * 1000 / total.as_millis().max(1);
    let permille = u16::try_from(permille).unwrap_or(1000).min(1000);
    let making = format!("{what}, {} of {} s", done.as_secs(), total.as_secs());
    Step::Making { making, permille: Some(permille), bytes: None }
}

/// A task that blocks this thread. Another thread shows the task on a terminal once it takes long,
/// until this value is dropped.
pub(crate) struct Task {
    /// Sends new descriptions. The thread ends when the sender is dropped.
    words: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Task {
    /// Creates a task of unknown length.
    pub(crate) fn new(what: impl Into<String>) -> Task {
        Task::of(what.into(), None)
    }

    /// Creates a task that ends within `total`.
    pub(crate) fn within(what: impl Into<String>, total: Duration) -> Task {
        Task::of(what.into(), Some(total))
    }

    fn of(what: String, total: Option<Duration>) -> Task {
        if !std::io::stderr().is_terminal() {
            return Task { words: None, thread: None };
        }
        let (words, said) = channel();
        let draw = move || draw(what, total, &said);
        // Without a thread, only the display is missing.
        let thread = thread::Builder::new().name("progress".into()).spawn(draw).ok();
        Task { words: Some(words), thread }
    }

    /// Changes the description.
    pub(crate) fn is_now(&self, what: String) {
        if let Some(words) = &self.words {
            // The thread may be missing.
            let _ = words.send(what);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.words = None;
        // The thread has removed its line before other output is written.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn draw(mut what: String, total: Option<Duration>, said: &Receiver<String>) {
    let (clock, mut progress) = (Clock::new(), Progress::on_terminal());
    loop {
        match said.recv_timeout(REDRAW) {
            Ok(other) => what = other,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(step) = late(&what, clock.ms(), total) {
                    progress.report(step);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    progress.clear();
}

/// Returns the step of a task that has lasted long enough to be shown.
fn late(what: &str, done_ms: u64, total: Option<Duration>) -> Option<Step> {
    let done = Duration::from_millis(done_ms);
    (done >= SHOWN_MIN).then(|| step(what, done, total))
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

    #[test]
    fn task_is_shown_once_it_takes_long() {
        assert_eq!(late("replaying the passes", 1_900, None), None);
        let making = |making: &str, permille| {
            Some(Step::Making { making: making.into(), permille, bytes: None })
        };
        let unknown = late("replaying the passes", 2_100, None);
        assert_eq!(unknown, making("replaying the passes, 2 s", None));
        let total = Some(Duration::from_secs(30));
        let waits = late("waiting for 512 MiB", 15_000, total);
        assert_eq!(waits, making("waiting for 512 MiB, 15 of 30 s", Some(500)));
    }
}
