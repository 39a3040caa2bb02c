//! Releases of a guest's balloon, and the rest after a release that was in vain.

/// Time after a release within which a shrink shows that the release was in vain.
const RETAKEN_MS: u64 = 600_000;
/// First rest after such a shrink. Each further rest is twice as long.
const REST_MS: u64 = 600_000;
/// Largest number of doublings of the rest.
const DOUBLINGS_MAX: u32 = 5;

/// Releases of a guest, and the rest after a release in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Releases {
    /// Time of the last release, unless it was in vain.
    at_ms: Option<u64>,
    in_vain: u32,
    rests_until_ms: u64,
}

impl Releases {
    /// Records a release. A former release that lasted shortens the next rest.
    pub fn released(&mut self, now_ms: u64) {
        if self.at_ms.replace(now_ms).is_some() {
            self.in_vain = self.in_vain.saturating_sub(1);
        }
    }

    /// Records a shrink. A shrink soon after a release begins a rest.
    pub fn shrunk(&mut self, now_ms: u64) {
        let is_soon = |at_ms: &u64| now_ms.saturating_sub(*at_ms) < RETAKEN_MS;
        if self.at_ms.take_if(|at_ms| is_soon(at_ms)).is_some() {
            self.rests_until_ms = now_ms + (REST_MS << self.in_vain.min(DOUBLINGS_MAX));
            self.in_vain += 1;
        }
    }

    /// Returns true during a rest.
    pub fn rests(&self, now_ms: u64) -> bool {
        now_ms < self.rests_until_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_in_vain_rests_longer_each_time() {
        let mut releases = Releases::default();
        let mut ends = Vec::new();
        let mut now_ms = 1_000;
        for _ in 0..3 {
            releases.released(now_ms);
            releases.shrunk(now_ms + 5_000);
            assert!(releases.rests(now_ms + 5_000));
            ends.push(releases.rests_until_ms - now_ms - 5_000);
            now_ms = releases.rests_until_ms;
            assert!(!releases.rests(now_ms));
        }
        assert_eq!(ends, [REST_MS, 2 * REST_MS, 4 * REST_MS]);
    }

    #[test]
    fn shrink_long_after_a_release_begins_no_rest() {
        let mut releases = Releases::default();
        releases.shrunk(500);
        releases.released(1_000);
        releases.shrunk(1_000 + RETAKEN_MS);
        assert!(!releases.rests(1_000 + RETAKEN_MS));
    }
}
