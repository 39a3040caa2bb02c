//! A figure out of several repetitions, with how far they lie apart.

/// Repetitions of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The one in the middle; of an even number, the mean of the two there.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// How many there are.
    pub count: usize,
}

impl Spread {
    /// Of values in any order; none of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Spread { median, low, high, count: values.len() })
    }

    /// Of what was measured against what it is held against, repetition by repetition: what
    /// makes a whole repetition slow is then in both.
    pub fn of_ratios(ours: &[(u32, f64)], base: &[(u32, f64)]) -> Option<Spread> {
        let ratio = |(repetition, value): &(u32, f64)| {
            let (_, base) = base.iter().find(|(found, _)| found == repetition)?;
            (*base > 0.0).then_some(value / base)
        };
        Spread::of(ours.iter().filter_map(ratio))
    }

    /// "0.97 (0.95-1.01)", or only the figure where there is but one.
    pub fn text(&self, decimals: usize) -> String {
        let Spread { median, low, high, count } = self;
        match count {
            1 => format!("{median:.decimals$}"),
            _ => format!("{median:.decimals$} ({low:.decimals$}-{high:.decimals$})"),
        }
    }

    /// The same times a hundred.
    pub fn times_100(&self) -> Spread {
        Spread {
            median: self.median * 100.0,
            low: self.low * 100.0,
            high: self.high * 100.0,
            count: self.count,
        }
    }

    /// The same times a hundred, with a sign for it.
    pub fn percent(&self) -> String {
        let Spread { median, low, high, count } = self.times_100();
        match count {
            1 => format!("{median:.0} %"),
            _ => format!("{median:.0} % ({low:.0}-{high:.0})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_ends() {
        let spread = Spread::of([3.0, 1.0, 2.0, f64::NAN]).unwrap();
        assert_eq!(spread, Spread { median: 2.0, low: 1.0, high: 3.0, count: 3 });
        assert_eq!(Spread::of([4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([]), None);
        assert_eq!(spread.text(1), "2.0 (1.0-3.0)");
        assert_eq!(Spread::of([0.25]).unwrap().percent(), "25 %");
    }

    #[test]
    fn ratios_are_taken_within_a_repetition() {
        let base = [(1, 10.0), (2, 20.0), (3, 0.0)];
        let spread = Spread::of_ratios(&[(2, 30.0), (1, 5.0), (3, 1.0), (4, 1.0)], &base).unwrap();
        assert_eq!((spread.low, spread.high, spread.count), (0.5, 1.5, 2));
        assert_eq!(Spread::of_ratios(&[(9, 1.0)], &base), None);
    }
}
