//! The monitor: what is recorded of everything, once a second, next to the manager and never in
//! its way.
//!
//! ```text
//!   Recorder ─► ManagerView ─► a queue of two ─► a thread: Collector ─► Moment ─┬─► Sink
//!    (what is known)           (never waits)     (what the kernel counts)       └─► Live
//! ```
//!
//! The manager only hands over what it knows. Reading files of a hundred processes and writing to a
//! disk that may be slow is done in a thread of its own. That one does not give way: where CPUs
//! are short it would be held up for seconds in the midst of a moment, and what it reads would
//! not be of one moment and not add up. If it is late, moments are left out, which is a gap; if
//! the host is short, what is costly to read is read seldom: counters lose nothing by it, and how
//! often it happened is recorded.

use crate::clock::{self, Clock};
use crate::control::{Answer, Failure, Passed, Whose};
use collect::{Care, Collector, ManagerView};
use model::{GuestIdentity, Interval, Moment, Over, PassInput, ProcessField, ProcessName, Row};
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Views that wait for a monitor that is late.
const QUEUE: usize = 2;
/// A round that took longer than this shows that the host is short of CPU or of disk.
const ROUND_MAX_US: u64 = 100_000;
/// After such a round so many others do the least.
const LEAST_ROUNDS: u32 = 10;
/// Open files of the process that are counted upon: a hundred guests have some two thousand.
const FILES_MAX: u64 = 65_536;
/// The part of them that the monitor leaves to the manager.
const FILES_LEFT: u64 = 512;
/// Messages that nobody has taken yet.
const NOTICES_MAX: usize = 20;

mod recording;

pub use recording::Recording;

/// Where moments are kept.
pub trait Sink: Send {
    /// Keeps a moment. Returns messages to the operator, each once.
    fn record(&mut self, moment: &Moment) -> Option<String>;

    /// Keeps what passes of the policy knew, where it keeps such. Returns messages as
    /// [`record`](Sink::record) does.
    fn passes(&mut self, _passes: &[PassInput]) -> Option<String> {
        None
    }

    /// The last moment was given: what is still in memory is written.
    fn finish(&mut self) -> Option<String>;
}

/// What is known at the moment, for questions.
#[derive(Clone, Debug)]
pub struct Live {
    /// The newest moment.
    pub moment: Arc<Moment>,
    before: Arc<Moment>,
    /// What the last two reports of processes differ by.
    processes: Arc<Reported>,
    /// How long the last round took, in microseconds, without the sink.
    pub round_us: u64,
}

/// What the processes of guests did between the last two reports of their daemons.
type Reported = BTreeMap<GuestIdentity, BTreeMap<ProcessName, Over<ProcessField>>>;

impl Live {
    /// What happened between the newest moment and the one before. Processes are as they were
    /// reported last, over the time between their last two reports.
    pub fn interval(&self) -> Interval {
        let mut interval = Interval::between(&self.before, &self.moment);
        interval.processes.clone_from(&self.processes);
        interval
    }
}

#[derive(Debug, Default)]
struct Shared {
    live: Option<Live>,
    /// Why nothing comes any more.
    failure: Option<String>,
    notices: VecDeque<String>,
}

/// The monitor of a manager. It ends with this value.
#[derive(Debug)]
pub struct Monitor {
    queue: Option<SyncSender<Box<ManagerView>>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Mutex<Shared>>,
    /// Moments that were left out.
    pub missed: u64,
    /// Whether moments are kept anywhere.
    pub records: bool,
    /// The moment that [`newest`](Monitor::newest) gave last.
    given_ms: i64,
}

