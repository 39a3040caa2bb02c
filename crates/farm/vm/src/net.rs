//! Network of a guest: QEMU's user mode network, which needs no privilege and leaves nothing
//! behind.
//!
//! ```text
//!   host 127.0.0.1:PORT ─► QEMU ─► the guest's address: its port       (a forward)
//!   host 127.0.0.1:PORT ─► a relay ─► 127.X.X.X:PORT: QEMU, as above   (a relayed forward)
//!   guest ─► QEMU: the gateway 10.0.0.2 answers ARP, DHCP and ping, and refuses the rest
//!
//!   linked guest ─► NetLink::guest ─► a switch, which knows what it may reach ─► other guests
//!                                         └─► NetLink::network ─► QEMU, as above
//! ```
//!
//! A guest is alone on its network. Its frames never reach the host's loopback, the host's network
//! or another guest, and forwarded connections come from the gateway. All frames of a linked guest
//! pass through a switch of the guest's owner. The IP and hardware addresses are computed from the
//! guest's number, so that no two guests of a farm share an address.

use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;

use crate::Error;
use crate::random::random;

/// Source address of forwarded connections. The gateway serves nothing.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

pub(crate) const NETWORK: &str = "10.0.0.0/8";

/// Highest number of a guest. The address of this guest lies below the network's broadcast address.
pub const NUMBER_MAX: u32 = (1 << 20) - 1;

/// Maximum number of forwarded ports, far more than a guest of a farm has services. All forwarded
/// ports must fit into one argument of QEMU.
pub const FORWARDS_MAX: usize = 64;

/// First guest's address. The gateway and the addresses that QEMU would hand out by DHCP are lower.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 1, 0, 0]);

/// Loopback addresses for QEMUs behind a relay.
const RELAYED: u32 = u32::from_be_bytes([127, 64, 0, 0]);
const RELAYED_COUNT: u32 = 1 << 22;

/// The kernel's default for the first unprivileged port.
const FIRST_HOST_PORT: u16 = 1024;

/// The network of one guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    /// The guest's number in its farm, at most [`NUMBER_MAX`].
    pub number: u32,
    /// The guest's ports that can be reached from the host's loopback.
    pub forwards: Vec<Forward>,
    /// Set if the guest's frames pass through a switch: see [`crate::NetLink`].
    pub linked: bool,
    /// The host's address at which QEMU listens for the forwarded ports. Without a relay, the
    /// address is 127.0.0.1. A relay forwards connections to a QEMU that is restarted at times.
    /// Behind a relay, QEMU listens at a [`Net::random_address`].
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

/// Returns the first port of the host that needs no privilege. QEMU never has such a privilege.
pub fn first_host_port() -> u16 {
    let start = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    start.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(FIRST_HOST_PORT)
}

impl Net {
    /// Returns the network of the guest with this number, without forwarded ports.
    pub fn new(number: u32) -> Net {
        Net { number, forwards: Vec::new(), linked: false, listens_at: Ipv4Addr::LOCALHOST }
    }

    /// Returns the guest's address.
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from(FIRST_ADDRESS + self.number.min(NUMBER_MAX))
    }

    /// Returns a random address of the loopback for one start of a QEMU. Another process could take
    /// a predictable address while the guest is away.
    pub fn random_address() -> Result<Ipv4Addr, Error> {
        let number = u32::from_ne_bytes(random()?) % RELAYED_COUNT;
        Ok(Ipv4Addr::from(RELAYED + number))
    }

    /// Returns the number of the guest with this address. `None` means that no guest has this
    /// address.
    pub fn number_at(address: Ipv4Addr) -> Option<u32> {
        u32::from(address).checked_sub(FIRST_ADDRESS).filter(|&number| number <= NUMBER_MAX)
    }

    /// Returns the guest's hardware address, from the range that QEMU leaves to its users.
    pub fn mac(&self) -> [u8; 6] {
        let [_, high, middle, low] = self.number.min(NUMBER_MAX).to_be_bytes();
        [0x52, 0x54, 0, high, middle, low]
    }

    /// Returns the error in the settings; `None` if they are valid.
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

    /// Returns QEMU's arguments for its own network. The backend towards the guest is called
    /// `net0`. For a linked guest, the first of [`link_backends`](Self::link_backends) has this
    /// name instead. IPv6 is off, because QEMU would announce itself to the guest forever.
    pub(crate) fn backends(&self) -> Vec<String> {
        let id = if self.linked { "user0" } else { "net0" };
        let mut words = format!("user,id={id},ipv6=off,restrict=on,net={NETWORK},host={GATEWAY}");
        for forward in &self.forwards {
            let (host, guest) = (forward.host_port, forward.guest_port);
            let (from, to) = (self.listens_at, self.address());
            words += &format!(",hostfwd=tcp:{from}:{host}-{to}:{guest}");
        }
        let mut all = vec![words];
        // QEMU can join two networks only through a hub.
        all.extend(self.linked.then(|| "hubport,hubid=0,id=hub0,netdev=user0".to_owned()));
        all
    }

    /// Returns QEMU's arguments for the two ends of a link. Each end is a datagram socket with one
    /// frame per datagram.
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
    fn impossible_settings_are_named() {
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
            // The other parts of a backend are ports of the guest's hub, so they lead nowhere else.
            assert!(words[1..].iter().all(|word| word.starts_with("hubport,")), "{words:?}");
            assert_eq!(words.len(), if linked { 2 } else { 1 });
        }
    }
}
