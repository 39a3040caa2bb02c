//! Links between the guests of a farm, and the switch that implements them.
//!
//! ```text
//!   web3 ─ frame ─► its NetLink ─► Switch (a thread) ─► Router ─► db1's NetLink ─► db1
//!                                                          └─► web3's own network: no link
//! ```
//!
//! Each guest's own network leads nowhere. A linked guest reaches one guest of the linked class, on
//! one port, at an address of that class. No guest sees the frames of another guest.

mod frame;
mod router;
mod switch;

use std::net::Ipv4Addr;

pub use router::{Route, Router};
pub use switch::Switch;

/// A link from one guest to a port of another guest. Guests are identified by their numbers on the
/// network: see [`vm::Net`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The guest that may connect.
    pub client: u32,
    /// The address that the client uses for the server.
    pub address: Ipv4Addr,
    /// Port at this address, which is also the server's own port.
    pub port: u16,
    /// The guest that accepts the connections.
    pub server: u32,
}

/// Returns the address at which linked guests reach the class of this index in its farm.
pub fn class_address(place: usize) -> Ipv4Addr {
    let place = u8::try_from(place).unwrap_or(u8::MAX - 1);
    Ipv4Addr::new(10, 0, 1, place.saturating_add(1))
}
