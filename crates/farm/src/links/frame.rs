//! A frame of Ethernet, as far as a switch between guests needs it: ARP, and TCP over IPv4.
//!
//! ```text
//!   0 destination (6)   6 source (6)   12 type (2)
//!   ARP   14 ethernet, IPv4 (6)  20 operation (2)  22 sender (6, 4)  32 target (6, 4)
//!   IPv4  14 version, length  16 total  20 fragment  23 protocol  24 sum  26 source  30 target
//!   TCP   its ports (2, 2), at 13 its flags, at 16 its sum
//! ```
//!
//! Guests write these bytes: nothing is read that was not found to be there.

use std::net::Ipv4Addr;

/// A hardware address.
pub(super) type Mac = [u8; 6];

const TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const TYPE_ARP: [u8; 2] = [0x08, 0x06];
/// Ethernet and IPv4, with addresses of 6 and 4 bytes; a question.
const ARP_QUESTION: [u8; 8] = [0, 1, 0x08, 0, 6, 4, 0, 1];
const ARP_END: usize = 42;
const IP_START: usize = 14;
const TCP_MIN: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const FLAG_RST: u8 = 0x04;
const FLAG_ACK: u8 = 0x10;
/// All but "do not fragment": more fragments, and where this one is.
const FRAGMENT: [u8; 2] = [0x3f, 0xff];

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Who has this address?
    ArpQuestion { sender: Ipv4Addr, target: Ipv4Addr },
    /// A whole segment.
    Tcp(Segment),
}

/// What a switch looks at in a segment of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub source_port: u16,
    pub destination_port: u16,
    /// Whether it belongs to a connection that the other side has asked for.
    pub answers: bool,
    /// Where TCP begins in the frame.
    tcp: usize,
}

/// Reads a frame; `None` for what is not well formed or of another kind.
pub(super) fn read(frame: &[u8]) -> Option<Kind> {
    match bytes(frame, 12)? {
        TYPE_ARP => {
            let is_whole = frame.len() >= ARP_END && bytes(frame, IP_START)? == ARP_QUESTION;
            // Who asks for somebody else is not answered.
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

/// The hardware address of the frame's sender.
pub(super) fn sender(frame: &[u8]) -> Option<Mac> {
    bytes(frame, 6)
}

/// Which end of a segment gets another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
}

/// Gives one end of a segment another address, and the frame its hardware addresses. Sums that
/// were right stay right, and wrong ones wrong.
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

/// Makes the answer of a question in its place: this address has this hardware address.
pub(super) fn answer_arp(frame: &mut [u8], target: Ipv4Addr, mac: Mac) {
    let Some(asker) = bytes::<10>(frame, 22) else { return };
    put(frame, 0, &asker[..6]);
    put(frame, 6, &mac);
    put(frame, 20, &[0, 2]);
    put(frame, 22, &mac);
    put(frame, 28, &target.octets());
    put(frame, 32, &asker);
}

/// A sum of the internet's kind when one address in what is summed up has changed: RFC 1624, its
/// equation 3.
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
