//! The host's evidence about a guest, compared with the guest's own reports.
//!
//! A guest may claim any size, any use of its memory, and that its tasks wait. But memory in use is
//! resident on the host or in the host's swap, and a guest that waits has run. A claim far beyond
//! that evidence is ignored. Granted memory becomes evidence only when the guest uses it.

use super::sample::{GuestSample, Memory};
use base::Bytes;

/// Allowance for honest guests. An honest guest may have less resident memory than it reports,
/// because boot reservations and unread parts of a template were never touched. The guest reports
/// at most twice its resident memory, plus this allowance.
const SLACK: Bytes = Bytes::mib(64);

/// The host's evidence about a guest. Missing evidence contradicts nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Maximum size that the guest's memory on the host can justify; `None` if unknown.
    most: Option<Bytes>,
    /// True if the guest's last claim to need memory is not credible.
    pub contradicts: bool,
}

impl Evidence {
    /// Evaluates a guest's sample and its newest report.
    pub fn of(sample: &GuestSample, memory: Option<&Memory>) -> Evidence {
        let held = sample
            .resident
            .zip(sample.swapped)
            .map(|(one, other)| one.plus(sample.process.beside).plus(other));
        let most = held.map(|held| held.plus(held).plus(SLACK));
        let in_use = memory
            .map_or(Bytes::ZERO, |m| m.actual.less(m.free.or(m.available).unwrap_or(Bytes::ZERO)));
        let is_too_much = most.is_some_and(|most| in_use > most);
        Evidence { most, contradicts: is_too_much || sample.runs == Some(false) }
    }

    /// Returns the further memory that a guest of size `actual` may get by its own report. A guest
    /// may grow to twice its memory on the host, plus an allowance. A guest that uses its grants is
    /// therefore never limited.
    pub fn backs(&self, actual: Bytes) -> Bytes {
        match self.contradicts {
            true => Bytes::ZERO,
            false => self.most.map_or(Bytes(u64::MAX), |most| most.less(actual)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Key, Limits, Mode, Process, Usable};
    use super::*;

    fn sample(
        resident: Option<u64>,
        swapped: impl Into<Option<u64>>,
        runs: Option<bool>,
    ) -> GuestSample {
        let max = Bytes::mib(8192);
        GuestSample {
            key: Key(1),
            limits: Limits {
                min: Bytes::ZERO,
                ordered: false,
                max,
                shares: 100,
                mode: Mode::Managed,
            },
            actual: None,
            resident: resident.map(Bytes::mib),
            doubtful: Bytes::ZERO,
            process: Process::default(),
            swapped: swapped.into().map(Bytes::mib),
            runs,
            memory: None,
            idle_since_sample: false,
            usable: Usable::Yes,
            request: None,
            asks: false,
            urgent: false,
            deflates_on_oom: true,
        }
    }

    fn is_believed(
        resident: Option<u64>,
        swapped: impl Into<Option<u64>>,
        runs: Option<bool>,
    ) -> bool {
        let (actual, free) = (Bytes::mib(1100), Some(Bytes::mib(100)));
        let memory = Memory { actual, free, ..Memory::default() };
        !Evidence::of(&sample(resident, swapped, runs), Some(&memory)).contradicts
    }

    #[test]
    fn a_claim_counts_as_far_as_memory_and_cpu_time_are_seen() {
        assert!(is_believed(Some(1000), 0, Some(true)));
        assert!(is_believed(Some(468), 0, Some(true)), "some memory was never touched");
        assert!(!is_believed(Some(467), 0, Some(true)));
        assert!(is_believed(Some(10), 458, Some(true)), "swapped memory counts too");
        assert!(!is_believed(Some(1000), 0, Some(false)), "the guest has not run");
        assert!(is_believed(Some(10), None, Some(true)), "all may be swapped out");
        let memory =
            Memory { actual: Bytes::mib(1100), free: Some(Bytes::mib(100)), ..Memory::default() };
        let process = Process { beside: Bytes::mib(458), ..Process::default() };
        let clone = GuestSample { process, ..sample(Some(10), 0, Some(true)) };
        assert!(!Evidence::of(&clone, Some(&memory)).contradicts, "its template's memory counts");
        assert!(is_believed(None, 0, None), "missing evidence contradicts nothing");
        assert_eq!(
            Evidence::of(&sample(Some(500), 0, None), None).backs(Bytes::mib(700)),
            Bytes::mib(364)
        );
    }
}
