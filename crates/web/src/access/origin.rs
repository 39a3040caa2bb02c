//! Origins of connections and requests. Each has a share of its own, which no other uses up.

use std::net::{IpAddr, Ipv4Addr};

/// Where something comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Nobody says.
    Unknown,
    /// A user of this machine, which has very many addresses of its own.
    User(u32),
    /// This machine, where the kernel does not tell the user.
    Local,
    V4(Ipv4Addr),
    /// A site of IPv6: one that has an address of it has all of them, of 65,536 networks.
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
