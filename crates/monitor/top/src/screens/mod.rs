//! Screens as lines of text, for any width and height.

mod decisions;
mod graph;
mod guest;
mod guests;
mod help;
mod history;
mod memory;
mod overview;
mod room;

pub(crate) use room::{Line, Look, Tint};

use super::model::{Model, Replay};
use super::orders::Target;
use super::text::wrapped;
use super::view::{Shown, Typed, View};
use base::{columns, padded, plain};
use manager::control::{GuestMode, GuestRow, GuestRunState};
use reports::date_text;
use room::{Room, step_text, time};

/// Maximum number of lines of a remark.
const NOTE_MAX: usize = 4;
/// Mark of an error in the last lines.
const ERROR: &str = "! ";
/// Maximum width of a guest's name in the last line.
const NAME_MAX: usize = 30;

/// Returns the lines of the current screen. No line is wider than the terminal or contains control
/// characters.
pub(super) fn draw(
    model: &Model,
    view: &View,
    (width, height): (usize, usize),
    look: &Look<'_>,
) -> Vec<Line> {
    // All parts of a screen use this list of guests, in its order.
    let has_table = view.open.is_none() && matches!(view.shown, Shown::Overview | Shown::Guests);
    let guests = if has_table { view.guests(model) } else { Vec::new() };
    let marked = if has_table {
        guests.get(view.marked_line(&guests)).map(|guest| guest.row)
    } else {
        view.marked(model)
    };
    let foot = if look.is_text { Vec::new() } else { foot(model, view, marked, width) };
    let room = Room { width, height: height.saturating_sub(1 + foot.len()), look };
    let note = |text: &str| vec![Line::default(), format!("  {text}").into()];
    let mut body = match (view.has_help, &view.page, &model.sample) {
        (true, ..) => help::lines(width),
        (_, Some(page), _) => {
            let lines = page.lines(width);
            let first = page.scroll.min(lines.len().saturating_sub(room.height));
            lines.into_iter().skip(first).map(Line::from).collect()
        }
        (.., None) => note("The manager has not responded yet."),
        (.., Some(_)) if nothing(model).is_some() && view.shown != Shown::Decisions => {
            let lines = wrapped(nothing(model).unwrap_or_default(), 2, width);
            [String::new()].into_iter().chain(lines).map(Line::from).collect()
        }
        (.., Some(sample)) => match (view.shown, view.open) {
            (Shown::Guests, Some(id)) => guest::lines(model, sample, id, view, &room),
            (Shown::Guests, None) => guests::lines(model, view, &guests, room.height, &room),
            (Shown::Overview, _) => overview::lines(model, sample, view, &guests, &room),
            (Shown::Memory, _) => memory::lines(model, sample, &room),
            (Shown::Decisions, _) => decisions::lines(model, view, &room),
        },
    };
    body.truncate(room.height);
    let mut lines = vec![Line::new(head(model, view, width, look), Tint::Title)];
    lines.append(&mut body);
    if !look.is_text {
        lines.resize(height.saturating_sub(foot.len()).max(1), Line::default());
        lines.extend(foot);
    }
    lines.truncate(height.max(1));
    for line in &mut lines {
        let text = plain(line.text.trim_end(), width);
        let text = if look.is_ascii { ascii(&text) } else { text };
        line.text = text.trim_end().to_owned();
        if line.is_marked && !look.is_text {
            line.text = padded(&line.text, width);
        }
    }
    if !look.is_text {
        // The first line is highlighted over its whole width.
        lines[0].text = padded(&lines[0].text, width);
    }
    lines
}

/// Returns the reason for missing data in a recording, if any.
fn nothing(model: &Model) -> Option<&str> {
    model.replay.as_ref()?.nothing.as_deref()
}

/// Returns the first line. A narrow terminal shows only the name of the current screen.
fn head(model: &Model, view: &View, width: usize, look: &Look<'_>) -> String {
    let long = head_with(model, view, true, look);
    if columns(&long) <= width { long } else { head_with(model, view, false, look) }
}

fn head_with(model: &Model, view: &View, is_long: bool, look: &Look<'_>) -> String {
    let at = match (&model.replay, &model.sample) {
        (Some(replay), _) => {
            let at_ms = replay.from_ms;
            format!("replay  {} {}", date_text(at_ms, look.zone), time(at_ms, look))
        }
        (None, Some(sample)) => format!("pinhead {}", time(sample.at_ms(), look)),
        (None, None) => "pinhead --:--:--".to_owned(),
    };
    let tab = |number: u8, name: &str, shown: Shown| match (view.shown == shown, is_long) {
        (true, true) => format!("[{number}:{name}]"),
        (false, true) => format!(" {number}:{name} "),
        (true, false) => format!("[{number}:{name}] "),
        (false, false) => format!("{number} "),
    };
    let mut head = format!(
        "{at} {}{}{}{}",
        tab(1, "overview", Shown::Overview),
        tab(2, "guests", Shown::Guests),
        tab(3, "memory", Shown::Memory),
        tab(4, "decisions", Shown::Decisions),
    );
    if let Some(page) = view.page.as_ref().filter(|_| !view.has_help) {
        head = format!("pinhead  {}", page.title);
    }
    if view.is_frozen {
        head.push_str(" FROZEN");
    }
    if model.replay.is_none() {
        head.push_str(&filter_word(view));
    }
    head
}

