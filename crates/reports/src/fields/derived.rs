//! What a derived field is, and how a table of them is written.

use crate::facts::Facts;
use crate::number::Measure;
use base::named;
use model::{Field, GuestField, HostField, ProcessField, TierField};

named! {
    /// What a derived field tells of.
    pub enum Scope {
        /// The host.
        Host = "host",
        /// A guest, or the sum of several.
        Guest = "guest",
        /// A tier of memory.
        Tier = "tier",
        /// A process inside of a guest.
        Process = "process",
        /// A finding of the advice.
        Finding = "finding",
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
    pub(super) of: fn(&Facts<'_>) -> Option<f64>,
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
            sources: &[$($crate::fields::derived::derived!(@raw $kind $raw)),*],
            of: $of,
        }),+];
    };
}

pub(super) use derived;
