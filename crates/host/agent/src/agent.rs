//! The state of a daemon, and the messages to it: a pure state machine.

use base::{Bytes, PAGE_BYTES};
use wire::{
    Alarm, AskAlarm, Grant, Hello, Identified, Identity, Memory, PoolKind, PoolRequest, Pressure,
    Sample, Status, System, ToGuest, ToHost, Welcome,
};

use crate::bounds::GuestBounds;
use crate::files::{Captured, Captures};
use crate::question::{AlarmQuestion, SampleQuestion};
use crate::tasks::{TaskGather, TaskScan};

/// CPU usage above which a settled daemon gets a message to check its guest. An idle kernel also
/// runs occasionally, and a message each time would keep the guest awake.
pub const BUSY_PERCENT: f64 = 10.0;
/// Minimum time between two messages to check a guest, independent of the daemon's rules. The value
/// limits only the messages: a daemon also checks its guest without a message.
pub const LOOK_MIN_MS: u64 = 250;
/// Interval assumed for a daemon that has not sent its own interval.
const UPDATE_MS: u64 = 1_000;
/// Time after a request for memory statistics in which no daemon is asked to check its guest. The
/// host makes such requests about once a second to a guest that runs.
const SAMPLED_MS: u64 = 1_500;

/// The handling of daemons' requests for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolGrants {
    /// Requests are answered.
    #[default]
    Yes,
    /// Requests are not answered, because this host only observes. Daemons act as if there were no
    /// host.
    No,
}

/// An event from a guest daemon.
#[derive(Clone, Debug, PartialEq)]
pub enum DaemonEvent {
    /// The daemon has sent a hello, with the boot id of its guest.
    Here([u8; 16]),
    /// The daemon has sent its status: see [`Agent::status`].
    Status,
    /// The guest's memory statistics, and the earliest time at which they were valid. The time is
    /// `None` if the request was repeated before this answer arrived.
    Sample(Box<Memory>, Option<u64>),
    /// The daemon's rules request a pool of this size.
    PoolRequest(PoolRequest),
    /// The guest's tasks.
    Tasks(Box<TaskScan>),
    /// Tasks wait for this resource.
    Need(Pressure),
    /// The requested files, as far as they arrived.
    Files(Captured),
    /// Milliseconds until the guest's next timer; `None` if that is more than a day away.
    Alarm(Option<u64>),
    /// The clone has accepted its identity, or reports why it could not.
    Named(Result<(), String>),
    /// The name of the guest's previous host.
    CameFrom(String),
    /// The daemon ends and has undone its changes.
    Bye,
}

/// Numbers of requests to a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskCounts {
    /// Requests to check the guest, sent because the virtual CPUs had run.
    pub looks: u64,
    /// Requests for memory statistics.
    pub samples: u64,
    /// Requests for tasks.
    pub scans: u64,
}

/// The state of a guest's identity. A clone starts from its template's state. Before the clone has
/// its own identity, its daemon's messages are about the template's guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Naming {
    /// The guest has its identity, like every guest that was booted.
    #[default]
    Done,
    /// The identity was not sent yet.
    Due,
    /// The identity was sent, and is not confirmed yet.
    Sent,
}

/// Times of the last messages to check a guest.
#[derive(Debug, Default)]
struct Pace {
    looked_ms: u64,
    /// Time of the last request for the guest's memory statistics.
    sampled_ms: Option<u64>,
    /// True if the virtual CPUs used at least [`BUSY_PERCENT`] when measured last.
    is_busy: bool,
}

/// The state of a daemon.
#[derive(Debug, Default)]
pub struct Agent {
    /// The limits that the daemon's guest was started with.
    pub bounds: GuestBounds,
    grants: PoolGrants,
    naming: Naming,
    /// True if a hello was received since the connection was made.
    is_here: bool,
    hello: Option<Hello>,
    status: Option<Status>,
    system: Option<System>,
    last_sample: Option<Memory>,
    memory_needs: u64,
    question: SampleQuestion,
    tasks: TaskGather,
    files: Captures,
    alarm: AlarmQuestion,
    pace: Pace,
    /// Numbers of requests to the daemon.
    pub asked: AskCounts,
}

impl Agent {
    /// Creates the state of a daemon that has not sent anything yet.
    pub fn new(bounds: GuestBounds, grants: PoolGrants) -> Agent {
        Agent { bounds, grants, ..Agent::default() }
    }

