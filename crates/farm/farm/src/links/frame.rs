//! Parser of Ethernet frames, as far as a switch between guests needs it: ARP, and TCP over IPv4.
//!
//! ```text
//!   0 destination (6)   6 source (6)   12 type (2)
//!   ARP   14 ethernet, IPv4 (6)  20 operation (2)  22 sender (6, 4)  32 target (6, 4)
//!   IPv4  14 version, length  16 total  20 fragment  23 protocol  24 sum  26 source  30 target
//!   TCP   its ports (2, 2), at 13 its flags, at 16 its sum
//! ```
//!
//! Guests write these bytes, so every access is checked against the frame's length.

use std::net::Ipv4Addr;

pub(super) type Mac = [u8; 6];

const TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const TYPE_ARP: [u8; 2] = [0x08, 0x06];
/// Fields of an ARP request for 6-byte Ethernet and 4-byte IPv4 addresses.
const ARP_QUESTION: [u8; 8] = [0, 1, 0x08, 0, 6, 4, 0, 1];
const ARP_END: usize = 42;
const IP_START: usize = 14;
const TCP_MIN: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const FLAG_RST: u8 = 0x04;
const FLAG_ACK: u8 = 0x10;
/// Mask of the bits that mark a fragment: "more fragments" and the fragment offset. Only "do not
/// fragment" may be set in a whole packet.
const FRAGMENT: [u8; 2] = [0x3f, 0xff];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An ARP request for the target address.
    ArpQuestion { sender: Ipv4Addr, target: Ipv4Addr },
    /// A whole TCP segment.
    Tcp(Segment),
}

/// The fields of a TCP segment that the switch uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub source_port: u16,
    pub destination_port: u16,
    /// True if the segment can only belong to a connection that the other side has opened.
    pub answers: bool,
    /// Offset of the TCP header in the frame.
    tcp: usize,
}

/// Parses a frame. Returns `None` for a malformed frame and for a frame of another kind.
pub(super) fn read(frame: &[u8]) -> Option<Kind> {
    match bytes(frame, 12)? {
        TYPE_ARP => {
            let is_whole = frame.len() >= ARP_END && bytes(frame, IP_START)? == ARP_QUESTION;
            // A request that claims to come from another host gets no response.
            let is_own = bytes::<6>(frame, 22) == sender(frame);
            let (sender, target) = (address(frame, 28)?, address(frame, 38)?);
            (is_whole && is_own).then_some(Kind::ArpQuestion { sender, target })
        }
        TYPE_IPV4 => segment(frame).map(Kind::Tcp),
        _ => None,
    }
}

fn segment(frame: &[u8]) -> Option<Segment> {
    let ip = frame.get(IP_START..)?;
    let [version_and_length] = bytes(ip, 0)?;
    let header = usize::from(version_and_length & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes(bytes(ip, 2)?));
    let fragment: [u8; 2] = bytes(ip, 6)?;
    let is_part = fragment.iter().zip(FRAGMENT).any(|(byte, mask)| byte & mask != 0);
    let [protocol] = bytes(ip, 9)?;
    let is_tcp = version_and_length >> 4 == 4 && protocol == PROTOCOL_TCP;
    if !is_tcp || is_part || header < 20 || total > ip.len() || total < header + TCP_MIN {
        return None;
    }
    let tcp = IP_START + header;
    let [flags] = bytes(frame, tcp + 13)?;
    Some(Segment {
        source: address(frame, 26)?,
        destination: address(frame, 30)?,
        source_port: u16::from_be_bytes(bytes(frame, tcp)?),
        destination_port: u16::from_be_bytes(bytes(frame, tcp + 2)?),
        answers: flags & (FLAG_ACK | FLAG_RST) != 0,
        tcp,
    })
}

pub(super) fn sender(frame: &[u8]) -> Option<Mac> {
    bytes(frame, 6)
}

/// The end of a segment that gets another address: sender or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
}

/// Replaces the address of one end of a segment, and the frame's hardware addresses. A correct
/// checksum stays correct, and a wrong one stays wrong.
pub(super) fn readdress(
    frame: &mut [u8],
    segment: &Segment,
    (end, to): (End, Ipv4Addr),
    [mac_destination, mac_source]: [Mac; 2],
) {
    let (at, from) = match end {
        End::Source => (26, segment.source),
        End::Destination => (30, segment.destination),
    };
    put(frame, at, &to.octets());
    for sum in [24, segment.tcp + 16] {
        if let Some(old) = bytes(frame, sum) {
            put(frame, sum, &changed_sum(old, from, to));
        }
    }
    put(frame, 0, &mac_destination);
    put(frame, 6, &mac_source);
}

/// Turns an ARP request into a response that assigns the hardware address `mac` to `target`.
pub(super) fn answer_arp(frame: &mut [u8], target: Ipv4Addr, mac: Mac) {
    let Some(asker) = bytes::<10>(frame, 22) else { return };
    put(frame, 0, &asker[..6]);
    put(frame, 6, &mac);
    put(frame, 20, &[0, 2]);
    put(frame, 22, &mac);
    put(frame, 28, &target.octets());
    put(frame, 32, &asker);
}

/// Returns an internet checksum after one address in the summed data has changed (RFC 1624,
/// equation 3).
fn changed_sum(sum: [u8; 2], from: Ipv4Addr, to: Ipv4Addr) -> [u8; 2] {
    let words = |address: Ipv4Addr| {
        let bits = u32::from(address);
        [bits >> 16, bits & 0xffff]
    };
    let mut all = u32::from(!u16::from_be_bytes(sum));
    for (old, new) in words(from).into_iter().zip(words(to)) {
        all += (old ^ 0xffff) + new;
    }
    while all > 0xffff {
        all = (all >> 16) + (all & 0xffff);
    }
    let folded = u16::try_from(all).unwrap_or(u16::MAX);
    (!folded).to_be_bytes()
}

fn address(frame: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes::<4>(frame, at).map(Ipv4Addr::from)
}

fn bytes<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}

fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = frame.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}
