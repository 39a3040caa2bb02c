//! `pinhead top`: what the manager sees now, or saw then, on a terminal.
//!
//! ```text
//!   manager ─► feed (a thread: interval, ps) ─┐
//!   recordings, journal ─► tape ──────────────┴─► Model ─┐
//!   terminal ─► keys ─► View ────────────────────────────┴─► screens ─► lines ─► terminal
//! ```
//!
//! [`Model`] and [`View`] know neither a terminal nor a clock, and [`screens::draw`] makes
//! lines of them: all of it can be tried without any of the rest. Where standard output is no
//! terminal, the same lines are written one after the other.

mod feed;
mod keys;
mod model;
mod past;
mod sample;
mod screens;
mod step;
mod tape;
mod terminal;
#[cfg(test)]
mod tests;
mod vcpus;
mod view;
mod watch;

use crate::Error;
use crate::manage::{SocketArg, ask_manager, unexpected};
use clap::Args;
use feed::Feed;
use host::control::{Answer, Ask, Ps, Whose};
use jiff::tz::TimeZone;
use model::{Decided, Model};
use reports::Zone;
use rustix::event::Timespec;
use screens::{Look, draw};
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Range;
use tape::{Tape, Wanted};
use terminal::Paint;
use view::{Shown, View};
use watch::{From, watch};

/// How often the manager is asked: it looks as often.
const TURN: Duration = Duration::from_secs(1);
/// Where lines are written down, they are so wide, and as many as there are.
const TEXT_WIDTH: usize = 120;
const TEXT_HEIGHT: usize = 10_000;
/// Decisions of so long before somebody looks are shown, where the journal can be read.
const BEFORE_MS: i64 = 3_600_000;

/// `pinhead top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Which screen comes first
    #[arg(long, value_enum, default_value = "overview")]
    pub screen: Shown,
    /// Only guests whose name or class is of this pattern, such as 'LNX1*'
    #[arg(long, value_name = "PATTERN")]
    pub class: Option<String>,
    /// Write one screen down, and end
    #[arg(long)]
    pub once: bool,
    /// End after so many seconds; of a recording, write so many steps down
    #[arg(long = "for", value_name = "SECONDS")]
    pub seconds: Option<u64>,
    /// Show the past instead: a directory of recordings, or a day's file in it
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub replay: Option<PathBuf>,
    /// From when: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"; the end of the recording if
    /// it is not given
    ///
    /// A time that is not recorded is an error that says which times are.
    #[arg(long, value_name = "TIME", requires = "replay")]
    pub at: Option<String>,
    /// How long a step of the past is: whole minutes, or 1 to 59 where seconds are left
    #[arg(long, value_name = "SECONDS", requires = "replay", default_value_t = 60)]
    pub step: u32,
    /// The journal of the past, if it is not beside the recordings
    #[arg(long, value_name = "PATH", requires = "replay")]
    pub journal: Option<PathBuf>,
    /// Nothing stands out but by its characters: also with NO_COLOR set, or TERM=dumb
    #[arg(long)]
    pub no_color: bool,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// The local zone.
struct Local(TimeZone);

impl Zone for Local {
    fn offset_min(&self, at_ms: i64) -> i64 {
        jiff::Timestamp::from_millisecond(at_ms)
            .map_or(0, |at| i64::from(self.0.to_offset(at).seconds() / 60))
    }
}

/// Shows what happens until somebody has seen enough.
pub fn run(args: TopArgs) -> Result<(), Error> {
    let zone = Local(TimeZone::system());
    let view = View::new(args.screen, args.class.as_deref().unwrap_or_default());
    let is_live = !args.once && std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let look = Look { zone: &zone, is_ascii: !speaks_utf8(), is_text: !is_live };
    // What cannot be had is told before anything is drawn: the error stays to be read.
    let tape = match &args.replay {
        Some(path) => Some(open(path, &args)?),
        None => None,
    };
    match (tape, is_live) {
        (Some(mut tape), true) => {
            let model = tape.model()?;
            watch(From::Tape(Box::new(tape)), model, view, &look, paint(&args))
        }
        (Some(tape), false) => write_tape(tape, &args, &view, &look),
        (None, true) => {
            let model = Model::after(decided_before(&args.socket)?);
            let paint = paint(&args);
            let feed = Feed::start(args.socket, args.seconds);
            let feed = feed.map_err(failed("Cannot ask the manager"))?;
            watch(From::Manager(feed), model, view, &look, paint)
        }
        (None, false) => write_down(&args, &view, &look),
    }
}