    /// Creates the state of a daemon in a clone that has no identity yet.
    pub fn unnamed(bounds: GuestBounds, grants: PoolGrants) -> Agent {
        Agent { naming: Naming::Due, ..Agent::new(bounds, grants) }
    }

    /// Returns true if the guest has its identity.
    pub fn is_named(&self) -> bool {
        self.naming == Naming::Done
    }

    /// Returns true if a daemon is connected and answers.
    pub fn is_up(&self) -> bool {
        self.is_here && self.question.is_answered()
    }

    /// Returns the hello of the connected daemon.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref().filter(|_| self.is_here)
    }

    /// Returns the daemon's last status, capped at the guest's limits.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref().filter(|_| self.is_here)
    }

    /// Returns the state of the guest as a whole, from the last answer about its tasks.
    pub fn system(&self) -> Option<&System> {
        self.system.as_ref().filter(|_| self.is_here)
    }

    /// Returns the last status, even if the daemon is gone.
    pub fn last_status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// Returns the last sample, even if the daemon is gone.
    pub fn last_sample(&self) -> Option<&Memory> {
        self.last_sample.as_ref()
    }

    /// Returns the number of reports that tasks wait for memory.
    pub fn memory_needs(&self) -> u64 {
        self.memory_needs
    }

    /// Drops the last status and sample, because another manager gets the guest's reports now.
    pub fn forget_state(&mut self) {
        (self.status, self.last_sample) = (None, None);
    }

    /// Gives up files that have not arrived in time. Returns the event if a request is then over.
    pub fn late_files(&mut self, now_ms: u64) -> Option<DaemonEvent> {
        self.files.expire(now_ms).map(DaemonEvent::Files)
    }

    /// Marks the daemon as gone. The guest has restarted, or the port is closed, so earlier reports
    /// are stale.
    pub fn gone(&mut self) {
        self.is_here = false;
        self.question.answered();
    }

    /// Handles a message. Returns the answer to the message, and the event for the owner.
    pub fn take(&mut self, message: ToHost, now_ms: u64) -> (Option<ToGuest>, Option<DaemonEvent>) {
        if self.naming != Naming::Done {
            return (None, self.take_name(message));
        }
        let event = match message {
            ToHost::Hello(hello) => {
                let welcome = (!hello.reply).then(|| self.welcome());
                let event = DaemonEvent::Here(hello.boot_id);
                self.here(hello);
                return (welcome, Some(event));
            }
            ToHost::Status(status) => {
                self.status = Some(self.bounds.hold(status));
                Some(DaemonEvent::Status)
            }
            ToHost::Memory(sample) => {
                self.question.answered();
                self.last_sample = Some(sample);
                let true_ms = self.question.true_at(sample.sequence, now_ms);
                Some(DaemonEvent::Sample(Box::new(sample), true_ms))
            }
            ToHost::PoolRequest(request) => Some(DaemonEvent::PoolRequest(request)),
            ToHost::Processes(part) => {
                self.tasks.take(part).map(|scan| DaemonEvent::Tasks(Box::new(scan)))
            }
            ToHost::System(system) => {
                self.system = Some(system);
                None
            }
            ToHost::Chunk(chunk) => self.files.take(&chunk).map(DaemonEvent::Files),
            ToHost::Need(pressure) => {
                // The daemon woke without a request, and checks its guest now.
                self.pace.looked_ms = now_ms;
                self.memory_needs += u64::from(pressure == Pressure::Memory);
                Some(DaemonEvent::Need(pressure))
            }
            ToHost::Bye => {
                self.is_here = false;
                Some(DaemonEvent::Bye)
            }
            ToHost::Alarm(Alarm { sequence, in_ms }) => {
                self.alarm.is_answered_by(sequence).then_some(DaemonEvent::Alarm(in_ms))
            }
            ToHost::CameFrom(came) => Some(DaemonEvent::CameFrom(came.host)),
            // The guest already has its identity, so this confirmation means nothing.
            ToHost::Identified(_) => None,
        };
        (None, event)
    }

    fn here(&mut self, hello: Hello) {
        if !self.is_here || !hello.reply {
            self.status = None;
        }
        if !self.is_here {
            self.system = None;
        }
        self.question.answered();
        self.hello = Some(hello);
        self.is_here = true;
    }

    fn take_name(&mut self, message: ToHost) -> Option<DaemonEvent> {
        let ToHost::Identified(Identified { refusal }) = message else { return None };
        // Only a daemon that has received an identity can confirm it.
        if self.naming != Naming::Sent {
            return None;
        }
        if !refusal.is_empty() {
            return Some(DaemonEvent::Named(Err(refusal)));
        }
        self.naming = Naming::Done;
        Some(DaemonEvent::Named(Ok(())))
    }

    /// Returns true if the daemon need not check its guest before the virtual CPUs have run.
    pub fn is_settled(&self) -> bool {
        self.status().is_some_and(|status| status.settled)
    }

    /// Handles the usage of the guest's virtual CPUs, in percent of one CPU. If the guest is busy
    /// and its daemon is settled, returns a message to check the guest. The interval of the
    /// daemon's rules limits these messages.
    pub fn look(&mut self, cpu_percent: f64, now_ms: u64) -> Option<ToGuest> {
        let update_ms = self.hello().map_or(UPDATE_MS, |hello| u64::from(hello.update_ms));
        let since = |at_ms| now_ms.saturating_sub(at_ms);
        let is_due = since(self.pace.looked_ms) >= update_ms.max(LOOK_MIN_MS)
            && self.pace.sampled_ms.is_none_or(|at_ms| since(at_ms) >= SAMPLED_MS);
        self.pace.is_busy = cpu_percent >= BUSY_PERCENT;
        if !self.pace.is_busy || !is_due || !self.is_settled() {
            return None;
        }
        Some(self.looks(now_ms))
    }

    /// Returns the first message of a host.
    pub fn welcome(&self) -> ToGuest {
        let grants = self.grants == PoolGrants::Yes;
        ToGuest::Welcome(Welcome { memory_pages: self.bounds.pages(), grants, paces: true })
    }

    /// Returns the messages that request the guest's memory statistics; none if no daemon is
    /// connected. A settled daemon of a busy guest also checks its guest, and wakes once for both.
    pub fn ask_sample(&mut self, now_ms: u64) -> Vec<ToGuest> {
        if self.hello().is_none() {
            return Vec::new();
        }
        self.asked.samples += 1;
        self.pace.sampled_ms = Some(now_ms);
        let looks = self.pace.is_busy && self.is_settled();
        let look = looks.then(|| self.looks(now_ms));
        let sample = ToGuest::Sample(Sample { sequence: self.question.ask(now_ms) });
        look.into_iter().chain([sample]).collect()
    }

    fn looks(&mut self, now_ms: u64) -> ToGuest {
        self.pace.looked_ms = now_ms;
        self.asked.looks += 1;
        ToGuest::Look
    }

    /// Returns true if an answer is likely, because few enough requests are unanswered.
    pub fn is_worth_waiting(&self) -> bool {
        self.question.is_worth_waiting()
    }

    /// Requests the guest's tasks. Returns `None` if no daemon is connected.
    pub fn ask_tasks(&mut self) -> Option<ToGuest> {
        self.hello()?;
        self.asked.scans += 1;
        Some(ToGuest::Scan(self.tasks.begin()))
    }

    /// Requests the time of the guest's next timer. Returns `None` if no daemon is connected.
    pub fn ask_alarm(&mut self) -> Option<ToGuest> {
        self.hello()?;
        Some(ToGuest::AskAlarm(AskAlarm { sequence: self.alarm.ask() }))
    }

    /// Requests the files that rules read, and returns the number of the request. Returns `None`
    /// while too many requests are open.
    pub fn ask_files(&mut self, now_ms: u64) -> Option<(u32, Vec<ToGuest>)> {
        let (number, requests) = self.files.begin(now_ms)?;
        Some((number, requests.into_iter().map(ToGuest::Capture).collect()))
    }

    /// Returns the message with the memory that the guest keeps, and the reason. Returns `None` if
    /// no daemon is connected, or if the guest's kernel has its own pool.
    pub fn grant(&self, sequence: u32, keeps: Bytes, reason: String) -> Option<ToGuest> {
        self.hello().filter(|hello| hello.pool != PoolKind::Cmm)?;
        let pages = self.bounds.memory.less(keeps).0 / PAGE_BYTES;
        Some(ToGuest::Grant(Grant { sequence, pages, reason }))
    }

    /// Returns true if a clone was not yet sent its identity.
    pub fn wants_name(&self) -> bool {
        self.naming == Naming::Due
    }

    /// Returns the message with a clone's identity, once.
    pub fn identify(&mut self, identity: Identity) -> Option<ToGuest> {
        if !self.wants_name() {
            return None;
        }
        self.naming = Naming::Sent;
        Some(ToGuest::Identify(identity))
    }
}

#[cfg(test)]
mod tests;
