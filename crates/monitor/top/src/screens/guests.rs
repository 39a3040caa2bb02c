//! Screen of all guests, one line each.

use super::super::model::Model;
use super::super::sample::Seen;
use super::super::view::{Column, View};
use super::room::{Room, last, name, size};
use base::{columns, plain};
use reports::shown;

/// Minimum width of names. On a wide terminal, names get half of the additional width, up to
/// `NAME_MAX`.
const NAME_MIN: usize = 12;
const NAME_MAX: usize = 28;
const NARROW: usize = 80;
const STATE_WIDTH: usize = 8;
/// Minimum width for the reason of a decision. With less space only the action is shown.
const REASON_MIN: usize = 12;

/// Returns the table, scrolled so that the cursor is visible.
pub(super) fn lines(model: &Model, view: &View, room: &Room<'_>) -> Vec<String> {
    table(model, view, room, true)
}

/// Returns the table, with or without a cursor.
pub(super) fn table(model: &Model, view: &View, room: &Room<'_>, is_marked: bool) -> Vec<String> {
    let name_width = (NAME_MIN + room.width.saturating_sub(NARROW) / 2).min(NAME_MAX);
    let guests = view.guests(model);
    let mut lines = vec![head(view, name_width)];
    let marked = guests.iter().position(|one| Some(one.row.id) == view.selected).unwrap_or(0);
    let fit = room.height.saturating_sub(1).max(1);
    let first = (marked + 1).saturating_sub(fit);
    for (index, guest) in guests.iter().enumerate().skip(first).take(fit) {
        let mark = if is_marked && index == marked { '>' } else { ' ' };
        lines.push(format!("{mark}{}", row(guest, name_width, room)));
    }
    if guests.is_empty() {
        let is_empty = model.sample.as_ref().is_none_or(|sample| sample.ps.guests.is_empty());
        let why = if is_empty { "no guest was found yet" } else { "no guest is of this filter" };
        lines.push(format!(" {why}"));
    }
    lines
}

fn width(column: Column) -> usize {
    match column {
        Column::Ratio => 4,
        _ => 5,
    }
}

fn head(view: &View, name_width: usize) -> String {
    let mut line = String::new();
    for (column, head) in Column::ALL {
        // A sign before the head of the column shows the sort order.
        let sign = match (column == view.sort, view.is_reversed) {
            (false, _) => "",
            (true, false) => "*",
            (true, true) => "^",
        };
        let head = format!("{sign}{head}");
        match column {
            Column::Name => line.push_str(&format!(" {head:<name_width$}")),
            Column::State => line.push_str(&format!(" {head:<STATE_WIDTH$}")),
            _ => line.push_str(&format!(" {head:>0$}", width(column))),
        }
    }
    line + " LAST"
}

fn row(guest: &Seen<'_>, name_width: usize, room: &Room<'_>) -> String {
    let mut line = String::new();
    for (column, _) in Column::ALL {
        let value = column.number(guest);
        let text = match column {
            Column::Name => {
                line.push_str(&name(&guest.row.name, name_width));
                continue;
            }
            Column::State => {
                line.push_str(&format!(" {}", name(guest.state(), STATE_WIDTH)));
                continue;
            }
            Column::Cpu | Column::Wait | Column::Pressure => shown(value, 1),
            Column::Ratio => shown(value, 2),
            _ => size(value),
        };
        line.push_str(&format!(" {text:>0$}", width(column)));
    }
    let left = room.width.saturating_sub(columns(&line) + 2);
    let action = guest.row.action.filter(|_| guest.row.unusable.is_none());
    let why = match action {
        // A fragment of the reason would be useless, so only the action is shown.
        Some(action) if left < REASON_MIN => action.to_string(),
        _ => last(guest.row),
    };
    format!("{line} {}", plain(&why, 200))
}
