//! The load itself: all connections in one thread with one poll.
//!
//! ```text
//!   loop:  free clients ─► Schedule::next ─► Exchange (connect, or an old connection)
//!          poll ─► Exchange::turn ─► answered, failed ─► Outcome
//!          too late ─► failed
//! ```

use crate::load::connection::{Exchange, Step};
use crate::load::schedule::{Next, Schedule, micros};
use crate::load::{Error, Failure, Outcome, Pattern, Plan, Reuse, Target, http};
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::time::Duration;
use vm::Clock;

/// Size of a read. A page has some tens of kilobytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// Interval at which the watcher is called.
const WATCH_US: u64 = 200_000;
/// Maximum number of idle connections for all targets together. Each connection is an open file of
/// this process.
const KEPT_MAX: usize = 4096;

/// Progress of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Time since the start, in microseconds.
    pub elapsed_us: u64,
    /// Number of successful requests.
    pub answered: u64,
    /// Number of failed requests.
    pub failed: u64,
}

#[derive(Debug)]
struct Slot {
    target: usize,
    intended_us: u64,
    exchange: Exchange,
}

struct Engine<'a> {
    plan: &'a Plan,
    requests: Vec<Vec<u8>>,
    timeout_us: u64,
    schedule: Schedule,
    slots: Vec<Option<Slot>>,
    /// Reusable connections, by target.
    kept: Vec<Vec<TcpStream>>,
    kept_count: usize,
    outcome: Outcome,
    clock: Clock,
}

