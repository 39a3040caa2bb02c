//! Numbers as they are shown, and what they are counted in.

/// What a derived field is counted in. It stands last in the field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Hundredths of something that the field's words name.
    Percent,
    /// Milliseconds a minute, as CPU time of small guests is best read.
    MsPerMin,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Seconds.
    Seconds,
    /// Mebibytes.
    Mib,
    /// Kibibytes.
    Kib,
    /// Kibibytes a second.
    KibPerS,
    /// Pages of 4 KiB a second.
    PagesPerS,
    /// Times a second.
    PerS,
    /// Times a minute.
    PerMin,
    /// A plain number.
    Count,
    /// One quantity over another of the same kind.
    Ratio,
}

impl Measure {
    /// As people write it; empty for plain numbers.
    pub fn text(self) -> &'static str {
        match self {
            Measure::Percent => "%",
            Measure::MsPerMin => "ms/min",
            Measure::Ms => "ms",
            Measure::Us => "µs",
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

    /// How the names of such fields end.
    pub fn suffix(self) -> &'static str {
        match self {
            Measure::Percent => "_percent",
            Measure::MsPerMin => "_ms_per_min",
            Measure::Ms => "_ms",
            Measure::Us => "_us",
            Measure::Seconds => "_s",
            Measure::Mib => "_mib",
            Measure::Kib => "_kib",
            Measure::KibPerS => "_kib_per_s",
            Measure::PagesPerS => "_pages_per_s",
            Measure::PerS => "_per_s",
            Measure::PerMin => "_per_min",
            Measure::Count => "",
            Measure::Ratio => "_ratio",
        }
    }
}

/// From here on a number is shown without a fraction: nobody reads the sixth digit.
const WHOLE_FROM: f64 = 10_000.0;

/// A value as it is shown: `-` if it is missing, `0` if nothing happened, `0.0` if something
/// did that the digits cannot show.
pub fn shown(value: Option<f64>, decimals: u8) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "-".into() };
    if value == 0.0 {
        return "0".into();
    }
    let decimals = if value.abs() >= WHOLE_FROM { 0 } else { usize::from(decimals) };
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if is_zero { "0.0".into() } else { text }
}

/// A quotient, if there is one.
pub(crate) fn over(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_from_little_and_from_not_known() {
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
