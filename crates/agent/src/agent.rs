//! The state of a daemon, and the messages to it: a pure state machine.

use base::PAGE_BYTES;
use counters::Bytes;
use wire::{
    Alarm, AskAlarm, Capture, File, Grant, Hello, Identified, Identity, Memory, PoolKind,
    PoolRequest, Pressure, Sample, Status, System, ToGuest, ToHost, Welcome,
};

use crate::bounds::GuestBounds;
use crate::files::{Captured, Captures};
use crate::question::{AlarmQuestion, SampleQuestion};
use crate::tasks::{TaskGather, TaskScan};

/// More of one CPU than this is a load, for which a settled daemon is to look: an idle kernel runs
/// now and then by itself, and each look would keep it awake.
pub const BUSY_PERCENT: f64 = 10.0;
/// The shortest time between two messages to look, whatever the daemon's rules want: the daemon's
/// clock decides when it looks, here only the flood of messages is kept down.
pub const LOOK_MIN_MS: u64 = 250;
/// How often a daemon looks that has not sent its interval.
const UPDATE_MS: u64 = 1_000;

/// Whether daemons' requests for memory are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolGrants {
    /// They are.
    #[default]
    Yes,
    /// They are not: daemons do as they would without a host. It only looks on.
    No,
}

/// An event from a guest daemon.
#[derive(Clone, Debug, PartialEq)]
pub enum DaemonEvent {
    /// It is there, in this boot of its guest.
    Here([u8; 16]),
    /// It has sent its status: see [`Agent::status`].
    Status,
    /// Its guest's memory, and when that was true at least. The time is `None` for the answer to
    /// a question that was put again meanwhile.
    Sample(Box<Memory>, Option<u64>),
    /// Its rules want a pool of this size.
    PoolRequest(PoolRequest),
    /// Its guest's tasks.
    Tasks(Box<TaskScan>),
    /// Tasks wait for this.
    Need(Pressure),
    /// A file is complete, or will never be.
    File(Captured),
    /// Its guest wants to run by itself in so many milliseconds; `None`: not within a day.
    Alarm(Option<u64>),
    /// Its guest has taken its name, or this is why not.
    Named(Result<(), String>),
    /// It was on this host before.
    CameFrom(String),
    /// It ends and has given back what it took.
    Bye,
}

/// How often a daemon was asked for something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskCounts {
    /// To look, because its virtual CPUs had run.
    pub looks: u64,
    /// How its memory is.
    pub samples: u64,
    /// Its guest's tasks.
    pub scans: u64,
}

/// Whether a guest is the one that it is to be. A clone goes on from its template's state: what
/// its daemon sends before it has its name is about the template's guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Naming {
    /// It is itself, as is every guest that boots.
    #[default]
    Done,
    /// It was not sent its identity yet.
    Due,
    /// It was sent its identity, and has not confirmed it.
    Sent,
}

/// A daemon's state.
#[derive(Debug, Default)]
pub struct Agent {
    /// What its guest was started with.
    pub bounds: GuestBounds,
    grants: PoolGrants,
    naming: Naming,
    /// Whether it has sent a hello since it was there last.
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
    looked_ms: u64,
    /// How often it was asked for something.
    pub asked: AskCounts,
}

impl Agent {
    /// A daemon that has not sent anything yet.
    pub fn new(bounds: GuestBounds, grants: PoolGrants) -> Agent {
        Agent { bounds, grants, ..Agent::default() }
    }

    /// The same for a clone, which has no name yet.
    pub fn unnamed(bounds: GuestBounds, grants: PoolGrants) -> Agent {
        Agent { naming: Naming::Due, ..Agent::new(bounds, grants) }
    }

    /// Whether its guest is the one that it is to be.
    pub fn is_named(&self) -> bool {
        self.naming == Naming::Done
    }

    /// Whether a daemon is there that answers.
    pub fn is_up(&self) -> bool {
        self.is_here && self.question.is_answered()
    }

