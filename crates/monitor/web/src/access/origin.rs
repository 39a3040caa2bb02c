//! Origins of connections and requests. Every origin has its own share of the limits.

use std::net::{IpAddr, Ipv4Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Unknown origin.
    Unknown,
    /// A user of this machine. The user counts as one origin, because one user can connect from
    /// many local addresses.
    User(u32),
    /// This machine, if the kernel does not report the user.
    Local,
    V4(Ipv4Addr),
    /// A /48 network of IPv6. The network counts as one origin, because one owner has all of its
    /// 65,536 subnets.
    Site([u16; 3]),
}

impl Origin {
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
