//! The manager of the guests, on a thread of this process, while no `pinhead host` has them.
//!
//! ```text
//!   no manager ─► it starts ─► it asks for the guests, like any manager ─► it has them
//!       ▲                                                                     │
//!       └── the other one has ended ◄── it ends ◄── a `pinhead host` wants them
//! ```
//!
//! A manager manages all farms of its user, so only one of several `pinhead up` processes runs a
//! manager. The other processes try again until that process has ended.

use manager::{Manager, Options, Signals, Turn, control};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use wire::Status;

/// Time until the next start, if another manager uses the socket.
const AGAIN_MS: u64 = 3_000;
/// Time until the next start after a request to end. In this time the other manager requests the
/// guests.
const YIELD_MS: u64 = 15_000;

/// Time until the next start of a manager that cannot run.
const RETRY_MS: u64 = 60_000;
/// Interval between two checks of the manager's turns. The manager has at least one turn a second.
const LOOK_MS: u64 = 1_000;
/// Number of checks in a row without a turn after which the manager counts as hung. Checks are
/// counted instead of time, because this process may be stopped.
const LOOKS_MAX: u32 = 30;

#[derive(Debug)]
pub(super) struct OwnManager {
    /// Directory of this process's guests.
    dir: PathBuf,
    thread: Option<Running>,
    /// Time of the next start; `None` for no start at all.
    start_ms: Option<u64>,
    /// Last reported reason for which the manager cannot run.
    told: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) note: Option<String>,
    /// True if the manager hangs, so that the guests must be taken from it.
    pub(super) is_hung: bool,
}

#[derive(Debug)]
struct Running {
    /// Closed to end the manager.
    stop: Option<UnixStream>,
    handle: JoinHandle<Ended>,
    shared: Arc<Shared>,
    /// Number of turns at the last check, and time of that check.
    turns: u64,
    look_ms: u64,
    /// Number of checks since the last turn.
    silent: u32,
}

#[derive(Debug, Default)]
struct Shared {
    turns: AtomicU64,
    /// Daemons' last statuses, by guest, as far as the fleet does not have them yet.
    statuses: Mutex<BTreeMap<String, Status>>,
}

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
    /// Creates a manager of the guests in this directory. The first call of `turn` starts the
    /// manager.
    pub(super) fn new(dir: &Path) -> OwnManager {
        OwnManager { dir: dir.to_path_buf(), start_ms: Some(0), ..OwnManager::none() }
    }

    /// Creates a manager that is never started.
    pub(super) fn none() -> OwnManager {
        OwnManager { dir: PathBuf::new(), thread: None, start_ms: None, told: String::new() }
    }

    /// Starts the manager if no other process has the guests or wants them. Otherwise ends the
    /// manager.
    pub(super) fn turn(&mut self, manager_pid: Option<u32>, now_ms: u64) -> News {
        let is_other = manager_pid.is_some_and(|pid| pid != std::process::id());
        let mut news = News::default();
        if let Some(ended) = self.thread.take_if(|thread| thread.handle.is_finished()) {
            news.note = self.has_ended(ended, now_ms);
        }
        if self.thread.as_mut().is_some_and(|thread| thread.is_hung(now_ms)) {
            // The thread cannot be ended, so the farm closes its end of the thread's lease.
            self.thread = None;
            let note = self.fails("the manager has made no progress for a long time", None);
            return News { note, is_hung: true };
        }
        match &mut self.thread {
            Some(thread) if is_other => thread.stop = None,
            None if !is_other && self.start_ms.is_some_and(|ms| now_ms >= ms) => {
                news.note = self.start(now_ms).or(news.note);
            }
            Some(_) | None => {}
        }
        news
    }

    /// Returns the daemons' statuses that have arrived since the last call.
    pub(super) fn take_statuses(&self) -> BTreeMap<String, Status> {
        let Some(thread) = &self.thread else { return BTreeMap::new() };
        std::mem::take(&mut *thread.shared.lock())
    }

    pub(super) fn end(&mut self) -> Option<String> {
        let mut thread = self.thread.take()?;
        thread.stop = None;
        self.has_ended(thread, 0)
    }

    fn start(&mut self, now_ms: u64) -> Option<String> {
        let shared = Arc::new(Shared::default());
        let (theirs, dir) = (Arc::clone(&shared), self.dir.clone());
        let started = UnixStream::pair().and_then(|(stop, stopped)| {
            let run = move || run(&stopped, &theirs, &dir);
            let handle = thread::Builder::new().name("manager".into()).spawn(run)?;
            Ok(Running { stop: Some(stop), handle, shared, turns: 0, look_ms: now_ms, silent: 0 })
        });
        match started {
            Ok(thread) => {
                self.thread = Some(thread);
                None
            }
            Err(error) => self.fails(&error.to_string(), Some(now_ms)),
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
            Ok(Ended::Failed(why)) => self.fails(&why, Some(now_ms)),
            Err(_) => self.fails("the manager ended because of an error in pinhead", None),
        }
    }

    /// Records a failure. If `now_ms` is given, the manager starts again after `RETRY_MS`, else
    /// never. Returns a message, unless the same reason was reported last.
    fn fails(&mut self, why: &str, now_ms: Option<u64>) -> Option<String> {
        self.start_ms = now_ms.map(|now_ms| now_ms + RETRY_MS);
        let is_news = self.told != why;
        self.told = why.to_owned();
        is_news
            .then(|| format!("No manager: {why}. Only the guests' own rules manage their memory"))
    }
}

