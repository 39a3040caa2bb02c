//! Effects of keys.

use super::keys::Key;
use super::model::Model;
use super::value::Column;
use super::view::{Shown, View};

/// Maximum length of a typed text.
const TYPED_MAX: usize = 60;
/// Number of steps in a recording per press of the fast keys.
const FAR: i64 = 10;
/// Number of lines that stay visible when a page is turned.
const PAGE_KEEPS: usize = 6;

/// Performs the action of a key, on a screen of `width` and `height`.
pub(super) fn step(view: &mut View, key: Key, model: &Model, size: (usize, usize)) {
    if key == Key::Interrupt {
        view.is_over = true;
    } else if view.typed.is_some() {
        write(view, key);
    } else if view.has_help {
        // Any key closes the help.
        view.has_help = false;
        view.is_over = key == Key::Char('q');
    } else {
        command(view, key, model, size.1);
    }
}

fn write(view: &mut View, key: Key) {
    let mut typed = view.typed.take().unwrap_or_default();
    match key {
        Key::Enter | Key::Escape => {
            view.filter = if key == Key::Enter { typed } else { String::new() };
            view.scroll = 0;
            return;
        }
        Key::Backspace => {
            typed.pop();
        }
        Key::Char(c) if typed.chars().count() < TYPED_MAX => typed.push(c),
        _ => {}
    }
    view.typed = Some(typed);
}

fn command(view: &mut View, key: Key, model: &Model, height: usize) {
    let page = height.saturating_sub(PAGE_KEEPS).max(1) as isize;
    match key {
        Key::Char('q') => view.is_over = true,
        Key::Char('?' | 'h') => view.has_help = true,
        Key::Char('1') => show(view, Shown::Overview),
        Key::Char('2') => show(view, Shown::Guests),
        Key::Char('3') => show(view, Shown::Memory),
        Key::Char('4') => show(view, Shown::Decisions),
        Key::Char(']') => view.travel += 1,
        Key::Char('[') => view.travel -= 1,
        Key::Char('}') => view.travel += FAR,
        Key::Char('{') => view.travel -= FAR,
        // Without a first sample there is nothing to hold on to.
        Key::Char(' ') => view.is_frozen = !view.is_frozen && model.sample.is_some(),
        Key::Char('/') => view.typed = Some(String::new()),
        Key::Char('r') => view.is_reversed = !view.is_reversed,
        Key::Char('s') => {
            let at = Column::ALL.iter().position(|(column, _)| *column == view.sort).unwrap_or(0);
            view.sort = Column::ALL[(at + 1) % Column::ALL.len()].0;
        }
        Key::Escape | Key::Backspace if view.open.is_some() => {
            view.open = None;
            view.scroll = 0;
        }
        Key::Escape => view.filter.clear(),
        Key::Enter => open(view, model),
        Key::Up | Key::Char('k') => travel(view, model, -1),
        Key::Down | Key::Char('j') => travel(view, model, 1),
        Key::PageUp => travel(view, model, -page),
        Key::PageDown => travel(view, model, page),
        Key::Home => travel(view, model, isize::MIN),
        Key::End => travel(view, model, isize::MAX),
        _ => {}
    }
}

fn show(view: &mut View, shown: Shown) {
    view.shown = shown;
    view.open = None;
    view.scroll = 0;
}

/// Opens the marked guest, or the guest of the top decision.
fn open(view: &mut View, model: &Model) {
    if view.open.is_some() {
        return;
    }
    let id = match view.shown {
        Shown::Memory => return show(view, Shown::Guests),
        // The guest of a decision may be gone, which its screen then says.
        Shown::Decisions => view.decisions(model).get(view.scroll).map(|one| one.id),
        Shown::Overview | Shown::Guests => view.marked(model).map(|row| row.id),
    };
    if id.is_some() {
        show(view, Shown::Guests);
        (view.open, view.selected) = (id, id);
    }
}

/// Moves the mark among guests, or scrolls.
fn travel(view: &mut View, model: &Model, by: isize) {
    if matches!(view.shown, Shown::Overview | Shown::Guests) && view.open.is_none() {
        let guests = view.guests(model);
        let at = view.marked_line(&guests);
        let to = at.saturating_add_signed(by).min(guests.len().saturating_sub(1));
        view.selected = guests.get(to).map(|guest| guest.row.id);
        return;
    }
    let most = match (view.shown, view.open) {
        (Shown::Decisions, _) => view.decisions(model).len().saturating_sub(1),
        (_, Some(id)) => model.decisions.iter().filter(|one| one.id == id).count(),
        _ => 0,
    };
    view.scroll = view.scroll.saturating_add_signed(by).min(most);
}
