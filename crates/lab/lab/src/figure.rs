//! Numbers as text.

use base::Spread;

/// Formats a number with about three significant digits.
pub fn figure(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Formats a ratio in percent.
pub fn percent(spread: Spread) -> String {
    let text = spread.times(100.0).text(0);
    match text.split_once(' ') {
        Some((median, ends)) => format!("{median} % {ends}"),
        None => format!("{text} %"),
    }
}
