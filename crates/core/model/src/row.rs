//! Fields of one subject at one moment.

use crate::field::Field;
use std::marker::PhantomData;

/// Maximum number of fields in a table: one bit each in a row's mask.
const FIELDS_MAX: usize = 128;

/// Fields of one subject at one moment. A value that could not be read is missing, never 0.
///
/// Most rows have only some of their fields, and a day of a hundred guests has 144,000 rows. A row
/// therefore contains only known values, and a mask of their fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<F> {
    /// Mask of the known fields.
    known: u128,
    /// Known values, in the order of the columns.
    values: Vec<u64>,
    of: PhantomData<F>,
}

impl<F> Default for Row<F> {
    fn default() -> Row<F> {
        Row { known: 0, values: Vec::new(), of: PhantomData }
    }
}

impl<F: Field> Extend<(F, Option<u64>)> for Row<F> {
    fn extend<I: IntoIterator<Item = (F, Option<u64>)>>(&mut self, values: I) {
        let values = values.into_iter();
        self.values.reserve(values.size_hint().0);
        values.for_each(|(field, value)| self.set(field, value));
    }
}

impl<F: Field> Row<F> {
    /// Compile-time check that a table fits the mask.
    const FITS: () = assert!(F::ALL.len() <= FIELDS_MAX);

    /// Returns the bit of a field, and the number of known fields before it.
    fn place(&self, field: F) -> (u128, usize) {
        let () = Row::<F>::FITS;
        let bit = 1 << field.index();
        (bit, (self.known & (bit - 1)).count_ones() as usize)
    }

    /// Returns the value of a field.
    pub fn get(&self, field: F) -> Option<u64> {
        let (bit, place) = self.place(field);
        if self.known & bit == 0 {
            return None;
        }
        self.values.get(place).copied()
    }

    /// Sets a field, or makes it missing.
    pub fn set(&mut self, field: F, value: Option<u64>) {
        let (bit, place) = self.place(field);
        match (self.known & bit != 0, value) {
            (true, Some(value)) => self.values[place] = value,
            (false, Some(value)) => {
                self.known |= bit;
                self.values.insert(place, value);
            }
            (true, None) => {
                self.known &= !bit;
                self.values.remove(place);
            }
            (false, None) => {}
        }
    }

