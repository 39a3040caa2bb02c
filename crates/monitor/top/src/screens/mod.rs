//! Screens as lines of text, for any width and height.

mod decisions;
mod guest;
mod guests;
mod help;
mod memory;
mod overview;
mod room;

pub(crate) use room::Look;

use super::model::Model;
use super::view::{Shown, View};
use base::{padded, plain};
use reports::date_text;
use room::{Room, time, wrapped};

/// Returns the lines of the current screen. No line is wider than the terminal or contains control
/// characters.
pub(super) fn draw(
    model: &Model,
    view: &View,
    (width, height): (usize, usize),
    look: &Look<'_>,
) -> Vec<String> {
    let foot = usize::from(!look.is_text);
    let room = Room { width, height: height.saturating_sub(1 + foot), look };
    let mut body = match (view.has_help, &model.sample) {
        (true, _) => help::lines(),
        (_, None) => vec![String::new(), "  The manager has not answered yet.".to_owned()],
        (_, Some(_)) if nothing(model).is_some() && view.shown != Shown::Decisions => {
            let mut lines = vec![String::new()];
            lines.extend(wrapped(nothing(model).unwrap_or_default(), 2, width));
            lines
        }
        (_, Some(sample)) => match (view.shown, view.open) {
            (Shown::Guests, Some(id)) => guest::lines(model, sample, id, view, &room),
            (Shown::Guests, None) => guests::lines(model, view, &room),
            (Shown::Overview, _) => overview::lines(model, sample, &room),
            (Shown::Memory, _) => memory::lines(sample, &room),
            (Shown::Decisions, _) => decisions::lines(model, view, &room),
        },
    };
    body.truncate(room.height);
    let mut lines = vec![padded(&plain(&head(model, view, look), width), width)];
    lines.append(&mut body);
    if !look.is_text {
        lines.resize(height.saturating_sub(1).max(1), String::new());
        lines.push(foot_line(model, view));
    }
    lines.truncate(height.max(1));
    let fit = |line: String| {
        let line = plain(line.trim_end(), width);
        let line = if look.is_ascii { ascii(&line) } else { line };
        line.trim_end().to_owned()
    };
    let mut fitted: Vec<String> = lines.into_iter().map(fit).collect();
    if !look.is_text {
        // The first line is highlighted over its whole width.
        fitted[0] = padded(&fitted[0], width);
    }
    fitted
}

/// Returns the reason for missing data in a recording, if any.
fn nothing(model: &Model) -> Option<&str> {
    model.replay.as_ref()?.nothing.as_deref()
}

fn head(model: &Model, view: &View, look: &Look<'_>) -> String {
    let at = match (&model.replay, &model.sample) {
        (Some(replay), _) => {
            let at_ms = replay.from_ms;
            format!("replay  {} {}", date_text(at_ms, look.zone), time(at_ms, look))
        }
        (None, Some(sample)) => format!("pinhead {}", time(sample.at_ms(), look)),
        (None, None) => "pinhead --:--:--".to_owned(),
    };
    let tab = |number: u8, name: &str, shown: Shown| {
        if view.shown == shown {
            format!("[{number} {name}]")
        } else {
            format!(" {number} {name} ")
        }
    };
    let mut head = format!(
        "{at} {}{}{}{}",
        tab(1, "overview", Shown::Overview),
        tab(2, "guests", Shown::Guests),
        tab(3, "memory", Shown::Memory),
        tab(4, "decisions", Shown::Decisions),
    );
    if view.is_frozen {
        head.push_str(" FROZEN");
    }
    if model.replay.is_none() {
        head.push_str(&filter_word(view));
    }
    head
}

/// Returns the filter as text, if there is one.
fn filter_word(view: &View) -> String {
    if view.filter.is_empty() { String::new() } else { format!(" /{}", view.filter) }
}

fn foot_line(model: &Model, view: &View) -> String {
    if let Some(typed) = &view.typed {
        return format!("Guests or classes like: {typed}_   (Enter takes it, Esc does not)");
    }
    if let Some(trouble) = &model.trouble {
        return format!("! {trouble}");
    }
    if let Some(replay) = model.replay.as_ref().filter(|_| !view.has_help) {
        let step = match replay.length_ms {
            ms if ms % 60_000 == 0 => format!("{} min", ms / 60_000),
            ms => format!("{} s", ms / 1000),
        };
        let note = replay.at_end.map(|end| format!("   {end}")).unwrap_or_default();
        let filter = filter_word(view);
        return format!("+{step}   [ ] a step   {{ }} ten   1-4  ? help  q quit{filter}{note}");
    }
    let keys = match (view.has_help, view.shown, view.open) {
        (true, ..) => "any key leads back  q quit",
        (_, Shown::Guests, Some(_)) => "Esc back  up/down scroll  space freeze  ? help  q quit",
        (_, Shown::Guests, None) => {
            "Enter one guest  s sort  r reverse  / filter  space freeze  ? help  q quit"
        }
        (_, Shown::Decisions, _) => {
            "Enter its guest  up/down scroll  / filter  space freeze  ? help  q quit"
        }
        _ => "1-4 screens  space freeze  ? help  q quit",
    };
    keys.to_owned()
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