    /// The hello of the daemon that is there.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref().filter(|_| self.is_here)
    }

    /// Its last status, capped at what its guest can be.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref().filter(|_| self.is_here)
    }

    /// Its guest as a whole, by the last answer to the question for its tasks.
    pub fn system(&self) -> Option<&System> {
        self.system.as_ref().filter(|_| self.is_here)
    }

    /// The last daemon's last status, whether it is still there or not.
    pub fn last_status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// The same of its last sample.
    pub fn last_sample(&self) -> Option<&Memory> {
        self.last_sample.as_ref()
    }

    /// How often it has reported that tasks wait for memory.
    pub fn memory_needs(&self) -> u64 {
        self.memory_needs
    }

    /// Forgets the reports of the guest's state: another host has it now.
    pub fn forget_state(&mut self) {
        (self.status, self.last_sample) = (None, None);
    }

    /// A file that is late, as an event; it is given up.
    pub fn late_file(&mut self, now_ms: u64) -> Option<DaemonEvent> {
        self.files.expire(now_ms).map(DaemonEvent::File)
    }

    /// Its guest has started again, or its port is closed: earlier reports no longer hold.
    pub fn gone(&mut self) {
        self.is_here = false;
        self.question.answered();
    }

    /// Takes a message: returns the answer to it, and the event for its owner.
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
            ToHost::Chunk(chunk) => self.files.take(&chunk).map(DaemonEvent::File),
            ToHost::Need(pressure) => {
                // It has woken by itself, and looks.
                self.looked_ms = now_ms;
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
            // It has its name, and was not asked.
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
        // One that was not sent its identity cannot confirm it.
        if self.naming != Naming::Sent {
            return None;
        }
        if !refusal.is_empty() {
            return Some(DaemonEvent::Named(Err(refusal)));
        }
        self.naming = Naming::Done;
        Some(DaemonEvent::Named(Ok(())))
    }

    /// Whether it needs not look before its guest's virtual CPUs have run.
    pub fn is_settled(&self) -> bool {
        self.status().is_some_and(|status| status.settled)
    }

    /// Its guest's virtual CPUs use this much, in percent of one CPU: a settled daemon is to look,
    /// as often as its rules do.
    pub fn look(&mut self, cpu_percent: f64, now_ms: u64) -> Option<ToGuest> {
        let update_ms = self.hello().map_or(UPDATE_MS, |hello| u64::from(hello.update_ms));
        let is_due = now_ms.saturating_sub(self.looked_ms) >= update_ms.max(LOOK_MIN_MS);
        if cpu_percent < BUSY_PERCENT || !is_due || !self.is_settled() {
            return None;
        }
        self.looked_ms = now_ms;
        self.asked.looks += 1;
        Some(ToGuest::Look)
    }

    /// The first message of a host.
    pub fn welcome(&self) -> ToGuest {
        let grants = self.grants == PoolGrants::Yes;
        ToGuest::Welcome(Welcome { memory_pages: self.bounds.pages(), grants, paces: true })
    }

    /// Asks how the guest's memory is. `None` if no daemon is there.
    pub fn ask_sample(&mut self, now_ms: u64) -> Option<ToGuest> {
        self.hello()?;
        self.asked.samples += 1;
        Some(ToGuest::Sample(Sample { sequence: self.question.ask(now_ms) }))
    }

    /// Whether the answer to that is to be waited for: it was not asked in vain too often.
    pub fn is_worth_waiting(&self) -> bool {
        self.question.is_worth_waiting()
    }

    /// Asks for the guest's tasks. `None` if no daemon is there.
    pub fn ask_tasks(&mut self) -> Option<ToGuest> {
        self.hello()?;
        self.asked.scans += 1;
        Some(ToGuest::Scan(self.tasks.begin()))
    }

    /// Asks when its guest wants to run by itself. `None` if no daemon is there.
    pub fn ask_alarm(&mut self) -> Option<ToGuest> {
        self.hello()?;
        Some(ToGuest::AskAlarm(AskAlarm { sequence: self.alarm.ask() }))
    }

    /// Asks for a file: the number of the request. `None` while too many are on their way.
    pub fn ask_file(&mut self, file: File, now_ms: u64) -> Option<(u32, ToGuest)> {
        let sequence = self.files.begin(file, now_ms)?;
        Some((sequence, ToGuest::Capture(Capture { sequence, file })))
    }

    /// How much its guest keeps, and why. `None` if no daemon is there, or its kernel has a
    /// pool of its own and nothing of ours.
    pub fn grant(&self, sequence: u32, keeps: Bytes, reason: String) -> Option<ToGuest> {
        self.hello().filter(|hello| hello.pool != PoolKind::Cmm)?;
        let pages = self.bounds.memory.less(keeps).0 / PAGE_BYTES;
        Some(ToGuest::Grant(Grant { sequence, pages, reason }))
    }

    /// Whether a clone was not sent its identity yet.
    pub fn wants_name(&self) -> bool {
        self.naming == Naming::Due
    }

    /// A clone's identity, once.
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
