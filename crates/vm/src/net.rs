//! A guest's network: QEMU's own, in user mode, which needs no privilege and leaves nothing behind.
//!
//! ```text
//!   host 127.0.0.1:PORT ─► QEMU ─► the guest's address: its port       (a forward)
//!   guest ─► gateway 10.0.0.2: its port ─► QEMU ─► host 127.0.0.1:PORT
//! ```
//!
//! Each guest sees a network of its own, in which it is alone with the gateway. Its address and
//! its hardware address are made of its number, so that no two guests of a farm share one.

use std::net::Ipv4Addr;

/// Where a guest reaches the services of its host's loopback.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// The network that each guest sees.
pub(crate) const NETWORK: &str = "10.0.0.0/8";

/// The highest number of a guest: its addresses end before the network's broadcast address.
pub const NUMBER_MAX: u32 = (1 << 20) - 1;

/// More forwarded ports than a guest of a farm has services; each is a word for QEMU, and their
/// option has to fit into one argument.
pub const FORWARDS_MAX: usize = 64;

/// Before the first guest's address come the gateway's and those that QEMU would hand out.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 1, 0, 0]);

/// The network of one guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    /// The guest's number in its farm, at most [`NUMBER_MAX`].
    pub number: u32,
    /// What of the guest can be reached from the host's loopback.
    pub forwards: Vec<Forward>,
}

/// A port of the guest, reached at a port of 127.0.0.1 of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The port on the host.
    pub host_port: u16,
    /// The port in the guest.
    pub guest_port: u16,
}

impl Net {
    /// The guest's address.
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from(FIRST_ADDRESS + self.number.min(NUMBER_MAX))
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

    /// QEMU's words for the host's side. Without IPv6, or it would announce itself to the guest
    /// again and again.
    pub(crate) fn backend(&self) -> String {
        let mut words = format!("user,id=net0,ipv6=off,net={NETWORK},host={GATEWAY}");
        for forward in &self.forwards {
            let (host, guest) = (forward.host_port, forward.guest_port);
            words += &format!(",hostfwd=tcp:127.0.0.1:{host}-{}:{guest}", self.address());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(number: u32) -> Net {
        Net { number, forwards: vec![Forward { host_port: 18000, guest_port: 80 }] }
    }

    #[test]
    fn numbers_make_addresses() {
        assert_eq!(net(1).address().to_string(), "10.1.0.1");
        assert_eq!(net(1000).address().to_string(), "10.1.3.232");
        assert_eq!(net(1000).mac(), [0x52, 0x54, 0, 0, 0x03, 0xe8]);
        assert_eq!(net(NUMBER_MAX).address().to_string(), "10.16.255.255");
        let words = net(7).backend();
        assert!(words.ends_with(",hostfwd=tcp:127.0.0.1:18000-10.1.0.7:80"), "{words}");
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
}
