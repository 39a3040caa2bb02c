//! Journal writer of the manager. Records wait in a bounded queue, and each flush writes the queue
//! in one transaction.
//!
//! ```text
//!   decision, outcome, event ─► queue ─► flush ─► Journal
//!                                 ▲        │ on a full disk, a lock, a removed file
//!                                 └────────┘
//! ```
//!
//! No call waits for a lock longer than the journal's short timeout, because guests need the
//! manager. A failure to write is reported once and retried at growing intervals. If the queue is
//! full, the oldest records are dropped. The number of lost records is added to the journal as soon
//! as possible.

use crate::held::Failures;
use crate::news::News;
use crate::{Decision, DecisionId, Error, Event, Journal, Outcome, Pruned, Word, kinds};
use model::GuestIdentity;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of waiting records, which take about 10 MB of memory.
pub const QUEUE_MAX: usize = 16_384;
/// Maximum number of decisions that wait for an outcome. Each guest has one move at a time.
const AWAITED_MAX: usize = 16_384;
/// Maximum number of records per flush, so that a long queue does not delay the manager.
const FLUSH_MAX: usize = 4_096;
/// Maximum number of flushes at the end. A full queue needs four flushes. A locked file needs three
/// more flushes until it is copied, and then one more flush.
const LAST_FLUSHES: u32 = 8;

/// Flushes between two checks of the log's length.
const LOOK_FLUSHES: u32 = 60;

/// Handle of a queued decision, with which its outcome is queued later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Writer to a journal that never blocks the manager.
#[derive(Debug, Default)]
pub struct Writer {
    path: Option<PathBuf>,
    journal: Option<Journal>,
    /// Device and inode of the open file.
    file: Option<(u64, u64)>,
    queue: VecDeque<Record>,
    next: u64,
    /// Rows of the decisions that wait for an outcome, by the number of the ticket.
    awaited: BTreeMap<u64, DecisionId>,
    /// Records lost since the start of the writer.
    lost: u64,
    /// Lost records already noted in the journal.
    lost_noted: u64,
    failures: Failures,
    /// Flushes since the last check of the log's length.
    flushes: u32,
}

#[derive(Debug)]
enum Record {
    Decision(Ticket, Arc<GuestIdentity>, Box<Decision>),
    Outcome(Ticket, Outcome),
    Event(Option<Arc<GuestIdentity>>, Event),
}

impl Record {
    fn at_ms(&self) -> i64 {
        match self {
            Record::Decision(_, _, decision) => decision.at_ms,
            Record::Outcome(_, outcome) => outcome.at_ms,
            Record::Event(_, event) => event.at_ms,
        }
    }
}

impl Writer {
    /// Creates a writer to a file, which the first flush opens.
    pub fn new(path: &Path) -> Writer {
        Writer { path: Some(path.to_owned()), ..Writer::default() }
    }

    /// Creates a writer to an open journal.
    pub fn to(journal: Journal) -> Writer {
        Writer { journal: Some(journal), ..Writer::default() }
    }

