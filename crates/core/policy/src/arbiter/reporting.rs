//! Free memory that a guest's kernel is about to report to the host. It returns without a balloon.

use super::sample::GuestSample;
use base::Bytes;

/// Time in which a kernel reports at least a part of its free pages, with two of its intervals.
const REPORTED_MS: u64 = 5_000;
/// Smallest amount of resident free memory that counts. A kernel leaves smaller fragments.
const WORTH: Bytes = Bytes::mib(16);

/// Resident free memory that a guest's kernel is going to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reporting {
    /// Least amount since the last progress, and the time of that progress.
    seen: Option<(Bytes, u64)>,
}

impl Reporting {
    /// Updates the amount from a sample. `kept` is memory that was not free at the last report.
    pub fn see(&mut self, sample: &GuestSample, kept: Option<Bytes>, now_ms: u64) {
        let loose = || {
            let resident = sample.resident?.less(sample.doubtful).min(sample.actual?);
            Some(resident.less(kept?)).filter(|loose| *loose >= WORTH)
        };
        let Some(loose) = loose().filter(|_| sample.process.reports) else {
            self.seen = None;
            return;
        };
        match &mut self.seen {
            Some((least, _)) if loose.plus(WORTH) > *least && loose <= least.plus(WORTH) => {}
            seen => *seen = Some((loose, now_ms)),
        }
    }

    /// Returns the memory that is expected on the host soon. A kernel that made no progress for
    /// some time is not waited for.
    pub fn coming(&self, now_ms: u64) -> Bytes {
        let fresh = self.seen.filter(|(_, at_ms)| now_ms.saturating_sub(*at_ms) < REPORTED_MS);
        fresh.map_or(Bytes::ZERO, |(loose, _)| loose)
    }
}
