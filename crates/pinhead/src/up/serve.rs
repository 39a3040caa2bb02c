//! Run of a farm's guests, from their description to their end.
//!
//! ```text
//!   FARM.toml, options ─► plan ─► fleet ───┐
//!                                 service ─┴─► one poll ─► progress, then the table
//!                                    ▲
//!                  manager, a thread ┘
//! ```

use super::own_manager::OwnManager;
use super::plan::{self, Plan};
use super::progress::{Progress, Step};
use super::screen::{NOTE_WIDTH, REDRAW_MS, Screen, all_ended, failures};
use super::unwind::{Faults, Part};
use super::{json, leftovers, setup};
use crate::args::{UpArgs, UpFormat};
use crate::signals::signal_pipe;
use crate::tell::tell;
use crate::terminal::{fitted, width};
use crate::{Error, UpError};
use farm::config::Farm;
use farm::fleet::{Event, Fleet};
use farm::links::Switch;
use farm::rundir::{self, RunDir};
use farm::service::{OWNERS_END, ReadyState, Service};
use farm::tiers::Tiers;
use reactor::{PollSet, Ready};
use rustix::event::PollFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Owners of descriptors in the fleet's poll set, other than the fleet and its service.
const SIGNALS: u64 = OWNERS_END;
const STARTER: u64 = OWNERS_END + 1;

/// Timeout of a start. After that, the guests are shown in their current state.
const START_MAX_MS: u64 = 600_000;

/// Interval between checks of KSM.
const TIERS_MS: u64 = 1_000;
/// Maximum number of the tiers' notes that are kept. Each note occurs once.
const NOTES_MAX: usize = 100;

/// Maximum number of guests named in the message about ports that do not answer yet.
const SILENT_MAX: usize = 10;
/// Maximum length of a socket path, in bytes. A socket's address in Linux has 108 bytes, with the
/// final zero.
const SOCKET_PATH_MAX: usize = 107;

/// The guests to run.
#[derive(Debug)]
pub enum Guests<'a> {
    /// The guests of a farm's file.
    Farm(Farm),
    /// Guests described by the options, all alike.
    Alike(&'a UpArgs),
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Time after which the guests end.
    pub seconds: Option<u64>,
    /// True if this process manages the guests while no `pinhead host` does.
    pub is_managed: bool,
}

/// Recipient of the guests' progress.
#[derive(Debug)]
pub enum Watcher {
    /// A user at this process's own terminal or output.
    Here(UpFormat),
    /// A command at the other end of a pipe, which reads until all guests are ready.
    Starter(PipeWriter),
}

/// Reads the farm's file, and keeps only the requested classes.
pub fn load(path: &Path, only: &[String]) -> Result<Farm, Error> {
    let farm = farm::config::load(path)?;
    let names: Vec<String> = farm.classes.iter().map(|class| class.name.clone()).collect();
    let known = names.join(", ");
    let unknown = |class| UpError::NoClass { class, path: path.into(), known };
    Ok(farm.only(only).map_err(unknown)?)
}

