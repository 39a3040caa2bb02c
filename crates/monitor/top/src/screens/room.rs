//! Helpers for all screens: available size, and formats of numbers and names.

use base::{columns, padded, plain};
use manager::control::SizeAction;
use reports::{Measure, Scope, Zone, clock_text, shown};

/// Style of lines.
pub(crate) struct Look<'a> {
    pub(crate) zone: &'a dyn Zone,
    /// True if the terminal is limited to ASCII.
    pub(crate) is_ascii: bool,
    /// True if lines are printed as text, without keys.
    pub(crate) is_text: bool,
}

/// Available size of a screen.
pub(super) struct Room<'a> {
    pub(super) width: usize,
    /// Lines between head and foot.
    pub(super) height: usize,
    pub(super) look: &'a Look<'a>,
}

/// Formats the time of day, with seconds.
pub(super) fn time(at_ms: i64, look: &Look<'_>) -> String {
    let text = clock_text(at_ms / 1000 * 1000, look.zone);
    if text.len() == "00:00".len() { text + ":00" } else { text }
}

/// Characters of a bar chart, lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_BARS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// Returns values as a bar chart from 0 to the maximum, newest last. Missing values are gaps.
pub(super) fn bars(
    values: impl Iterator<Item = Option<f64>>,
    most: f64,
    look: &Look<'_>,
) -> String {
    let levels = if look.is_ascii { ASCII_BARS } else { BARS };
    let bar = |value: Option<f64>| {
        let Some(value) = value.filter(|_| most > 0.0) else { return ' ' };
        let level = (value / most * levels.len() as f64).clamp(0.0, (levels.len() - 1) as f64);
        levels[level as usize]
    };
    values.map(bar).collect()
}

/// Formats a size in MiB with five characters. If the size does not fit, GiB are used.
pub(super) fn size(mib: Option<f64>) -> String {
    match mib {
        Some(mib) if mib >= 99_999.5 => format!("{:.0}G", mib / 1024.0),
        mib => shown(mib, 0),
    }
}

pub(super) fn size_of(bytes: Option<u64>) -> String {
    size(bytes.map(|bytes| bytes as f64 / 1_048_576.0))
}

/// Replaces each field name in braces by the field's value.
pub(super) fn fill(line: &str, scope: Scope, value: impl Fn(&str) -> Option<f64>) -> String {
    let text = |id| match reports::field(scope, id) {
        Some(field) if field.unit == Measure::Mib => size(value(id)),
        field => shown(value(id), field.map_or(0, |field| field.decimals)),
    };
    // Texts and names alternate.
    let pieces = line.split(['{', '}']).enumerate();
    pieces.map(|(at, piece)| if at % 2 == 0 { piece.to_owned() } else { text(piece) }).collect()
}

/// Formats an untrusted name in exactly `width` columns.
pub(super) fn name(text: &str, width: usize) -> String {
    padded(&plain(text, width), width)
}

/// Returns the guest's last action with its reason, or the reason why nothing changed.
pub(super) fn last(row: &manager::control::GuestRow) -> String {
    if let Some(why) = &row.unusable {
        return why.clone();
    }
    let words = [row.action.map(SizeAction::name), row.reason.as_deref()];
    words.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// Breaks a text into lines between words.
pub(super) fn wrapped(text: &str, indent: usize, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent).max(1);
    let text = plain(text, 2_000);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(|line| format!("{:indent$}{line}", "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_takes_just_its_columns_with_wide_letters() {
        for text in ["web1", "网页1", "数据库服务器", "🦀🦀🦀🦀🦀"] {
            assert_eq!(columns(&name(text, 9)), 9, "{text}");
        }
        assert_eq!(wrapped("网页 网页", 0, 8), ["网页", "网页"]);
    }
}
