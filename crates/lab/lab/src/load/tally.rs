//! Counts of requests, and their latencies.

use crate::load::Error;
use base::named;
use hdrhistogram::{Counter, Histogram};

/// Maximum latency: a day. No timeout allows a longer latency, which would count as a day.
const LATENCY_US_MAX: u64 = 24 * 3600 * 1_000_000;

named! {
    /// The reason why a request failed.
    pub enum Failure {
        /// No process listens.
        Refused = "refused",
        /// The connection was reset.
        Reset = "reset",
        /// The connection ended before the response did.
        Closed = "closed",
        /// The request timed out.
        Timeout = "timeout",
        /// The response is not HTTP.
        Malformed = "malformed",
        /// The response is not a success: its status is neither 2xx nor 3xx.
        Status = "status",
        /// This machine has no port, file or memory left for a connection. The load is too large
        /// for this machine, and the server is not at fault.
        Exhausted = "exhausted",
        /// Any other error of the system.
        Other = "other",
    }
}

/// Precision of latencies, in significant digits.
pub(crate) const HUNDREDTH: u8 = 2;
pub(crate) const THOUSANDTH: u8 = 3;

/// Latencies in microseconds, of successful responses and of timeouts. A timeout counts with its
/// waiting time. Otherwise a server would look better the longer the server stalls. Other failures
/// have no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Mean.
    pub average_us: u64,
    /// 50th percentile.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// Maximum, exact.
    pub max_us: u64,
}

/// Counts for one target, for a class or for all targets.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Number of successful requests.
    pub answered: u64,
    /// Bytes of the responses' bodies.
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

    pub(crate) fn answer(&mut self, latency_us: u64, bytes: u64, interval_us: Option<u64>) {
        self.answered += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.latency(latency_us, interval_us);
    }

    /// Counts a failure, with the waiting time of the request.
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

    /// Returns the number of requests that failed for this reason.
    pub fn failed(&self, failure: Failure) -> u64 {
        self.failures[failure as usize]
    }

    /// Returns the number of failed requests.
    pub fn failed_all(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Returns the latencies; `None` if no latency was counted.
    pub fn latency_us(&self) -> Option<Latency> {
        let average_us = self.sum_us.checked_div(u128::from(self.latencies.len()))?;
        let average_us = u64::try_from(average_us).unwrap_or(u64::MAX);
        Some(self.latency_of(&self.latencies, average_us))
    }

    /// Returns the latencies of a closed loop, including the requests that clients would have sent
    /// while they waited. Returns `None` without latencies, or without a usual interval.
    pub fn corrected_us(&self) -> Option<Latency> {
        let corrected = self.corrected.as_ref().filter(|corrected| !corrected.is_empty())?;
        Some(self.latency_of(corrected, corrected.mean() as u64))
    }

    fn latency_of<T: Counter>(&self, latencies: &Histogram<T>, average_us: u64) -> Latency {
        let at = |quantile| latencies.value_at_quantile(quantile).min(self.max_us);
        let [p50_us, p90_us, p95_us, p99_us] = [0.50, 0.90, 0.95, 0.99].map(at);
        Latency { average_us, p50_us, p90_us, p95_us, p99_us, max_us: self.max_us }
    }

    pub(crate) fn is_corrected(&self) -> bool {
        self.corrected.is_some()
    }

    /// Returns the number of latencies of at least this length, to the histogram's precision.
    pub fn at_least(&self, latency_us: u64) -> u64 {
        let all = self.latencies.len();
        let shorter = latency_us.saturating_sub(1);
        all - self.latencies.count_between(0, shorter).min(all)
    }
}

/// Adds a latency. These histograms grow, so any latency fits.
fn record<T: Counter>(histogram: &mut Histogram<T>, latency_us: u64) {
    let recorded = histogram.record(latency_us);
    debug_assert!(recorded.is_ok(), "{latency_us}");
}

/// Adds a latency, and the latencies of the requests that would have waited meanwhile. There is one
/// such request per interval.
fn record_corrected(histogram: &mut Histogram<u64>, latency_us: u64, interval_us: u64) {
    /// Maximum number of requests for which one long wait counts. Without this limit, an interval
    /// of a microsecond would keep this thread busy, and delay all requests.
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
    fn percentiles_are_precise_and_the_maximum_is_exact() {
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
    fn timeouts_count_with_their_time_and_other_failures_do_not() {
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
    fn a_long_wait_counts_for_the_requests_that_it_delayed() {
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
