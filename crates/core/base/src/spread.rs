//! A figure from several measurements, with their range or its confidence interval.

use crate::Rng;

/// Bounds on the number of resamples of a bootstrap. More than 100 values get fewer resamples, so
/// that a file with many values does not take too long.
const RESAMPLES_MAX: usize = 2000;
const RESAMPLES_MIN: usize = 200;
const DRAWN_MAX: usize = 200_000;
/// A fixed seed, so that the same measurements always give the same result.
const SEED: u64 = 95;
/// Number of values below which the whole range is the interval.
const FEW: usize = 10;

/// Several measurements of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value, or the mean of the middle two values. A single disturbed measurement
    /// hardly changes the median.
    pub median: f64,
    /// The smallest value, or the lower end of the interval.
    pub low: f64,
    /// The largest value, or the upper end of the interval.
    pub high: f64,
    /// Number of measurements.
    pub count: usize,
}

impl Spread {
    /// Number of measurements needed for an interval. With fewer measurements, even the whole range
    /// contains the true median in less than 95 of 100 cases.
    pub const ENOUGH: usize = 6;

    /// Returns the median and range of values in any order, ignoring NaN and infinities; `None`
    /// without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let (low, high) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(count - 1) / 2], values[count / 2]);
        Some(Spread { median, low, high, count })
    }

    /// Returns the median with its 95 % interval, by bootstrap: the range of the resamples' medians
    /// without the lowest and the highest 2.5 %. For fewer than ten values this interval is too
    /// narrow, so the whole range is used. The range of six values contains the true median in 96.9
    /// of 100 cases (see [`Spread::ENOUGH`]).
    pub fn interval(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        // The result must not depend on the values' order.
        values.sort_by(f64::total_cmp);
        let all = Spread::of(values.iter().copied())?;
        if all.count < FEW {
            return Some(all);
        }
        let mut rng = Rng::new(SEED);
        let resamples = (DRAWN_MAX / all.count).clamp(RESAMPLES_MIN, RESAMPLES_MAX);
        let resample = |_| {
            let draw = |_| values[rng.within(0, all.count as u64 - 1) as usize];
            Spread::of((0..all.count).map(draw)).map(|spread| spread.median)
        };
        let mut medians: Vec<f64> = (0..resamples).filter_map(resample).collect();
        medians.sort_by(f64::total_cmp);
        let outside = medians.len() / 40;
        let low = *medians.get(outside)?;
        let high = *medians.get(medians.len().checked_sub(outside + 1)?)?;
        Some(Spread { low, high, ..all })
    }

    /// Returns true if there are enough measurements for a reliable interval.
    pub fn is_enough(&self) -> bool {
        self.count >= Spread::ENOUGH
    }

    /// Returns the figures multiplied by a factor.
    pub fn times(&self, factor: f64) -> Spread {
        Spread {
            median: self.median * factor,
            low: self.low * factor,
            high: self.high * factor,
            count: self.count,
        }
    }

    /// Formats as "0.97 (0.95-1.01)", or only the figure if there is one measurement.
    pub fn text(&self, decimals: usize) -> String {
        let Spread { median, low, high, count } = self;
        match count {
            1 => format!("{median:.decimals$}"),
            _ => format!("{median:.decimals$} ({low:.decimals$}-{high:.decimals$})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_ends() {
        let spread = Spread::of([3.0, 1000.0, 1.0, f64::NAN]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, low: 1.0, high: 1000.0, count: 3 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::INFINITY]), None);
        assert_eq!(spread.text(1), "3.0 (1.0-1000.0)");
        assert_eq!(Spread::of([0.25]).unwrap().times(100.0).text(0), "25");
    }

    #[test]
    fn an_interval_holds_the_median_and_is_narrower_than_the_range() {
        let values = || (1..=20).map(f64::from).chain([1000.0]);
        let interval = Spread::interval(values()).unwrap();
        assert_eq!((interval.median, interval.count), (11.0, 21));
        assert!(interval.low >= 5.0 && interval.low < 11.0, "{interval:?}");
        assert!(interval.high > 11.0 && interval.high <= 17.0, "{interval:?}");
        let backwards: Vec<f64> = values().collect();
        assert_eq!(Spread::interval(backwards.into_iter().rev()), Some(interval));
        assert_eq!(Spread::interval([]), None);
        let one = Spread::interval([4.0, f64::NAN]).unwrap();
        assert_eq!(one, Spread { median: 4.0, low: 4.0, high: 4.0, count: 1 });
    }

    #[test]
    fn an_interval_holds_the_truth_about_as_often_as_it_says() {
        // Rounds of twelve values of noise, with a known median of 0.
        let mut rng = Rng::new(7);
        let mut holds = 0;
        for _ in 0..200 {
            let mut noise = || (0..3).map(|_| rng.within(0, 2000) as f64 - 1000.0).sum::<f64>();
            let interval = Spread::interval((0..12).map(|_| noise())).unwrap();
            holds += u32::from(interval.low <= 0.0 && interval.high >= 0.0);
        }
        assert!((175..=200).contains(&holds), "{holds} of 200");
    }
}
