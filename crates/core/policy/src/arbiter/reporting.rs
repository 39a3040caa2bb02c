//! Free memory that a guest's kernel is about to report to the host. Such memory returns to the
//! host without a balloon.

use super::sample::GuestSample;
use base::Bytes;

/// Time in which a kernel reports at least a part of its free pages. It covers two intervals of the
/// kernel's reporting.
const REPORTED_MS: u64 = 5_000;
/// Smallest amount of resident free memory that counts. A kernel leaves smaller fragments.
const WORTH: Bytes = Bytes::mib(16);

/// Resident free memory that a guest's kernel is going to report. The device offers reporting, but
/// the kernel in the guest may lack it, or hold the memory in fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reporting {
    seen: Option<Seen>,
    /// True if the kernel reported nothing in time. The flag is cleared when memory returns by
    /// itself.
    failed: bool,
}

/// Free memory at the start of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    loose: Bytes,
    resident: Bytes,
    at_ms: u64,
}

impl Reporting {
    /// Updates the amount from a sample of a guest with its balloon at rest. `kept` is memory that
    /// was not free at the last report.
    pub fn see(&mut self, sample: &GuestSample, kept: Option<Bytes>, now_ms: u64) {
        let now = || {
            let resident = sample.resident?.less(sample.doubtful).min(sample.actual?);
            let loose = resident.less(kept?);
            (loose >= WORTH).then_some(Seen { loose, resident, at_ms: now_ms })
        };
        let process = &sample.process;
        let Some(now) = now().filter(|_| process.reports && process.pinned.is_none()) else {
            self.seen = None;
            return;
        };
        let before = *self.seen.get_or_insert(now);
        let fell = |before: Bytes, now: Bytes| before >= now.plus(WORTH);
        // A process that uses free memory reduces the free memory, but not the resident memory.
        let is_returned = fell(before.loose, now.loose) && fell(before.resident, now.resident);
        if is_returned || (!self.failed && fell(now.loose, before.loose)) {
            self.seen = Some(now);
            self.failed &= !is_returned;
        } else if now_ms.saturating_sub(before.at_ms) >= REPORTED_MS {
            self.failed = true;
        }
    }

    /// Returns the memory that is expected on the host soon.
    pub fn coming(&self) -> Bytes {
        self.seen.filter(|_| !self.failed).map_or(Bytes::ZERO, |seen| seen.loose)
    }
}
