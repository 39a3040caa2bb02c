//! Events and effects. Each owner of state (guests, memory, requests, parked guests or scans)
//! changes only its own state. It returns effects, which the main loop carries out in order.

use crate::attach::{Classes, Lent};
use crate::control::{Answer, Change, ClientId, Failure, HostSide, NextTimer, Peer, Return};
use crate::pageout::Job;
use agent::TaskScan;
use base::Bytes;
use hypervisor::{Event, Found, Id, ProcessId, RunState};
use model::PassInput;
use policy::arbiter::{Limits, Mode, Reserved};
use reactor::PollFlags;
use std::path::PathBuf;
use std::sync::Arc;

/// Time by two clocks: the clock of decisions, and the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Milliseconds since the manager's start.
    pub ms: u64,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
}

/// The operator's changes for a guest, until the guest or the manager ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Override {
    pub min: Option<Bytes>,
    pub max: Option<Bytes>,
    pub shares: Option<u32>,
    pub mode: Option<Mode>,
}

/// Reasons to send a guest more requests than the activity of its virtual CPUs justifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attention {
    /// True while the balloon moves.
    pub moves: bool,
    /// True while tasks of the guest wait for memory.
    pub strained: bool,
}

/// Event for the owner of the guests' state.
#[derive(Debug)]
pub(crate) enum GuestEvent {
    /// The hypervisors of this source reported an event.
    Source(usize, Event),
    Port(Id, PollFlags),
    /// The tick is due, up to four times a second.
    Tick,
    /// Guests that have run are due for a request.
    Ask,
    /// A pass begins, for which resident memory must be read.
    PassBegins,
    PassEnded,
    /// The processes of running guests are due for a reading.
    LookAtProcesses,
    /// The settings may have changed the guests' limits.
    Settings,
    /// The operator has changed limits by hand.
    Override(Id, Override),
    /// The reasons to watch a guest closely have changed.
    Attend(Id, Attention),
    /// A guest's virtual CPUs were stopped by the manager, or resumed.
    Parked(Id, bool),
    /// A client wants a daemon's list of tasks.
    AskScan(Id),
    /// A client wants the files that a guest's rules read.
    Capture {
        to: Return,
        guest: String,
    },
    /// A daemon must get the guest's new size, with the reason.
    Grant {
        guest: Id,
        keeps: Bytes,
        reason: String,
    },
    /// A guest's balloon reached a size that was not requested. A rise may come from the guest's
    /// kernel, and a fall from an earlier target.
    Left {
        guest: Id,
        at: Bytes,
        rose: bool,
    },
    /// A target is being set for a guest's balloon.
    Target {
        guest: Id,
        size: Bytes,
    },
    /// Page-out of a guest begins. Until it ends, memory that leaves the guest is not counted as
    /// page reporting.
    PageOutBegins(Id),
    PageOutEnded(Id),
    /// The state of the handover by the `pinhead up` of this directory has changed.
    Lent(PathBuf, Lent),
    /// The `pinhead up` of a directory wants the next timer of a guest.
    AskTimer(PathBuf, String),
    /// The `pinhead up` of a directory has reported the classes of its guests.
    Classes(PathBuf, Classes),
}

/// Event for the owner of the guests' memory.
#[derive(Debug)]
pub(crate) enum MemoryEvent {
    /// A pass is due.
    Pass,
    /// Limits of guests or the size of the host may have changed.
    LimitsChanged,
    /// A guest has rebooted.
    Rebooted(Id),
    /// Memory must be freed and reserved.
    Reserve { reservation: u64, size: Bytes, deadline_ms: u64, held_ms: u64 },
    /// A reservation was cancelled.
    Unreserve(u64),
}

/// Event for the owner of clients' requests for changes.
#[derive(Debug)]
pub(crate) enum RequestEvent {
    /// A client changes a guest's limits.
    Set {
        to: Return,
        peer: Peer,
        guest: String,
        change: Change,
    },
    /// A client wants memory freed and reserved.
    Reserve {
        to: Return,
        mib: u64,
        timeout_ms: u64,
        hold_ms: u64,
    },
    Unreserve {
        to: Return,
        reservation: u64,
    },
    /// There are too many reservations, so this reservation is refused.
    Refused(u64),
    /// Reservations have been settled.
    Settled(Vec<Reserved>),
    Left(ClientId),
}

