//! Medians: one neighbour's burst must not move a figure.

/// A median with the range that it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The value in the middle; of an even number, the mean of the two there.
    pub median: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
    /// How many values there were.
    pub count: usize,
}

/// Sums values up. `None` where there is none, or one that is no number.
pub fn summary(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    if sorted.iter().any(|value| !value.is_finite()) {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let (least, most) = (*sorted.first()?, *sorted.last()?);
    let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
    Some(Summary { median, least, most, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_an_outlier_does_not_move_it() {
        let of = |values: &[f64]| summary(values.iter().copied());
        let three = of(&[3.0, 1000.0, 1.0]).unwrap();
        assert_eq!((three.median, three.least, three.most, three.count), (3.0, 1.0, 1000.0, 3));
        assert_eq!(of(&[4.0, 1.0, 2.0, 9.0]).unwrap().median, 3.0);
        assert_eq!(of(&[7.0]).unwrap().median, 7.0);
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(summary([]), None);
        assert_eq!(summary([1.0, f64::NAN]), None);
        assert_eq!(summary([f64::INFINITY]), None);
    }
}
