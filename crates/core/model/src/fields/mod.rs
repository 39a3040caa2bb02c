//! Recorded fields: tables of raw fields for a guest, for the host, for a tier of memory, and for a
//! process inside a guest. Two more tables contain the inputs of a policy pass.
//!
//! Values are kept as read. Rates, shares and waits are derived from two rows, by the same code
//! everywhere. The names here are the columns of the store, the keys of CSV and JSON, and the base
//! of metric names. Published names do not change, and new fields are added at the end.

mod guest;
mod host;
mod pass;
mod process;
mod tier;

pub use guest::GuestField;
pub use host::HostField;
pub use pass::{PassField, PassGuestField};
pub use process::ProcessField;
pub use tier::TierField;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Unit};

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
        check::<PassField>();
        check::<PassGuestField>();
    }
}
