//! Main loop of the screens on a terminal, until the user quits.

use super::feed::Feed;
use super::keys::Decoder;
use super::model::Model;
use super::orders::{Action, Order, Orders, Outcome};
use super::page::Page;
use super::screens::{Look, draw};
use super::step;
use super::tape::Tape;
use super::terminal::{Paint, Signals, Terminal};
use super::view::View;
use crate::error::{Error, failed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

/// Time without further bytes after which a key counts as complete.
const KEY_MS: i64 = 50;

/// Maximum length of a guest's name in a request to the manager.
const WORD_MAX: usize = 255;

pub(super) enum From {
    /// A manager, second by second, and the actions on its guests.
    Manager(Feed, Orders),
    /// A recording, step by step.
    Tape(Box<Tape>),
}

/// Inputs that can be ready at the same time: keys, signals, the manager, and ended actions.
#[derive(Debug, Default)]
struct ReadyInputs {
    keys: bool,
    end: bool,
    resized: bool,
    fed: bool,
    acted: bool,
}

fn wait_for_input(from: &From, signals: &Signals, is_key_open: bool) -> Result<ReadyInputs, Error> {
    let stdin = std::io::stdin();
    let mut fds = vec![
        PollFd::new(&stdin, PollFlags::IN),
        PollFd::from_borrowed_fd(signals.end.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(signals.resized.as_fd(), PollFlags::IN),
    ];
    if let From::Manager(feed, orders) = from {
        fds.push(PollFd::from_borrowed_fd(feed.waker(), PollFlags::IN));
        fds.push(PollFd::from_borrowed_fd(orders.waker(), PollFlags::IN));
    }
    let short = Timespec { tv_sec: 0, tv_nsec: KEY_MS * 1_000_000 };
    match poll(&mut fds, is_key_open.then_some(&short)) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(ReadyInputs::default()),
        Err(e) => return Err(failed("Cannot wait for keys")(e.into())),
    }
    let is_ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
    Ok(ReadyInputs {
        keys: is_ready(0),
        end: is_ready(1),
        resized: is_ready(2),
        fed: is_ready(3),
        acted: is_ready(4),
    })
}

/// Returns the keys typed since the last call. Returns `None` at the end of the input.
fn typed(decoder: &mut Decoder, is_ready: bool) -> Option<Vec<super::keys::Key>> {
    if !is_ready {
        return Some(if decoder.is_open() { decoder.finish() } else { Vec::new() });
    }
    let mut bytes = [0; 256];
    match std::io::stdin().lock().read(&mut bytes) {
        Ok(0) => None,
        Ok(count) => Some(decoder.feed(&bytes[..count])),
        Err(e) if e.kind() == std::io::ErrorKind::Interrupted => Some(Vec::new()),
        Err(_) => None,
    }
}

/// Shows the screens and handles input. The terminal is always restored on return.
pub(super) fn watch(
    mut from: From,
    mut shown: Model,
    mut view: View,
    look: &Look<'_>,
    paint: Paint,
) -> Result<(), Error> {
    let signals = Signals::collect().map_err(failed("Cannot collect signals"))?;
    let mut terminal = Terminal::take(paint).map_err(failed("Cannot set up the terminal"))?;
    let mut frozen: Option<Model> = None;
    let mut decoder = Decoder::default();
    loop {
        let model = frozen.as_ref().unwrap_or(&shown);
        let size = terminal.size();
        terminal.show(draw(model, &view, size, look), size).map_err(failed("Cannot draw"))?;
        let ready = wait_for_input(&from, &signals, decoder.is_open())?;
        if ready.resized {
            signals.resized_seen();
            terminal.forget();
        }
        let Some(keys) = typed(&mut decoder, ready.keys) else { return Ok(()) };
        let was_open = view.open;
        for key in keys {
            let model = frozen.as_ref().unwrap_or(&shown);
            step::step(&mut view, key, model, size);
            if view.order.is_some() {
                // Keys typed before this screen was shown are dropped, because they were meant for
                // another screen.
                break;
            }
        }
        match &mut from {
            From::Manager(feed, orders) => {
                view.travel = 0;
                if let Some(order) = view.order.take() {
                    carry_out(order, orders, &mut view, &mut terminal)?;
                }
                if ready.acted
                    && let Some((order, outcome)) = orders.ended()
                {
                    show_outcome(&order, outcome, &mut view);
                }
                match (view.is_frozen, frozen.is_some()) {
                    (true, false) => frozen = Some(shown.clone()),
                    (false, true) => frozen = None,
                    _ => {}
                }
                if ready.fed && !feed.drain(&mut shown) {
                    return Ok(());
                }
                if ready.fed || view.open != was_open {
                    look_at(&mut shown, &view, feed, now_ms());
                }
            }
            From::Tape(tape) => {
                // A recording does not advance by itself, so freezing it would have no effect.
                view.is_frozen = false;
                if view.travel != 0 {
                    tape.travel(std::mem::take(&mut view.travel));
                    shown = tape.model()?;
                }
            }
        }
        if ready.end || view.is_over {
            return Ok(());
        }
    }
}

/// Carries out an action. The console replaces the screens. Every other action runs in a thread.
fn carry_out(
    order: Order,
    orders: &mut Orders,
    view: &mut View,
    terminal: &mut Terminal,
) -> Result<(), Error> {
    if order.action != Action::Console {
        view.note = Some(orders.start(order));
        return Ok(());
    }
    terminal.leave();
    let outcome = orders.run(&order);
    terminal.enter().map_err(failed("Cannot set up the terminal again"))?;
    show_outcome(&order, outcome, view);
    Ok(())
}

/// Shows the result of an action. Logs and decisions are shown on a page, and other results in the
/// last lines.
fn show_outcome(order: &Order, outcome: Outcome, view: &mut View) {
    let name = &order.guest.name;
    let title = match order.action {
        Action::Logs => Some(format!("log of {name}")),
        Action::Why => Some(format!("decisions about {name}")),
        _ => None,
    };
    match (outcome, title) {
        (Ok(text), Some(title)) if !text.trim().is_empty() => {
            view.page = Some(Page::at_end(title, &text));
            view.note = None;
        }
        (Ok(_), Some(title)) => view.note = Some(format!("There is nothing to show: {title}")),
        (Ok(text), None) => {
            view.note = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        }
        (Err(error), _) => view.note = Some(format!("! {error}")),
    }
}

/// Returns milliseconds of a monotonic clock.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec * 1_000 + now.tv_nsec / 1_000_000).unsigned_abs()
}

