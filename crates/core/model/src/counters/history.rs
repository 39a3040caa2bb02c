//! The last rows that were read.

/// A ring of rows; row 0 is the newest row. An unreadable value counts as missing, never as 0. The
/// ring stores such a value as a NaN, and returns it as `None`.
#[derive(Clone, Debug)]
pub struct History {
    width: usize,
    rows: usize,
    newest: usize,
    filled: usize,
    values: Box<[f64]>,
}

impl History {
    /// Creates a ring for rows of `width` values that keeps `intervals` rows before the newest one.
    pub fn new(width: usize, intervals: usize) -> History {
        let rows = intervals + 1;
        History { width, rows, newest: 0, filled: 0, values: vec![f64::NAN; width * rows].into() }
    }

    /// Adds a new row with all values missing, and returns it to be filled.
    pub fn advance(&mut self) -> &mut [f64] {
        self.newest = (self.newest + 1) % self.rows;
        self.filled = (self.filled + 1).min(self.rows);
        let start = self.newest * self.width;
        let row = &mut self.values[start..start + self.width];
        row.fill(f64::NAN);
        row
    }

    /// Returns the newest row, to be completed.
    pub fn newest(&mut self) -> &mut [f64] {
        let start = self.newest * self.width;
        &mut self.values[start..start + self.width]
    }

    /// Drops all rows, so that the next row has no past.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Drops the newest row after a read that failed half way. The oldest row, which the newest row
    /// has replaced, stays lost.
    pub fn retract(&mut self) {
        if self.filled > 0 {
            self.newest = (self.newest + self.rows - 1) % self.rows;
            self.filled -= 1;
        }
    }

    /// Returns the number of rows held.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Returns true if every past row that a program may use is present.
    pub fn is_full(&self) -> bool {
        self.filled == self.rows
    }

    /// Returns the value in `slot`, `age` intervals ago. `None` if it was not read.
    #[inline]
    pub fn get(&self, slot: usize, age: usize) -> Option<f64> {
        let value = self.raw(slot, age);
        (!value.is_nan()).then_some(value)
    }

    /// Returns a value like [`History::get`], with a NaN for a missing value.
    #[inline]
    pub fn raw(&self, slot: usize, age: usize) -> f64 {
        if age >= self.filled || slot >= self.width {
            return f64::NAN;
        }
        let row = (self.newest + self.rows - age) % self.rows;
        self.values[row * self.width + slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_row_is_age_0_and_old_rows_fall_off() {
        let mut history = History::new(1, 2);
        for value in 1..=4 {
            history.advance()[0] = f64::from(value);
        }
        assert!(history.is_full());
        let seen: Vec<_> = (0..4).map(|age| history.get(0, age)).collect();
        assert_eq!(seen, [Some(4.0), Some(3.0), Some(2.0), None]);
    }

    #[test]
    fn unread_value_is_missing_and_not_zero() {
        let mut history = History::new(2, 1);
        history.advance()[0] = 7.0;
        assert_eq!(history.get(0, 0), Some(7.0));
        assert_eq!(history.get(1, 0), None);
        assert_eq!(history.get(0, 1), None);
        assert_eq!(history.get(9, 0), None);
    }

    #[test]
    fn a_retracted_row_was_never_there() {
        let mut history = History::new(1, 3);
        history.advance()[0] = 1.0;
        history.advance()[0] = 2.0;
        history.retract();
        assert_eq!((history.filled(), history.get(0, 0)), (1, Some(1.0)));
        history.clear();
        history.retract();
        assert_eq!(history.filled(), 0);
    }
}