/// Runs guests until a user or their time limit ends them.
pub fn run(guests: Guests<'_>, run: &Run, watcher: Watcher) -> Result<(), Error> {
    let (mut progress, starter, format) = match watcher {
        Watcher::Here(UpFormat::Json) => (Progress::silent(), None, UpFormat::Json),
        Watcher::Here(UpFormat::Table) => (Progress::shown(), None, UpFormat::Table),
        Watcher::Starter(pipe) => {
            let copy = pipe.try_clone().map_err(|e| Error::step("A pipe", e))?;
            (Progress::piped(copy), Some(pipe), UpFormat::Json)
        }
    };
    let plan = match guests {
        Guests::Farm(farm) => {
            check_name(&farm.name)?;
            plan::prepare(farm, &mut progress).inspect_err(|_| progress.clear())?
        }
        Guests::Alike(args) => setup::prepare(args, &mut progress)?,
    };
    plan.warning.iter().for_each(|text| progress.warn(text));
    // Signals are handled before the first guest starts, so that all guests are ended properly.
    // Before this point a signal simply ends the process, and nothing is left behind.
    let signals = signal_pipe(&[SIGINT, SIGTERM, SIGHUP])?;
    let Plan { name, limits, mut members, occupants, links, has_clones, reach, .. } = plan;
    // The directory must outlive all values below, which have their files in this directory.
    let run_dir = leftovers::run_dir(name.as_deref())
        .map_err(|e| Error::step("Cannot make the directory for the guests' sockets", e))?;
    if !run.is_managed {
        run_dir.leave_to_rules().map_err(|e| Error::step("Cannot mark the farm unmanaged", e))?;
    }
    for config in &mut members {
        config.spec.run_dir = Some(run_dir.path().to_path_buf());
        config.spec.port_path().map_or(Ok(()), |port| check_socket(&port))?;
    }
    // If this fails, later opens of files report the error.
    let _ = vm::raise_files();
    // If this call fails for lack of privilege, the OOM killer may choose this process before any
    // guest.
    let _ = vm::spare_this_process();
    let mut tiers = Tiers::open(&limits)?;
    tiers.separate_guests();
    let service = Service::open(run_dir.path(), name.clone(), occupants)
        .map_err(|e| Error::step("Cannot make the guests' control socket", e))?;
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    // A clone's start takes little CPU time: it mostly waits for the disk and for the daemon's
    // greeting.
    let fleet = Fleet::of(members, if has_clones { 2 * cpus } else { cpus })
        .under(&tiers.tier())
        .linked(&Switch::start(&links)?);
    let mut notes = vm::rights_notes(fleet.members().iter().map(|member| member.spec()));
    notes.extend(tiers.take_notes());
    let mut running = Running {
        fleet,
        notes,
        tiers,
        next_tiers_ms: 0,
        service,
        screen: Screen::new(format),
        progress,
        starter,
        reach,
        starting: name,
        end_ms: run.seconds.map_or(u64::MAX, |seconds| seconds.saturating_mul(1000)),
        manager: if run.is_managed { OwnManager::new(run_dir.path()) } else { OwnManager::none() },
        faults: Faults::default(),
    };
    let outcome = running.watch(signals);
    running.end(outcome, run_dir)
}

/// Rejects a path that is too long for a socket. Of a guest's sockets, the port has the longest
/// name.
fn check_socket(path: &Path) -> Result<(), Error> {
    match path.as_os_str().len() > SOCKET_PATH_MAX {
        true => Err(UpError::SocketPath { path: path.into() }.into()),
        false => Ok(()),
    }
}

/// Rejects a second farm with the same name, because commands find a farm by its name.
fn check_name(name: &str) -> Result<(), Error> {
    let is_ours = |dir: &Path| rundir::farm_name(dir).is_some_and(|other| other == name);
    match rundir::living()?.into_iter().find(|(_, dir)| is_ours(dir)) {
        None => Ok(()),
        Some((pid, _)) => Err(UpError::NameTaken { name: name.to_owned(), pid }.into()),
    }
}

struct Running {
    fleet: Fleet,
    tiers: Tiers,
    /// Messages of the tiers, for the next client that shows them.
    notes: Vec<String>,
    next_tiers_ms: u64,
    service: Service,
    screen: Screen,
    progress: Progress,
    /// The command that waits for the start. If it ends before the start is complete, the farm ends
    /// too.
    starter: Option<PipeWriter>,
    reach: String,
    /// Name of the farm until all of its guests are ready. Until then, progress is shown instead of
    /// the table. Guests without a farm are in the table from the beginning.
    starting: Option<String>,
    end_ms: u64,
    manager: OwnManager,
    faults: Faults,
}

impl Running {
    fn watch(&mut self, mut signals: UnixStream) -> Result<(), Error> {
        loop {
            let mut others = PollSet::new();
            others.owner(SIGNALS).add(0, signals.as_fd(), PollFlags::IN);
            if let Some(starter) = &self.starter {
                others.owner(STARTER).add(0, starter.as_fd(), PollFlags::IN);
            }
            let mut until = self.screen.next_ms.min(self.end_ms);
            if !self.faults.is_left_out(Part::Service) {
                self.service.fds(&mut others);
                until = until.min(self.service.next_ms());
            }
            let (ready, events) = self.fleet.turn(others, until)?;
            self.turn_service(&ready, &events);
            for event in events {
                match event {
                    Event::Captured { .. } | Event::WantsTimer(_) => {}
                    Event::Hung { note, .. } | Event::Note(note) => self.notes.push(note),
                    Event::Up(_)
                    | Event::Reset(_)
                    | Event::Parked(_)
                    | Event::Woken(_)
                    | Event::Ended(_) => self.screen.next_ms = 0,
                }
            }
            self.guarded(Part::Tiers, Running::turn_tiers);
            self.turn_manager();
            // The writing end of the pipe becomes ready only when the reading end is closed.
            let is_left = ready.has(STARTER);
            let is_watched = self.turn_screen();
            let interrupted = ready.has(SIGNALS) && signals.read(&mut [0; 16]).is_ok();
            let is_over = self.service.is_to_end() || self.fleet.now_ms() >= self.end_ms;
            if interrupted || is_over || is_left || !is_watched || all_ended(&self.fleet) {
                return Ok(());
            }
        }
    }

