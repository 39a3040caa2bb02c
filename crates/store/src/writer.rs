//! The manager's writer: its records wait in a bounded queue, and each flush writes the
//! queue in one transaction.
//!
//! ```text
//!   decision, outcome, event ─► queue ─► flush ─► Journal
//!                                 ▲        │ a full disk, a lock, a file that went away
//!                                 └────────┘
//! ```
//!
//! The guests come first: no call waits longer than the journal's short lock time, a journal
//! that cannot be written is reported once and tried again ever more seldom, and when the queue is
//! full the oldest records go. What was lost is counted, and noted in the journal itself as
//! soon as it can be written to.

use crate::held::Failures;
use crate::news::News;
use crate::{Decision, DecisionId, Error, Event, Journal, Outcome, Pruned, Word, kinds};
use model::GuestIdentity;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Records that wait at most: about a minute of 1,000 guests under two policies would be more,
/// but then memory is what the host lacks. It is about 10 MB.
pub const QUEUE_MAX: usize = 16_384;
/// Decisions whose outcome may still come. Each guest has one move at a time.
const AWAITED_MAX: usize = 16_384;
/// Records that one flush writes, so that a long queue does not hold the manager up.
const FLUSH_MAX: usize = 4_096;
/// Flushes of a writer that ends: a full queue takes four, and a file that is locked another three
/// until it is copied, and one more.
const LAST_FLUSHES: u32 = 8;

/// Flushes between two looks at the length of the log.
const LOOK_FLUSHES: u32 = 60;

/// Names a decision until its outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Writes to a journal without ever being in the manager's way.
#[derive(Debug, Default)]
pub struct Writer {
    path: Option<PathBuf>,
    journal: Option<Journal>,
    /// Which file is open: its device and its inode.
    file: Option<(u64, u64)>,
    queue: VecDeque<Record>,
    next: u64,
    /// Which row a ticket's decision became.
    awaited: BTreeMap<u64, DecisionId>,
    /// Records lost since the writer began.
    lost: u64,
    /// Of these, how many the journal knows of.
    lost_noted: u64,
    failures: Failures,
    /// Flushes since the log's length was looked at.
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
    /// A writer to this file, which is opened by the first flush.
    pub fn new(path: &Path) -> Writer {
        Writer { path: Some(path.to_owned()), ..Writer::default() }
    }

    /// A writer to a journal that is open, for one in memory.
    pub fn to(journal: Journal) -> Writer {
        Writer { journal: Some(journal), ..Writer::default() }
    }

    /// Queues a decision. The ticket is for its outcome.
    pub fn decision(&mut self, guest: &Arc<GuestIdentity>, decision: Decision) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.push(Record::Decision(ticket, Arc::clone(guest), Box::new(decision)));
        ticket
    }

    /// Queues what came of a decision.
    pub fn outcome(&mut self, decision: Ticket, outcome: Outcome) {
        self.push(Record::Outcome(decision, outcome));
    }

    /// Queues an event, about a guest or about the manager and its host.
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

    /// Records that wait.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Records that were lost since the writer began.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The journal, where it is open: to read what was written.
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Writes what waits, in one transaction. What cannot be written waits on.
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
                // The file may have been moved or replaced: the next try opens it afresh.
                self.journal = None;
                self.failures.failed(path, error)
            }
        }
    }

    /// Writes all that waits, at the writer's end, without a pause after a failure. A copy of the
    /// file is waited for: what is written to the old file meanwhile would go with that. What is
    /// left in the queue afterwards is lost. Returns the news.
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

    /// Takes away rows that are older, and the oldest ones while the file holds more than so
    /// many bytes; a bounded number of rows a call. A journal that is not open has none.
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

/// The journal, opened if it is not, or if its file is no longer the one of that name: who
/// takes a journal away expects a new one, and not that a file without a name grows on.
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