fn filter_word(view: &View) -> String {
    let filter = view.filter();
    if filter.is_empty() { String::new() } else { format!(" /{filter}") }
}

/// Returns the last lines: a question, a remark, an error, or the keys.
fn foot(model: &Model, view: &View, marked: Option<&GuestRow>, width: usize) -> Vec<Line> {
    if let Some(typed) = &view.typed {
        return said(&question(typed), Tint::Title, width);
    }
    if let Some(note) = &view.note {
        let tint = if note.starts_with(ERROR) { Tint::Bad } else { Tint::Title };
        return said(note, tint, width);
    }
    if let Some(trouble) = &model.trouble {
        return said(&format!("{ERROR}{trouble}"), Tint::Bad, width);
    }
    let keys = match &model.replay {
        Some(replay) if !view.has_help && view.page.is_none() => replay_keys(replay, view),
        _ => fitted(&keys(view, marked), width),
    };
    vec![Line::new(keys, Tint::Calm)]
}

/// Returns a text for the last lines. A mark precedes each line of an error.
fn said(text: &str, tint: Tint, width: usize) -> Vec<Line> {
    let (mark, text) = match text.strip_prefix(ERROR) {
        Some(text) => (ERROR, text),
        None => ("", text),
    };
    let lines = wrapped(text, 0, width.saturating_sub(mark.len()));
    let marked = |line: String| Line::new(format!("{mark}{line}"), tint);
    lines.into_iter().take(NOTE_MAX).map(marked).collect()
}

fn question(typed: &Typed) -> String {
    let name = |guest: &Target| plain(&guest.name, NAME_MAX);
    match typed {
        Typed::Filter(text) => {
            format!("Guests or classes like: {text}_   (Enter keeps the filter, Esc shows all)")
        }
        Typed::Size(guest, text) => {
            format!("Fix the memory of {} at: {text}_   (Enter pins, Esc cancels)", name(guest))
        }
        Typed::Park(guest) => {
            let name = name(guest);
            format!("Park {name}? The guest stops until p wakes it.   (y parks, other keys cancel)")
        }
    }
}

fn replay_keys(replay: &Replay, view: &View) -> String {
    let step = step_text(replay.length_ms);
    let note = replay.at_end.map(|end| format!("   {end}")).unwrap_or_default();
    let filter = filter_word(view);
    format!("+{step}   [ ] a step   {{ }} ten   1-4  ? help  q quit{filter}{note}")
}

/// Returns the keys of a screen, the most important first.
fn keys(view: &View, marked: Option<&GuestRow>) -> Vec<&'static str> {
    if view.has_help {
        return vec!["any key goes back", "q quit"];
    }
    if view.page.is_some() {
        return vec!["Esc back", "up/down scroll", "page up/down", "home end"];
    }
    let park = match marked.map(|row| row.state) {
        Some(GuestRunState::Parked) => "p wake",
        _ => "p park",
    };
    let pin = match marked.map(|row| row.mode) {
        Some(GuestMode::Pinned) => "i unpin",
        _ => "i pin",
    };
    let acts = ["c console", "l log", "w why", park, pin];
    let (first, more) = match (view.shown, view.open) {
        (Shown::Memory, _) => return vec!["? help", "q quit", "1-4 screens", "space freeze"],
        (Shown::Guests, Some(_)) => ("Esc back", ["up/down scroll", "1-4 screens"]),
        (Shown::Overview, _) => ("Enter open", ["1-4 screens", "s sort"]),
        (Shown::Guests, None) => ("Enter open", ["s sort", "/ filter"]),
        (Shown::Decisions, _) => ("Enter open", ["/ filter", "up/down scroll"]),
    };
    [["? help", "q quit", first].as_slice(), &acts, &more, &["space freeze"]].concat()
}

/// Returns the keys that fit into the width, from the first on.
fn fitted(keys: &[&str], width: usize) -> String {
    let mut line = String::new();
    for key in keys {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.len() + gap.len() + key.len() > width {
            break;
        }
        line.push_str(gap);
        line.push_str(key);
    }
    line
}

/// Replaces characters that some terminals cannot show.
fn ascii(line: &str) -> String {
    let one = |c: char| match c {
        '…' => '~',
        '·' => ' ',
        c if c.is_ascii() => c,
        _ => '?',
    };
    line.chars().map(one).collect()
}
