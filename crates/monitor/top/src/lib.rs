//! Terminal screens of the manager's current state, or of a recording.
//!
//! ```text
//!   manager ─► feed (a thread: interval, ps) ─┐
//!   recordings, journal ─► tape ──────────────┴─► Model ─┐
//!   terminal ─► keys ─► View ────────────────────────────┴─► screens ─► lines ─► terminal
//!                        └─► orders: console, logs, park, pin, why ─► the caller's functions
//! ```
//!
//! [`Model`] and [`View`] depend on neither terminal nor clock, and [`screens::draw`] turns a model
//! and a view into lines, so each can be tested alone. If standard output is not a terminal, the
//! same lines are printed one after the other.

#![forbid(unsafe_code)]

mod error;
mod feed;
mod keys;
mod model;
mod orders;
mod page;
mod past;
mod sample;
mod screens;
mod step;
mod tape;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod value;
mod vcpus;
mod view;
mod watch;

pub use error::{Error, Trouble};
pub use orders::{Action, Acts, Order, Target};
pub use sample::Manager;
pub use tape::Wanted;
pub use view::Shown;

use error::failed;
use feed::{Feed, TURN, let_pass};
use jiff::tz::TimeZone;
use manager::control::{Answer, Ask, Ps, Whose};
use model::{Decided, Model};
use orders::Orders;
use reports::Zone;
use screens::{Look, draw};
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::path::Path;
use store::Range;
use tape::Tape;
use terminal::Paint;
use view::View;
use watch::{From, watch};

/// Width and height of a screen that is printed as text, if the output is not a terminal.
const TEXT_WIDTH: usize = 120;
const TEXT_HEIGHT: usize = 10_000;
/// Maximum age of the journal's decisions that are shown at the start.
const BEFORE_MS: i64 = 3_600_000;

/// Options of the display.
#[derive(Clone, Debug)]
pub struct Options {
    /// First screen.
    pub shown: Shown,
    /// Pattern for names or classes of guests.
    pub filter: String,
    /// True if one screen is printed as text.
    pub once: bool,
    /// Number of seconds until the program ends. For a recording, the number of steps printed.
    pub seconds: Option<u64>,
    /// True if no colours or other attributes are used.
    pub no_color: bool,
}

fn local() -> impl Zone {
    let zone = TimeZone::system();
    move |at_ms| why::when::offset_min(at_ms, &zone)
}

/// Shows the manager's state until the user quits. `acts` carries out actions on guests.
pub fn live(manager: Manager, acts: Acts, options: &Options) -> Result<(), Error> {
    let (view, zone) = (View::new(options.shown, &options.filter), local());
    let look = look(&zone, options);
    if look.is_text {
        return write_down(&manager, options, &view, &look);
    }
    // Errors must be reported before the first screen is drawn. Otherwise the screen would hide the
    // errors.
    let model = Model::after(decided_before(&manager)?);
    let feed = Feed::start(manager, options.seconds)
        .map_err(failed("Cannot start the thread that queries the manager"))?;
    let orders = Orders::new(acts).map_err(failed("Cannot prepare for actions"))?;
    watch(From::Manager(feed, orders), model, view, &look, paint(options))
}

/// Shows a recording until the user quits.
pub fn replay(wanted: &Wanted<'_>, options: &Options) -> Result<(), Error> {
    let (view, zone) = (View::new(options.shown, &options.filter), local());
    let look = look(&zone, options);
    if look.is_text {
        return print(wanted, options, text_width(), &mut std::io::stdout());
    }
    let mut tape = Tape::open(wanted, &why::now())?;
    let model = tape.model()?;
    watch(From::Tape(Box::new(tape)), model, view, &look, paint(options))
}

fn look<'a>(zone: &'a dyn Zone, options: &Options) -> Look<'a> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    Look { zone, is_ascii: !speaks_utf8(), is_text: options.once || !is_terminal }
}

fn paint(options: &Options) -> Paint {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    let is_plain = options.no_color || is_set("NO_COLOR") || is_dumb;
    if is_plain { Paint::Plain } else { Paint::Colour }
}

/// Returns the decisions of the last hour from the manager's journal, or none if the journal cannot
/// be read.
fn decided_before(manager: &Manager) -> Result<VecDeque<Decided>, Error> {
    let Answer::Ps(ps) = manager(&Ask::Ps)? else { return Err(Error::Unexpected) };
    let Answer::Status(status) = manager(&Ask::Status)? else { return Err(Error::Unexpected) };
    let journal = status.journal.path.and_then(|path| past::open(Path::new(&path)));
    let Some(journal) = journal else { return Ok(VecDeque::new()) };
    let now_ms = why::now().ms;
    let range = Range { from_ms: now_ms.saturating_sub(BEFORE_MS), to_ms: now_ms };
    let found = past::decisions(&journal, range, |guest| id_now(&ps, guest));
    Ok(found.unwrap_or_default())
}

/// Returns the current id of a guest in the journal.
fn id_now(ps: &Ps, guest: &::model::GuestIdentity) -> Option<u64> {
    let is_it = |row: &&manager::control::GuestRow| {
        (&row.name, &row.uuid, row.pid) == (&guest.name, &guest.uuid, guest.pid)
    };
    ps.guests.iter().find(is_it).map(|row| row.id)
}

/// Returns true if the environment names a UTF-8 locale.
fn speaks_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

fn write_down(
    manager: &Manager,
    options: &Options,
    view: &View,
    look: &Look<'_>,
) -> Result<(), Error> {
    let mut model = Model::default();
    let mut left = if options.once { 1 } else { options.seconds.unwrap_or(u64::MAX) };
    while left > 0 {
        model.take(sample::ask(manager, Whose::Nobody)?);
        if !write_one(&model, view, text_width(), look, &mut std::io::stdout())? {
            return Ok(());
        }
        left -= 1;
        if left > 0 {
            let_pass(TURN);
        }
    }
    Ok(())
}

/// Prints one or more steps of a recording as text.
pub fn print(
    wanted: &Wanted<'_>,
    options: &Options,
    width: usize,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let (view, zone) = (View::new(options.shown, &options.filter), local());
    let look = Look { is_text: true, ..look(&zone, options) };
    let mut tape = Tape::open(wanted, &why::now())?;
    let steps = if options.once { 1 } else { options.seconds.unwrap_or(1) };
    for step in 0..steps {
        if step > 0 {
            tape.travel(1);
        }
        let model = tape.model()?;
        let is_over = model.replay.as_ref().is_some_and(|replay| replay.at_end.is_some());
        if is_over || !write_one(&model, &view, width, &look, out)? {
            break;
        }
    }
    Ok(())
}

fn text_width() -> usize {
    terminal::size().map_or(TEXT_WIDTH, |(width, _)| width)
}

/// Prints a screen. Returns false if the reader has closed the output.
fn write_one(
    model: &Model,
    view: &View,
    width: usize,
    look: &Look<'_>,
    out: &mut dyn Write,
) -> Result<bool, Error> {
    let lines = draw(model, view, (width, TEXT_HEIGHT), look);
    let mut text: String = lines.into_iter().map(|line| line.text + "\n").collect();
    text.push('\n');
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).map_err(failed("Cannot write the screen")),
    }
}
