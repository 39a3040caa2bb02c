//! Origins of connections and requests. Each has a share of its own, which no other uses up.

use std::net::{IpAddr, Ipv4Addr};

/// Where something comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Nobody says: a unix socket.
    Unknown,
    /// This machine, which has very many addresses of its own.
    Local,
    V4(Ipv4Addr),
    /// A site of IPv6: one that has an address of it has all of them, of 65,536 networks.
    Site([u16; 3]),
}

impl Origin {
    /// The origin of an address, if one is known.
    pub(crate) fn of(peer: Option<IpAddr>) -> Origin {
        match peer.map(|peer| peer.to_canonical()) {
            None => Origin::Unknown,
            Some(ip) if ip.is_loopback() => Origin::Local,
            Some(IpAddr::V4(ip)) => Origin::V4(ip),
            Some(IpAddr::V6(ip)) => {
                let [a, b, c, ..] = ip.segments();
                Origin::Site([a, b, c])
            }
        }
    }
}
