//! What owners want done. An owner decides and changes nothing but itself: it gives effects, and
//! the loop carries them out in their order.

use crate::control::{Answer, ClientId, Failure};
use agent::TaskScan;
use collect::ManagerView;
use counters::Bytes;
use hypervisor::{Found, Id};
use policy::arbiter::{Limits, Mode, Reserved};
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

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Its hypervisor is to give a guest this much.
    SetTarget { guest: Id, size: Bytes },
    /// Its hypervisor is asked what the guest has.
    AskActual { guest: Id, source: usize },
    /// Its balloon is asked for statistics, which wakes the guest.
    AskStats { guest: Id, source: usize },
    /// Its hypervisor is asked what the guest did with its disks.
    AskBlocks(Id),
    /// Whoever started the guest is asked for its daemon's port.
    Attach(Box<Found>),
    /// Its daemon is asked who runs in it.
    AskScan(Id),
    /// Its daemon has told who runs in it.
    Scanned(Id, Box<TaskScan>),
    /// Its daemon is told what the guest has, and why; this answers its request, if one is open.
    Grant { guest: Id, keeps: Bytes, reason: String },
    /// The keeper is to give the guest its maximum back: it has this much, or will have.
    Hold { guest: Id, size: Bytes },
    /// The keeper has nothing to give back to the guest.
    Release(Id),
    /// The keeper is told what the host keeps free.
    SetReserve(Bytes),
    /// An event, for the journal.
    Note { kind: &'static str, text: String, guest: Option<Arc<model::GuestIdentity>> },
    /// A decision, for the journal. The outcome of one that `moves` is still to come.
    Decided { guest: Id, who: Arc<model::GuestIdentity>, row: Box<store::Decision>, moves: bool },
    /// What came of a guest's last move, for the journal.
    Outcome { guest: Id, row: store::Outcome },
    /// A sentence for the operator.
    Say(String),
    /// The same, and an event in the journal.
    Complain(String),
    /// An answer to a client.
    Answer { client: ClientId, id: u64, answer: Box<Result<Answer, Failure>> },
    /// What the manager knows goes to the monitor.
    Record(Box<ManagerView>),
    /// The next pass is to come soon.
    Hurry,
    /// Nobody's answer is waited for any more: a pass that waits may begin.
    AllAnswered,
    /// A guest has started from scratch.
    Rebooted(Id),
    /// A guest is to be watched closely, or no longer.
    Attend(Id, Attention),
    /// The operator has set something by hand.
    Override(Id, Override),
    /// What guests are entitled to has changed.
    LimitsChanged,
    /// Memory is to be freed for somebody, and held.
    Reserve { reservation: u64, size: Bytes, deadline_ms: u64, held_ms: u64 },
    /// A reservation is not wanted any more.
    Unreserve(u64),
    /// There are too many reservations for this one.
    ReservationRefused(u64),
    /// What came of reservations.
    Reserved(Vec<Reserved>),
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

    /// An answer to a client's request.
    pub(crate) fn answer(client: ClientId, id: u64, answer: Result<Answer, Failure>) -> Effect {
        Effect::Answer { client, id, answer: Box::new(answer) }
    }
}

impl Override {
    /// The limits with what was set by hand: it gives way to nothing but the guest's size.
    pub(crate) fn applied(&self, limits: Limits, memory: Bytes) -> Limits {
        let max = self.max.unwrap_or(limits.max).min(memory);
        Limits {
            min: self.min.unwrap_or(limits.min).min(max),
            max,
            shares: self.shares.unwrap_or(limits.shares),
            mode: self.mode.unwrap_or(limits.mode),
        }
    }
}
