//! The monitor records all values once a second in a thread of its own, without delaying the
//! manager.
//!
//! ```text
//!   Recorder ─► Known ─► a queue of two ─► a thread: Collector ─► Moment ─┬─► Sink
//!                        (never waits)     (what the kernel counts)       └─► Live
//! ```
//!
//! The manager only hands over its values. A separate thread reads the files of a hundred
//! processes, and writes to a disk that may be slow. This thread keeps its normal priority. With a
//! lower priority, a shortage of CPU time could stop the thread for seconds while it reads the
//! values of one moment. These values would then not add up.
//!
//! A late monitor leaves out moments, which shows as a gap. On a host that is short of memory,
//! costly values are read seldom. Their counters lose nothing by this, and the record contains the
//! number of omitted readings.

use crate::clock::{self, Clock};
use crate::control::{Answer, Failure, Passed, Whose};
use collect::{Care, Collector, GuestProcess};
use model::{GuestIdentity, Interval, Moment, Over, PassInput, ProcessField, ProcessName, Row};
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Maximum number of entries in the queue to the monitor. An entry has the manager's values of one
/// second.
const QUEUE: usize = 2;
/// Duration of a round above which the host counts as short of CPU or disk time.
const ROUND_MAX_US: u64 = 100_000;
/// Number of rounds with the least work after a round longer than [`ROUND_MAX_US`].
const LEAST_ROUNDS: u32 = 10;
/// Maximum number of open files, even if more are allowed. A hundred guests need about two
/// thousand.
const FILES_MAX: u64 = 65_536;
/// Open files reserved for the manager.
const FILES_LEFT: u64 = 512;
/// Shortest interval of live data. After a late round the next round starts at once, and rates over
/// a millisecond would be wrong by the time that a reading takes.
const INTERVAL_MIN_MS: i64 = 500;
/// Maximum number of messages stored until they are read.
const NOTICES_MAX: usize = 20;

mod recording;

pub use recording::Recording;

/// Values of the manager in one second.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Moment without its time and without the kernel's values.
    pub moment: Moment,
    /// Guests of the moment.
    pub guests: Vec<GuestProcess>,
    /// True if the host is short of memory.
    pub is_short: bool,
    /// Inputs of policy passes since the last second.
    pub passes: Vec<PassInput>,
}

/// Storage for moments.
pub trait Sink: Send {
    /// Stores a moment. Returns messages to the operator, each once.
    fn record(&mut self, moment: &Moment) -> Option<String>;

    /// Stores the inputs of the policy's passes, if the sink stores them. Returns messages as
    /// [`record`](Sink::record) does.
    fn passes(&mut self, _passes: &[PassInput]) -> Option<String> {
        None
    }

    /// Writes the data that is still in memory after the last moment.
    fn finish(&mut self) -> Option<String>;
}

/// The newest data, for requests.
#[derive(Clone, Debug)]
pub struct Live {
    /// The newest moment.
    pub moment: Arc<Moment>,
    /// Start of the interval.
    before: Arc<Moment>,
    processes: Arc<Reported>,
    /// Duration of the last round without the sink, in microseconds.
    pub round_us: u64,
}

/// Activity of guests' processes between the last two reports of their daemons.
type Reported = BTreeMap<GuestIdentity, BTreeMap<ProcessName, Over<ProcessField>>>;

impl Live {
    /// Returns the activity until the newest moment, over half a second at least. Processes are
    /// reported less often, so their values cover the time between their last two reports.
    pub fn interval(&self) -> Interval {
        let mut interval = Interval::between(&self.before, &self.moment);
        interval.processes.clone_from(&self.processes);
        interval
    }
}

#[derive(Debug, Default)]
struct Shared {
    live: Option<Live>,
    /// Reason why recording has stopped.
    failure: Option<String>,
    notices: VecDeque<String>,
}

/// The monitor of a manager. Dropping the value ends the monitor.
#[derive(Debug)]
pub struct Monitor {
    queue: Option<SyncSender<Box<Known>>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Mutex<Shared>>,
    /// Number of moments left out.
    pub missed: u64,
    /// True if moments are recorded in a sink.
    pub records: bool,
    /// Time of the moment that [`newest`](Monitor::newest) returned last.
    given_ms: i64,
}

