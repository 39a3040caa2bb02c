//! Derived fields, and the macro that writes tables of them.

use crate::facts::{Facts, MIB, PAGE, per_min, per_s, share};
use crate::number::Measure;
use base::named;
use model::{Field, GuestField, HostField, ProcessField, TierField, Unit};

named! {
    /// Subject of a derived field.
    pub enum Scope {
        /// The host.
        Host = "host",
        /// A guest, or the sum of several guests.
        Guest = "guest",
        /// A tier of memory.
        Tier = "tier",
        /// A process inside of a guest.
        Process = "process",
        /// A finding of the advice.
        Finding = "finding",
    }
}

/// A raw field that a derived field is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Raw {
    /// A field of a guest.
    Guest(GuestField),
    /// A field of the host.
    Host(HostField),
    /// A field of a tier.
    Tier(TierField),
    /// A field of a process.
    Process(ProcessField),
}

impl Raw {
    /// Returns the field's name in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Raw::Guest(field) => field.name(),
            Raw::Host(field) => field.name(),
            Raw::Tier(field) => field.name(),
            Raw::Process(field) => field.name(),
        }
    }

    fn unit(self) -> Unit {
        match self {
            Raw::Guest(field) => field.unit(),
            Raw::Host(field) => field.unit(),
            Raw::Tier(field) => field.unit(),
            Raw::Process(field) => field.unit(),
        }
    }

    /// Returns the recorded part of the time that the field covers.
    fn covered_ms(self, facts: &Facts<'_>) -> u64 {
        match self {
            Raw::Guest(_) | Raw::Process(_) => facts.guest.covered_ms,
            Raw::Host(_) => facts.host.covered_ms,
            Raw::Tier(_) => facts.tier.covered_ms,
        }
    }

    /// Returns the place that the field is read from.
    pub fn source(self) -> &'static str {
        match self {
            Raw::Guest(field) => field.source(),
            Raw::Host(field) => field.source(),
            Raw::Tier(field) => field.source(),
            Raw::Process(field) => field.source(),
        }
    }

    /// Returns the field's value in a row of a report.
    pub fn value(self, facts: &Facts<'_>) -> Option<u64> {
        match self {
            Raw::Guest(field) => facts.guest.get(field),
            Raw::Host(field) => facts.host.get(field),
            Raw::Tier(field) => facts.tier.get(field),
            Raw::Process(field) => facts.process.get(field),
        }
    }
}

/// A field derived from raw fields.
#[derive(Debug)]
pub struct Derived {
    /// Name with the unit last: the key in CSV and JSON.
    pub id: &'static str,
    /// Head of the column; `|` marks the place where the line may break.
    pub title: &'static str,
    /// Unit of the value.
    pub unit: Measure,
    /// Digits after the decimal point.
    pub decimals: u8,
    /// Subject of the field.
    pub scope: Scope,
    /// Short description.
    pub words: &'static str,
    /// Formula in words.
    pub formula: &'static str,
    /// Raw fields that the value is computed from.
    pub sources: &'static [Raw],
    /// Function that computes the value, unless the field is one raw field in another unit.
    pub(super) of: Option<fn(&Facts<'_>) -> Option<f64>>,
}

impl Derived {
    /// Returns the value, or `None` if a raw field is missing.
    pub fn value(&self, facts: &Facts<'_>) -> Option<f64> {
        let value = match (self.of, self.sources) {
            (Some(of), _) => of(facts),
            (None, [raw]) => self.converted(*raw, facts),
            (None, _) => None,
        };
        value.filter(|value| value.is_finite())
    }

    /// Converts a raw value to this field's unit.
    fn converted(&self, raw: Raw, facts: &Facts<'_>) -> Option<f64> {
        let (value, covered_ms) = (raw.value(facts)? as f64, raw.covered_ms(facts));
        match (self.unit, raw.unit()) {
            (Measure::Mib, Unit::Pages) => Some(value * PAGE / MIB),
            (Measure::Mib, _) => Some(value / MIB),
            (Measure::KibPerS, _) => Some(per_s(value, covered_ms)? / 1024.0),
            (Measure::PagesPerS, Unit::Bytes) => Some(per_s(value, covered_ms)? / PAGE),
            (Measure::PagesPerS | Measure::PerS, _) => per_s(value, covered_ms),
            (Measure::MsPerMin, _) => per_min(value / 1e6, covered_ms),
            (Measure::PerMin, _) => per_min(value, covered_ms),
            (Measure::Percent, Unit::Permille) => Some(value / 10.0),
            (Measure::Percent, _) => share(value, covered_ms),
            (_, Unit::Permille) => Some(value / 1e3),
            _ => Some(value),
        }
    }

    /// Returns the head of the column in one line, without a hyphen where the head is broken.
    pub fn heading(&self) -> String {
        self.title.replace("-|", "").replace('|', " ")
    }
}

/// Defines derived fields: name, head, unit and digits, raw fields, description, formula, and a
/// function. Without a function, the field is one raw field in another unit.
macro_rules! derived {
    (@of) => { None };
    (@of $of:expr) => { Some($of) };
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
          [$($kind:ident $raw:ident),*], $words:literal, $formula:literal $(, $of:expr)?;)+
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
            of: $crate::fields::derived::derived!(@of $($of)?),
        }),+];
    };
}

pub(super) use derived;