impl Running {
    /// Returns true if the manager has made no turn for many checks in a row.
    fn is_hung(&mut self, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.look_ms) >= LOOK_MS {
            self.look_ms = now_ms;
            let turns = self.shared.turns.load(Ordering::Relaxed);
            let is_silent = std::mem::replace(&mut self.turns, turns) == turns;
            self.silent = if is_silent { self.silent + 1 } else { 0 };
        }
        self.silent >= LOOKS_MAX
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Status>> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a manager until the other end of `stopped` is closed.
fn run(stopped: &UnixStream, shared: &Shared, dir: &Path) -> Ended {
    let options = Options { for_farms: true, ..Options::default() };
    let mut manager = match Manager::start(None, options) {
        Ok(manager) => manager,
        Err(manager::Error::Control(control::Error::Taken { .. })) => return Ended::ForAnother,
        Err(error) => return Ended::Failed(base::chain(&error)),
    };
    // This pipe stays empty, because no signal requests this manager to read its settings again.
    let (reload, _never) = match UnixStream::pair() {
        Ok(pair) => pair,
        Err(error) => return Ended::Failed(error.to_string()),
    };
    loop {
        let signals = Signals { stop: stopped.as_fd(), reload: reload.as_fd() };
        match manager.turn(&signals) {
            Ok(Turn::On | Turn::Reload) => {}
            Ok(Turn::Stop) => break,
            Err(error) => {
                manager.finish();
                return Ended::Failed(base::chain(&error));
            }
        }
        shared.turns.fetch_add(1, Ordering::Relaxed);
        // The messages are dropped, because the journal has them, and the terminal shows the
        // guests.
        manager.take_notices();
        let statuses = manager.take_statuses().into_iter();
        let ours = statuses.filter(|(of, _, _)| of == dir);
        shared.lock().extend(ours.map(|(_, guest, status)| (guest, status)));
    }
    let has_yielded = manager.has_yielded();
    manager.finish();
    if has_yielded { Ended::Yielded } else { Ended::ForAnother }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(run: impl FnOnce() -> Ended + Send + 'static) -> OwnManager {
        let handle = thread::spawn(run);
        let shared = Arc::new(Shared::default());
        let thread = Running { stop: None, handle, shared, turns: 0, look_ms: 0, silent: 0 };
        OwnManager { thread: Some(thread), ..OwnManager::none() }
    }

    fn ended(end: Ended) -> OwnManager {
        let manager = running(move || end);
        let deadline = vm::Deadline::after(std::time::Duration::from_secs(60));
        while !manager.thread.as_ref().unwrap().handle.is_finished() {
            assert!(deadline.remaining().is_some(), "the thread does not end");
        }
        manager
    }

    #[test]
    fn the_manager_is_retried_and_its_failure_reported_once() {
        for (end, wait_ms) in [(Ended::ForAnother, AGAIN_MS), (Ended::Yielded, YIELD_MS)] {
            let mut manager = ended(end);
            assert_eq!(manager.turn(Some(1), 5), News::default());
            assert_eq!(manager.start_ms, Some(5 + wait_ms));
        }
        let mut manager = ended(Ended::Failed("no place".into()));
        let note = manager.turn(Some(1), 5).note.unwrap();
        assert!(note.starts_with("No manager: no place."), "{note}");
        assert_eq!(manager.start_ms, Some(5 + RETRY_MS));
        assert_eq!(manager.fails("no place", Some(7)), None, "once");
        assert!(manager.fails("another", Some(7)).is_some());
    }

    #[test]
    fn hung_manager_loses_its_guests_but_a_stopped_process_does_not() {
        let (go_on, gate) = std::sync::mpsc::channel::<()>();
        let mut manager = running(move || {
            let _ = gate.recv();
            Ended::ForAnother
        });
        let own = Some(std::process::id());
        assert_eq!(manager.turn(own, 3_600_000), News::default(), "this process was stopped");
        let mut is_hung = |look: u64| manager.turn(own, 3_600_000 + look * LOOK_MS).is_hung;
        let hung = (1..=100).find(|look| is_hung(*look));
        assert_eq!(hung, Some(u64::from(LOOKS_MAX) - 1));
        drop(go_on);
    }
}
