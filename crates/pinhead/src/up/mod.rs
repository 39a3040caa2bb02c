//! `pinhead up`: real guests, started, paced, granted their pools, and shown.

mod ask;
pub mod control;
pub mod detach;
mod json;
pub mod plan;
pub mod progress;
pub mod rundir;
pub mod serve;
pub mod setup;
mod table;

use crate::Error;
use crate::args::{UpArgs, UpFormat};
use control::Control;
use farm::fleet::owner::OTHERS;
use farm::fleet::{Event, Fleet, Floor, State};
use reactor::PollSet;
use rundir::RunDir;
use rustix::event::PollFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use vm::GuestSpec;

/// How often the table is drawn on a terminal, and where it is only written down.
const REDRAW_MS: u64 = 1_000;
const REWRITE_MS: u64 = 5_000;
/// Linux has room for 108 bytes with the zero in a socket's address.
const SOCKET_PATH_MAX: usize = 107;
/// More of a note than this is no note.
const NOTE_WIDTH: usize = 400;

/// Runs guests until the time is over or somebody ends it. Every guest ends with it.
pub fn run(args: &UpArgs) -> Result<(), Error> {
    match &args.farm {
        Some(path) if args.detach => detach::start(path, &args.only, args.seconds),
        Some(path) => {
            let farm = serve::load(path, &args.only)?;
            let watcher = serve::Watcher::Here(args.format);
            serve::run(serve::Run { farm, seconds: args.seconds, watcher })
        }
        None => run_alike(args),
    }
}

/// Guests that are all alike, without a file.
fn run_alike(args: &UpArgs) -> Result<(), Error> {
    let quiet = args.format == UpFormat::Json;
    let say = |line: &str| {
        if !quiet {
            println!("{line}");
        }
    };
    let mut setup = setup::prepare(args, say)?;
    // Before the first guest: an interrupt must find everything ready to end. Up to
    // here a signal ends us by itself, and there is nothing to leave behind.
    let signals = signals().map_err(|e| Error::step("Cannot collect signals", e))?;
    say(&format!(
        "Starting {} guests of {} CPUs and {} MiB:\n  {}",
        args.guests, args.cpus, args.memory, setup.accel
    ));
    // It outlives the fleet below, whose sockets are in it.
    let run_dir = give_run_dir(setup.specs.iter_mut());
    if let Err(error) = &run_dir {
        say(&format!("No host manager can have these guests: {error}"));
    }
    let boots = std::thread::available_parallelism().map_or(2, usize::from);
    let mut fleet = Fleet::new(setup.specs, Floor::default(), boots);
    let outcome = watch(&mut fleet, args, signals);
    let seconds = fleet.now_ms() as f64 / 1000.0;
    if outcome.is_ok() && quiet {
        println!("{}", json::report(fleet.members().iter(), seconds));
    }
    let told = failures(&fleet);
    let all_ended = all_ended(&fleet);
    drop(fleet);
    eprint!("{told}");
    match all_ended && outcome.is_ok() {
        true => Err(Error::Message("All guests have ended by themselves".into())),
        false => outcome,
    }
}

/// Makes the directory of the guests' sockets, for a host manager to find them in.
fn give_run_dir<'a>(specs: impl Iterator<Item = &'a mut GuestSpec>) -> std::io::Result<RunDir> {
    let run_dir = RunDir::create()?;
    let specs: Vec<&mut GuestSpec> = specs.collect();
    let too_long = |spec: &GuestSpec| {
        let name = run_dir.path().join(format!("{}.port", spec.name));
        name.as_os_str().len() > SOCKET_PATH_MAX
    };
    if specs.iter().any(|spec| too_long(spec)) {
        let path = run_dir.path().display();
        return Err(std::io::Error::other(format!("{path} is too long for a socket")));
    }
    for spec in specs {
        spec.run_dir = Some(run_dir.path().to_path_buf());
    }
    Ok(run_dir)
}

fn all_ended(fleet: &Fleet) -> bool {
    fleet.members().iter().all(|m| matches!(m.state(), State::Ended(_)))
}

fn signals() -> std::io::Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair()?;
    receiver.set_nonblocking(true)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    Ok(receiver)
}

/// Who owns a descriptor in the fleet's poll set, beside the fleet.
const SIGNALS: u64 = OTHERS;
const CONTROL: u64 = OTHERS + 1;

