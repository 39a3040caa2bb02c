//! Requests counted, and their latencies.

use crate::Error;
use base::named;
use hdrhistogram::{Counter, Histogram};

/// The longest latency that is kept apart: longer ones, which no timeout allows, count as a day.
const LATENCY_US_MAX: u64 = 24 * 3600 * 1_000_000;

named! {
    /// Why a request failed.
    pub enum Failure {
        /// Nobody listens.
        Refused = "refused",
        /// The connection was reset.
        Reset = "reset",
        /// The connection ended before the answer did.
        Closed = "closed",
        /// It took too long.
        Timeout = "timeout",
        /// The answer is not HTTP.
        Malformed = "malformed",
        /// The answer is not a success: its status is neither 2xx nor 3xx.
        Status = "status",
        /// This machine has no port, file or memory left for a connection: the load is too large
        /// for it, and the server is not to blame.
        Exhausted = "exhausted",
        /// Anything else that the system says.
        Other = "other",
    }
}

/// How finely latencies are kept, in significant digits.
pub(crate) const HUNDREDTH: u8 = 2;
pub(crate) const THOUSANDTH: u8 = 3;

/// Latencies in microseconds. They are those of answers with success, and of requests that timed
/// out, which count with the time that they waited: to leave them out would make a server better
/// the longer it stands still. Other failures have no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The mean.
    pub average_us: u64,
    /// Half of the requests took no longer.
    pub p50_us: u64,
    /// Nine of ten took no longer.
    pub p90_us: u64,
    /// Nineteen of twenty took no longer.
    pub p95_us: u64,
    /// Ninety-nine of a hundred took no longer.
    pub p99_us: u64,
    /// The longest, exactly.
    pub max_us: u64,
}

/// Requests of one target, of a class or of all.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests that were answered with success.
    pub answered: u64,
    /// Bytes of the answers' bodies.
    pub bytes: u64,
    failures: [u64; Failure::ALL.len()],
    sum_us: u128,
    max_us: u64,
    latencies: Histogram<u32>,
    corrected: Option<Histogram<u64>>,
}

impl Tally {
    pub(crate) fn new(digits: u8, is_corrected: bool) -> Result<Tally, Error> {
        let corrected = is_corrected.then(|| Histogram::new(digits)).transpose();
        Ok(Tally {
            answered: 0,
            failures: [0; Failure::ALL.len()],
            bytes: 0,
            sum_us: 0,
            max_us: 0,
            latencies: Histogram::new(digits).map_err(Error::Histogram)?,
            corrected: corrected.map_err(Error::Histogram)?,
        })
    }

    /// An answer with success.
    pub(crate) fn answer(&mut self, latency_us: u64, bytes: u64, interval_us: Option<u64>) {
        self.answered += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.latency(latency_us, interval_us);
    }

    /// A failure, with the time that the request waited.
    pub(crate) fn failure(&mut self, failure: Failure, waited_us: u64, interval_us: Option<u64>) {
        self.failures[failure as usize] += 1;
        if failure == Failure::Timeout {
            self.latency(waited_us, interval_us);
        }
    }

    fn latency(&mut self, latency_us: u64, interval_us: Option<u64>) {
        let latency_us = latency_us.min(LATENCY_US_MAX);
        self.sum_us += u128::from(latency_us);
        self.max_us = self.max_us.max(latency_us);
        record(&mut self.latencies, latency_us);
        if let (Some(corrected), Some(interval_us)) = (&mut self.corrected, interval_us) {
            record_corrected(corrected, latency_us, interval_us);
        }
    }

    /// Requests that failed for this reason.
    pub fn failed(&self, failure: Failure) -> u64 {
        self.failures[failure as usize]
    }

