//! Effects of keys.

use super::keys::Key;
use super::model::Model;
use super::orders::{Action, Order, Target};
use super::value::Column;
use super::view::{Shown, Typed, View};
use base::MIB;
use manager::control::{GuestMode, GuestRow, GuestRunState};

const TYPED_MAX: usize = 60;
/// Number of steps in a recording per press of the fast keys.
const FAR: i64 = 10;
/// Number of lines that stay visible when a page is turned.
const PAGE_KEEPS: usize = 6;

/// Number of lines above and below a page's text.
const FRAME: usize = 2;

/// Performs the action of a key, on a screen of `width` and `height`.
pub(super) fn step(view: &mut View, key: Key, model: &Model, size: (usize, usize)) {
    view.note = None;
    if key == Key::Interrupt {
        view.is_over = true;
    } else if view.typed.is_some() {
        write(view, key);
    } else if view.has_help {
        // Any key closes the help.
        view.has_help = false;
        view.is_over = key == Key::Char('q');
    } else if view.page.is_some() {
        read(view, key, size);
    } else {
        command(view, key, model, size.1);
    }
}

/// Performs the action of a key while a text is typed.
fn write(view: &mut View, key: Key) {
    let Some(mut typed) = view.typed.take() else { return };
    match (&mut typed, key) {
        (Typed::Park(guest), Key::Char('y')) => {
            view.order = Some(Order { action: Action::Park, guest: std::mem::take(guest) });
            return;
        }
        (Typed::Park(_), _) | (Typed::Size(..), Key::Escape) => return,
        (Typed::Filter(_), Key::Escape) => {
            view.filter.clear();
            view.scroll = 0;
            return;
        }
        (Typed::Filter(text), Key::Enter) => {
            view.filter = std::mem::take(text);
            view.scroll = 0;
            return;
        }
        (Typed::Size(guest, text), Key::Enter) => {
            let action = Action::Pin(text.trim().to_owned());
            view.order = Some(Order { action, guest: std::mem::take(guest) });
            return;
        }
        (Typed::Filter(text) | Typed::Size(_, text), Key::Backspace) => {
            text.pop();
        }
        (Typed::Filter(text) | Typed::Size(_, text), Key::Char(c))
            if text.chars().count() < TYPED_MAX =>
        {
            text.push(c);
        }
        _ => {}
    }
    view.typed = Some(typed);
}

/// Performs the action of a key on a page of text.
fn read(view: &mut View, key: Key, (width, height): (usize, usize)) {
    let height = height.saturating_sub(FRAME);
    let far = height.saturating_sub(1).max(1) as isize;
    let by = match key {
        Key::Escape | Key::Enter | Key::Backspace | Key::Char('q') => {
            view.page = None;
            return;
        }
        Key::Up | Key::Char('k') => -1,
        Key::Down | Key::Char('j') => 1,
        Key::PageUp => -far,
        Key::PageDown | Key::Char(' ') => far,
        Key::Home => isize::MIN,
        Key::End => isize::MAX,
        _ => 0,
    };
    if let Some(page) = &mut view.page {
        page.travel(by, (width, height));
    }
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
        // Before the first sample there is no screen to freeze.
        Key::Char(' ') => view.is_frozen = !view.is_frozen && model.sample.is_some(),
        Key::Char('/') => view.typed = Some(Typed::Filter(String::new())),
        Key::Char(act @ ('c' | 'l' | 'w' | 'p' | 'i')) => order(view, act, model),
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

/// Stores the action of a key, or asks the user for a size or a confirmation first.
fn order(view: &mut View, key: char, model: &Model) {
    if model.replay.is_some() {
        let remark = "This is a recording: the keys c, l, w, p and i work only with running guests";
        view.note = Some(remark.to_owned());
        return;
    }
    let Some(row) = view.marked(model) else {
        view.note = Some("No guest is marked: press 2 to list the guests".to_owned());
        return;
    };
    // The mark stays with this guest even if the order of the rows changes.
    view.selected = Some(row.id);
    let guest = Target::of(row);
    let action = match key {
        'c' => Action::Console,
        'l' => Action::Logs,
        'w' => Action::Why,
        'p' if row.state == GuestRunState::Parked => Action::Wake,
        'p' => {
            view.typed = Some(Typed::Park(guest));
            return;
        }
        _ if row.mode == GuestMode::Pinned => Action::Manage,
        _ => {
            view.typed = Some(Typed::Size(guest, present_size(row)));
            return;
        }
    };
    view.order = Some(Order { action, guest });
}

/// Returns the guest's present size in the notation of `pinhead set`.
fn present_size(row: &GuestRow) -> String {
    let mib = |bytes: u64| bytes.saturating_add(MIB / 2) / MIB;
    row.actual_bytes.map_or_else(String::new, |bytes| format!("{} MiB", mib(bytes)))
}

/// Opens the marked guest, or the guest of the top decision.
fn open(view: &mut View, model: &Model) {
    if view.open.is_some() {
        return;
    }
    let id = match view.shown {
        Shown::Memory => return show(view, Shown::Guests),
        // The guest of a decision may be gone. The guest's screen then says so.
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
