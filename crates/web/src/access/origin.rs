//! Origins of connections and requests. Each origin has its own share of the limits.

use std::net::{IpAddr, Ipv4Addr};

/// Origin of a connection or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Unknown origin.
    Unknown,
    /// A user of this machine: a user can connect from very many local addresses.
    User(u32),
    /// This machine, if the kernel does not report the user.
    Local,
    V4(Ipv4Addr),
    /// A site of IPv6, a /48: an owner of one address has all of its 65,536 networks.
    Site([u16; 3]),
}

impl Origin {
    /// The origin of an address.
    pub(crate) fn of(peer: IpAddr) -> Origin {
        match peer.to_canonical() {
            ip if ip.is_loopback() => Origin::Local,
            IpAddr::V4(ip) => Origin::V4(ip),
            IpAddr::V6(ip) => {
                let [a, b, c, ..] = ip.segments();
                Origin::Site([a, b, c])
            }
        }
    }
}