/// Puts the load on its targets, and waits for its end. `watch` is called several times a second
/// and may end the load.
pub fn run(
    plan: &Plan,
    watch: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Outcome, Error> {
    plan.check()?;
    let is_kept = plan.reuse == Reuse::KeepAlive;
    let request = |target: &Target| http::request(target.address, &target.path, is_kept);
    let mut engine = Engine {
        plan,
        requests: plan.targets.iter().map(request).collect(),
        timeout_us: micros(plan.timeout),
        schedule: Schedule::new(plan),
        slots: (0..plan.slots()).map(|_| None).collect(),
        kept: plan.targets.iter().map(|_| Vec::new()).collect(),
        kept_count: 0,
        outcome: Outcome::new(plan)?,
        clock: Clock::new(),
    };
    engine.run(watch)?;
    engine.outcome.elapsed_us = engine.clock.us();
    Ok(engine.outcome)
}

impl Engine<'_> {
    fn run(&mut self, watch: &mut dyn FnMut(&Progress) -> ControlFlow<()>) -> Result<(), Error> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut watched_us = 0;
        loop {
            let now_us = self.clock.us();
            if now_us >= watched_us {
                watched_us = now_us + WATCH_US;
                let (answered, failed) = (self.outcome.all.answered, self.outcome.all.failed_all());
                let progress = Progress { elapsed_us: now_us, answered, failed };
                if watch(&progress).is_break() {
                    self.outcome.is_interrupted = true;
                    return Ok(());
                }
            }
            let next_us = self.fill();
            let first_us = self.slots.iter().flatten().map(|slot| slot.intended_us).min();
            let late_us = first_us.map(|first_us| first_us.saturating_add(self.timeout_us));
            let Some(until_us) = [next_us, late_us].into_iter().flatten().min() else {
                return Ok(());
            };
            self.wait(until_us.min(watched_us), &mut buffer)?;
            self.drop_late();
        }
    }

    /// Gives every free client its next request. Returns the time at which the next request is due,
    /// if known.
    fn fill(&mut self) -> Option<u64> {
        let is_shared = !matches!(self.plan.pattern, Pattern::Closed { .. });
        let mut next_us: Option<u64> = None;
        for client in 0..self.slots.len() {
            while self.slots[client].is_none() {
                let now_us = self.clock.us();
                match self.schedule.next(client, now_us) {
                    Next::Start { target, intended_us } => self.begin(client, target, intended_us),
                    Next::Overdue { target, intended_us } => {
                        let waited_us = now_us.saturating_sub(intended_us);
                        self.outcome.failure(target, Failure::Timeout, waited_us);
                    }
                    // Clients with a common schedule all wait for the same time.
                    Next::Wait { until_us } if is_shared => return Some(until_us),
                    Next::End if is_shared => return None,
                    Next::Wait { until_us } => {
                        next_us = Some(next_us.map_or(until_us, |next_us| next_us.min(until_us)));
                        break;
                    }
                    Next::End => break,
                }
            }
        }
        next_us
    }

    fn begin(&mut self, client: usize, target: usize, intended_us: u64) {
        let exchange = match self.kept[target].pop() {
            Some(stream) => {
                self.kept_count -= 1;
                Ok(Exchange::again(stream))
            }
            None => Exchange::connect(self.plan.targets[target].address),
        };
        match exchange {
            Ok(exchange) => self.slots[client] = Some(Slot { target, intended_us, exchange }),
            Err(failure) => self.fail(client, target, intended_us, failure),
        }
    }

    /// Waits until a connection is ready, or until the given time, and continues the ready
    /// connections.
    fn wait(&mut self, until_us: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let mut clients = Vec::new();
        let mut fds = Vec::new();
        for (client, slot) in self.slots.iter().enumerate() {
            if let Some(slot) = slot {
                clients.push(client);
                let wants = slot.exchange.wants(&self.requests[slot.target]);
                fds.push(PollFd::from_borrowed_fd(slot.exchange.fd(), wants));
            }
        }
        let left_us = until_us.saturating_sub(self.clock.us());
        // If `left_us` exceeds the range of a timeout, the poll has no timeout, and an event ends
        // the wait.
        let timeout = Timespec::try_from(Duration::from_micros(left_us)).ok();
        match poll(&mut fds, timeout.as_ref()) {
            // A signal interrupts the poll. The watcher then decides if the load ends.
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(Error::Poll(error.into())),
        }
        let ready: Vec<usize> = clients
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(client, _)| client)
            .collect();
        for client in ready {
            self.turn(client, buffer);
        }
        Ok(())
    }

    fn turn(&mut self, client: usize, buffer: &mut [u8]) {
        let Some(mut slot) = self.slots[client].take() else { return };
        let Slot { target, intended_us, .. } = slot;
        match slot.exchange.turn(&self.requests[target], buffer) {
            Step::More => self.slots[client] = Some(slot),
            Step::Answered(200..=399) => {
                let now_us = self.clock.us();
                let latency_us = now_us.saturating_sub(intended_us);
                let bytes = slot.exchange.body_bytes();
                self.outcome.answer(target, latency_us, bytes, now_us);
                let is_kept = self.plan.reuse == Reuse::KeepAlive && self.kept_count < KEPT_MAX;
                if let Some(stream) = slot.exchange.into_kept().filter(|_| is_kept) {
                    self.kept[target].push(stream);
                    self.kept_count += 1;
                }
            }
            Step::Answered(_) => self.fail(client, target, intended_us, Failure::Status),
            Step::Failed(failure) => self.fail(client, target, intended_us, failure),
            Step::Stale => {
                // The target's other idle connections are just as old, so they are dropped too.
                self.kept_count -= self.kept[target].len();
                self.kept[target].clear();
                self.begin(client, target, intended_us);
            }
        }
    }

    fn fail(&mut self, client: usize, target: usize, intended_us: u64, failure: Failure) {
        let now_us = self.clock.us();
        self.schedule.failed(client, now_us);
        let waited_us = now_us.saturating_sub(intended_us);
        self.outcome.failure(target, failure, waited_us);
    }

    fn drop_late(&mut self) {
        let now_us = self.clock.us();
        for client in 0..self.slots.len() {
            let is_late =
                |slot: &mut Slot| now_us.saturating_sub(slot.intended_us) >= self.timeout_us;
            if let Some(slot) = self.slots[client].take_if(is_late) {
                self.fail(client, slot.target, slot.intended_us, Failure::Timeout);
            }
        }
    }
}
