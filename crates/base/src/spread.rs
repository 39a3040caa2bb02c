//! A figure out of several measurements, with how far they lie apart.

/// Several measurements of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The one in the middle; of an even number, the mean of the two there. One burst of a
    /// neighbour does not move it.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// How many there are.
    pub count: usize,
}

impl Spread {
    /// Of values in any order, without those that are no numbers; none of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let (low, high) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(count - 1) / 2], values[count / 2]);
        Some(Spread { median, low, high, count })
    }

    /// The same times a factor.
    pub fn times(&self, factor: f64) -> Spread {
        Spread {
            median: self.median * factor,
            low: self.low * factor,
            high: self.high * factor,
            count: self.count,
        }
    }

    /// "0.97 (0.95-1.01)", or only the figure where there is but one.
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
}