    /// Queues a decision. Pass the returned ticket to `outcome`.
    pub fn decision(&mut self, guest: &Arc<GuestIdentity>, decision: Decision) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.push(Record::Decision(ticket, Arc::clone(guest), Box::new(decision)));
        ticket
    }

    /// Queues the outcome of a decision.
    pub fn outcome(&mut self, decision: Ticket, outcome: Outcome) {
        self.push(Record::Outcome(decision, outcome));
    }

    /// Queues an event about a guest, or about the manager and its host.
    pub fn event(&mut self, guest: Option<&Arc<GuestIdentity>>, event: Event) {
        self.push(Record::Event(guest.map(Arc::clone), event));
    }

    fn push(&mut self, record: Record) {
        if self.queue.len() >= QUEUE_MAX {
            self.queue.pop_front();
            self.lost += 1;
        }
        self.queue.push_back(record);
    }

    /// Returns the number of waiting records.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of records lost since the start of the writer.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the journal for reading, if it is open.
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Writes the waiting records in one transaction. If the write fails, the records keep waiting.
    pub fn flush(&mut self) -> Option<News> {
        let (waits, copied) = self.failures.turn();
        if waits || copied.is_some() || self.queue.is_empty() {
            return copied;
        }
        match self.try_flush() {
            Ok(()) => {
                let recovered = self.failures.worked();
                let lost = self.lost - self.lost_noted;
                self.lost_noted = self.lost;
                self.flushes = (self.flushes + 1) % LOOK_FLUSHES;
                if self.flushes == 0
                    && let Some(path) = &self.path
                    && self.failures.is_log_held(path)
                {
                    self.journal = None;
                    self.failures.copy(path);
                }
                recovered.then_some(News::Recovered { lost })
            }
            Err(error) => {
                if let Some(journal) = &mut self.journal {
                    journal.roll_back();
                }
                let Some(path) = &self.path else {
                    return self.failures.failed(Path::new(""), error);
                };
                // The file may have been moved or replaced, so the next attempt opens it again.
                self.journal = None;
                self.failures.failed(path, error)
            }
        }
    }

    /// Writes all waiting records at the writer's end, without a pause after a failure, and returns
    /// the news. A copy in progress ends first, because it would discard records written before its
    /// end. Records still in the queue afterwards are lost.
    pub fn finish(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        for _ in 0..LAST_FLUSHES {
            news.extend(self.failures.finish());
            if self.queue.is_empty() {
                return news;
            }
            news.extend(self.flush());
        }
        news.extend(self.failures.finish());
        news
    }

    /// Removes old rows, and then the oldest rows while the file exceeds the size limit. The number
    /// of removed rows is bounded per call. Nothing is removed if the journal is not open.
    pub fn prune(&mut self, before_ms: i64, most_bytes: u64) -> Result<Pruned, Error> {
        let Some(journal) = &mut self.journal else { return Ok(Pruned::default()) };
        let old = journal.prune(before_ms)?;
        if old.more {
            return Ok(old);
        }
        let large = journal.prune_to_size(most_bytes)?;
        Ok(Pruned { rows: old.rows + large.rows, more: large.more })
    }

    fn try_flush(&mut self) -> Result<(), Error> {
        let journal = open(&self.path, &mut self.journal, &mut self.file)?;
        journal.begin()?;
        let count = self.queue.len().min(FLUSH_MAX);
        let mut written = BTreeMap::new();
        let lost = self.lost - self.lost_noted;
        if lost > 0
            && let Some(first) = self.queue.front()
        {
            let text = format!("{lost} records are missing here: the journal could not be written");
            let kind = Word::Borrowed(kinds::JOURNAL_GAP);
            journal.event(None, &Event { at_ms: first.at_ms(), kind, text })?;
        }
        for record in self.queue.iter().take(count) {
            match record {
                Record::Decision(ticket, guest, decision) => {
                    let key = journal.guest(guest, decision.at_ms)?;
                    let id = journal.decision(key, decision)?;
                    if decision.acted {
                        written.insert(ticket.0, id);
                    }
                }
                Record::Outcome(ticket, outcome) => {
                    let id = written.get(&ticket.0).or_else(|| self.awaited.get(&ticket.0));
                    if let Some(id) = id {
                        journal.outcome(*id, outcome)?;
                    }
                }
                Record::Event(guest, event) => {
                    let key = guest.as_ref().map(|guest| journal.guest(guest, event.at_ms));
                    journal.event(key.transpose()?, event)?;
                }
            }
        }
        journal.commit()?;
        self.queue.drain(..count);
        self.awaited.append(&mut written);
        while self.awaited.len() > AWAITED_MAX {
            self.awaited.pop_first();
        }
        Ok(())
    }
}

/// Returns the journal, and opens it if it is closed or its file was replaced. If a user removed
/// the file, a new journal begins.
fn open<'a>(
    path: &Option<PathBuf>,
    journal: &'a mut Option<Journal>,
    file: &mut Option<(u64, u64)>,
) -> Result<&'a mut Journal, Error> {
    if let Some(path) = path
        && journal.is_some()
        && identity(path) != *file
    {
        *journal = None;
    }
    let opened = match (journal.take(), path) {
        (Some(journal), _) => journal,
        (None, Some(path)) => {
            let opened = Journal::open(path)?;
            *file = identity(path);
            opened
        }
        (None, None) => Journal::in_memory()?,
    };
    Ok(journal.insert(opened))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}
