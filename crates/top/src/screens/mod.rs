//! Screens as lines of text, for any width and height.

mod decisions;
mod guest;
mod guests;
mod help;
mod memory;
mod overview;

use super::model::Model;
use super::view::{Shown, View};
use base::plain;
use host::control::SizeAction;
use reports::{Zone, clock_text, date_text, shown};

/// How lines are to look.
pub(super) struct Look<'a> {
    pub(super) zone: &'a dyn Zone,
    /// The terminal has no other characters.
    pub(super) is_ascii: bool,
    /// Lines are written down, where nobody presses keys.
    pub(super) is_text: bool,
}

/// Where a screen has to fit in.
struct Room<'a> {
    width: usize,
    /// Lines between head and foot.
    height: usize,
    look: &'a Look<'a>,
}

/// The lines of what is looked at, on a terminal of so many columns and lines. None is wider,
/// and nothing in them is obeyed by a terminal.
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
        (_, None) => vec![String::new(), "  The manager has not told anything yet.".to_owned()],
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
    let mut lines = vec![format!("{:<width$}", plain(&head(model, view, look), width))];
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
        // The first line stands out over its whole width.
        fitted[0] = format!("{:<width$}", fitted[0]);
    }
    fitted
}

/// Why nothing is known of a time of the past, if so.
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

/// The filter, if there is one.
fn filter_word(view: &View) -> String {
    if view.filter.is_empty() { String::new() } else { format!(" /{}", view.filter) }
}

/// The time of the day, to the second.
fn time(at_ms: i64, look: &Look<'_>) -> String {
    let text = clock_text(at_ms / 1000 * 1000, look.zone);
    if text.len() == "00:00".len() { text + ":00" } else { text }
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

/// The same in the characters that every terminal has.
fn ascii(line: &str) -> String {
    let one = |c: char| match c {
        '…' => '~',
        '·' => ' ',
        c if c.is_ascii() => c,
        _ => '?',
    };
    line.chars().map(one).collect()
}

/// Levels of a line of bars, from the lowest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_BARS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// Values as a line of bars between 0 and the most, newest last. What is missing is a gap.
fn bars(values: impl Iterator<Item = Option<f64>>, most: f64, look: &Look<'_>) -> String {
    let levels = if look.is_ascii { ASCII_BARS } else { BARS };
    let bar = |value: Option<f64>| {
        let Some(value) = value.filter(|_| most > 0.0) else { return ' ' };
        let level = (value / most * levels.len() as f64).clamp(0.0, (levels.len() - 1) as f64);
        levels[level as usize]
    };
    values.map(bar).collect()
}

/// A size in MiB in five characters, and in GiB where it does not fit.
fn size(mib: Option<f64>) -> String {
    match mib {
        Some(mib) if mib >= 99_999.5 => format!("{:.0}G", mib / 1024.0),
        mib => shown(mib, 0),
    }
}

fn size_of(bytes: Option<u64>) -> String {
    size(bytes.map(|bytes| bytes as f64 / 1_048_576.0))
}

/// A name that was chosen outside, in just so many columns.
fn name(text: &str, width: usize) -> String {
    format!("{:<width$}", plain(text, width))
}

/// The last word of a guest's decision: why nothing is done, or what was and why.
fn last(row: &host::control::GuestRow) -> String {
    if let Some(why) = &row.unusable {
        return why.clone();
    }
    let words = [row.action.map(SizeAction::name), row.reason.as_deref()];
    words.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// A text over several lines, broken between words.
fn wrapped(text: &str, indent: usize, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent).max(1);
    let text = plain(text, 2_000);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(|line| format!("{:indent$}{line}", "")).collect()
}
