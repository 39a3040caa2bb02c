//! A guest's network: QEMU's own, in user mode, which needs no privilege and leaves nothing behind.
//!
//! ```text
//!   host 127.0.0.1:PORT ─► QEMU ─► the guest's address: its port       (a forward)
//!   host 127.0.0.1:PORT ─► a relay ─► 127.X.X.X:PORT: QEMU, as above   (one that is relayed)
//!   guest ─► QEMU: the gateway 10.0.0.2 answers ARP, DHCP and ping, and refuses the rest
//!
//!   linked guest ─► NetLink::guest ─► a switch, which knows what it may reach ─► other guests
//!                                         └─► NetLink::network ─► QEMU, as above
//! ```
//!
//! A guest is alone on its network: what it sends reaches neither the host's loopback nor its
//! network nor another guest, and what is forwarded to it comes from the gateway. All that a linked
//! guest sends and gets passes a switch of its owner's. Its address and its hardware address
//! are made of its number, so that no two guests of a farm share one.

use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;

use crate::Error;
use crate::random::random;

/// The address that forwarded connections come from; it serves nothing.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// The network that each guest sees.
pub(crate) const NETWORK: &str = "10.0.0.0/8";

/// The highest number of a guest: its addresses end before the network's broadcast address.
pub const NUMBER_MAX: u32 = (1 << 20) - 1;

/// More forwarded ports than a guest of a farm has services; each is a word for QEMU, and their
/// option has to fit into one argument.
pub const FORWARDS_MAX: usize = 64;

/// Before the first guest's address come the gateway's and those that QEMU would hand out.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 1, 0, 0]);

/// The addresses of the loopback for QEMUs behind a relay.
const RELAYED: u32 = u32::from_be_bytes([127, 64, 0, 0]);
const RELAYED_COUNT: u32 = 1 << 22;

/// Where a host says nothing else.
const FIRST_HOST_PORT: u16 = 1024;

/// The network of one guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    /// The guest's number in its farm, at most [`NUMBER_MAX`].
    pub number: u32,
    /// What of the guest can be reached from the host's loopback.
    pub forwards: Vec<Forward>,
    /// Whether its frames pass a switch: see [`crate::NetLink`].
    pub linked: bool,
    /// The address of the host at which QEMU listens for the forwarded ports: the loopback's own,
    /// or [`Net::random_address`] where a relay hands connections on to a QEMU that comes and goes.
    pub listens_at: Ipv4Addr,
}

/// A port of the guest, reached at a port of 127.0.0.1 of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The port on the host.
    pub host_port: u16,
    /// The port in the guest.
    pub guest_port: u16,
}

/// The first port of the host that needs no right to be listened at: no QEMU has any.
pub fn first_host_port() -> u16 {
    let start = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    start.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(FIRST_HOST_PORT)
}

impl Net {
    /// The network of the guest with this number, of which nothing is reached from outside.
    pub fn new(number: u32) -> Net {
        Net { number, forwards: Vec::new(), linked: false, listens_at: Ipv4Addr::LOCALHOST }
    }

