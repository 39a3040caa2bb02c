//! Links: which guest of a farm reaches which port of which other guest, and the switch between.
//!
//! ```text
//!   web3 ─ frame ─► its NetLink ─► Switch (a thread) ─► Router ─► db1's NetLink ─► db1
//!                                                          └─► web3's own network: no link
//! ```
//!
//! Each guest's own network leads nowhere. A linked guest sees, at an address of the class that it
//! is linked with, one guest of that class, and of that one port; no guest sees another's frames.

mod frame;
mod router;
mod switch;

use std::net::Ipv4Addr;

pub use router::{Route, Router};
pub use switch::Switch;

/// A way from one guest to a port of another one. Guests are named by their numbers on the network:
/// see [`vm::Net`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The guest that may connect.
    pub client: u32,
    /// The address at which it finds the other one.
    pub address: Ipv4Addr,
    /// The port, at that address and of the server.
    pub port: u16,
    /// The guest that is connected to.
    pub server: u32,
}

/// Where guests find the class of this place in its farm, if they are linked with it.
pub fn class_address(place: usize) -> Ipv4Addr {
    let place = u8::try_from(place).unwrap_or(u8::MAX - 1);
    Ipv4Addr::new(10, 0, 1, place.saturating_add(1))
}
