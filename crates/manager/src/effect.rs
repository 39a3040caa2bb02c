//! What happens to owners, and what they want done. An owner decides and changes nothing but
//! itself: it gives effects, and the loop carries them out in their order.

use crate::attach::{Classes, Lent};
use crate::control::{Answer, Change, ClientId, Failure, HostSide, Peer, Return};
use crate::pageout::Job;
use agent::TaskScan;
use collect::ManagerView;
use counters::Bytes;
use hypervisor::{Event, Found, Id, ProcessId, RunState};
use model::PassInput;
use policy::arbiter::{Limits, Mode, Reserved};
use reactor::PollFlags;
use std::path::PathBuf;
use std::sync::Arc;

/// The time, by the clock that decisions are made by and by the one that people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Milliseconds since the manager's start.
    pub ms: u64,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
}

/// What the operator set by hand, until the guest or the manager ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Override {
    pub min: Option<Bytes>,
    pub max: Option<Bytes>,
    pub shares: Option<u32>,
    pub mode: Option<Mode>,
}

/// Why a guest is asked more often than its virtual CPUs' work would have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attention {
    /// Its balloon is on its way.
    pub moves: bool,
    /// Something in it waits for memory.
    pub strained: bool,
}

/// What happens to the owner of the guests.
#[derive(Debug)]
pub(crate) enum GuestEvent {
    /// By the hypervisors of this source.
    Source(usize, Event),
    /// A daemon's port is ready.
    Port(Id, PollFlags),
    /// Up to four times a second.
    Tick,
    /// Guests that have run are to be asked.
    Ask,
    /// A pass begins: what the host has of each guest is to be known.
    PassBegins,
    /// A pass has ended.
    PassEnded,
    /// The processes of guests that run are to be looked at.
    LookAtProcesses,
    /// The settings may give other limits than before.
    Settings,
    /// The operator has set something by hand.
    Override(Id, Override),
    /// A guest is to be watched closely, or no longer.
    Attend(Id, Attention),
    /// A guest's virtual CPUs stand still by our own word, or no longer.
    Parked(Id, bool),
    /// A guest's daemon is asked for its tasks.
    AskScan(Id),
    /// A guest's daemon is to be sent the guest's memory, and why.
    Grant { guest: Id, keeps: Bytes, reason: String },
    /// A guest's balloon came to a size that was not asked for. A rise may be its kernel's doing,
    /// and a fall an earlier target's.
    Left { guest: Id, at: Bytes, rose: bool },
    /// A guest's hypervisor is to set this target.
    Target { guest: Id, size: Bytes },
    /// Its memory is being handed to the host's reclaim: what leaves it has not come back by
    /// itself.
    PageOutBegins(Id),
    /// That is over.
    PageOutEnded(Id),
    /// The `pinhead up` of this directory has handed its guests over, or not.
    Lent(PathBuf, Lent),
    /// The `pinhead up` of a directory has told the classes of its guests.
    Classes(PathBuf, Classes),
}

/// What happens to the owner of the memory.
#[derive(Debug)]
pub(crate) enum MemoryEvent {
    /// A pass over all guests.
    Pass,
    /// Guests may have other limits than before, or the host another size.
    LimitsChanged,
    /// A guest has started from scratch.
    Rebooted(Id),
    /// Memory is to be freed and held.
    Reserve { reservation: u64, size: Bytes, deadline_ms: u64, held_ms: u64 },
    /// A reservation is not wanted any more.
    Unreserve(u64),
}

/// What happens to the owner of requests.
#[derive(Debug)]
pub(crate) enum RequestEvent {
    /// A change of what a guest is entitled to.
    Set { to: Return, peer: Peer, guest: String, change: Change },
    /// Memory is to be freed and held.
    Reserve { to: Return, mib: u64, timeout_ms: u64, hold_ms: u64 },
    /// A reservation is not wanted any more.
    Unreserve { to: Return, reservation: u64 },
    /// There are too many reservations for this one.
    Refused(u64),
    /// What came of reservations.
    Settled(Vec<Reserved>),
    /// A client has left.
    Left(ClientId),
}