impl Monitor {
    /// Starts a monitor that reads below `root`.
    pub fn start(root: &Path, sink: Option<Box<dyn Sink>>) -> std::io::Result<Monitor> {
        let (queue, seconds) = sync_channel(QUEUE);
        let records = sink.is_some();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (root, ours) = (root.to_owned(), Arc::clone(&shared));
        let work = move || {
            let mut worker = Worker {
                clock: Clock::start(),
                collector: Collector::open(&root, files_max()),
                sink,
                shared: ours,
                before: None,
                reports: BTreeMap::new(),
                processes: Arc::default(),
                least: 0,
            };
            // A panic is caught here, because the thread is joined only at the manager's end.
            if catch_unwind(AssertUnwindSafe(|| worker.run(&seconds))).is_err() {
                let shared = Arc::clone(&worker.shared);
                // The sink may have caused the panic, and may panic again when it is dropped.
                let _ = catch_unwind(AssertUnwindSafe(move || drop(worker)));
                fail(&shared);
            }
        };
        let thread = std::thread::Builder::new().name("monitor".to_owned()).spawn(work)?;
        Ok(Monitor {
            queue: Some(queue),
            thread: Some(thread),
            shared,
            missed: 0,
            records,
            given_ms: i64::MIN,
        })
    }

    /// Sends values of the manager. If the monitor is late, the values are dropped, because the
    /// manager does not wait.
    pub(crate) fn send(&mut self, known: Known) {
        let sent = self.queue.as_ref().map(|queue| queue.try_send(Box::new(known)));
        if let Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) = sent {
            self.missed += 1;
        }
    }

    /// Returns the newest data, or `None` before the second moment.
    pub fn live(&self) -> Option<Live> {
        lock(&self.shared).live.clone()
    }

    /// Returns the newest moment unless it was returned before.
    pub fn newest(&mut self) -> Option<Arc<Moment>> {
        let moment = self.live()?.moment;
        let is_new = moment.at_ms != self.given_ms;
        self.given_ms = moment.at_ms;
        is_new.then_some(moment)
    }

    /// Returns the activity of the last second, as a response.
    pub(crate) fn passed(&self, processes: &Whose) -> Result<Answer, Failure> {
        if let Some(failure) = self.failure() {
            return Err(Failure::new(failure));
        }
        let Some(live) = self.live() else {
            return Err(
                Failure::new("The monitor lacks a second sample").help("try again in some seconds")
            );
        };
        let passed = Passed::with(&live.interval(), live.round_us, processes);
        Ok(Answer::Interval(Box::new(passed)))
    }

    /// Returns the reason why recording has stopped, if it has.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared).failure.clone()
    }

    /// Returns the messages since the last call.
    pub fn take_notices(&self) -> Vec<String> {
        lock(&self.shared).notices.drain(..).collect()
    }

    /// Ends the monitor after it has recorded all that was sent. Returns the last messages.
    pub fn finish(mut self) -> Vec<String> {
        self.end();
        self.take_notices()
    }

    fn end(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            fail(&self.shared);
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn notify(&mut self, text: String) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push_back(text);
        }
    }
}

/// Reports that the thread has ended by a programming error. The live data is dropped at the same
/// time, so that old values do not appear as current.
fn fail(shared: &Mutex<Shared>) {
    let text = "The monitor has failed: recordings, `pinhead top` and metrics have no new data \
                until the manager is restarted";
    let mut shared = lock(shared);
    if shared.failure.is_none() {
        (shared.failure, shared.live) = (Some(text.to_owned()), None);
        shared.notify(text.to_owned());
    }
}

/// Returns the moment at which the interval until `now_ms` starts: the last moment, or an earlier
/// moment if the last is too recent.
fn interval_start(earlier: Option<&Arc<Moment>>, last: Arc<Moment>, now_ms: i64) -> Arc<Moment> {
    let is_recent = (0..INTERVAL_MIN_MS).contains(&now_ms.saturating_sub(last.at_ms));
    earlier.filter(|_| is_recent).cloned().unwrap_or(last)
}