    /// The guest's address.
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from(FIRST_ADDRESS + self.number.min(NUMBER_MAX))
    }

    /// An address of the loopback by chance, for one start of a QEMU. One that could be foreseen
    /// might be taken by another process while the guest is away.
    pub fn random_address() -> Result<Ipv4Addr, Error> {
        let number = u32::from_ne_bytes(random()?) % RELAYED_COUNT;
        Ok(Ipv4Addr::from(RELAYED + number))
    }

    /// The number of the guest that has this address, if it is a guest's.
    pub fn number_at(address: Ipv4Addr) -> Option<u32> {
        u32::from(address).checked_sub(FIRST_ADDRESS).filter(|&number| number <= NUMBER_MAX)
    }

    /// The guest's hardware address, among those that QEMU leaves to its users.
    pub fn mac(&self) -> [u8; 6] {
        let [_, high, middle, low] = self.number.min(NUMBER_MAX).to_be_bytes();
        [0x52, 0x54, 0, high, middle, low]
    }

    /// What is wrong with it, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.number > NUMBER_MAX {
            return Some(format!("its number is above {NUMBER_MAX}"));
        }
        if self.forwards.len() > FORWARDS_MAX {
            return Some(format!("it has more than {FORWARDS_MAX} forwarded ports"));
        }
        if self.forwards.iter().any(|forward| forward.host_port == 0 || forward.guest_port == 0) {
            return Some("a forwarded port is 0; ports are 1 to 65535".to_owned());
        }
        None
    }

    /// QEMU's words for its own network. The end towards the guest is called `net0`: this one, or
    /// for a linked guest the first of [`link_backends`](Self::link_backends). Without IPv6, or it
    /// would announce itself to the guest again and again.
    pub(crate) fn backends(&self) -> Vec<String> {
        let id = if self.linked { "user0" } else { "net0" };
        let mut words = format!("user,id={id},ipv6=off,restrict=on,net={NETWORK},host={GATEWAY}");
        for forward in &self.forwards {
            let (host, guest) = (forward.host_port, forward.guest_port);
            let (from, to) = (self.listens_at, self.address());
            words += &format!(",hostfwd=tcp:{from}:{host}-{to}:{guest}");
        }
        let mut all = vec![words];
        // QEMU joins two networks by a hub only.
        all.extend(self.linked.then(|| "hubport,hubid=0,id=hub0,netdev=user0".to_owned()));
        all
    }

    /// QEMU's words for the two ends of a link: sockets of datagrams, each of them a frame.
    pub(crate) fn link_backends(guest: RawFd, network: RawFd) -> [String; 3] {
        [
            format!("socket,id=net0,fd={guest}"),
            format!("socket,id=link0,fd={network}"),
            "hubport,hubid=0,id=hub1,netdev=link0".to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn net(number: u32) -> Net {
        let forwards = vec![Forward { host_port: 18000, guest_port: 80 }];
        Net { forwards, ..Net::new(number) }
    }

    #[test]
    fn numbers_make_addresses() {
        assert_eq!(net(1).address().to_string(), "10.1.0.1");
        assert_eq!(net(1000).address().to_string(), "10.1.3.232");
        assert_eq!(net(1000).mac(), [0x52, 0x54, 0, 0, 0x03, 0xe8]);
        assert_eq!(net(NUMBER_MAX).address().to_string(), "10.16.255.255");
        assert_eq!(Net::number_at(net(1000).address()), Some(1000));
        assert_eq!(Net::number_at(GATEWAY), None);
        assert_eq!(Net::number_at(Ipv4Addr::new(10, 17, 0, 0)), None);
    }

    #[test]
    fn finding2_01_each_qemu_listens_at_another_address() {
        let all: BTreeSet<_> = (0..100).map(|_| Net::random_address().unwrap()).collect();
        assert!(all.len() > 90, "{all:?}");
        assert!(all.iter().all(|one| one.is_loopback() && one.octets()[1] >= 64), "{all:?}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(net(1).fault(), None);
        assert!(net(NUMBER_MAX + 1).fault().is_some());
        let mut wrong = net(1);
        wrong.forwards[0].guest_port = 0;
        assert!(wrong.fault().is_some_and(|fault| fault.contains("1 to 65535")));
        wrong.forwards = vec![Forward { host_port: 1, guest_port: 1 }; FORWARDS_MAX + 1];
        assert!(wrong.fault().is_some());
    }

    #[test]
    fn finding_02_no_network_of_a_guest_leads_out_of_it() {
        for linked in [false, true] {
            let words = Net { linked, ..net(7) }.backends();
            assert!(words[0].contains(",restrict=on,"), "{words:?}");
            assert!(words[0].ends_with(",hostfwd=tcp:127.0.0.1:18000-10.1.0.7:80"), "{words:?}");
            // No other word of a backend can lead anywhere: the rest are ports of the guest's hub.
            assert!(words[1..].iter().all(|word| word.starts_with("hubport,")), "{words:?}");
            assert_eq!(words.len(), if linked { 2 } else { 1 });
        }
    }
}
