//! Table of derived fields. Help, columns, CSV and JSON names, metric names and the documentation
//! are generated from this table.
//!
//! A field's name ends in its unit and does not change once published. New fields are added at the
//! end of their part.

mod derived;
mod guest;
mod host;
mod inside;
mod outside;
mod tier;

pub use derived::{Derived, Raw, Scope};

/// Returns all derived fields, in the order of the documentation.
pub fn all() -> impl Iterator<Item = &'static Derived> {
    let parts = [
        host::HOST,
        guest::GUEST,
        guest::STATES,
        inside::GUEST,
        outside::GUEST,
        tier::TIER,
        inside::PROCESS,
        inside::FINDING,
    ];
    parts.into_iter().flatten()
}

/// Returns the field with this name in a scope.
pub fn field(scope: Scope, id: &str) -> Option<&'static Derived> {
    all().find(|field| field.scope == scope && field.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measure;
    use crate::facts::Facts;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn names_are_given_once_and_end_in_their_unit() {
        let mut seen = BTreeSet::new();
        for field in all() {
            assert!(seen.insert((field.scope, field.id)), "{} twice", field.id);
            let unit = field.unit.text().to_lowercase().replace('%', "percent");
            let unit = if field.unit == Measure::Ratio { "ratio".to_owned() } else { unit };
            let suffix = format!("_{unit}").replace('/', "_per_").replace("__", "_");
            assert!(unit.is_empty() || field.id.ends_with(&suffix), "{}", field.id);
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(field.id.chars().all(plain), "{}", field.id);
            let is_made = field.scope == Scope::Finding || !field.sources.is_empty();
            assert!(is_made && !field.words.is_empty() && !field.formula.is_empty());
            let lines: Vec<&str> = field.title.split('|').collect();
            assert!(lines.len() <= 2 && lines.iter().all(|line| line.len() <= 10), "{}", field.id);
        }
    }

    /// A column head has one meaning in all tables: two fields of a subject never share a head.
    #[test]
    fn heading_names_one_field_of_its_subject() {
        let mut seen = BTreeMap::new();
        for field in all() {
            let other = seen.insert((field.scope, field.heading().to_lowercase()), field.id);
            assert_eq!(other, None, "{} has the head of another", field.id);
        }
    }

    #[test]
    fn a_field_without_its_sources_is_missing() {
        for field in all() {
            assert_eq!(field.value(&Facts::default()), None, "{}", field.id);
        }
    }
}
