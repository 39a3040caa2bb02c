//! What is recorded: one table of raw fields for a guest, one for the host, one for a tier of
//! memory, one for a process inside of a guest.
//!
//! Values are kept as they were read. A rate, a share or a wait is derived from two rows by
//! the same code wherever it is shown. The names here are the columns of the store, the keys
//! of CSV and JSON and the beginnings of the metrics' names: once published they do not change,
//! and new fields are added at the end.

mod guest;
mod host;
mod moment;
mod process;
mod tier;

pub use guest::GuestField;
pub use host::HostField;
pub use moment::{Interval, Moment, Over, ProcessName, Who};
pub use process::ProcessField;
pub use tier::TierField;

use std::marker::PhantomData;

/// How a field behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It only grows, from a beginning that is not known; when it falls, it began anew.
    Counter,
    /// It is as it is at the moment.
    Gauge,
}

/// What a field is counted in. It stands last in the field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Pages of 4 KiB.
    Pages,
    /// Clock ticks of the guest's own kernel, a hundred a second.
    Ticks,
    /// A plain number.
    Count,
    /// Thousandths.
    Permille,
}

/// A table of fields.
pub trait Field: Copy + std::fmt::Debug + Eq + Ord + 'static {
    /// Every field, in the order of the columns.
    const ALL: &'static [Self];

    /// Its place in a row.
    fn index(self) -> usize;
    /// Its name, with the unit last.
    fn name(self) -> &'static str;
    /// What it is counted in.
    fn unit(self) -> Unit;
    /// How it behaves.
    fn kind(self) -> Kind;
    /// The file or message that it is read from.
    fn source(self) -> &'static str;
    /// What it is, in a few words.
    fn doc(self) -> &'static str;

    /// The field of that name.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }
}

/// The fields of one thing at one moment. What could not be read is missing, never 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<F> {
    values: Box<[Option<u64>]>,
    of: PhantomData<F>,
}

impl<F: Field> Default for Row<F> {
    fn default() -> Row<F> {
        Row { values: vec![None; F::ALL.len()].into(), of: PhantomData }
    }
}

impl<F: Field> Row<F> {
    /// The value of a field.
    pub fn get(&self, field: F) -> Option<u64> {
        self.values[field.index()]
    }

    /// Sets a field, or makes it missing.
    pub fn set(&mut self, field: F, value: Option<u64>) {
        self.values[field.index()] = value;
    }

    /// All values, in the order of the columns.
    pub fn values(&self) -> &[Option<u64>] {
        &self.values
    }

    /// A row from values in the order of the columns; what an older version did not have is
    /// missing, and what a newer one has more is left out.
    pub fn of_values(values: &[Option<u64>]) -> Row<F> {
        let mut row = Row::default();
        let count = values.len().min(row.values.len());
        row.values[..count].copy_from_slice(&values[..count]);
        row
    }

    /// How much a counter has grown since an earlier row; `None` if it began anew meanwhile, or
    /// one of the two is missing.
    pub fn grown(&self, field: F, before: &Row<F>) -> Option<u64> {
        self.get(field)?.checked_sub(before.get(field)?)
    }
}

/// Defines a table of fields: variant, name, unit, kind, source, words.
macro_rules! fields {
    ($(#[$doc:meta])* $name:ident {
        $($variant:ident = $text:literal, $unit:ident, $kind:ident, $source:literal,
            $words:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $(#[doc = $words] $variant),+ }

        impl $crate::series::Field for $name {
            const ALL: &'static [$name] = &[$($name::$variant),+];

            fn index(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            fn unit(self) -> $crate::series::Unit {
                match self { $($name::$variant => $crate::series::Unit::$unit),+ }
            }

            fn kind(self) -> $crate::series::Kind {
                match self { $($name::$variant => $crate::series::Kind::$kind),+ }
            }

            fn source(self) -> &'static str {
                match self { $($name::$variant => $source),+ }
            }

            fn doc(self) -> &'static str {
                match self { $($name::$variant => $words),+ }
            }
        }
    };
}

pub(crate) use fields;

#[cfg(test)]
mod tests {
    use super::*;

    fn check<F: Field>() {
        for (index, field) in F::ALL.iter().enumerate() {
            assert_eq!(field.index(), index);
            assert_eq!(F::from_name(field.name()), Some(*field), "a name is given twice");
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(field.name().chars().all(plain), "{field:?}");
            let ending = match field.unit() {
                Unit::Bytes => "_bytes",
                Unit::Nanoseconds => "_ns",
                Unit::Pages => "_pages",
                Unit::Ticks => "_ticks",
                Unit::Permille => "_permille",
                Unit::Count => "",
            };
            assert!(field.name().ends_with(ending), "{field:?} is in {ending}");
            assert!(!field.doc().is_empty() && !field.source().is_empty());
        }
    }

    #[test]
    fn every_field_has_a_name_of_its_own_that_ends_in_its_unit() {
        check::<GuestField>();
        check::<HostField>();
        check::<TierField>();
        check::<ProcessField>();
    }

    #[test]
    fn a_counter_that_began_anew_has_not_grown() {
        let (mut before, mut now) = (Row::<TierField>::default(), Row::<TierField>::default());
        let field = TierField::Reads;
        assert_eq!(now.grown(field, &before), None);
        before.set(field, Some(10));
        now.set(field, Some(12));
        assert_eq!(now.grown(field, &before), Some(2));
        now.set(field, Some(3));
        assert_eq!(now.grown(field, &before), None);
        assert_eq!(Row::<TierField>::of_values(now.values()), now);
        assert_eq!(Row::<TierField>::of_values(&[Some(1)]).get(field), None);
    }
}
