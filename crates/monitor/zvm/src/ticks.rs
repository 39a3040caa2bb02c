//! Estimate of the ticks per second of a guest's kernel. The kernel does not report this number.

use zmon::appldata::{HZ, System};

/// Number of disagreeing pairs of copies after which the usual value is assumed.
const PAIRS_MAX: u32 = 6;

/// State of the estimate, from copies of a guest's CPU times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticks {
    settled: Option<u64>,
    last: Option<u64>,
    pairs: u32,
}

impl Ticks {
    /// Compares a copy with the previous copy. A kernel that does not tick while idle counts the
    /// idle time when it wakes, so a single pair may be wrong. Two pairs in a row must agree.
    pub(crate) fn look(&mut self, now: &System, earlier: Option<&System>) {
        if self.settled.is_some() {
            return;
        }
        // A kernel always sets a timestamp. Copies without a timestamp contain hundredths of a
        // second.
        if now.os.timestamp == 0 {
            self.settled = Some(HZ[0]);
            return;
        }
        let Some(earlier) = earlier else { return };
        let found = now.ticks_a_second(earlier);
        self.pairs += 1;
        if found.is_some() && found == self.last {
            self.settled = found;
        } else if self.pairs == PAIRS_MAX {
            self.settled = Some(HZ[0]);
        }
        self.last = found;
    }

    /// Converts ticks to hundredths of a second; `None` while the length of a tick is unknown.
    pub(crate) fn hundredths(&self, ticks: u64) -> Option<u64> {
        Some(ticks.saturating_mul(100) / self.settled?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmon::appldata::{Cpu, Os};
    use zmon::ticks_of_ns;

    /// Returns a copy at the time `at_s` in seconds. `cpus` contains the ticks of each CPU.
    fn copy(at_s: u64, cpus: &[u64]) -> System {
        let timestamp = ticks_of_ns(at_s * 1_000_000_000);
        let cpu = |(number, ticks): (usize, &u64)| Cpu {
            user: 7,
            // The counter wraps at 2^32, like the kernel's counters.
            idle: *ticks as u32,
            number: Some(number as u32),
            steal: Some(0),
            ..Cpu::default()
        };
        let cpus = cpus.iter().enumerate().map(cpu).collect();
        System { os: Os { timestamp, ..Os::default() }, cpus, has_steal: true }
    }

    /// Returns the length of 100,000 ticks in hundredths of a second, as estimated after each copy.
    fn told(copies: &[System]) -> Vec<Option<u64>> {
        let mut ticks = Ticks::default();
        let mut earlier = None;
        let one = |now: &System| {
            ticks.look(now, earlier.replace(now.clone()).as_ref());
            ticks.hundredths(100_000)
        };
        copies.iter().map(one).collect()
    }

    #[test]
    fn two_pairs_of_copies_that_agree_tell() {
        for hz in HZ {
            let copies = [60, 120, 180].map(|at_s| copy(at_s, &[at_s * hz, at_s * hz + 9]));
            assert_eq!(told(&copies), [None, None, Some(10_000_000 / hz)], "{hz}");
        }
        let anew = (1 << 32) - 70 * 250;
        let copies = [60, 120, 180, 240].map(|at_s| copy(at_s, &[anew + at_s * 250; 2]));
        assert_eq!(
            told(&copies),
            [None, None, None, Some(40_000)],
            "the counters wrapped in between"
        );
    }

    #[test]
    fn a_cpu_that_wakes_or_comes_back_tells_nothing() {
        // The CPU slept for a minute and a half before the first copy, and counts that time on
        // waking.
        let copies = [
            copy(60, &[0]),
            copy(120, &[150 * 100]),
            copy(180, &[210 * 100]),
            copy(240, &[270 * 100]),
        ];
        assert_eq!(told(&copies), [None, None, None, Some(100_000)]);
        // One CPU of three comes online again, with weeks of idle time.
        let copies = [60, 120, 180].map(|at_s| {
            let back = if at_s > 60 { 1 << 30 } else { 0 };
            copy(at_s, &[at_s * 250, at_s * 250, at_s * 250 + back])
        });
        assert_eq!(told(&copies), [None, None, Some(40_000)]);
    }

    #[test]
    fn ticks_default_when_copies_disagree_or_have_no_time() {
        let copies: Vec<System> = (0..8).map(|n| copy(60 + n * 60, &[n * 60 * 170])).collect();
        let told_of = told(&copies);
        assert_eq!(told_of[..6], [None; 6]);
        assert_eq!(told_of[6..], [Some(100_000); 2]);
        assert_eq!(told(&[copy(0, &[5])]), [Some(100_000)]);
        let same = [copy(60, &[0]), copy(60, &[0])];
        assert_eq!(told(&same), [None, None], "no time has passed");
    }
}
