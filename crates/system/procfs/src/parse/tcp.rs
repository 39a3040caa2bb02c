//! /proc/net/tcp: the sockets of IPv4.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::{lines, number, words};

/// State of a socket, from include/net/tcp_states.h, reduced to the states needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// The connection is open at both ends.
    Established,
    /// The other end has shut down its sending side, and may still wait for an answer.
    HalfClosed,
    /// The socket accepts connections.
    Listen,
    /// Any other state: opening or closing.
    Passing,
}

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// The local address and port.
    pub local: SocketAddrV4,
    /// The remote address and port; all zero without a remote end.
    pub remote: SocketAddrV4,
    /// The socket's state.
    pub state: TcpState,
    /// The inode, as in the links of /proc/PID/fd; 0 for a connection that was not accepted yet.
    pub inode: u64,
}

/// Returns all sockets; the heading and malformed lines are skipped. The kernel returns the table
/// in pieces of a page and finds the next piece by counting sockets. A socket may be in several
/// pieces if other sockets are added meanwhile, or in no piece if other sockets are removed.
pub fn parse(text: &[u8]) -> impl Iterator<Item = TcpSocket> {
    lines(text).filter_map(socket)
}

fn socket(line: &[u8]) -> Option<TcpSocket> {
    let mut words = words(line).skip(1);
    let local = words.next()?;
    let remote = words.next()?;
    let state = match words.next()? {
        b"01" => TcpState::Established,
        b"08" => TcpState::HalfClosed,
        b"0A" => TcpState::Listen,
        _ => TcpState::Passing,
    };
    // Queues, a timer, retries, the user and a timeout precede the inode.
    let inode = number(words.nth(5)?)?;
    Some(TcpSocket { local: end(local)?, remote: end(remote)?, state, inode })
}

fn end(text: &[u8]) -> Option<SocketAddrV4> {
    let at = text.iter().position(|byte| *byte == b':')?;
    let (address, port) = (hex(&text[..at], 8)?, hex(&text[at + 1..], 4)?);
    // The kernel prints the four bytes as a number in its own byte order.
    Some(SocketAddrV4::new(Ipv4Addr::from(address.to_ne_bytes()), u16::try_from(port).ok()?))
}

fn hex(digits: &[u8], length: usize) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_hex = digits.len() == length && digits.iter().all(u8::is_ascii_hexdigit);
    is_hex.then(|| u32::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_read_and_what_is_none_is_passed_over() {
        let address = u32::from_ne_bytes([127, 0, 0, 1]);
        let text = format!(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
             timeout inode\n   0: {address:08X}:4650 00000000:0000 0A 00000000:00000000 \
             00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0\n   1: \
             {address:08X}:4650 {address:08X}:D8A4 01 00000000:00000000 00:00000000 00000000     \
             0        0 0 1\n   2: {address:08X}:4651 {address:08X}:D8A5 06 0:0 0:0 0 0 0 7\n\
             3: {address:08X}:4650 {address:08X}:D8A6 08 0:0 0:0 0 0 0 8\n4: 0:1 0:0 0A\nnonsense\n"
        );
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let nobody = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let found: Vec<TcpSocket> = parse(text.as_bytes()).collect();
        let expected = [
            TcpSocket { local: at(18_000), remote: nobody, state: TcpState::Listen, inode: 4711 },
            TcpSocket {
                local: at(18_000),
                remote: at(55_460),
                state: TcpState::Established,
                inode: 0,
            },
            TcpSocket { local: at(18_001), remote: at(55_461), state: TcpState::Passing, inode: 7 },
            TcpSocket {
                local: at(18_000),
                remote: at(55_462),
                state: TcpState::HalfClosed,
                inode: 8,
            },
        ];
        assert_eq!(found, expected);
    }
}
