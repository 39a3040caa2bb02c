//! Formatting of numbers, and their units.

use base::MIB;

/// Unit of a derived field, which stands last in the field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Percent of the quantity that the field's description names.
    Percent,
    /// Milliseconds per minute, the most readable unit for the CPU time of small guests.
    MsPerMin,
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
    /// Mebibytes.
    Mib,
    /// Kibibytes.
    Kib,
    /// Kibibytes per second.
    KibPerS,
    /// Pages of 4 KiB per second.
    PagesPerS,
    /// Times per second.
    PerS,
    /// Times per minute.
    PerMin,
    /// A plain number.
    Count,
    /// Ratio of two quantities of the same kind.
    Ratio,
}

impl Measure {
    /// Returns the unit as people write it; empty for plain numbers.
    pub fn text(self) -> &'static str {
        match self {
            Measure::Percent => "%",
            Measure::MsPerMin => "ms/min",
            Measure::Ms => "ms",
            Measure::Seconds => "s",
            Measure::Mib => "MiB",
            Measure::Kib => "KiB",
            Measure::KibPerS => "KiB/s",
            Measure::PagesPerS => "pages/s",
            Measure::PerS => "/s",
            Measure::PerMin => "/min",
            Measure::Count | Measure::Ratio => "",
        }
    }
}

/// Smallest number shown without a fraction, because a sixth digit would not be useful.
const WHOLE_FROM: f64 = 10_000.0;

/// Formats a value: `-` if it is missing, `0` if nothing happened, `0.0` if it is too small for the
/// digits.
pub fn shown(value: Option<f64>, decimals: u8) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "-".into() };
    if value == 0.0 {
        return "0".into();
    }
    let decimals = if value.abs() >= WHOLE_FROM { 0 } else { usize::from(decimals) };
    let text = fixed(value, decimals).unwrap_or_else(|| format!("{value:.decimals$}"));
    let is_zero = text.bytes().all(|c| matches!(c, b'-' | b'0' | b'.'));
    if is_zero { "0.0".into() } else { text }
}

/// Formats a size in whole MiB, without the unit.
pub fn mib(bytes: Option<u64>) -> String {
    shown(bytes.map(|bytes| bytes as f64 / MIB as f64), 0)
}

/// Distance from the midpoint between two printable numbers, below which exact arithmetic is used.
const NEAR: f64 = 1e-6;
/// Limit below which a float holds every whole number exactly, with room for a fraction.
const EXACT_MAX: f64 = 1e9;

/// Formats a value with a fixed number of digits after the point, like `{:.n}` but ten times as
/// fast. One day of guests by the minute has millions of values. Returns `None` if the rounding is
/// not certain.
fn fixed(value: f64, decimals: usize) -> Option<String> {
    let scaled = value.abs() * 10_f64.powi(i32::try_from(decimals).ok()?);
    let is_certain = scaled < EXACT_MAX && (scaled.fract() - 0.5).abs() > NEAR;
    is_certain.then(|| {
        let mut out = String::with_capacity(16);
        if value.is_sign_negative() {
            out.push('-');
        }
        put_scaled(&mut out, scaled.round() as u64, decimals);
        out
    })
}

/// Writes a whole number with a decimal point before its last digits, 19 digits at most.
pub(crate) fn put_scaled(out: &mut String, mut number: u64, decimals: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 || at > digits.len() - decimals.min(19) - 1 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    for (place, digit) in digits.iter().enumerate().skip(at) {
        if decimals > 0 && place == digits.len() - decimals.min(19) {
            out.push('.');
        }
        out.push(char::from(*digit));
    }
}

/// Returns the quotient, or `None` if the divisor is not positive.
pub(crate) fn over(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_digits_are_the_exact_ones() {
        let mut seed = 1_u64;
        for round in 0..200_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size = 10_f64.powi((round % 12) as i32 - 4);
            let value = (seed >> 11) as f64 / (1_u64 << 53) as f64 * size;
            let near = (value * 100.0).round() / 100.0;
            for value in [value, -value, near, near + 0.005, value.round() + 0.5] {
                for decimals in 0..4 {
                    if let Some(text) = fixed(value, decimals) {
                        assert_eq!(text, format!("{value:.decimals$}"));
                    }
                }
            }
        }
        assert_eq!(fixed(0.5, 0), None);
        assert_eq!(fixed(12.25, 2).as_deref(), Some("12.25"));
    }

    #[test]
    fn zero_tiny_and_missing_values_are_shown_differently() {
        let check = |value, decimals, expected: &str| assert_eq!(shown(value, decimals), expected);
        check(None, 1, "-");
        check(Some(f64::NAN), 1, "-");
        check(Some(0.0), 2, "0");
        check(Some(0.001), 1, "0.0");
        check(Some(0.3), 0, "0.0");
        check(Some(-0.001), 1, "0.0");
        check(Some(0.6), 0, "1");
        check(Some(12.345), 1, "12.3");
        check(Some(123_456.7), 1, "123457");
        check(Some(-7.25), 1, "-7.2");
    }
}
