//! A sink that writes moments and passes into the store's recordings.

use super::Sink;
use model::{Moment, PassInput};
use std::path::Path;
use store::{Keep, News, PassRecorder, Recorder};

const HOUR_MS: i64 = 3_600_000;

/// The recordings in a directory.
#[derive(Debug)]
pub struct Recording(Option<(Recorder, PassRecorder)>);

impl Recording {
    /// Returns recordings in this directory, which is created with the first moment. Passes have
    /// the same time limit as samples of single seconds, and half of their size limit.
    pub fn new(dir: &Path, keep: Keep) -> Recording {
        let keep_ms = i64::from(keep.raw_hours) * HOUR_MS;
        let passes = PassRecorder::new(dir, keep_ms, keep.raw_bytes / 2);
        Recording(Some((Recorder::new(dir, keep), passes)))
    }
}

/// Returns the message about a change in the recordings.
fn told(what: &str, news: News) -> String {
    match news {
        News::Failed(error) => {
            let why = base::chain(&error);
            format!("{what} cannot be written; they are kept in memory for half an hour: {why}")
        }
        News::SetAside { path, aside } => format!(
            "{} is damaged, or another program has changed it: it was renamed to {}, and recording \
             continues in a new file",
            path.display(),
            aside.display()
        ),
        News::Held { path, by } => crate::journal::held(&path, &by),
        News::Recovered { lost: 0 } => format!("{what} can be written again"),
        News::Recovered { lost } => {
            format!("{what} can be written again; {lost} minutes were lost")
        }
    }
}

impl Sink for Recording {
    fn record(&mut self, moment: &Moment) -> Option<String> {
        let (recorder, _) = self.0.as_mut()?;
        recorder.record(moment).map(|news| told("Recordings", news))
    }

    fn passes(&mut self, passes: &[PassInput]) -> Option<String> {
        let (_, recorder) = self.0.as_mut()?;
        // The passes must be recorded in their order, so no lazy iterator is used.
        let mut news = None;
        for pass in passes {
            news = recorder.record(pass).or(news);
        }
        news.map(|news| told("Recordings of the inputs of decisions", news))
    }

    fn finish(&mut self) -> Option<String> {
        let (recorder, passes) = self.0.take()?;
        let closed = recorder.close().and(passes.close());
        closed
            .err()
            .map(|error| format!("The last recordings cannot be written: {}", base::chain(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;
    use store::Records;

    #[test]
    fn passes_of_one_second_are_kept_in_their_order() {
        let dir = procfs::testing::Tree::create();
        let mut recording = Recording::new(&dir, Keep::USUAL);
        let at_ms = 1_795_500_001_000;
        assert_eq!(recording.record(&Moment { at_ms, ..Moment::default() }), None);
        let pass = |number: u64| PassInput {
            number,
            at_ms: at_ms + number.cast_signed(),
            ..PassInput::default()
        };
        assert_eq!(recording.passes(&[0, 1, 2].map(pass)), None);
        assert_eq!(recording.finish(), None);
        let mut numbers = Vec::new();
        let visit = |pass: PassInput| {
            numbers.push(pass.number);
            ControlFlow::Continue(())
        };
        Records::open(&dir).unwrap().passes(0, i64::MAX, visit).unwrap();
        assert_eq!(numbers, [0, 1, 2]);
    }
}