    /// Runs a part of the turn. A panic in the part affects nothing else, and ends no guest.
    fn guarded<T>(&mut self, part: Part, turn: impl FnOnce(&mut Running) -> T) -> Option<T> {
        let mut faults = self.faults;
        let outcome = faults.guard(part, || turn(self));
        self.faults = faults;
        outcome
    }

    fn turn_service(&mut self, ready: &Ready, events: &[Event]) {
        if self.faults.is_left_out(Part::Service) {
            return;
        }
        let turn = |running: &mut Running| running.service.turn(ready, events, &mut running.fleet);
        if self.guarded(Part::Service, turn).is_none() {
            self.guarded(Part::Service, |running| running.service.drop_clients());
        }
        if self.faults.is_left_out(Part::Service) {
            // Only the service notices the end of the manager, and the service is disabled now.
            self.service.drop_manager(&mut self.fleet);
        }
    }

    /// Starts or ends this process's manager, and takes the daemons' statuses from it.
    fn turn_manager(&mut self) {
        let pid = self.service.manager_pid();
        let news = self.manager.turn(pid, self.fleet.now_ms());
        self.notes.extend(news.note);
        if news.is_hung {
            self.service.leave_own_manager(&mut self.fleet);
        }
        for (guest, status) in self.manager.take_statuses() {
            self.fleet.status_is(&guest, &status);
        }
    }

    /// Draws the screen. Returns false if the reader has gone.
    fn turn_screen(&mut self) -> bool {
        self.guarded(Part::Screen, Running::show).unwrap_or_else(|| {
            self.screen.next_ms = self.fleet.now_ms() + REDRAW_MS;
            true
        })
    }

    fn turn_tiers(&mut self) {
        let now = self.fleet.now_ms();
        if now < self.next_tiers_ms {
            return;
        }
        self.next_tiers_ms = now + TIERS_MS;
        let members = self.fleet.members().iter();
        let running = members.filter(|member| member.pid().is_some()).count();
        self.tiers.turn(running, now);
        self.notes.extend(self.tiers.take_notes());
        if self.starting.is_none() && !self.notes.is_empty() {
            self.screen.erase();
            for note in self.notes.drain(..) {
                tell("pinhead", &base::plain(&note, NOTE_WIDTH));
            }
        }
        self.notes.truncate(NOTES_MAX);
    }

    /// Shows the start's progress or the table. Returns false if the reader has gone.
    fn show(&mut self) -> bool {
        let Some(name) = self.starting.clone() else { return self.screen.show(&self.fleet) };
        let mut counts = [0_usize; 3];
        let of = self.fleet.members().len();
        for guest in 0..of {
            match self.service.ready_state(guest) {
                ReadyState::Starting => {}
                ReadyState::Asked => counts[0] += 1,
                ReadyState::Ready => counts[1] += 1,
                ReadyState::Ended => counts[2] += 1,
            }
        }
        let [asked, ready, ended] = counts;
        let now = self.fleet.now_ms();
        self.screen.next_ms = now + 250;
        let step = Step::Guests { up: asked + ready, ready, ended, of };
        if !self.progress.report(step) && self.starter.is_some() {
            return false;
        }
        if ready + ended == of || now > START_MAX_MS {
            self.has_started(&name, ready, now);
        }
        true
    }

