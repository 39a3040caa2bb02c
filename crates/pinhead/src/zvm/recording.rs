//! Recordings of what z/VM says.

use crate::Error;
use model::Moment;
use std::path::{Path, PathBuf};
use store::{Keep, News, Recorder};
use zvm::Counts;

/// Years of minutes: what is imported is kept, however old it is.
const KEEP: Keep = Keep {
    minutes_days: 36_500,
    quarters_days: 36_500,
    raw_hours: 24,
    raw_bytes: 1 << 30,
    most_bytes: 1 << 40,
};

/// Recordings that are made.
pub(super) struct Recording {
    recorder: Option<Recorder>,
    dir: PathBuf,
    /// The first moment waits for the second: how far they are apart is how often z/VM tells.
    first: Option<Moment>,
    /// The moments, and the first and the last of them.
    pub(super) moments: u64,
    pub(super) span_ms: Option<(i64, i64)>,
    pub(super) guests: usize,
}

impl Recording {
    pub(super) fn to(dir: &Path) -> Recording {
        Recording {
            recorder: None,
            dir: dir.into(),
            first: None,
            moments: 0,
            span_ms: None,
            guests: 0,
        }
    }

    fn recorder(&mut self, spacing_ms: i64) -> &mut Recorder {
        self.recorder.get_or_insert_with(|| Recorder::new(&self.dir, KEEP).spaced(spacing_ms))
    }

    pub(super) fn add(&mut self, moment: &Moment) -> Result<(), Error> {
        let first_ms = self.span_ms.map_or(moment.at_ms, |(first_ms, _)| first_ms);
        self.span_ms = Some((first_ms, moment.at_ms));
        self.moments += 1;
        self.guests = self.guests.max(moment.guests.len());
        if self.moments == 1 {
            self.first = Some(moment.clone());
            return Ok(());
        }
        let spacing_ms = moment.at_ms.saturating_sub(first_ms);
        let first = self.first.take();
        let recorder = self.recorder(spacing_ms);
        for moment in first.iter().chain([moment]) {
            if let Some(News::Failed(error)) = recorder.record(moment) {
                return Err(error.into());
            }
        }
        Ok(())
    }

    pub(super) fn end(mut self) -> Result<(), Error> {
        let first = self.first.take();
        self.recorder(0);
        let Some(mut recorder) = self.recorder else { return Ok(()) };
        if let Some(News::Failed(error)) = first.and_then(|moment| recorder.record(&moment)) {
            return Err(error.into());
        }
        Ok(recorder.close()?)
    }
}

/// What records there were, in a sentence.
pub(super) fn told(counts: &Counts) -> String {
    let mut text = format!(
        "{} records, {} of them of kinds that are not recorded",
        counts.records, counts.others
    );
    if counts.bad > 0 {
        let first = counts.first_bad.as_deref().unwrap_or_default();
        text.push_str(&format!(", {} that cannot be read (the first: {first})", counts.bad));
    }
    text
}
