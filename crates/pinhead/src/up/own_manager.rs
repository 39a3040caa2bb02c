//! The manager of the guests, on a thread of this process, while no `pinhead host` has them.
//!
//! ```text
//!   no manager ─► it starts ─► it asks for the guests, like any manager ─► it has them
//!       ▲                                                                     │
//!       └── the other one has ended ◄── it ends ◄── a `pinhead host` wants them
//! ```
//!
//! The manager has all farms of its user, so only one of several `pinhead up` has a manager. The
//! others try again until that one has ended.

use manager::{Manager, Options, Signals, Turn, control};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use wire::Status;

/// Time until the next start, if another manager has its socket.
const AGAIN_MS: u64 = 3_000;
/// Time until the next start after a request to end. In this time the other manager requests the
/// guests.
const YIELD_MS: u64 = 15_000;

/// The manager of this process, if there is one.
#[derive(Debug)]
pub(super) struct OwnManager {
    /// Directory of this process's guests.
    dir: PathBuf,
    thread: Option<Running>,
    /// Time of the next start. `None` if the manager cannot run.
    start_ms: Option<u64>,
}

#[derive(Debug)]
struct Running {
    /// Closed to end the manager.
    stop: Option<UnixStream>,
    handle: JoinHandle<Ended>,
    /// Statuses of daemons that the fleet has not got yet, by guest.
    statuses: Statuses,
}

type Statuses = Arc<Mutex<BTreeMap<String, Status>>>;

/// End of a manager.
#[derive(Debug)]
enum Ended {
    /// Another manager has the socket, or the guests.
    ForAnother,
    /// Another manager has requested the end.
    Yielded,
    /// The manager cannot run, for this reason.
    Failed(String),
}

impl OwnManager {
    /// Creates a manager of the guests in this directory, which is started by the first turn.
    pub(super) fn new(dir: &Path) -> OwnManager {
        OwnManager { dir: dir.to_path_buf(), thread: None, start_ms: Some(0) }
    }

    /// Creates a manager that is never started.
    pub(super) fn none() -> OwnManager {
        OwnManager { dir: PathBuf::new(), thread: None, start_ms: None }
    }

    /// Starts the manager if no other process has the guests, or wants them, and ends it otherwise.
    /// Returns a message if the manager cannot run.
    pub(super) fn turn(&mut self, manager_pid: Option<u32>, now_ms: u64) -> Option<String> {
        let is_other = manager_pid.is_some_and(|pid| pid != std::process::id());
        let failure = match self.thread.take_if(|thread| thread.handle.is_finished()) {
            Some(ended) => self.has_ended(ended, now_ms),
            None => None,
        };
        match &mut self.thread {
            Some(thread) if is_other => thread.stop = None,
            None if !is_other && self.start_ms.is_some_and(|ms| now_ms >= ms) => {
                return self.start().or(failure);
            }
            Some(_) | None => {}
        }
        failure
    }

    /// Returns the statuses of daemons that are news.
    pub(super) fn take_statuses(&self) -> BTreeMap<String, Status> {
        let Some(thread) = &self.thread else { return BTreeMap::new() };
        std::mem::take(&mut thread.statuses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the manager, and waits for its end.
    pub(super) fn end(&mut self) -> Option<String> {
        let mut thread = self.thread.take()?;
        thread.stop = None;
        self.has_ended(thread, 0)
    }

    fn start(&mut self) -> Option<String> {
        let statuses = Statuses::default();
        let (theirs, dir) = (Arc::clone(&statuses), self.dir.clone());
        let started = UnixStream::pair().and_then(|(stop, stopped)| {
            let run = move || run(&stopped, &theirs, &dir);
            let handle = thread::Builder::new().name("manager".into()).spawn(run)?;
            Ok(Running { stop: Some(stop), handle, statuses })
        });
        match started {
            Ok(thread) => {
                self.thread = Some(thread);
                None
            }
            Err(error) => self.fails(&error.to_string()),
        }
    }

    fn has_ended(&mut self, thread: Running, now_ms: u64) -> Option<String> {
        match thread.handle.join() {
            Ok(Ended::ForAnother) => {
                self.start_ms = Some(now_ms + AGAIN_MS);
                None
            }
            Ok(Ended::Yielded) => {
                self.start_ms = Some(now_ms + YIELD_MS);
                None
            }
            Ok(Ended::Failed(why)) => self.fails(&why),
            Err(_) => self.fails("this is a fault in pinhead"),
        }
    }

    fn fails(&mut self, why: &str) -> Option<String> {
        self.start_ms = None;
        Some(format!("No manager: {why}. The guests' memory is left to their own rules"))
    }
}

/// Runs a manager until its other end of `stopped` is closed.
fn run(stopped: &UnixStream, statuses: &Mutex<BTreeMap<String, Status>>, dir: &Path) -> Ended {
    let options = Options { for_farms: true, ..Options::default() };
    let mut manager = match Manager::start(None, options) {
        Ok(manager) => manager,
        Err(manager::Error::Control(control::Error::Taken { .. })) => return Ended::ForAnother,
        Err(error) => return Ended::Failed(base::chain(&error)),
    };
    // Nothing is ever written, because no signal asks this manager to read its settings again.
    let (reload, _never) = match UnixStream::pair() {
        Ok(pair) => pair,
        Err(error) => return Ended::Failed(error.to_string()),
    };
    let mut known: BTreeMap<String, Status> = BTreeMap::new();
    loop {
        let signals = Signals { stop: stopped.as_fd(), reload: reload.as_fd() };
        match manager.turn(&signals) {
            Ok(Turn::On | Turn::Reload) => {}
            Ok(Turn::Stop) => break,
            Err(error) => return Ended::Failed(base::chain(&error)),
        }
        // The journal has these messages, and a terminal shows the guests.
        manager.take_notices();
        let ours = manager.statuses().filter(|(of, _, _)| *of == dir);
        for (_, guest, status) in ours {
            if known.get(guest) != Some(status) {
                known.insert(guest.to_owned(), status.clone());
                let mut news = statuses.lock().unwrap_or_else(PoisonError::into_inner);
                news.insert(guest.to_owned(), status.clone());
            }
        }
    }
    let has_yielded = manager.has_yielded();
    manager.finish();
    if has_yielded { Ended::Yielded } else { Ended::ForAnother }
}