/// Requests the processes of the guest on the screen, and reads its vCPUs.
fn look_at(model: &mut Model, view: &View, feed: &Feed, now_ms: u64) {
    let Some(sample) = &model.sample else { return };
    let row = sample.ps.guests.iter().find(|row| Some(row.id) == view.open);
    let word = row.map(|row| if row.uuid.is_empty() { &row.name } else { &row.uuid });
    feed.look_at(word.map(String::as_str).filter(|word| (1..=WORD_MAX).contains(&word.len())));
    if let Some(row) = row {
        model.vcpus.look(Path::new("/"), row, now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::Target;

    #[test]
    fn results_are_pages_or_remarks() {
        let mut view = View::default();
        let guest = Target { name: "web1".into(), ..Target::default() };
        let order = |action| Order { action, guest: guest.clone() };
        show_outcome(&order(Action::Park), Ok("web1: parked after 7 ms\n".into()), &mut view);
        assert_eq!(view.note.as_deref(), Some("web1: parked after 7 ms"));
        show_outcome(&order(Action::Logs), Ok("booted\n".into()), &mut view);
        let page = view.page.take().unwrap();
        assert_eq!((page.title.as_str(), page.lines(80)), ("log of web1", vec!["booted".into()]));
        assert_eq!(view.note, None, "the remark about the work in progress goes");
        show_outcome(&order(Action::Why), Ok("\n".into()), &mut view);
        assert_eq!(view.note.as_deref(), Some("There is nothing to show: decisions about web1"));
        show_outcome(&order(Action::Console), Err("No farm runs".into()), &mut view);
        assert_eq!((view.note.as_deref(), view.page), (Some("! No farm runs"), None));
    }
}