    /// Requests that failed.
    pub fn failed_all(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// The latencies; `None` if there is none.
    pub fn latency_us(&self) -> Option<Latency> {
        let average_us = self.sum_us.checked_div(u128::from(self.latencies.len()))?;
        let average_us = u64::try_from(average_us).unwrap_or(u64::MAX);
        Some(self.latency_of(&self.latencies, average_us))
    }

    /// The latencies of a closed loop with those requests added that its clients would have sent
    /// while they waited; `None` if there is none, or no usual interval was given.
    pub fn corrected_us(&self) -> Option<Latency> {
        let corrected = self.corrected.as_ref().filter(|corrected| !corrected.is_empty())?;
        Some(self.latency_of(corrected, corrected.mean() as u64))
    }

    fn latency_of<T: Counter>(&self, latencies: &Histogram<T>, average_us: u64) -> Latency {
        let at = |quantile| latencies.value_at_quantile(quantile).min(self.max_us);
        let [p50_us, p90_us, p95_us, p99_us] = [0.50, 0.90, 0.95, 0.99].map(at);
        Latency { average_us, p50_us, p90_us, p95_us, p99_us, max_us: self.max_us }
    }

    /// Whether it is kept what late answers kept back.
    pub(crate) fn is_corrected(&self) -> bool {
        self.corrected.is_some()
    }

    /// How many latencies are at least so long, to the histogram's precision.
    pub fn at_least(&self, latency_us: u64) -> u64 {
        let all = self.latencies.len();
        let shorter = latency_us.saturating_sub(1);
        all - self.latencies.count_between(0, shorter).min(all)
    }
}

/// Adds a latency. These histograms grow, so that none is too long for them.
fn record<T: Counter>(histogram: &mut Histogram<T>, latency_us: u64) {
    let recorded = histogram.record(latency_us);
    debug_assert!(recorded.is_ok(), "{latency_us}");
}

/// Adds a latency, and those of the requests that would have waited with it, one an interval.
fn record_corrected(histogram: &mut Histogram<u64>, latency_us: u64, interval_us: u64) {
    /// Requests that one long wait may stand for: an interval of a microsecond would otherwise
    /// keep the thread busy while the servers wait for it.
    const MISSED_MAX: u64 = 100_000;
    record(histogram, latency_us);
    let missed = (latency_us.checked_div(interval_us).unwrap_or(0)).min(MISSED_MAX);
    for n in 1..=missed {
        let missing_us = latency_us.saturating_sub(n.saturating_mul(interval_us));
        if missing_us >= interval_us {
            record(histogram, missing_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_the_precision_and_ends_exactly() {
        for (precision, part) in [(HUNDREDTH, 100), (THOUSANDTH, 1000)] {
            let mut tally = Tally::new(precision, false).unwrap();
            assert_eq!(tally.latency_us(), None, "missing is not 0");
            for n in 1..=1000 {
                tally.answer(n * 1000, 10, None);
            }
            let latency = tally.latency_us().unwrap();
            let near = |found: u64, real: u64| {
                assert!(found.abs_diff(real) <= real / part, "{found} for {real}");
            };
            near(latency.p50_us, 500_000);
            near(latency.p90_us, 900_000);
            near(latency.p95_us, 950_000);
            near(latency.p99_us, 990_000);
            assert_eq!((latency.average_us, latency.max_us), (500_500, 1_000_000));
            assert_eq!((tally.answered, tally.bytes), (1000, 10_000));
            let late = tally.at_least(900_000);
            assert!((95..=105).contains(&late), "{late}");
        }
    }

    #[test]
    fn a_timeout_has_its_time_and_other_failures_have_none() {
        let mut tally = Tally::new(HUNDREDTH, false).unwrap();
        tally.failure(Failure::Refused, 5, None);
        assert_eq!(tally.latency_us(), None);
        tally.failure(Failure::Timeout, 10_000_000, None);
        assert_eq!(tally.latency_us().unwrap().max_us, 10_000_000);
        assert_eq!((tally.failed(Failure::Timeout), tally.failed_all()), (1, 2));
        tally.answer(u64::MAX, 0, None);
        assert_eq!(tally.latency_us().unwrap().max_us, LATENCY_US_MAX);
    }

    #[test]
    fn one_long_wait_stands_for_the_requests_that_it_kept_back() {
        let mut tally = Tally::new(THOUSANDTH, true).unwrap();
        for _ in 0..100 {
            tally.answer(1000, 0, Some(10_000));
        }
        tally.answer(1_000_000, 0, Some(10_000));
        assert!(tally.latency_us().unwrap().p90_us < 1100);
        let corrected = tally.corrected_us().unwrap();
        assert!((400_000..900_000).contains(&corrected.p90_us), "{corrected:?}");
        assert_eq!(corrected.max_us, 1_000_000);
    }
}
