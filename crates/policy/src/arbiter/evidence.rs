//! What the host itself sees of a guest, against what the guest says.
//!
//! A guest may say anything: that it has 64 GiB, that all of it is in use, that its tasks wait.
//! What it uses is in the host's memory or in its swap, and a guest that waits has run. So a claim
//! that goes far beyond that counts for nothing, and what was granted counts when it is used.

use super::sample::{GuestSample, Memory};
use counters::Bytes;

/// A guest may hold less of the host's memory than it says: what was reserved in its boot and what
/// it has not looked at of its template was never touched. Half of it, and this much, is the least
/// that is seen of one that tells the truth.
const SLACK: Bytes = Bytes::mib(64);

/// What the host has seen of a guest. What it cannot see contradicts nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The most that its claims can be of, by what the host holds of it; `None` where the host
    /// cannot see that.
    most: Option<Bytes>,
    /// Its last claim to need memory is not to be believed.
    pub contradicts: bool,
}

impl Evidence {
    /// Looks at a guest and at its newest report.
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

    /// How much more a guest that has `actual`, or is about to, may get on its own word: twice what
    /// it is seen to use, so that one that uses what it is granted is never held up by this.
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
        assert!(is_believed(Some(468), 0, Some(true)), "some of it was never touched");
        assert!(!is_believed(Some(467), 0, Some(true)));
        assert!(is_believed(Some(10), 458, Some(true)), "what was swapped out is its own too");
        assert!(!is_believed(Some(1000), 0, Some(false)), "it says that, and has not run");
        assert!(is_believed(Some(10), None, Some(true)), "it may all be swapped out");
        let memory =
            Memory { actual: Bytes::mib(1100), free: Some(Bytes::mib(100)), ..Memory::default() };
        let process = Process { beside: Bytes::mib(458), ..Process::default() };
        let clone = GuestSample { process, ..sample(Some(10), 0, Some(true)) };
        assert!(!Evidence::of(&clone, Some(&memory)).contradicts, "it has its template's as well");
        assert!(is_believed(None, 0, None), "what cannot be seen contradicts nothing");
        assert_eq!(
            Evidence::of(&sample(Some(500), 0, None), None).backs(Bytes::mib(700)),
            Bytes::mib(364)
        );
    }
}
