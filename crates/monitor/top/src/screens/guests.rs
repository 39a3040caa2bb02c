//! Table of all guests. Below the table are the graphs of the marked guest.

use super::super::model::Model;
use super::super::sample::Seen;
use super::super::text::wrapped;
use super::super::value::Column;
use super::super::view::{Shown, View};
use super::history::{pane, pane_min};
use super::room::{Line, Room, Tint, last, name, size, tint};
use base::{columns, plain};
use reports::shown;

/// Minimum and maximum width of names. Between these limits the longest name decides.
const NAME_MIN: usize = 12;
const NAME_MAX: usize = 28;
const STATE_WIDTH: usize = 8;
/// Minimum width of a reason next to the columns. If there is less room, the reason is below the
/// columns.
const REASON_MIN: usize = 40;
/// Indentation of a reason below the columns.
const BELOW: usize = 4;
/// Maximum width of a reason.
const REASON_MAX: usize = 300;
/// Columns in the order in which a narrow terminal leaves them out.
const DROPPED: [Column; 8] = [
    Column::Ratio,
    Column::Wait,
    Column::Pressure,
    Column::Of,
    Column::Need,
    Column::Resident,
    Column::Available,
    Column::Cpu,
];

/// Places of the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reasons {
    /// A last column.
    Beside,
    /// A line below each guest.
    Below,
    /// All lines of the reason below each guest.
    Whole,
    /// Only the pane of the marked guest.
    Nowhere,
}

struct Layout {
    name_width: usize,
    columns: Vec<(Column, &'static str)>,
    reasons: Reasons,
    is_marked: bool,
}

/// Returns the table and the pane of the marked guest. They fill `height` lines of a terminal.
pub(super) fn lines(
    model: &Model,
    view: &View,
    guests: &[Seen<'_>],
    height: usize,
    room: &Room<'_>,
) -> Vec<Line> {
    let marked = view.marked_line(guests);
    let pane_min = if room.look.is_text { 0 } else { pane_min(guests.get(marked), room) };
    let rows = height.saturating_sub(pane_min).max(2);
    let mut lines = table(model, view, guests, rows, room);
    if let Some(guest) = guests.get(marked).filter(|_| !room.look.is_text) {
        lines.extend(pane(model, guest, height.saturating_sub(lines.len()), room));
    }
    lines
}

/// Returns the table in at most `height` lines, scrolled so that the mark is visible.
fn table(
    model: &Model,
    view: &View,
    guests: &[Seen<'_>],
    height: usize,
    room: &Room<'_>,
) -> Vec<Line> {
    let layout = layout(view, guests, height, room);
    let mut lines = vec![Line::new(head(view, &layout), Tint::Title)];
    let marked = view.marked_line(guests);
    let one = if layout.reasons == Reasons::Below { 2 } else { 1 };
    let fit = (height.saturating_sub(1) / one).max(1);
    let first = (marked + 1).saturating_sub(fit);
    for (index, guest) in guests.iter().enumerate().skip(first).take(fit) {
        lines.extend(row(guest, index == marked, &layout, room));
    }
    if guests.is_empty() {
        let is_empty = model.sample.as_ref().is_none_or(|sample| sample.ps.guests.is_empty());
        let why = if is_empty { "no guest was found yet" } else { "no guest matches the filter" };
        lines.push(format!(" {why}").into());
    }
    lines
}

fn layout(view: &View, guests: &[Seen<'_>], height: usize, room: &Room<'_>) -> Layout {
    let names = guests.iter().map(|guest| columns(&plain(&guest.row.name, NAME_MAX)));
    let longest = names.max().unwrap_or(0).clamp(NAME_MIN, NAME_MAX);
    let mut kept = Column::ALL.to_vec();
    for column in DROPPED {
        if width_of(NAME_MIN, &kept) > room.width {
            // The sort column stays, because it explains the order of the rows.
            kept.retain(|(one, _)| *one != column || *one == view.sort);
        }
    }
    let fixed = width_of(0, &kept);
    let name_width = longest.min(room.width.saturating_sub(fixed)).max(NAME_MIN);
    let left = room.width.saturating_sub(fixed + name_width + 1);
    let reasons = match room.look.is_text {
        true if guests.iter().all(|guest| columns(&last(guest.row)) <= left) => Reasons::Beside,
        true => Reasons::Whole,
        false if left >= REASON_MIN => Reasons::Beside,
        false if height > 2 * guests.len() => Reasons::Below,
        false => Reasons::Nowhere,
    };
    let is_marked = !room.look.is_text || view.shown == Shown::Guests;
    Layout { name_width, columns: kept, reasons, is_marked }
}

/// Returns the width of a row, with the mark.
fn width_of(name_width: usize, columns: &[(Column, &str)]) -> usize {
    let numbers = columns.iter().map(|(column, _)| match column {
        Column::Name => 1 + name_width,
        column => 1 + width(*column),
    });
    numbers.sum()
}

fn width(column: Column) -> usize {
    match column {
        Column::Ratio => 4,
        Column::State => STATE_WIDTH,
        _ => 5,
    }
}

fn head(view: &View, layout: &Layout) -> String {
    let mut line = String::new();
    for (column, head) in &layout.columns {
        // A sign before the head of the column shows the sort order.
        let sign = match (*column == view.sort, view.is_reversed) {
            (false, _) => "",
            (true, false) => "*",
            (true, true) => "^",
        };
        let head = format!("{sign}{head}");
        match column {
            Column::Name => line.push_str(&format!(" {head:<0$}", layout.name_width)),
            Column::State => line.push_str(&format!(" {head:<STATE_WIDTH$}")),
            // The sign may take the place of the blank before a wide head.
            _ => line.push_str(&format!("{head:>0$}", width(*column) + 1)),
        }
    }
    if layout.reasons == Reasons::Beside { line + " LAST" } else { line }
}

fn row(guest: &Seen<'_>, is_marked: bool, layout: &Layout, room: &Room<'_>) -> Vec<Line> {
    let is_marked = is_marked && layout.is_marked;
    let mut text = if is_marked { ">" } else { " " }.to_owned();
    for (column, _) in &layout.columns {
        let value = column.number(guest);
        let number = match column {
            Column::Name => {
                text.push_str(&name(&guest.row.name, layout.name_width));
                continue;
            }
            Column::State => {
                text.push_str(&format!(" {}", name(guest.state(), STATE_WIDTH)));
                continue;
            }
            Column::Cpu | Column::Wait | Column::Pressure => shown(value, 1),
            Column::Ratio => shown(value, 2),
            _ => size(value),
        };
        text.push_str(&format!(" {number:>0$}", width(*column)));
    }
    let why = last(guest.row);
    let below = match layout.reasons {
        Reasons::Beside => {
            text.push_str(&format!(" {}", plain(&why, REASON_MAX)));
            Vec::new()
        }
        Reasons::Below => {
            let left = room.width.saturating_sub(BELOW);
            vec![format!("{:BELOW$}{}", "", plain(&why, left))]
        }
        Reasons::Whole => wrapped(&why, BELOW, room.width),
        Reasons::Nowhere => Vec::new(),
    };
    let below = below.into_iter().filter(|text| !text.trim_end().is_empty());
    let tint = tint(guest);
    let first = Line { text, tint, is_marked };
    let below = below.map(|text| Line::new(text, Tint::Calm));
    [first].into_iter().chain(below).collect()
}
