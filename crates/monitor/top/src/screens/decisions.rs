//! Screen of decisions, newest first. The screen shows the decisions of the last hour and all later
//! decisions. In a recording it shows the decisions up to the current position.

use super::super::model::{Decided, Model};
use super::super::text::{LABEL, wrapped};
use super::super::view::View;
use super::room::{Line, Room, Tint, name, size_of, time};
use base::{columns, plain};

/// Width of names on narrow and on wide terminals, in columns.
const NAME_NARROW: usize = 12;
const NAME_WIDE: usize = 20;
const WIDE: usize = 110;

pub(super) fn lines(model: &Model, view: &View, room: &Room<'_>) -> Vec<Line> {
    let width = name_width(room);
    let head = format!(
        "{:<8} {:<width$} {:>6}  {:<12} ACTION, AND REASON",
        "TIME", "GUEST", "TARGET", "CLAUSE"
    );
    let mut lines = vec![Line::new(head, Tint::Title)];
    let all = view.decisions(model);
    let fit = room.height.saturating_sub(1);
    lines.extend(all.iter().skip(view.scroll).take(fit).flat_map(|one| entry(one, room)));
    if all.is_empty() {
        let has_journal = model.replay.as_ref().is_none_or(|replay| replay.has_journal);
        lines.push(
            match (has_journal, model.decisions.is_empty()) {
                (false, _) => "no journal next to this recording: choose a journal with --journal",
                (true, true) => "there are no decisions yet",
                (true, false) => "no decision matches the filter",
            }
            .to_owned()
            .into(),
        );
    }
    lines
}

/// Returns the lines of a decision. A reason that is too long for the first line gets lines of its
/// own.
pub(super) fn entry(one: &Decided, room: &Room<'_>) -> Vec<Line> {
    let at = one.at_ms.map_or_else(|| "before".to_owned(), |at_ms| time(at_ms, room.look));
    let head = format!(
        "{at:<8} {} {:>6}  {} {}",
        name(&one.guest, name_width(room)),
        size_of(one.target_bytes),
        name(&one.clause, 12),
        plain(&one.action, 20),
    );
    let reason = plain(&one.reason, 300);
    if columns(&head) + 2 + columns(&reason) <= room.width {
        return vec![format!("{head}: {reason}").into()];
    }
    let reason = wrapped(&reason, LABEL, room.width);
    [head].into_iter().chain(reason).map(Line::from).collect()
}

fn name_width(room: &Room<'_>) -> usize {
    if room.width >= WIDE { NAME_WIDE } else { NAME_NARROW }
}
