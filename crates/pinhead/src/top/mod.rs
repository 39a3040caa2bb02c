//! `pinhead top`: what the manager sees now, on a terminal.
//!
//! ```text
//!   manager ─► feed (a thread: interval, ps) ─► Model ─┐
//!   terminal ─► keys ─► View ──────────────────────────┴─► screens ─► lines ─► terminal
//! ```
//!
//! [`Model`] and [`View`] know neither a terminal nor a clock, and [`screens::draw`] makes
//! lines of them: all of it can be tried without any of the rest. Where standard output is no
//! terminal, the same lines are written one after the other.

mod feed;
mod keys;
mod model;
mod sample;
mod screens;
mod step;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use crate::Error;
use crate::manage::{SocketArg, ask_manager};
use clap::Args;
use feed::Feed;
use host::control::Ask;
use jiff::tz::TimeZone;
use keys::Decoder;
use model::Model;
use reports::Zone;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use screens::{Look, draw};
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;
use terminal::{Signals, Terminal};
use view::{Shown, View};

/// How often the manager is asked: it looks as often.
const TURN: Duration = Duration::from_secs(1);
/// The bytes of a key come together; after so long, what came was all.
const KEY_MS: i64 = 50;
/// Where lines are written down, they are so wide, and as many as there are.
const TEXT_WIDTH: usize = 120;
const TEXT_HEIGHT: usize = 10_000;

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
    /// End after so many seconds
    #[arg(long = "for", value_name = "SECONDS")]
    pub seconds: Option<u64>,
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
    if !is_live {
        return write_down(&args, &view, &look);
    }
    // Without a manager nothing is drawn: the error stays to be read.
    ask_manager(&args.socket, &Ask::Ps)?;
    watch(args, view, &look)
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
        model.take(sample::ask(&args.socket)?);
        let mut text = draw(&model, view, (TEXT_WIDTH, TEXT_HEIGHT), look).join("\n");
        text.push_str("\n\n");
        let mut out = std::io::stdout();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(failed("Cannot write the screen"))?,
        }
        left -= 1;
        if left > 0 {
            let_pass(TURN);
        }
    }
    Ok(())
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

/// What can be heard at once: the keys, the signals, and the manager.
#[derive(Debug, Default)]
struct Heard {
    keys: bool,
    end: bool,
    resized: bool,
    fed: bool,
}

fn listen(feed: &Feed, signals: &Signals, is_key_open: bool) -> Result<Heard, Error> {
    let stdin = std::io::stdin();
    let mut fds = [
        PollFd::new(&stdin, PollFlags::IN),
        PollFd::from_borrowed_fd(signals.end.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(signals.resized.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(feed.waker(), PollFlags::IN),
    ];
    let short = Timespec { tv_sec: 0, tv_nsec: KEY_MS * 1_000_000 };
    match poll(&mut fds, is_key_open.then_some(&short)) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Heard::default()),
        Err(e) => return Err(failed("Cannot wait for keys")(e.into())),
    }
    let [keys, end, resized, fed] = fds.map(|fd| !fd.revents().is_empty());
    Ok(Heard { keys, end, resized, fed })
}

/// The live screens. The terminal is as it was when this returns, however it does.
fn watch(args: TopArgs, mut view: View, look: &Look<'_>) -> Result<(), Error> {
    let signals = Signals::collect().map_err(failed("Cannot collect signals"))?;
    let seconds = args.seconds;
    let mut feed = Feed::start(args.socket, seconds).map_err(failed("Cannot ask the manager"))?;
    let mut terminal = Terminal::take().map_err(failed("Cannot have the terminal"))?;
    let mut live = Model::default();
    let mut frozen: Option<Model> = None;
    let mut decoder = Decoder::default();
    loop {
        let model = frozen.as_ref().unwrap_or(&live);
        terminal.show(draw(model, &view, terminal.size(), look)).map_err(failed("Cannot draw"))?;
        let heard = listen(&feed, &signals, decoder.is_open())?;
        if heard.resized {
            signals.resized_seen();
            terminal.forget();
        }
        let mut pressed = Vec::new();
        if heard.keys {
            let mut bytes = [0; 256];
            match std::io::stdin().lock().read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => pressed = decoder.feed(&bytes[..count]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(()),
            }
        } else if decoder.is_open() {
            pressed = decoder.finish();
        }
        for key in pressed {
            let model = frozen.as_ref().unwrap_or(&live);
            step::step(&mut view, key, model, terminal.size().1);
            match (view.is_frozen, frozen.is_some()) {
                (true, false) => frozen = Some(live.clone()),
                (false, true) => frozen = None,
                _ => {}
            }
        }
        if heard.fed && !feed.drain(&mut live) {
            return Ok(());
        }
        if heard.end || view.is_over {
            return Ok(());
        }
    }
}
