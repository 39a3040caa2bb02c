//! Push of the newest values to a server by remote write.
//!
//! ```text
//!   the manager ── offer(moment), never waits ──► a bounded queue ──► thread ──► POST
//!                                                 full: the new one is lost, and counted
//! ```
//!
//! Samples are pushed in order. After a temporary failure a push is retried, at growing intervals.
//! After a permanent refusal the samples are reported and skipped.

use crate::client::{Call, post};
use crate::{Error, Url, write};
use model::{Field, GuestIdentity, Moment, Row};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Maximum number of queued moments. At the default of twelve moments a minute, a full queue covers
/// five minutes. A full queue for 100 guests takes about 6 MB.
const QUEUE_MAX: usize = 60;
/// Maximum total size of queued moments in bytes, enough for 1,000 guests. Without this limit,
/// guests could fill the memory by long names of guests and processes.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Fixed size of a subject in a moment, without texts and values.
const OWN_BYTES: usize = 128;
/// Timeout of a push.
const PATIENCE: Duration = Duration::from_secs(10);
/// First pause after a failure. Each further failure doubles the pause.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// Maximum pause after a failure.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Maximum size of a response, which is normally empty or a sentence.
const ANSWER_MAX: usize = 64 * 1024;

/// State of the push.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Moments received by the server.
    pub pushed: u64,
    /// Moments lost because too many were waiting.
    pub lost: u64,
    /// Moments refused by the server.
    pub refused: u64,
    /// Current error. The server's message in the error is escaped.
    pub trouble: Option<String>,
}

#[derive(Default)]
struct Shared {
    pushed: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
    trouble: Mutex<Option<String>>,
    is_over: AtomicBool,
    /// Bytes waiting or being sent.
    waiting_bytes: AtomicUsize,
}

/// Thread that pushes. The thread ends soon after this handle is dropped, and is not joined.
pub struct Pusher {
    queue: SyncSender<Moment>,
    shared: Arc<Shared>,
    thread: Thread,
}

impl Pusher {
    /// Starts to push to a server's receiver, such as `http://127.0.0.1:8428/api/v1/write`, with
    /// `host` as this host's name.
    pub fn start(url: Url, host: String, version: String) -> std::io::Result<Pusher> {
        let (queue, moments) = sync_channel::<Moment>(QUEUE_MAX);
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let run = move || {
            while let Ok(moment) = moments.recv() {
                let bodies = write::encode(&moment, &host, &version);
                let fates: Vec<Fate> =
                    bodies.iter().map(|body| deliver(&url, body, &theirs)).collect();
                theirs.waiting_bytes.fetch_sub(bytes(&moment), Ordering::Relaxed);
                let counter = match fates.iter().max() {
                    Some(Fate::Ended) => return,
                    Some(Fate::Refused) => &theirs.refused,
                    Some(Fate::Arrived) | None => &theirs.pushed,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().name("remote-write".to_owned()).spawn(run)?;
        Ok(Pusher { queue, shared, thread: thread.thread().clone() })
    }

    /// Queues a moment without blocking. If the queue is full, the new moment is dropped and
    /// counted.
    pub fn offer(&self, moment: &Moment) {
        let (size, waiting) = (bytes(moment), &self.shared.waiting_bytes);
        let has_room = waiting.load(Ordering::Relaxed).saturating_add(size) <= QUEUE_BYTES_MAX;
        if has_room {
            waiting.fetch_add(size, Ordering::Relaxed);
            match self.queue.try_send(moment.clone()) {
                Ok(()) => return,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    waiting.fetch_sub(size, Ordering::Relaxed);
                }
            }
        }
        self.shared.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the state of the push.
    pub fn health(&self) -> Health {
        let trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        Health {
            pushed: self.shared.pushed.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            trouble: trouble.clone(),
        }
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

fn bytes(moment: &Moment) -> usize {
    let guests = moment.guests.iter().map(|(who, row)| name_bytes(who) + row_bytes(row));
    let tiers = moment.tiers.iter().map(|(name, row)| name.len() + row_bytes(row));
    let processes = moment.processes.iter().map(|(who, rows)| {
        let rows = rows.iter().map(|(process, row)| process.name.len() + row_bytes(row));
        name_bytes(who) + rows.sum::<usize>()
    });
    row_bytes(&moment.host) + guests.chain(tiers).chain(processes).sum::<usize>()
}

fn name_bytes(who: &GuestIdentity) -> usize {
    [&who.uuid, &who.name, &who.class, &who.boot].iter().map(|text| text.len()).sum()
}

fn row_bytes<F: Field>(row: &Row<F>) -> usize {
    OWN_BYTES + row.known().count() * size_of::<u64>()
}

/// Result of one request body. If there are several results, the worst counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Arrived,
    Refused,
    Ended,
}

/// Pushes a body of [`write::encode`] once.
pub fn send(url: &Url, body: &[u8]) -> Result<(), Error> {
    post(&Call {
        url,
        path: "",
        headers: &[
            ("Content-Type", "application/x-protobuf"),
            ("Content-Encoding", "snappy"),
            ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ],
        body,
        patience: PATIENCE,
        answer_max: ANSWER_MAX,
    })
    .map(drop)
}

/// Retries until the body has arrived or was refused for good, or until the pusher is dropped.
fn deliver(url: &Url, body: &[u8], shared: &Shared) -> Fate {
    let tell = |trouble| {
        *shared.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    };
    let mut wait = WAIT_MIN;
    loop {
        if shared.is_over.load(Ordering::Relaxed) {
            return Fate::Ended;
        }
        match send(url, body) {
            Ok(()) => {
                tell(None);
                return Fate::Arrived;
            }
            Err(error) if passes(&error) => tell(Some(base::chain(&error))),
            Err(error) => {
                tell(Some(base::chain(&error)));
                return Fate::Refused;
            }
        }
        // The pause may end early, which costs one attempt.
        std::thread::park_timeout(wait);
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// Returns true if a retry can help. After an explicit refusal by the server, a retry cannot help.
fn passes(error: &Error) -> bool {
    match error {
        Error::Status { status, .. } => *status == 429 || *status >= 500,
        Error::Io { .. } | Error::Slow { .. } => true,
        _ => false,
    }
}