    fn has_started(&mut self, name: &str, ready: usize, now_ms: u64) {
        self.starting = None;
        self.screen.next_ms = 0;
        self.progress.clear();
        let of = self.fleet.members().len();
        let seconds = now_ms as f64 / 1000.0;
        let all = base::counted(of as u64, "guest");
        let mut text =
            format!("{name}: {ready} of {all} ready, {seconds:.1} s after their start\n");
        text.push_str(&self.reach);
        for note in self.notes.drain(..) {
            text.push_str(&format!("  {}\n", base::plain(&note, NOTE_WIDTH)));
        }
        let silent: Vec<&str> = (0..of)
            .filter(|guest| self.service.ready_state(*guest) == ReadyState::Asked)
            .map(|guest| self.fleet.members()[guest].spec().name.as_str())
            .take(SILENT_MAX + 1)
            .collect();
        if !silent.is_empty() {
            let more = if silent.len() > SILENT_MAX { " and others" } else { "" };
            let names = silent[..silent.len().min(SILENT_MAX)].join(", ");
            text.push_str(&format!(
                "  running, but their ports do not answer yet: {names}{more}\n"
            ));
        }
        if self.starter.take().is_some() {
            text.push_str(&failures(&self.fleet));
            self.progress.report(Step::Done { done: text });
            self.progress = Progress::silent();
        } else if self.screen.is_table() {
            // The reader may have gone; the next table detects that.
            let mut stdout = std::io::stdout();
            let _ = stdout.write_all(fitted(&text, width(&stdout)).as_bytes());
        }
    }

    /// Ends all guests at once, and then frees all other resources.
    fn end(mut self, outcome: Result<(), Error>, run_dir: RunDir) -> Result<(), Error> {
        self.progress.clear();
        let seconds = self.fleet.now_ms() as f64 / 1000.0;
        if outcome.is_ok() && !self.screen.is_table() && self.starter.is_none() {
            let report = json::report(self.fleet.members().iter(), seconds);
            let _ = std::io::stdout().write_all(format!("{report}\n").as_bytes());
        }
        let failures = failures(&self.fleet);
        let is_empty = all_ended(&self.fleet);
        let is_table = self.screen.is_table();
        let count = self.fleet.members().iter().filter(|member| member.pid().is_some()).count();
        let Running { mut fleet, service, tiers, mut manager, .. } = self;
        fleet.end();
        if is_table && outcome.is_ok() && count > 0 {
            let ended = format!("{} ended\n", base::counted(count as u64, "guest"));
            let _ = std::io::stdout().write_all(ended.as_bytes());
        }
        drop((fleet, service));
        if let Some(note) = manager.end() {
            tell("pinhead", &base::plain(&note, NOTE_WIDTH));
        }
        for fault in tiers.close() {
            tell("pinhead", &base::plain(&fault, NOTE_WIDTH));
        }
        drop(run_dir);
        let mut stderr = std::io::stderr();
        let _ = stderr.write_all(fitted(&failures, width(&stderr)).as_bytes());
        if is_empty && outcome.is_ok() { Err(UpError::AllEnded.into()) } else { outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_path_is_refused_where_the_kernel_would_refuse_it() {
        let dir = vm::Scratch::new("socket").unwrap();
        let room = SOCKET_PATH_MAX - dir.path().as_os_str().len() - 1;
        for (length, fits) in [(room, true), (room + 1, false)] {
            let path = dir.join("p".repeat(length));
            assert_eq!(check_socket(&path).is_ok(), fits);
            assert_eq!(UnixListener::bind(&path).is_ok(), fits);
        }
    }

    #[test]
    fn panic_in_table_drawing_ends_only_the_table() {
        let dir = vm::Scratch::new("panic").unwrap();
        let service = Service::open(dir.path(), None, Vec::new()).unwrap();
        let mut screen = Screen::new(UpFormat::Table);
        screen.draw = |_, _, _| panic!("a column that is not there");
        let mut running = Running {
            fleet: Fleet::of(Vec::new(), 1),
            tiers: Tiers::open(&farm::config::Limits::default()).unwrap(),
            notes: Vec::new(),
            next_tiers_ms: 0,
            service,
            screen,
            progress: Progress::silent(),
            starter: None,
            reach: String::new(),
            starting: None,
            end_ms: u64::MAX,
            manager: OwnManager::none(),
            faults: Faults::default(),
        };
        for turn in 1..=10 {
            running.screen.next_ms = 0;
            assert!(running.turn_screen(), "the guests are still watched");
            assert_eq!(running.faults.is_left_out(Part::Screen), turn >= 3);
            assert!(running.screen.next_ms > 0, "the next drawing is delayed");
        }
        assert!(!running.faults.is_left_out(Part::Service));
    }
}