/// Event for the owner of the list of parked guests.
#[derive(Debug)]
pub(crate) enum ParkEvent {
    /// A client wants a guest parked or woken.
    Asked { to: Return, peer: Peer, guest: String, parks: bool },
    /// A guest's run state has changed.
    State(Id, RunState),
    /// Virtual CPUs could not be stopped or resumed, with the reason.
    Stays(Id, String),
    /// A guest is gone. If only its monitor is gone, its process may live on and be found again.
    Gone(Id, Option<ProcessId>),
    /// A guest was found.
    Found(Id),
    /// A second has passed.
    Second,
}

/// Event for the owner of scans of tasks.
#[derive(Debug)]
pub(crate) enum ScanEvent {
    /// A client wants the tasks of a guest.
    Asked { to: Return, guest: String },
    /// A daemon has responded. `host` is the usage of the guest's process on the host.
    Answered { guest: Id, scan: Box<TaskScan>, host: HostSide },
    /// A second has passed.
    Second,
}

/// An action that an owner of state wants the main loop to carry out.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Event for the owner of guests.
    Guests(GuestEvent),
    /// Event for the owner of memory.
    Memory(MemoryEvent),
    /// Event for the owner of requests.
    Requests(RequestEvent),
    /// Event for the owner of parked guests.
    Parking(ParkEvent),
    /// A guest's virtual CPUs are about to stop, or have stopped. The keeper must resume the guest,
    /// however the manager ends.
    Park(Id),
    /// The virtual CPUs run again.
    Awake(Id),
    /// Stops or resumes a guest's virtual CPUs.
    SetRunning { guest: Id, runs: bool },
    /// Sets a balloon's target.
    SetTarget { guest: Id, size: Bytes },
    /// Requests the balloon's size from the hypervisor.
    AskActual { guest: Id, source: usize },
    /// Requests statistics from the balloon, which wakes the guest.
    AskStats { guest: Id, source: usize },
    /// Requests disk counters from the hypervisor.
    AskBlocks(Id),
    /// Requests a daemon's port from the process that started the guest.
    Attach(Box<Found>),
    /// Passes on the next timer of a farm's guest.
    TellTimer(PathBuf, NextTimer),
    /// Passes on a daemon's list of tasks.
    Scanned(Id, Box<TaskScan>),
    /// Makes the keeper responsible for restoring the guest's former size. The guest's size is
    /// `size` now, or will be soon.
    Hold { guest: Id, size: Bytes },
    /// Releases the keeper's duty to restore a guest that is gone.
    Release(Id, Option<ProcessId>),
    /// Drops page-out's state of a guest that has rebooted.
    NewBoot(Id),
    /// Pages out a guest, or measures its memory after a page-out.
    PageOut(Job),
    /// Ends a running page-out, because its guest needs its memory.
    CutPageOut,
    /// Sends the keeper the amount of memory that the host keeps free.
    SetReserve(Bytes),
    /// Writes an event into the journal.
    Note { kind: &'static str, text: String, guest: Option<Arc<model::GuestIdentity>> },
    /// Writes a decision into the journal. The outcome of a decision that `moves` memory follows
    /// later.
    Decided { guest: Id, who: Arc<model::GuestIdentity>, row: Box<store::Decision>, moves: bool },
    /// Adds another step to the guest's last move in the journal.
    GoesOn(Id),
    /// Writes the outcome of a guest's last move into the journal.
    Outcome { guest: Id, row: store::Outcome },
    /// Shows a sentence to the operator.
    Notify(String),
    /// Shows a sentence to the operator, and writes an event into the journal.
    Complain(String),
    /// Responds to a client.
    Answer { to: Return, answer: Box<Result<Answer, Failure>> },
    /// Records the inputs of a pass.
    Passed(Box<PassInput>),
    /// Brings the next pass forward.
    Hurry,
    /// All requests are answered, so that a waiting pass may begin.
    AllAnswered,
}

impl Effect {
    /// Returns a note about a guest, or about the manager itself.
    pub(crate) fn note(
        kind: &'static str,
        text: impl Into<String>,
        guest: Option<&Arc<model::GuestIdentity>>,
    ) -> Effect {
        Effect::Note { kind, text: text.into(), guest: guest.cloned() }
    }
}

impl Return {
    pub(crate) fn answer(self, answer: Result<Answer, Failure>) -> Effect {
        Effect::Answer { to: self, answer: Box::new(answer) }
    }
}

impl Override {
    /// Returns the limits with the operator's changes, capped at the guest's size.
    pub(crate) fn applied(&self, limits: Limits, memory: Bytes) -> Limits {
        let max = self.max.unwrap_or(limits.max).min(memory);
        Limits {
            min: self.min.unwrap_or(limits.min).min(max),
            ordered: self.min.is_some(),
            max,
            shares: self.shares.unwrap_or(limits.shares),
            mode: self.mode.unwrap_or(limits.mode),
        }
    }
}
