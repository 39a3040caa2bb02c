//! Prefetch of the memory that parked guests need when they wake, on a thread.
//!
//! ```text
//!   a wake ─► a second later: the pages in memory ─► kept
//!   the next wakes ─► these pages are read back while QEMU resumes
//! ```
//!
//! The thread helps one guest at a time. When many guests wake at once, all CPUs are busy, and more
//! threads would not help.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use hypervisor::{InMemory, PageOutError, ProcessId};
use vm::Clock;

/// Time from a wake-up until the guest's resident pages are recorded. In this time the guest
/// touches the pages for its wake-up and for its first client.
const LEARN_MS: u64 = 1_000;
/// Number of wake-ups after which a guest's pages are recorded from scratch. Prefetched pages are
/// resident even if the guest no longer needs them, so an old record contains too many pages.
const USES: u32 = 16;
/// Minimum number of known guests before ended guests are removed.
const KNOWN_MIN: usize = 64;
/// Longest wait of the idle thread.
const IDLE: Duration = Duration::from_secs(3600);

/// The thread, started at the first wake.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    woken: Option<SyncSender<u32>>,
}

impl Ahead {
    /// Records that the process of a guest resumes.
    pub(super) fn woken(&mut self, pid: u32) {
        let start = || {
            let (sender, woken) = sync_channel(1);
            let work = move || Work::new().run(&woken);
            let started = thread::Builder::new().name("ahead".into()).spawn(work);
            // Without the thread, guests page in their memory themselves.
            started.ok().map(|_| sender)
        };
        if self.woken.is_none() {
            self.woken = start();
        }
        if let Some(woken) = &self.woken {
            // If the queue is full, the thread is busy with another guest. The guest that wakes now
            // gets no prefetch.
            let _ = woken.try_send(pid);
        }
    }
}

/// Pages that a guest needs, and the number of times that they were prefetched.
#[derive(Debug)]
struct Needs {
    pages: InMemory,
    uses: u32,
}

#[derive(Debug)]
struct Work {
    clock: Clock,
    known: BTreeMap<ProcessId, Needs>,
    /// Number of known guests at which ended guests are removed: twice the number that remained
    /// after the last removal.
    sweep_at: usize,
    /// Processes with pages to record, after the time at which to record the process's pages.
    due: VecDeque<(u64, ProcessId)>,
}

impl Work {
    fn new() -> Work {
        let (known, due) = (BTreeMap::new(), VecDeque::new());
        Work { clock: Clock::new(), known, sweep_at: KNOWN_MIN, due }
    }

    fn run(mut self, woken: &Receiver<u32>) {
        loop {
            let now_ms = self.clock.ms();
            let wait = self.due.front().map(|(at_ms, _)| at_ms.saturating_sub(now_ms));
            match woken.recv_timeout(wait.map_or(IDLE, Duration::from_millis)) {
                Ok(pid) => self.woken(pid),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now_ms = self.clock.ms();
            if self.due.front().is_some_and(|(at_ms, _)| *at_ms <= now_ms)
                && let Some((_, process)) = self.due.pop_front()
            {
                self.learn(process);
            }
        }
    }

    fn woken(&mut self, pid: u32) {
        let Some(process) = ProcessId::of(pid) else { return };
        if let Some(needs) = self.known.get_mut(&process).filter(|needs| needs.uses < USES) {
            needs.uses += 1;
            match needs.pages.fetch(process) {
                Ok(()) => return,
                Err(PageOutError::Gone | PageOutError::Refused(_)) => {}
            }
        }
        self.known.remove(&process);
        if !self.due.iter().any(|(_, due)| *due == process) {
            self.due.push_back((self.clock.ms() + LEARN_MS, process));
        }
    }

    fn learn(&mut self, process: ProcessId) {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known, _| known.is_alive());
            self.sweep_at = (self.known.len() * 2).max(KNOWN_MIN);
        }
        if let Ok(pages) = InMemory::of(process)
            && pages != InMemory::default()
        {
            self.known.insert(process, Needs { pages, uses: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_that_have_ended_are_forgotten() {
        let us = ProcessId::of(std::process::id()).unwrap();
        let mut work = Work::new();
        let ended = |ticks| ProcessId { start_ticks: us.start_ticks + ticks, ..us };
        let needs = || Needs { pages: InMemory::default(), uses: 0 };
        work.known.extend((1..=KNOWN_MIN as u64).map(|ticks| (ended(ticks), needs())));
        work.known.insert(us, needs());
        work.learn(ended(1));
        assert_eq!(work.known.keys().collect::<Vec<_>>(), [&us]);
        assert_eq!(work.sweep_at, KNOWN_MIN);
    }
}
