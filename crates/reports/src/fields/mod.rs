//! The one table of derived fields: help, columns, CSV and JSON names, names of metrics and
//! the documentation are made from it.
//!
//! A field's name ends in its unit. Once published it does not change; new ones come at the
//! end of their part.

mod guest;
mod host;
mod inside;
mod outside;
mod tier;

use crate::facts::Facts;
use crate::number::Measure;
use model::{Field, GuestField, HostField, ProcessField, TierField};

/// What a derived field tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The host.
    Host,
    /// A guest, or the sum of several.
    Guest,
    /// A tier of memory.
    Tier,
    /// A process inside of a guest.
    Process,
    /// A finding of the advice.
    Finding,
}

impl Scope {
    /// As it stands in names.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Host => "host",
            Scope::Guest => "guest",
            Scope::Tier => "tier",
            Scope::Process => "process",
            Scope::Finding => "finding",
        }
    }
}

/// A raw field that a derived one is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Raw {
    /// Of a guest.
    Guest(GuestField),
    /// Of the host.
    Host(HostField),
    /// Of a tier.
    Tier(TierField),
    /// Of a process.
    Process(ProcessField),
}

impl Raw {
    /// Its name in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Raw::Guest(field) => field.name(),
            Raw::Host(field) => field.name(),
            Raw::Tier(field) => field.name(),
            Raw::Process(field) => field.name(),
        }
    }

    /// The table it is in.
    pub fn table(self) -> &'static str {
        match self {
            Raw::Guest(_) => "guest",
            Raw::Host(_) => "host",
            Raw::Tier(_) => "tier",
            Raw::Process(_) => "process",
        }
    }

    /// Where it is read.
    pub fn source(self) -> &'static str {
        match self {
            Raw::Guest(field) => field.source(),
            Raw::Host(field) => field.source(),
            Raw::Tier(field) => field.source(),
            Raw::Process(field) => field.source(),
        }
    }

    /// What it is in a row of a report.
    pub fn value(self, facts: &Facts<'_>) -> Option<u64> {
        match self {
            Raw::Guest(field) => facts.guest.get(field),
            Raw::Host(field) => facts.host.get(field),
            Raw::Tier(field) => facts.tier.get(field),
            Raw::Process(field) => facts.process.get(field),
        }
    }
}

/// A field that is derived from raw ones.
#[derive(Debug)]
pub struct Derived {
    /// Its name, with the unit last: the key of CSV and JSON.
    pub id: &'static str,
    /// The head of its column; a bar stands where the line may break.
    pub title: &'static str,
    /// What it is counted in.
    pub unit: Measure,
    /// Digits behind the point.
    pub decimals: u8,
    /// What it tells of.
    pub scope: Scope,
    /// What it is, in a few words.
    pub words: &'static str,
    /// How it is made, in words.
    pub formula: &'static str,
    /// What it is made from.
    pub sources: &'static [Raw],
    of: fn(&Facts<'_>) -> Option<f64>,
}

impl Derived {
    /// Its value; `None` if something that it needs is missing.
    pub fn value(&self, facts: &Facts<'_>) -> Option<f64> {
        (self.of)(facts).filter(|value| value.is_finite())
    }

    /// The head of its column in one line.
    pub fn heading(&self) -> String {
        self.title.replace('|', " ")
    }

    /// Its name as a metric.
    pub fn metric(&self) -> String {
        format!("pinhead_{}_{}", self.scope.name(), self.id)
    }
}

/// Defines derived fields: name, head, unit and digits; what it is made from; what it is; how
/// it is made; the function.
macro_rules! derived {
    (@raw guest $field:ident) => {
        $crate::fields::Raw::Guest(model::GuestField::$field)
    };
    (@raw host $field:ident) => {
        $crate::fields::Raw::Host(model::HostField::$field)
    };
    (@raw tier $field:ident) => {
        $crate::fields::Raw::Tier(model::TierField::$field)
    };
    (@raw process $field:ident) => {
        $crate::fields::Raw::Process(model::ProcessField::$field)
    };
    ($(#[$doc:meta])* $name:ident, $scope:ident {
        $($id:literal, $title:literal, $unit:ident $decimals:literal,
          [$($kind:ident $raw:ident),*], $words:literal, $formula:literal, $of:expr;)+
    }) => {
        $(#[$doc])*
        pub(super) static $name: &[$crate::fields::Derived] = &[$($crate::fields::Derived {
            id: $id,
            title: $title,
            unit: $crate::number::Measure::$unit,
            decimals: $decimals,
            scope: $crate::fields::Scope::$scope,
            words: $words,
            formula: $formula,
            sources: &[$($crate::fields::derived!(@raw $kind $raw)),*],
            of: $of,
        }),+];
    };
}

use derived;

/// All derived fields, in the order of the documentation.
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

/// The field of a scope that has this name.
pub fn field(scope: Scope, id: &str) -> Option<&'static Derived> {
    all().find(|field| field.scope == scope && field.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_given_once_and_end_in_their_unit() {
        let mut seen = BTreeSet::new();
        for field in all() {
            assert!(seen.insert((field.scope, field.id)), "{} twice", field.id);
            assert!(field.id.ends_with(field.unit.suffix()), "{}", field.id);
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(field.id.chars().all(plain), "{}", field.id);
            let is_made = field.scope == Scope::Finding || !field.sources.is_empty();
            assert!(is_made && !field.words.is_empty() && !field.formula.is_empty());
            let lines: Vec<&str> = field.title.split('|').collect();
            assert!(lines.len() <= 2 && lines.iter().all(|line| line.len() <= 10), "{}", field.id);
        }
    }

    #[test]
    fn a_field_without_its_sources_is_missing() {
        let host = model::Over::default();
        let guest = model::Over::default();
        let tier = model::Over::default();
        let process = model::Over::default();
        let facts = Facts {
            host: &host,
            guest: &guest,
            tier: &tier,
            process: &process,
            added: &crate::facts::Added::default(),
            on: None,
            active: None,
            unlisted_ns: None,
        };
        for field in all() {
            assert_eq!(field.value(&facts), None, "{}", field.id);
        }
    }
}
