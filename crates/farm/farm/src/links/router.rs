//! Routing of a guest's frames: a pure function of the links.
//!
//! A client sees its server at an address assigned to the class, and the server sees the client's
//! real address. Client and server see the hardware address of the switch, but never each other's.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use vm::Net;

use super::Link;
use super::frame::{self, End, Kind, Mac};

/// Destination of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The network of the guest's own QEMU, which leads nowhere.
    Own,
    /// The sender of the frame. The frame was changed into the response.
    Back,
    /// The guest of this number.
    To(u32),
}

/// The links between guests.
#[derive(Debug, Default)]
pub struct Router {
    /// Address and hardware address of each linked guest, by its number.
    guests: HashMap<u32, (Ipv4Addr, Mac)>,
    /// Server of a client. The key consists of the client and of the address and port that the
    /// client uses.
    servers: HashMap<(u32, Ipv4Addr, u16), u32>,
    /// Address of a server as a client sees it. The key consists of server, client and port.
    shown: HashMap<(u32, u32, u16), Ipv4Addr>,
    /// Addresses that a guest may resolve.
    known: HashSet<(u32, Ipv4Addr)>,
}

impl Router {
    /// Creates a router with only these links.
    pub fn new(links: &[Link]) -> Router {
        let mut router = Router::default();
        for &Link { client, address, port, server } in links {
            for number in [client, server] {
                let net = Net { linked: true, ..Net::new(number) };
                router.guests.insert(number, (net.address(), net.mac()));
            }
            let Some(&(client_address, _)) = router.guests.get(&client) else { continue };
            router.servers.insert((client, address, port), server);
            router.shown.insert((server, client, port), address);
            router.known.extend([(client, address), (server, client_address)]);
        }
        router
    }

    /// Returns true if the guest of this number has links.
    pub fn is_linked(&self, number: u32) -> bool {
        self.guests.contains_key(&number)
    }

    /// Routes a frame of this guest, and rewrites it for its receiver.
    pub fn route(&self, from: u32, frame: &mut [u8]) -> Route {
        self.find(from, frame).unwrap_or(Route::Own)
    }

    fn find(&self, from: u32, frame: &mut [u8]) -> Option<Route> {
        let &(own_address, own_mac) = self.guests.get(&from)?;
        if frame::sender(frame)? != own_mac {
            return None;
        }
        let segment = match frame::read(frame)? {
            Kind::ArpQuestion { sender, target } => {
                let answers = sender == own_address && self.known.contains(&(from, target));
                return answers.then(|| {
                    frame::answer_arp(frame, target, switch_mac(target));
                    Route::Back
                });
            }
            Kind::Tcp(segment) => segment,
        };
        if segment.source != own_address {
            return None;
        }
        let asked = (from, segment.destination, segment.destination_port);
        if let Some(&server) = self.servers.get(&asked) {
            let &(address, mac) = self.guests.get(&server)?;
            let macs = [mac, switch_mac(own_address)];
            frame::readdress(frame, &segment, (End::Destination, address), macs);
            return Some(Route::To(server));
        }
        // A server only responds, and opens no connections.
        let client = Net::number_at(segment.destination).filter(|_| segment.answers)?;
        let &shown = self.shown.get(&(from, client, segment.source_port))?;
        let &(_, mac) = self.guests.get(&client)?;
        let macs = [mac, switch_mac(shown)];
        frame::readdress(frame, &segment, (End::Source, shown), macs);
        Some(Route::To(client))
    }
}

/// Returns the hardware address for an IPv4 address, in the scheme of QEMU's own network.
fn switch_mac(address: Ipv4Addr) -> Mac {
    let [a, b, c, d] = address.octets();
    [0x52, 0x55, a, b, c, d]
}

#[cfg(test)]
mod tests;