fn watch(fleet: &mut Fleet, args: &UpArgs, mut signals: UnixStream) -> Result<(), Error> {
    let mut control = Control::open().ok();
    let mut screen = Screen::new(args.format);
    let end_ms = args.seconds.map_or(u64::MAX, |s| s.saturating_mul(1000));
    loop {
        let mut others = PollSet::new();
        others.owner(SIGNALS).add(0, signals.as_fd(), PollFlags::IN);
        control.iter().for_each(|control| control.fds(others.owner(CONTROL)));
        let (ready, events) = fleet.turn(others, screen.next_ms.min(end_ms))?;
        for event in events {
            match event {
                Event::Captured { guest, captured } => {
                    if let Some(control) = &mut control {
                        control.captured(fleet, guest, captured);
                    }
                }
                Event::Hung { note, .. } => {
                    eprintln!("pinhead: {}", base::plain(&note, NOTE_WIDTH))
                }
                Event::Up(_) | Event::Reset(_) | Event::Ended(_) => screen.next_ms = 0,
            }
        }
        if let Some(control) = &mut control {
            control.turn(ready.of(CONTROL), fleet);
        }
        let watched = screen.show(fleet);
        let interrupted =
            ready.has(SIGNALS) && signals.read(&mut [0; 16]).is_ok_and(|count| count > 0);
        if interrupted || !watched || all_ended(fleet) || fleet.now_ms() >= end_ms {
            return Ok(());
        }
    }
}

/// What a person sees while the guests run.
struct Screen {
    format: UpFormat,
    terminal: bool,
    next_ms: u64,
    drawn_lines: usize,
}

impl Screen {
    fn new(format: UpFormat) -> Screen {
        let terminal = std::io::stdout().is_terminal();
        Screen { format, terminal, next_ms: 0, drawn_lines: 0 }
    }

    /// Whether it shows a table, and not one object at the end.
    fn is_table(&self) -> bool {
        self.format == UpFormat::Table
    }

    /// Draws when it is time to. Says whether there is still somebody to draw for.
    fn show(&mut self, fleet: &Fleet) -> bool {
        let now = fleet.now_ms();
        if self.format == UpFormat::Json {
            self.next_ms = u64::MAX;
            return true;
        }
        if now < self.next_ms {
            return true;
        }
        self.next_ms = now + if self.terminal { REDRAW_MS } else { REWRITE_MS };
        let (columns, lines) = size();
        let mut text = table::draw(fleet.members().iter(), columns);
        let mut out = String::new();
        if self.terminal {
            // More guests than lines: those that fit, and how many do not.
            let room = lines.saturating_sub(3).max(3);
            let count = text.lines().count();
            if count > room {
                text = text.lines().take(room).map(|line| format!("{line}\n")).collect();
                text.push_str(&format!("... and {} more\n", count - room));
            }
            text.push_str(&format!("{} s; Ctrl-C ends all guests\n", now / 1000));
            if self.drawn_lines > 0 {
                out.push_str(&format!("\x1b[{}A", self.drawn_lines));
            }
            self.drawn_lines = text.lines().count();
            // Each line is cleared to its end, so that a shorter one leaves nothing.
            out.extend(text.lines().map(|line| format!("{line}\x1b[K\n")));
            out.push_str("\x1b[J");
        } else {
            out = format!("{} s\n{text}\n", now / 1000);
        }
        let written = std::io::stdout().write_all(out.as_bytes());
        written.and_then(|()| std::io::stdout().flush()).is_ok()
    }
}

fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => (usize::from(size.ws_col), usize::from(size.ws_row)),
        _ => (100, 40),
    }
}

/// How guests ended that were not ended by us, with their last words.
fn failures(fleet: &Fleet) -> String {
    let mut out = String::new();
    for member in fleet.members() {
        if let State::Ended(reason) = member.state() {
            let console = String::from_utf8_lossy(member.console());
            out.push_str(&format!("{}: {}\n", member.spec().name, base::plain(reason, 400)));
            let words: Vec<&str> = console.lines().rev().take(5).collect();
            for line in words.iter().rev() {
                out.push_str(&format!("  console: {}\n", base::plain(line, 160)));
            }
        }
    }
    out
}
