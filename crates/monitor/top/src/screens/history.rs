//! Graphs of one guest, and the decisions about it. The graphs fill the available lines.

use super::super::model::{KEPT, Model};
use super::super::sample::Seen;
use super::super::text::{LABEL, wrapped};
use super::super::value::Column;
use super::decisions;
use super::graph::{Graph, end};
use super::room::{Line, Room, Tint, last, size, step_text, tint};
use base::{columns, plain};
use reports::shown;

const NAME_MAX: usize = 28;
/// Divisor of the number of lines: a third is for decisions, and the rest for graphs.
const DECIDED_PART: usize = 3;
/// Width from which graphs stand side by side.
const WIDE: usize = 120;
/// Columns between graphs that stand side by side.
const GAP: usize = 2;
/// Height of a screen from which a pane has a title.
const TITLED: usize = 12;
/// Maximum number of lines of a reason, on low and on tall screens.
const REASON_LOW: usize = 3;
const REASON_TALL: usize = 5;

/// Returns the minimum number of lines of the pane, for the title and the reason.
pub(super) fn pane_min(guest: Option<&Seen<'_>>, room: &Room<'_>) -> usize {
    let title = usize::from(room.height >= TITLED);
    guest.map_or(0, |guest| title + reason(guest, room).len())
}

/// Returns the pane of the marked guest: its reason, graphs and decisions, in `height` lines.
pub(super) fn pane(model: &Model, guest: &Seen<'_>, height: usize, room: &Room<'_>) -> Vec<Line> {
    let mut lines = title(model, guest, room);
    lines.extend(reason(guest, room).into_iter().map(Line::from));
    lines.truncate(height);
    let left = height - lines.len();
    lines.extend(past(model, guest, 0, left, room));
    lines
}

/// Returns a guest's graphs and, below them, its decisions from `scroll` on, in `height` lines.
pub(super) fn past(
    model: &Model,
    guest: &Seen<'_>,
    scroll: usize,
    height: usize,
    room: &Room<'_>,
) -> Vec<Line> {
    let mut decided: Vec<Line> = Vec::new();
    for one in model.decisions.iter().filter(|one| one.id == guest.row.id).skip(scroll) {
        let entry = decisions::entry(one, room);
        if decided.len() + entry.len() > height / DECIDED_PART {
            break;
        }
        decided.extend(entry);
    }
    let graphs = graphs(model, guest, height - decided.len(), room).into_iter();
    graphs.map(|line| Line::new(line, tint(guest))).chain(decided).collect()
}

/// Returns the title with the guest's name and the scale of time.
fn title(model: &Model, guest: &Seen<'_>, room: &Room<'_>) -> Vec<Line> {
    if room.height < TITLED {
        return Vec::new();
    }
    let line = if room.look.is_ascii { "-" } else { "─" };
    let column = match &model.replay {
        Some(replay) => step_text(replay.length_ms),
        None => "1 s".to_owned(),
    };
    let name = plain(&guest.row.name, NAME_MAX);
    let text = format!("{line}{line} {name} {line}{line} a column is {column} ");
    let left = room.width.saturating_sub(columns(&text));
    vec![Line::new(text + &line.repeat(left), Tint::Title)]
}

/// Returns the last action and its reason, broken between words.
fn reason(guest: &Seen<'_>, room: &Room<'_>) -> Vec<String> {
    let most = if room.height < TITLED { REASON_LOW } else { REASON_TALL };
    labelled("LAST", &last(guest.row), most, room)
}

/// Returns a text behind a label, broken between words.
pub(super) fn labelled(label: &str, text: &str, most: usize, room: &Room<'_>) -> Vec<String> {
    let mut lines = wrapped(text, LABEL, room.width);
    let is_cut = lines.len() > most;
    lines.truncate(most);
    if let Some(first) = lines.first_mut() {
        first.replace_range(..LABEL, &format!("{label:<LABEL$}"));
    }
    if let Some(last) = lines.last_mut().filter(|_| is_cut) {
        *last = format!("{}…", plain(last, room.width.saturating_sub(1)));
    }
    lines
}

/// Returns as many graphs as there is room for, in exactly `height` lines.
fn graphs(model: &Model, guest: &Seen<'_>, height: usize, room: &Room<'_>) -> Vec<String> {
    let beside = if room.width >= WIDE { 2 } else { 1 };
    let bands = height.min(KEPT.len().div_ceil(beside));
    let width = (room.width - GAP * (beside - 1)) / beside;
    let all: Vec<Graph<'_>> = (0..KEPT.len()).map(|index| graph(model, guest, index)).collect();
    let mut lines = Vec::new();
    for (band, graphs) in all.chunks(beside).take(bands).enumerate() {
        // The first rows of graphs get the lines that remain after the division.
        let rows = height / bands + usize::from(band < height % bands);
        let drawn: Vec<_> = graphs.iter().map(|one| one.lines(rows, width, room.look)).collect();
        for row in 0..rows {
            let parts: Vec<&str> = drawn.iter().map(|graph| graph[row].as_str()).collect();
            lines.push(parts.join(&" ".repeat(GAP)));
        }
    }
    lines
}

fn graph<'a>(model: &Model, guest: &Seen<'_>, index: usize) -> Graph<'a> {
    let (column, label) = KEPT[index];
    let past = model.pasts.get(&guest.row.id);
    let values: Vec<Option<f32>> = past.into_iter().flatten().map(|at| at[index]).collect();
    let (now, whole) = (column.number(guest), Column::Of.number(guest));
    let is_percent = label.ends_with('%');
    let top = match column {
        Column::Cpu => end(&values, 10.0, None),
        Column::Has => end(&values, whole.unwrap_or(1.0), whole),
        _ if is_percent => end(&values, 5.0, None),
        _ => end(&values, 1.0, whole),
    };
    let now = if is_percent { shown(now, 1) } else { size(now) };
    Graph { label, now, values, top }
}
