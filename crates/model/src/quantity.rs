//! Amounts as people read them. There is one rounding, so that two sentences about the same
//! number show the same number.

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

/// An amount of memory in the unit that reads best: `3.1 GiB`, `50 MiB`, `512 KiB`.
pub fn size(bytes: f64) -> String {
    if bytes >= GIB {
        format!("{:.1} GiB", bytes / GIB)
    } else if bytes >= MIB || bytes == 0.0 {
        format!("{} MiB", mib(bytes))
    } else {
        format!("{:.0} KiB", bytes / KIB)
    }
}

/// An amount of memory in whole MiB.
pub fn mib(bytes: f64) -> i64 {
    (bytes / MIB).round() as i64
}

/// How long, as it is read: `1.2 s`, `4 min 30 s`, `2 h 5 min`.
pub fn span(ms: i64) -> String {
    let ms = ms.max(0);
    let (seconds, minutes) = (ms / SECOND, ms / MINUTE);
    let two = |large: i64, name: &str, small: i64, of: &str| match small {
        0 => format!("{large} {name}"),
        small => format!("{large} {name} {small} {of}"),
    };
    match seconds {
        0..60 => format!("{}.{} s", seconds, ms % SECOND / 100),
        60..3_600 => two(minutes, "min", seconds % 60, "s"),
        _ => two(minutes / 60, "h", minutes % 60, "min"),
    }
}

/// A number with one digit behind the point, or none where it is whole.
pub fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A number behind a decision in its unit, which the end of its name tells.
pub fn input(name: &str, value: f64) -> String {
    if name.ends_with("_ms") {
        span(value as i64)
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

    #[test]
    fn spans_are_shown_in_two_units_at_most() {
        let spans = [0, 1_250, 60_000, 90_000, 7_500_000].map(span);
        assert_eq!(spans, ["0.0 s", "1.2 s", "1 min", "1 min 30 s", "2 h 5 min"]);
    }
}
