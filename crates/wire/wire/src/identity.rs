//! The identity of a guest that starts from another guest's saved state.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::body::{Body, Reader, Writer, body};

/// A network interface's two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The hardware address.
    pub mac: [u8; 6],
    /// The IP address, as it is used within the guest's host.
    pub ip: Ipv4Addr,
}

impl Body for Option<Addresses> {
    fn write(&self, out: &mut Writer<'_>) {
        out.flag(self.is_some());
        if let Some(Addresses { mac, ip }) = self {
            out.bytes(mac);
            out.bytes(&ip.octets());
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Option<Addresses>> {
        Some(match from.flag()? {
            true => Some(Addresses { mac: from.array()?, ip: from.array::<4>()?.into() }),
            false => None,
        })
    }
}

impl Body for Duration {
    fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.as_secs());
        out.u32(self.subsec_nanos());
    }

    fn read(from: &mut Reader<'_>) -> Option<Duration> {
        let (seconds, ns) = (from.u64()?, from.u32()?);
        // A larger number of nanoseconds would be added to the seconds, and the sum could overflow.
        (ns < 1_000_000_000).then(|| Duration::new(seconds, ns))
    }
}

body! {
    /// The new identity of a guest.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Identity {
        /// The host name.
        pub name: String;
        /// The machine's UUID; the machine id is derived from it.
        pub uuid: [u8; 16];
        /// The boot id of this start.
        pub boot_id: [u8; 16];
        /// The guest's addresses, if it has a network.
        pub addresses: Option<Addresses>;
        /// The seed for the kernel's random numbers: the only secret in the message.
        pub seed: [u8; 32];
        /// The time of day, since 1970.
        pub clock: Duration;
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seed is left out, because debug output gets into logs.
        write!(f, "Identity of {:?}", self.name)
    }
}

/// Formats 16 bytes as a UUID.
pub fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex = bytes.map(|byte| format!("{byte:02x}")).concat();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_comes_back_and_what_is_cut_not_at_all() {
        let addresses = Addresses { mac: [0x52, 0x54, 0, 1, 0, 7], ip: Ipv4Addr::new(10, 1, 0, 7) };
        for addresses in [None, Some(addresses)] {
            let sent = Identity {
                name: "web7".into(),
                uuid: [7; 16],
                boot_id: [8; 16],
                addresses,
                seed: [9; 32],
                clock: Duration::new(1_800_000_000, 999_999_999),
            };
            let mut body = Vec::new();
            sent.write(&mut Writer(&mut body));
            assert_eq!(Identity::read(&mut Reader::new(&body)), Some(sent));
            for short in 0..body.len() {
                assert_eq!(Identity::read(&mut Reader::new(&body[..short])), None);
            }
            let end = body.len() - 4;
            body[end..].copy_from_slice(&1_000_000_000_u32.to_be_bytes());
            assert_eq!(Identity::read(&mut Reader::new(&body)), None, "a second too many");
        }
    }

    #[test]
    fn a_uuid_has_its_dashes() {
        let bytes = std::array::from_fn(|at| at as u8 * 16 + 1);
        assert_eq!(uuid_text(&bytes), "01112131-4151-6171-8191-a1b1c1d1e1f1");
    }
}
