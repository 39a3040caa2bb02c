//! Metric names and units, generated from the tables of fields.
//!
//! The names follow Prometheus' conventions: base units (seconds, bytes, ratios) at the end,
//! followed by `_total` for counters. A field's value is a whole number. The metric's value is
//! exact: the field's value with shifted decimal places, or multiplied by the page size.

use base::PAGE_BYTES;
use model::{Field, GuestField, HostField, Kind, ProcessField, TierField, Unit as FieldUnit};
use std::fmt::Write;
use std::sync::OnceLock;

/// Prefix of all names.
pub const PREFIX: &str = "pinhead";
/// Metric with a guest's identity in its labels. The metric's value is always 1.
pub const GUEST_INFO: &str = "pinhead_guest_info";
/// Metric with a host's version of pinhead in its labels. The metric's value is always 1.
pub const HOST_INFO: &str = "pinhead_host_info";
/// Time of a host's sample, in seconds since 1970. Readers use this time instead of the scrape's
/// time.
pub const SAMPLED: &str = "pinhead_host_sampled_timestamp_seconds";

/// Ticks per second of a guest's kernel.
const TICKS_A_SECOND: u32 = 100;

/// A table with metrics for its fields.
pub trait Table: Field {
    /// Returns the metrics of the table's fields, in order.
    fn metrics() -> &'static [Metric];
}

/// Metric of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name of the samples.
    pub name: String,
    /// Name of the family in OpenMetrics, without `_total`.
    pub family: String,
    /// Kind of the metric.
    pub kind: Kind,
    /// Unit. Empty for a plain number.
    pub unit: &'static str,
    /// Description with the source of the value.
    pub help: String,
    /// Conversion from the field's value.
    pub scale: Scale,
    /// Name under which a counter of time is also pushed in whole nanoseconds. VictoriaMetrics
    /// keeps 12 to 14 digits of a fraction, which is a microsecond for a counter that has run for
    /// days. VictoriaMetrics keeps whole numbers exactly.
    pub exact: Option<String>,
}

/// Conversion from a field's value to a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Unchanged.
    One,
    /// Divided by a power of ten, given as decimal places.
    Places(u32),
    /// Multiplied.
    Times(u64),
}

impl Scale {
    /// Writes the exact value of the metric.
    pub fn write(self, value: u64, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Scale::One => write!(out, "{value}"),
            Scale::Times(times) => write!(out, "{}", u128::from(value) * u128::from(times)),
            Scale::Places(places) => {
                let unit = 10u64.pow(places);
                let (whole, part) = (value / unit, value % unit);
                let _ = write!(out, "{whole}");
                if part == 0 {
                    return;
                }
                let digits = format!("{part:0width$}", width = places as usize);
                write!(out, ".{}", digits.trim_end_matches('0'))
            }
        };
    }

    /// Returns the metric's value as the nearest float, which is the servers' type.
    pub fn number(self, value: u64) -> f64 {
        match self {
            Scale::One => value as f64,
            Scale::Times(times) => value as f64 * times as f64,
            Scale::Places(places) => value as f64 / 10u64.pow(places) as f64,
        }
    }

    /// Returns the field's value for a metric's value, or `None` if no field's value matches.
    pub fn field(self, number: f64) -> Option<u64> {
        // A value out of range is an error, and is not clamped.
        let whole_number = |number: f64| (number < u64::MAX as f64).then(|| number.round() as u64);
        if !number.is_finite() || number < 0.0 {
            return None;
        }
        match self {
            Scale::One => whole_number(number),
            Scale::Times(times) => whole_number(number / times as f64),
            Scale::Places(places) => {
                let unit = 10u64.pow(places);
                let whole = number.trunc();
                // The fraction is computed separately, because together with the whole part it
                // would lose digits.
                let part = ((number - whole) * unit as f64).round() as u64;
                whole_number(whole)?.checked_mul(unit)?.checked_add(part)
            }
        }
    }
}