fn open(path: &Path, args: &TopArgs) -> Result<Tape, Error> {
    let wanted = Wanted {
        path,
        at: args.at.as_deref(),
        step_s: args.step,
        journal: args.journal.as_deref(),
    };
    Tape::open(&wanted, &why::now())
}

/// Whether the first line may stand out.
fn paint(args: &TopArgs) -> Paint {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    match args.no_color || is_set("NO_COLOR") || is_dumb {
        true => Paint::Plain,
        false => Paint::Inverse,
    }
}

/// What was decided in the last hour, by the manager's journal. Where that cannot be read, it
/// is as if nothing was: what the manager decides from now on is shown all the same.
fn decided_before(socket: &SocketArg) -> Result<VecDeque<Decided>, Error> {
    let Answer::Ps(ps) = ask_manager(socket, &Ask::Ps)? else { return Err(unexpected()) };
    let Answer::Status(status) = ask_manager(socket, &Ask::Status)? else {
        return Err(unexpected());
    };
    let journal = status.journal.path.and_then(|path| past::open(Path::new(&path)));
    let Some(journal) = journal else { return Ok(VecDeque::new()) };
    let now_ms = why::now().ms;
    let range = Range { from_ms: now_ms.saturating_sub(BEFORE_MS), to_ms: now_ms };
    let found = past::decisions(&journal, range, |guest| id_now(&ps, guest));
    Ok(found.unwrap_or_default())
}

/// The number that a guest of the journal has now.
fn id_now(ps: &Ps, guest: &::model::GuestIdentity) -> Option<u64> {
    let is_it = |row: &&host::control::GuestRow| {
        (&row.name, &row.uuid, row.pid) == (&guest.name, &guest.uuid, guest.pid)
    };
    ps.guests.iter().find(is_it).map(|row| row.id)
}

/// Whether the terminal's characters are those of Unicode, as the environment says.
fn speaks_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// A screen a second as text.
fn write_down(args: &TopArgs, view: &View, look: &Look<'_>) -> Result<(), Error> {
    let mut model = Model::default();
    let mut left = if args.once { 1 } else { args.seconds.unwrap_or(u64::MAX) };
    while left > 0 {
        model.take(sample::ask(&args.socket, Whose::Nobody)?);
        if !write_one(&model, view, look)? {
            return Ok(());
        }
        left -= 1;
        if left > 0 {
            let_pass(TURN);
        }
    }
    Ok(())
}

/// One step of a recording as text, or as many as are asked for.
fn write_tape(mut tape: Tape, args: &TopArgs, view: &View, look: &Look<'_>) -> Result<(), Error> {
    let steps = if args.once { 1 } else { args.seconds.unwrap_or(1) };
    for step in 0..steps {
        if step > 0 {
            tape.travel(1);
        }
        let model = tape.model()?;
        let is_over = model.replay.as_ref().is_some_and(|replay| replay.at_end.is_some());
        if is_over || !write_one(&model, view, look)? {
            break;
        }
    }
    Ok(())
}

/// Writes a screen; false if nobody reads any more.
fn write_one(model: &Model, view: &View, look: &Look<'_>) -> Result<bool, Error> {
    let mut text = draw(model, view, (TEXT_WIDTH, TEXT_HEIGHT), look).join("\n");
    text.push_str("\n\n");
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).map_err(failed("Cannot write the screen")),
    }
}

/// Lets time pass. Whoever ends the program in the meantime ends it.
fn let_pass(time: Duration) {
    let timeout =
        Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let _ = rustix::event::poll(&mut [], Some(&timeout));
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::Message(format!("{what}: {error}"))
}
