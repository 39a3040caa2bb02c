//! Recordings of z/VM's data.

use crate::Error;
use base::counted;
use model::Moment;
use std::path::Path;
use store::{Keep, News, Recorder};
use zvm::Counts;

/// Retention of imports. All minutes are kept, regardless of age.
const KEEP: Keep = Keep {
    minutes_days: 36_500,
    quarters_days: 36_500,
    raw_hours: 24,
    raw_bytes: 1 << 30,
    most_bytes: 1 << 40,
};

pub(super) struct Recording {
    recorder: Recorder,
    /// First sample. The first sample waits for the second sample, because the time between both is
    /// z/VM's interval.
    first: Option<Moment>,
    spacing: Spacing,
    pub(super) moments: u64,
    pub(super) span_ms: Option<(i64, i64)>,
    pub(super) guests: usize,
}

impl Recording {
    pub(super) fn to(dir: &Path) -> Recording {
        Recording {
            recorder: Recorder::new(dir, KEEP),
            first: None,
            spacing: Spacing::default(),
            moments: 0,
            span_ms: None,
            guests: 0,
        }
    }

    pub(super) fn add(&mut self, moment: &Moment) -> Result<(), Error> {
        let (first_ms, last_ms) = self.span_ms.unwrap_or((moment.at_ms, moment.at_ms));
        self.span_ms = Some((first_ms, moment.at_ms));
        self.moments += 1;
        self.guests = self.guests.max(moment.guests.len());
        if self.moments == 1 {
            self.first = Some(moment.clone());
            return Ok(());
        }
        self.spacing.take(moment.at_ms.saturating_sub(last_ms));
        self.recorder.space(self.spacing.ms);
        for moment in self.first.take().iter().chain([moment]) {
            self.record(moment)?;
        }
        Ok(())
    }

    fn record(&mut self, moment: &Moment) -> Result<(), Error> {
        match self.recorder.record(moment) {
            Some(News::Failed(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Formats the numbers of intervals and of guests, for people.
    pub(super) fn size(&self) -> String {
        let moments = counted(self.moments, "interval");
        format!("{moments}, {}", self.most_guests())
    }

    /// Formats the highest number of guests at one time, for people.
    pub(super) fn most_guests(&self) -> String {
        format!("{} at most", counted(self.guests as u64, "guest"))
    }

    pub(super) fn end(mut self) -> Result<(), Error> {
        if let Some(first) = self.first.take() {
            self.record(&first)?;
        }
        match self.moments {
            // No sample was ever recorded.
            0 => Ok(()),
            _ => Ok(self.recorder.close()?),
        }
    }
}

/// Time between samples. The time changes only if two successive times are alike, so a single gap
/// does not count.
#[derive(Debug, Default)]
struct Spacing {
    ms: i64,
    before_ms: i64,
}

impl Spacing {
    fn take(&mut self, span_ms: i64) {
        let is_alike = |other_ms: i64| (span_ms - other_ms).abs() * 5 <= span_ms;
        if self.ms == 0 || is_alike(self.before_ms) {
            self.ms = span_ms;
        }
        self.before_ms = span_ms;
    }
}

pub(super) fn told(counts: &Counts) -> String {
    let mut text = format!(
        "{} records, {} of them of kinds that pinhead does not record",
        counts.records, counts.others
    );
    if counts.ignored > 0 {
        text.push_str(&format!(", {} ends of intervals at unexpected times", counts.ignored));
    }
    if counts.bad > 0 {
        let first = counts.first_bad.as_deref().unwrap_or_default();
        text.push_str(&format!(", {} that cannot be read (the first: {first})", counts.bad));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_gap_is_ignored_and_new_rate_needs_two_moments() {
        let mut spacing = Spacing::default();
        let mut take = |seconds: i64| {
            spacing.take(seconds * 1_000);
            spacing.ms / 1_000
        };
        assert_eq!([60, 61, 60].map(&mut take), [60, 61, 60]);
        assert_eq!(take(3_600), 60, "an hour was lost");
        assert_eq!(take(60), 60);
        assert_eq!([300, 300, 301].map(&mut take), [60, 300, 301]);
    }
}
