//! Moments into the recordings of the store.

use super::Sink;
use model::Moment;
use std::path::Path;
use store::{Keep, News, Recorder};

/// The recordings in a directory.
#[derive(Debug)]
pub struct Recording(Option<Recorder>);

impl Recording {
    /// Recordings in this directory, which is made with the first moment.
    pub fn new(dir: &Path, keep: Keep) -> Recording {
        Recording(Some(Recorder::new(dir, keep)))
    }
}

impl Sink for Recording {
    fn record(&mut self, moment: &Moment) -> Option<String> {
        let news = self.0.as_mut()?.record(moment)?;
        Some(match news {
            News::Failed(error) => format!(
                "Recordings cannot be written; they go on in memory, for half an hour: {error}"
            ),
            News::SetAside { path, aside } => format!(
                "{} is damaged: it was set aside as {}, and recordings go on in a new file",
                path.display(),
                aside.display()
            ),
            News::Recovered { lost: 0 } => "Recordings can be written again".to_owned(),
            News::Recovered { lost } => {
                format!("Recordings can be written again; {lost} minutes were lost")
            }
        })
    }

    fn finish(&mut self) -> Option<String> {
        let closed = self.0.take()?.close();
        closed.err().map(|error| format!("The last recordings cannot be written: {error}"))
    }
}
