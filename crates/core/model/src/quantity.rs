//! Formatting of amounts. All code rounds here, so that a number is the same in all sentences.

use base::{Bytes, MIB, duration};

/// Formats memory in the most readable unit: `3.1 GiB`, `50 MiB`, `512 KiB`.
pub fn size(bytes: f64) -> String {
    base::size_text(Bytes(bytes as u64))
}

/// Converts memory to whole MiB.
pub fn mib(bytes: f64) -> i64 {
    (bytes / MIB as f64).round() as i64
}

/// Formats a number with one decimal, or with none if it is whole.
pub fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Formats an input of a decision in the unit at the end of its name.
pub fn input(name: &str, value: f64) -> String {
    if name.ends_with("_ms") {
        duration::show(value as i64)
    } else if name.ends_with("_permille") {
        format!("{} %", short(value / 10.0))
    } else if name.ends_with("_pages_s") {
        format!("{} pages a second", short(value))
    } else if name.ends_with("_s") {
        format!("{} a second", short(value))
    } else {
        size(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = 1_073_741_824.0;
    const MIB: f64 = 1_048_576.0;

    #[test]
    fn values_have_the_unit_of_their_name() {
        for (name, value, expected) in [
            ("host_available", 3.1 * GIB, "3.1 GiB"),
            ("guest_cold", 610.0 * MIB, "610 MiB"),
            ("need", 49.6 * MIB, "50 MiB"),
            ("guest_cold", 512.0, "0 KiB"),
            ("need", 0.0, "0 MiB"),
            ("psi_permille", 125.0, "12.5 %"),
            ("swap_in_pages_s", 40.0, "40 pages a second"),
            ("stalls_s", 0.25, "0.2 a second"),
            ("sample_age_ms", 2_300.0, "2.3 s"),
        ] {
            assert_eq!(input(name, value), expected, "{name}");
        }
    }
}