impl Monitor {
    /// Starts one that reads below a root.
    pub fn start(root: &Path, sink: Option<Box<dyn Sink>>) -> std::io::Result<Monitor> {
        let (queue, views) = sync_channel(QUEUE);
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
            // Here and not by whoever waits for the thread's end, which is that of the manager.
            if catch_unwind(AssertUnwindSafe(|| worker.run(&views))).is_err() {
                let shared = Arc::clone(&worker.shared);
                // Its sink may be the one that has panicked, and may do so again.
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

    /// Gives a view. If the monitor is late, it is left out: nobody waits.
    pub fn send(&mut self, view: Box<ManagerView>) {
        let sent = self.queue.as_ref().map(|queue| queue.try_send(view));
        if let Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) = sent {
            self.missed += 1;
        }
    }

    /// What is known at the moment; `None` before the second moment.
    pub fn live(&self) -> Option<Live> {
        lock(&self.shared).live.clone()
    }

    /// The newest moment, if it was not given before.
    pub fn newest(&mut self) -> Option<Arc<Moment>> {
        let moment = self.live()?.moment;
        let is_new = moment.at_ms != self.given_ms;
        self.given_ms = moment.at_ms;
        is_new.then_some(moment)
    }

    /// What happened in the last second.
    pub(crate) fn passed(&self, processes: &Whose) -> Result<Answer, Failure> {
        if let Some(failure) = self.failure() {
            return Err(Failure::new(failure));
        }
        let Some(live) = self.live() else {
            return Err(Failure::new("Nothing was looked at twice yet")
                .help("ask again in a second or two"));
        };
        let passed = Passed::with(&live.interval(), live.round_us, processes);
        Ok(Answer::Interval(Box::new(passed)))
    }

    /// Why nothing is recorded and shown any more, if that is so.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared).failure.clone()
    }

    /// The messages since the last call.
    pub fn take_notices(&self) -> Vec<String> {
        lock(&self.shared).notices.drain(..).collect()
    }

    /// Ends it: what it was sent is recorded.
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

/// The thread has ended by a fault of ours: that is told at once, and what it had last is not
/// shown as if it were of this moment. Who sees the one finds the other.
fn fail(shared: &Mutex<Shared>) {
    let text = "The monitor has failed: nothing more is recorded, and nothing new is shown or \
                served as metrics, until the manager is started again";
    let mut shared = lock(shared);
    if shared.failure.is_none() {
        (shared.failure, shared.live) = (Some(text.to_owned()), None);
        shared.notify(text.to_owned());
    }
}

/// How many files the monitor may have open.
fn files_max() -> usize {
    let now = getrlimit(Resource::Nofile).current.map_or(FILES_MAX, |now| now.min(FILES_MAX));
    usize::try_from(now.saturating_sub(FILES_LEFT).max(now / 2)).unwrap_or(usize::MAX)
}

/// The processes of a guest, as its daemon has reported them.
type Processes = BTreeMap<ProcessName, Row<ProcessField>>;

/// What the thread has.
struct Worker {
    clock: Clock,
    collector: Collector,
    sink: Option<Box<dyn Sink>>,
    shared: Arc<Mutex<Shared>>,
    before: Option<Arc<Moment>>,
    /// The last report of each guest's daemon, and when it came.
    reports: BTreeMap<GuestIdentity, (i64, Processes)>,
    /// What the last two reports differ by.
    processes: Arc<Reported>,
    /// Rounds that are still to do the least.
    least: u32,
}

impl Worker {
    fn run(&mut self, views: &Receiver<Box<ManagerView>>) {
        for view in views {
            self.round(*view);
        }
        self.last();
        if let Some(news) = self.sink.as_mut().and_then(|sink| sink.finish()) {
            lock(&self.shared).notify(news);
        }
    }

    /// What has run since the last round is recorded too.
    fn last(&mut self) {
        let (Some(before), Some(sink)) = (&self.before, &mut self.sink) else { return };
        let moment = self.collector.last(before, clock::wall_ms(), self.clock.ms());
        if let Some(news) = sink.record(&moment) {
            lock(&self.shared).notify(news);
        }
    }

    fn round(&mut self, mut view: ManagerView) {
        let passes = std::mem::take(&mut view.passes);
        let care = if view.is_short || self.least > 0 { Care::Least } else { Care::Usual };
        // What is read is true now, and not when the manager spoke.
        let (at_ms, from_us) = (clock::wall_ms(), self.clock.us());
        let view = ManagerView { at_ms, now_ms: self.clock.ms(), ..view };
        let moment = Arc::new(self.collector.collect(view, care));
        let round_us = self.clock.us().saturating_sub(from_us);
        // Guests that have just come take longer, which means nothing for the host.
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
            // What happened between them is worked out when somebody asks.
            let processes = Arc::clone(&self.processes);
            lock(&self.shared).live = Some(Live { moment, before, processes, round_us });
        }
    }

    /// Daemons report processes once a minute: two reports are compared, however
    /// many moments are between them.
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
        // What is live has them too: they are copied for a change, and mostly nobody has gone.
        if self.processes.keys().any(|who| !moment.guests.contains_key(who)) {
            let is_there = |who: &GuestIdentity| moment.guests.contains_key(who);
            Arc::make_mut(&mut self.processes).retain(|who, _| is_there(who));
        }
    }
}

#[cfg(test)]
mod tests;