/// What happens to the owner of parked guests.
#[derive(Debug)]
pub(crate) enum ParkEvent {
    /// A guest is to be parked, or woken.
    Asked { to: Return, peer: Peer, guest: String, parks: bool },
    /// It runs in another way.
    State(Id, RunState),
    /// Its virtual CPUs could not be stopped or let run, and why.
    Stays(Id, String),
    /// It is gone, or its monitor is: then the process may live on, and be found again.
    Gone(Id, Option<ProcessId>),
    /// It is there.
    Found(Id),
    /// Once a second.
    Second,
}

impl ParkEvent {
    /// Somebody asks for a guest to be parked.
    pub(crate) fn park(to: Return, peer: Peer, guest: String) -> ParkEvent {
        ParkEvent::Asked { to, peer, guest, parks: true }
    }

    /// Somebody asks for it to be woken.
    pub(crate) fn wake(to: Return, peer: Peer, guest: String) -> ParkEvent {
        ParkEvent::Asked { to, peer, guest, parks: false }
    }
}

/// What happens to the owner of scans.
#[derive(Debug)]
pub(crate) enum ScanEvent {
    /// A client asks for the tasks of a guest.
    Asked { to: Return, guest: String },
    /// A daemon has answered, and this is what its process has used on the host.
    Answered { guest: Id, scan: Box<TaskScan>, host: HostSide },
    /// Once a second.
    Second,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Something for the owner of the guests.
    Guests(GuestEvent),
    /// Something for the owner of the memory.
    Memory(MemoryEvent),
    /// Something for the owner of requests.
    Requests(RequestEvent),
    /// Something for the owner of parked guests.
    Parking(ParkEvent),
    /// A guest's virtual CPUs are about to be stopped, or stand still now: whatever ends us, they
    /// are to run again.
    Park(Id),
    /// They run again.
    Awake(Id),
    /// Its hypervisor is to stop a guest's virtual CPUs, or to let them run.
    SetRunning { guest: Id, runs: bool },
    /// Its hypervisor is to give a guest this much.
    SetTarget { guest: Id, size: Bytes },
    /// Its hypervisor is asked what the guest has.
    AskActual { guest: Id, source: usize },
    /// Its balloon is asked for statistics, which wakes the guest.
    AskStats { guest: Id, source: usize },
    /// Its hypervisor is asked what the guest did with its disks.
    AskBlocks(Id),
    /// The process that started the guest is asked for its daemon's port.
    Attach(Box<Found>),
    /// Its daemon has reported its tasks.
    Scanned(Id, Box<TaskScan>),
    /// The keeper is to give the guest back what it had: it has this much, or will have.
    Hold { guest: Id, size: Bytes },
    /// A guest is gone: the keeper has nothing to give back to it.
    Release(Id, Option<ProcessId>),
    /// A guest has started from scratch: what page-out knows of it no longer holds.
    NewBoot(Id),
    /// A guest's memory is handed to the host's reclaim, or it is looked at what came back.
    PageOut(Job),
    /// The handing over that is going on ends: its guest needs what it has.
    CutPageOut,
    /// The memory that the host keeps free, for the keeper.
    SetReserve(Bytes),
    /// An event, for the journal.
    Note { kind: &'static str, text: String, guest: Option<Arc<model::GuestIdentity>> },
    /// A decision, for the journal. The outcome of one that `moves` is still to come.
    Decided { guest: Id, who: Arc<model::GuestIdentity>, row: Box<store::Decision>, moves: bool },
    /// The guest's last move goes on by another step, for the journal.
    GoesOn(Id),
    /// What came of a guest's last move, for the journal.
    Outcome { guest: Id, row: store::Outcome },
    /// A sentence for the operator.
    Notify(String),
    /// The same, and an event in the journal.
    Complain(String),
    /// An answer to a client.
    Answer { to: Return, answer: Box<Result<Answer, Failure>> },
    /// What the manager knows goes to the monitor.
    Record(Box<ManagerView>),
    /// A pass knew this, which is recorded.
    Passed(Box<PassInput>),
    /// The next pass is to come soon.
    Hurry,
    /// No answer is waited for any more: a pass that waits may begin.
    AllAnswered,
}

impl Effect {
    /// An event of a guest, or of the manager itself.
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
    /// The limits with what was set by hand: it gives way to nothing but the guest's size.
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
