//! The control socket, with its requests and responses.
//!
//! ```text
//!   client ─► a line of JSON ─► decode ─► Ask ─► the manager ─► Answer ─► a line of JSON ─► client
//!             (bounded, counted)          └ the peer: pid, uid, gid
//! ```
//!
//! The control socket is a unix stream socket. Each line is one request or one response, see
//! docs/host.md. Any user that may open the socket's file may send requests. A client that floods,
//! does not read, or is silent for long is disconnected, without an effect on other clients.

mod ask;
mod asks;
mod client;
mod codec;
mod error;
mod farm;
mod group;
mod host;
mod levers;
mod live;
mod permission;
mod scanned;
mod server;
pub(crate) mod socket;
#[cfg(test)]
mod tests;
mod types;
mod usual;
mod words;

pub use agent::AskCounts;
pub use ask::{ask, open};
pub use asks::{Ask, Change};
pub use client::Peer;
pub use codec::{
    BadRequest, LINE_MAX, NAME_MAX, Request, VERBS, VERSION, decode_answer, decode_message,
    decode_request, encode_answer, encode_message, encode_request,
};
pub use error::Error;
pub use farm::{
    AskNextTimer, Captured, ConsoleLog, FarmGuest, FarmTable, Lent, NextTimer, POOL, ServedPort,
};
pub use host::{HostRow, OwnersRow};
pub use levers::{LeverRow, Levers, PagedOutRow};
pub use live::{GuestPassed, Passed, ProcessPassed, Values, Whose};
pub use model::SizeAction;
pub use policy::ksm::Phase as KsmPhase;
pub use scanned::{HostSide, Scanned, TaskRow};
pub use server::{Asked, Bounds, CLIENTS_MAX, ClientId, Return, Server};
pub use types::{
    ASLEEP_PERCENT, Answer, Entitled, Failure, GuestRow, Inputs, JournalRow, KsmRow, LeaseRow,
    Parked, Ps, Reloaded, Reserved, SourceRow, Status,
};
pub use usual::ask_manager;
pub use wire::Totals;
pub use words::{GuestMode, GuestRunState};
