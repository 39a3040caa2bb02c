//! Helpers for all screens: lines with their colours, available size, formats of numbers and names.

use super::super::sample::Seen;
use base::{padded, plain};
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

/// Meaning of a line's colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tint {
    #[default]
    Usual,
    /// First line, and titles.
    Title,
    /// The guest runs.
    Runs,
    /// The guest sleeps, or the line is less important.
    Calm,
    /// The guest is parked.
    Parked,
    /// Something is short.
    Short,
    /// Something is missing or in trouble.
    Bad,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) tint: Tint,
    /// True for the line of the marked guest.
    pub(crate) is_marked: bool,
}

impl Line {
    pub(super) fn new(text: String, tint: Tint) -> Line {
        Line { text, tint, is_marked: false }
    }
}

impl From<String> for Line {
    fn from(text: String) -> Line {
        Line::new(text, Tint::Usual)
    }
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

pub(super) fn step_text(length_ms: i64) -> String {
    match length_ms {
        ms if ms % 60_000 == 0 => format!("{} min", ms / 60_000),
        ms => format!("{} s", ms / 1000),
    }
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

/// Returns the colour of a guest's state.
pub(super) fn tint(guest: &Seen<'_>) -> Tint {
    match guest.state() {
        "asleep" => Tint::Calm,
        "parked" => Tint::Parked,
        _ if guest.is_out_of_reach() => Tint::Bad,
        _ if guest.row.need_bytes.is_some_and(|need| need > 0) => Tint::Short,
        "running" => Tint::Runs,
        _ => Tint::Usual,
    }
}

/// Returns the guest's last action with its reason, or the reason why nothing changed. The text is
/// empty if nothing was decided.
pub(super) fn last(row: &manager::control::GuestRow) -> String {
    if let Some(why) = &row.unusable {
        return why.clone();
    }
    let words = [row.action.map(SizeAction::name), row.reason.as_deref()];
    words.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use base::columns;
    use manager::control::{GuestMode, GuestRow, GuestRunState, HostRow, KsmRow, Ps};
    use model::Interval;

    #[test]
    fn name_takes_just_its_columns_with_wide_letters() {
        for text in ["web1", "网页1", "数据库服务器", "🦀🦀🦀🦀🦀"] {
            assert_eq!(columns(&name(text, 9)), 9, "{text}");
        }
    }

    #[test]
    fn each_state_of_a_guest_has_its_colour() {
        let (host, ksm) = (HostRow::default(), KsmRow::default());
        let ps = Ps { host, ksm, guests: Vec::new() };
        let sample = Sample::new(Interval::default(), ps, Some(1));
        let runs = GuestRow { state: GuestRunState::Running, ..GuestRow::default() };
        let tint = |row: GuestRow| tint(&sample.seen(&row));
        assert_eq!(tint(runs.clone()), Tint::Runs);
        assert_eq!(tint(GuestRow { asleep: true, ..runs.clone() }), Tint::Calm);
        assert_eq!(tint(GuestRow { state: GuestRunState::Parked, ..runs.clone() }), Tint::Parked);
        assert_eq!(tint(GuestRow { need_bytes: Some(1), ..runs.clone() }), Tint::Short);
        assert_eq!(tint(GuestRow { state: GuestRunState::Silent, ..runs.clone() }), Tint::Bad);
        assert_eq!(tint(GuestRow { mode: GuestMode::Pinned, ..runs }), Tint::Usual);
    }
}