    /// Makes all fields missing, and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.known = 0;
        self.values.clear();
    }

    /// Returns the known fields with their values, in the order of the columns.
    pub fn known(&self) -> impl Iterator<Item = (F, u64)> {
        let mut left = self.known;
        self.values.iter().map(move |value| {
            let field = F::ALL[left.trailing_zeros() as usize];
            left &= left.wrapping_sub(1);
            (field, *value)
        })
    }

    /// Returns all values, in the order of the columns.
    pub fn values(&self) -> Vec<Option<u64>> {
        let mut all = vec![None; F::ALL.len()];
        self.known().for_each(|(field, value)| all[field.index()] = Some(value));
        all
    }

    /// Creates a row from values in the order of the columns. Values that an older version did not
    /// write are missing, and additional values of a newer version are ignored.
    pub fn of_values(values: &[Option<u64>]) -> Row<F> {
        let mut row = Row { values: Vec::with_capacity(values.len()), ..Row::default() };
        for (field, value) in F::ALL.iter().zip(values) {
            row.set(*field, *value);
        }
        row
    }

    /// Maps each known field to a value, or to none.
    pub(crate) fn filter_map(&self, value_of: impl Fn(F, u64) -> Option<u64>) -> Row<F> {
        let mut row = Row { values: Vec::with_capacity(self.values.len()), ..Row::default() };
        for (field, value) in self.known() {
            if let Some(value) = value_of(field, value) {
                row.known |= 1 << field.index();
                row.values.push(value);
            }
        }
        row
    }

    /// Overwrites fields with the known values of another row.
    pub fn overlay(&mut self, above: &Row<F>) {
        self.merge(above, |_, _, value| value);
    }

    /// Merges another row into this one. `add` returns the value of a field that both rows have.
    pub(crate) fn merge(&mut self, other: &Row<F>, add: impl Fn(F, u64, u64) -> u64) {
        if self.known | other.known != self.known {
            *self = self.joined(other, add);
            return;
        }
        let mut at = 0;
        let mut left = self.known;
        for (field, value) in other.known() {
            // Both rows are in the order of the columns.
            let bit = 1 << field.index();
            let before = left & (bit - 1);
            at += before.count_ones() as usize;
            self.values[at] = add(field, self.values[at], value);
            left &= !(before | bit);
            at += 1;
        }
    }

    /// Merges another row that has fields which this row lacks.
    fn joined(&self, other: &Row<F>, add: impl Fn(F, u64, u64) -> u64) -> Row<F> {
        let known = self.known | other.known;
        let mut values = Vec::with_capacity(known.count_ones() as usize);
        let (mut own, mut others) = (self.values.iter(), other.values.iter());
        let mut left = known;
        while left != 0 {
            let field = F::ALL[left.trailing_zeros() as usize];
            let bit = left & left.wrapping_neg();
            left ^= bit;
            let a = if self.known & bit != 0 { own.next() } else { None };
            let b = if other.known & bit != 0 { others.next() } else { None };
            values.extend(match (a, b) {
                (Some(a), Some(b)) => Some(add(field, *a, *b)),
                (a, b) => a.or(b).copied(),
            });
        }
        Row { known, values, of: PhantomData }
    }

    /// Returns the growth of a counter since an earlier row. `None` if the counter restarted
    /// meanwhile, or if one of the two values is missing.
    pub fn grown(&self, field: F, before: &Row<F>) -> Option<u64> {
        self.get(field)?.checked_sub(before.get(field)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GuestField, TierField};

    #[test]
    fn a_row_keeps_what_it_is_given_and_no_more() {
        let mut row = Row::<GuestField>::default();
        let mut plain = vec![None; GuestField::ALL.len()];
        let mut seed = 7_u64;
        for _ in 0..5_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let field = GuestField::ALL[(seed >> 33) as usize % GuestField::ALL.len()];
            let value = (seed & 4 > 0).then_some(seed >> 20);
            row.set(field, value);
            plain[field.index()] = value;
            assert_eq!(row.get(field), value);
        }
        assert_eq!(row.values(), plain);
        assert_eq!(Row::of_values(&plain), row);
        let there = GuestField::ALL.iter().filter_map(|field| Some((*field, row.get(*field)?)));
        assert!(row.known().eq(there));
        row.clear();
        assert_eq!(row, Row::default());
    }

    #[test]
    fn common_fields_of_two_rows_are_added_and_others_kept() {
        let row = |values: &[Option<u64>]| Row::<TierField>::of_values(values);
        let check = |one: &[Option<u64>], other: &[Option<u64>], expected: &[Option<u64>]| {
            let mut sum = row(one);
            sum.merge(&row(other), |_, a, b| a + b);
            assert_eq!(sum, row(expected));
        };
        let (a, b) = (Some(1), Some(10));
        check(&[a, a, a, a], &[None, b, None, b], &[a, Some(11), a, Some(11)]);
        check(&[None, a, None, a], &[b, b, b, None], &[b, Some(11), b, a]);
        check(&[], &[None, b], &[None, b]);
        check(&[a], &[], &[a]);
        let mut below = row(&[a, a, None, a]);
        below.overlay(&row(&[b, None, b]));
        assert_eq!(below, row(&[b, a, b, a]));
        below.overlay(&row(&[None, b]));
        assert_eq!(below, row(&[b, b, b, a]));
    }

    #[test]
    fn a_rule_leaves_fields_out() {
        let row = Row::<TierField>::of_values(&[Some(1), None, Some(2), Some(3)]);
        let found =
            row.filter_map(|field, value| (field != TierField::ALL[2]).then_some(value * 2));
        assert_eq!(found, Row::of_values(&[Some(2), None, None, Some(6)]));
    }

    #[test]
    fn restarted_counter_has_no_growth() {
        let (mut before, mut now) = (Row::<TierField>::default(), Row::<TierField>::default());
        let field = TierField::Reads;
        assert_eq!(now.grown(field, &before), None);
        before.set(field, Some(10));
        now.set(field, Some(12));
        assert_eq!(now.grown(field, &before), Some(2));
        now.set(field, Some(3));
        assert_eq!(now.grown(field, &before), None);
        assert_eq!(Row::<TierField>::of_values(&now.values()), now);
        assert_eq!(Row::<TierField>::of_values(&[Some(1)]).get(field), None);
    }
}