/// Returns the number of files that the monitor may have open.
fn files_max() -> usize {
    let now = getrlimit(Resource::Nofile).current.map_or(FILES_MAX, |now| now.min(FILES_MAX));
    usize::try_from(now.saturating_sub(FILES_LEFT).max(now / 2)).unwrap_or(usize::MAX)
}

/// Processes of a guest as reported by its daemon.
type Processes = BTreeMap<ProcessName, Row<ProcessField>>;

struct Worker {
    clock: Clock,
    collector: Collector,
    sink: Option<Box<dyn Sink>>,
    shared: Arc<Mutex<Shared>>,
    before: Option<Arc<Moment>>,
    /// Last report of each guest's daemon, and its time.
    reports: BTreeMap<GuestIdentity, (i64, Processes)>,
    processes: Arc<Reported>,
    /// Remaining rounds that do only the least work.
    least: u32,
}

impl Worker {
    fn run(&mut self, seconds: &Receiver<Box<Known>>) {
        for known in seconds {
            self.round(*known);
        }
        self.last();
        if let Some(news) = self.sink.as_mut().and_then(|sink| sink.finish()) {
            lock(&self.shared).notify(news);
        }
    }

    /// Records the activity since the last round.
    fn last(&mut self) {
        let (Some(before), Some(sink)) = (&self.before, &mut self.sink) else { return };
        let moment = self.collector.last(before, clock::wall_ms(), self.clock.ms());
        if let Some(news) = sink.record(&moment) {
            lock(&self.shared).notify(news);
        }
    }

    fn round(&mut self, known: Known) {
        let Known { mut moment, guests, is_short, passes } = known;
        let care = if is_short || self.least > 0 { Care::Least } else { Care::Usual };
        let from_us = self.clock.us();
        // The moment is now, not the time when the manager sent its values.
        moment.at_ms = clock::wall_ms();
        let moment = Arc::new(self.collector.collect(moment, guests, self.clock.ms(), care));
        let round_us = self.clock.us().saturating_sub(from_us);
        // A round that opens new guests takes longer, which is no sign of a busy host.
        let is_late = round_us > ROUND_MAX_US && self.collector.opened() == 0;
        self.least = match is_late {
            true => LEAST_ROUNDS,
            false => self.least.saturating_sub(1),
        };
        if let Some(sink) = &mut self.sink {
            let news = [sink.record(&moment), sink.passes(&passes)];
            news.into_iter().flatten().for_each(|news| lock(&self.shared).notify(news));
        }
        self.take_processes(&moment);
        if let Some(before) = self.before.replace(Arc::clone(&moment)) {
            // The interval is computed on request only.
            let processes = Arc::clone(&self.processes);
            let mut shared = lock(&self.shared);
            let earlier = shared.live.as_ref().map(|live| &live.before);
            let before = interval_start(earlier, before, moment.at_ms);
            shared.live = Some(Live { moment, before, processes, round_us });
        }
    }

    /// Compares the last two reports of processes. Daemons report them once a minute, with many
    /// moments between two reports.
    fn take_processes(&mut self, moment: &Moment) {
        for (who, now) in &moment.processes {
            let last = self.reports.insert(who.clone(), (moment.at_ms, now.clone()));
            let Some((then_ms, before)) = last else { continue };
            let length_ms = u64::try_from(moment.at_ms.saturating_sub(then_ms)).unwrap_or(0);
            let grown = now.iter().filter_map(|(name, row)| {
                Some((name.clone(), Over::between(before.get(name)?, row, length_ms)))
            });
            Arc::make_mut(&mut self.processes).insert(who.clone(), grown.collect());
        }
        self.reports.retain(|who, _| moment.guests.contains_key(who));
        // The live data shares this map, so it is copied only if a guest has disappeared.
        if self.processes.keys().any(|who| !moment.guests.contains_key(who)) {
            let is_there = |who: &GuestIdentity| moment.guests.contains_key(who);
            Arc::make_mut(&mut self.processes).retain(|who, _| is_there(who));
        }
    }
}

#[cfg(test)]
mod tests;