fn metric<F: Field>(of: &str, field: F) -> Metric {
    let plain = field.name();
    let (ending, unit, scale) = match field.unit() {
        FieldUnit::Bytes => ("_bytes", "bytes", Scale::One),
        FieldUnit::Nanoseconds => ("_ns", "seconds", Scale::Places(9)),
        FieldUnit::Pages => ("_pages", "bytes", Scale::Times(PAGE_BYTES)),
        FieldUnit::Ticks => ("_ticks", "seconds", Scale::Places(TICKS_A_SECOND.ilog10())),
        FieldUnit::Permille => ("_permille", "ratio", Scale::Places(3)),
        FieldUnit::Count => ("", "", Scale::One),
    };
    let stem = plain.strip_suffix(ending).unwrap_or(plain);
    // If a field's name repeats its table's name, such as `processes`, the metric's name contains
    // the repeated name only once.
    let base = match stem.strip_prefix(of) {
        Some("es") => format!("{PREFIX}_{stem}"),
        _ => format!("{PREFIX}_{of}_{stem}"),
    };
    let family = if unit.is_empty() { base.clone() } else { format!("{base}_{unit}") };
    let suffix = if field.kind() == Kind::Counter { "_total" } else { "" };
    let is_fine = field.unit() == FieldUnit::Nanoseconds && field.kind() == Kind::Counter;
    Metric {
        name: format!("{family}{suffix}"),
        family,
        kind: field.kind(),
        unit,
        help: format!("{} ({})", sentence(field.doc()), field.source()),
        scale,
        exact: is_fine.then(|| format!("{base}_nanoseconds_total")),
    }
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

macro_rules! tables {
    ($($field:ident = $of:literal),+) => {$(
        impl Table for $field {
            fn metrics() -> &'static [Metric] {
                static METRICS: OnceLock<Vec<Metric>> = OnceLock::new();
                METRICS.get_or_init(|| {
                    $field::ALL.iter().map(|field| metric($of, *field)).collect()
                })
            }
        }
    )+};
}

tables!(GuestField = "guest", HostField = "host", TierField = "tier", ProcessField = "process");

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of<F: Table>(field: F) -> &'static Metric {
        &F::metrics()[field.index()]
    }

    #[test]
    fn names_end_in_base_units() {
        assert_eq!(of(GuestField::VcpuRun).name, "pinhead_guest_vcpu_run_seconds_total");
        assert_eq!(of(GuestField::VcpuRun).family, "pinhead_guest_vcpu_run_seconds");
        assert_eq!(of(GuestField::Merged).name, "pinhead_guest_merged_bytes");
        assert_eq!(of(GuestField::OwnBusy).name, "pinhead_guest_own_busy_seconds_total");
        assert_eq!(of(GuestField::Exits).name, "pinhead_guest_exits_total");
        assert_eq!(of(HostField::Cpus).name, "pinhead_host_cpus");
        assert_eq!(of(ProcessField::Count).name, "pinhead_processes");
        let exact = of(GuestField::VcpuRun).exact.as_deref();
        assert_eq!(exact, Some("pinhead_guest_vcpu_run_nanoseconds_total"));
        assert_eq!(of(GuestField::OwnBusy).exact, None, "hundredths are kept by everybody");
    }

    #[test]
    fn no_two_fields_share_a_metric_name() {
        let mut seen: BTreeSet<&str> = [GUEST_INFO, HOST_INFO, SAMPLED].into();
        let tables = [HostField::metrics(), GuestField::metrics(), TierField::metrics()];
        for metric in tables.into_iter().flatten().chain(ProcessField::metrics()) {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(metric.name.chars().all(plain), "{}", metric.name);
            for name in [Some(&metric.name), metric.exact.as_ref()].into_iter().flatten() {
                assert!(seen.insert(name), "{name} is there twice");
            }
            if metric.kind == Kind::Gauge {
                let taken = ["_total", "_info", "_count", "_sum", "_bucket", "_created"];
                assert!(!taken.iter().any(|end| metric.name.ends_with(end)), "{}", metric.name);
            }
        }
    }

    #[test]
    fn metric_values_convert_back_to_field_values() {
        let written = |scale: Scale, value| {
            let mut out = String::new();
            scale.write(value, &mut out);
            out
        };
        assert_eq!(written(Scale::Places(9), 12_000_000_034), "12.000000034");
        assert_eq!(written(Scale::Places(9), 1_500_000_000), "1.5");
        assert_eq!(written(Scale::Places(2), 300), "3");
        assert_eq!(written(Scale::Times(4096), u64::MAX), "75557863725914323415040");
        // Two months of CPU time, to the nanosecond.
        for value in [0, 1, 999_999_999, 123_456_123_456_789, 5_184_000_123_456_789] {
            for scale in [Scale::Places(9), Scale::Places(2), Scale::Times(4096), Scale::One] {
                let text = written(scale, value);
                let read: f64 = text.parse().unwrap();
                assert_eq!(scale.field(read), Some(value), "{text}");
                assert_eq!(scale.field(scale.number(value)), Some(value), "{text}");
            }
        }
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(Scale::Places(9).field(bad), None);
        }
    }
}
