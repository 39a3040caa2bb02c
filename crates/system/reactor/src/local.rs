//! Users of this machine that own TCP sockets, as reported by the kernel.
//!
//! One `sock_diag(7)` request for one socket takes some microseconds, for any number of sockets. A
//! list of all sockets, such as `/proc/net/tcp`, would have to be read for each connection.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// `SOCK_DIAG_BY_FAMILY`, the type of request and response.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
/// Length of a request: the header of a message and `struct inet_diag_req_v2`.
const QUESTION: u32 = 16 + 56;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// `IPPROTO_TCP`
const TCP: u8 = 6;
/// `TCP_LISTEN`, the state of a listening socket, which the kernel may return if the connection has
/// no socket.
const LISTEN: u8 = 10;

/// A handle for the kernel's socket diagnostics.
#[derive(Debug)]
pub struct Users(Option<OwnedFd>);

impl Users {
    /// Opens the handle. Without support in the kernel no user is found.
    pub fn open() -> Users {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = Some(netlink::SOCK_DIAG);
        Users(socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, kind).ok())
    }

    /// Returns the user that owns the other end of a connection. Returns `None` if that end is on
    /// another machine or closed, or if the kernel does not answer.
    pub fn of(&self, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
        self.ask(peer, own).filter(|socket| !socket.listens).map(|socket| socket.user)
    }

    /// Returns the user that listens at an address. Returns `None` if there is no listener, or if
    /// the kernel does not answer.
    pub fn listening(&self, at: SocketAddr) -> Option<u32> {
        let nowhere = match at {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        self.ask(at, nowhere).filter(|socket| socket.listens).map(|socket| socket.user)
    }

    /// Returns the socket at address `at` that is connected to `to`, or that listens.
    fn ask(&self, at: SocketAddr, to: SocketAddr) -> Option<Socket> {
        let kernel = self.0.as_ref()?;
        send(kernel, &question(at, to), SendFlags::empty()).ok()?;
        // The response is available as soon as the request is sent.
        let mut answer = [0_u8; 512];
        let (_, length) = recv(kernel, &mut answer[..], RecvFlags::empty()).ok()?;
        socket_in(answer.get(..length)?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    user: u32,
    listens: bool,
}

/// Returns the request for the socket at address `peer` that is connected to `own`.
fn question(peer: SocketAddr, own: SocketAddr) -> Vec<u8> {
    let (peer_ip, family) = written(peer.ip());
    let (own_ip, _) = written(own.ip());
    let [peer_port, own_port] = [peer, own].map(|at| at.port().to_be_bytes());
    let fields: [&[u8]; 12] = [
        &QUESTION.to_ne_bytes(),
        &BY_FAMILY.to_ne_bytes(),
        &REQUEST.to_ne_bytes(),
        // The sequence number and the sender are zero.
        &[0; 8],
        &[family, TCP, 0, 0],
        // The socket may be in any state.
        &[u8::MAX; 4],
        &peer_port,
        &own_port,
        &peer_ip,
        &own_ip,
        // The request has no interface and no cookie.
        &[0; 4],
        &[u8::MAX; 8],
    ];
    fields.concat()
}

/// Returns an address in the request's format, and its family.
fn written(ip: IpAddr) -> ([u8; 16], u8) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            (bytes, AF_INET)
        }
        IpAddr::V6(ip) => (ip.octets(), AF_INET6),
    }
}

/// Parses the socket in a response: a header of 16 bytes, and `struct inet_diag_msg`.
fn socket_in(answer: &[u8]) -> Option<Socket> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let (state, user, inode) = (*answer.get(17)?, number(80)?, number(84)?);
    // A socket without an inode no longer belongs to a process, and the kernel reports root as its
    // user.
    (kind == BY_FAMILY && inode != 0).then_some(Socket { user, listens: state == LISTEN })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn finding2_09_other_end_of_a_connection_has_its_user() {
        let users = Users::open();
        let us = Some(rustix::process::geteuid().as_raw());
        let mut places = vec!["127.0.0.1:0"];
        // A machine may have no IPv6.
        places.extend(TcpListener::bind("[::1]:0").is_ok().then_some("[::1]:0"));
        for place in places {
            let listener = TcpListener::bind(place).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let own = accepted.local_addr().unwrap();
            assert_eq!(users.of(peer, own), us, "{place}");
            drop(client);
            assert_eq!(users.of(peer, own), None, "{place}: it was closed");
        }
    }

    #[test]
    fn finding2_01_listening_address_has_its_user() {
        let users = Users::open();
        let us = Some(rustix::process::geteuid().as_raw());
        let mut places = vec!["127.0.0.1:0"];
        // A machine may have no IPv6.
        places.extend(TcpListener::bind("[::1]:0").is_ok().then_some("[::1]:0"));
        for place in places {
            let listener = TcpListener::bind(place).unwrap();
            let at = listener.local_addr().unwrap();
            assert_eq!(users.listening(at), us, "{place}");
            let client = TcpStream::connect(at).unwrap();
            assert_eq!(users.listening(client.local_addr().unwrap()), None, "{place}");
            drop(listener);
            assert_eq!(users.listening(at), None, "{place}: it was closed");
        }
    }

    #[test]
    fn finding2_09_socket_that_listens_is_nobodys_other_end() {
        let users = Users::open();
        let any = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = any.local_addr().unwrap().port();
        let own = "127.0.0.1:8420".parse().unwrap();
        for peer in ["192.0.2.7", "127.0.0.1", "2001:db8::7"] {
            let peer = SocketAddr::new(peer.parse().unwrap(), port);
            assert_eq!(users.of(peer, own), None, "{peer}");
        }
    }

    #[test]
    fn cut_answers_name_no_user() {
        let mut answer = [0; 100];
        answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        answer[17] = 1;
        answer[80..84].copy_from_slice(&7_u32.to_ne_bytes());
        answer[84] = 1;
        assert_eq!(socket_in(&answer), Some(Socket { user: 7, listens: false }));
        assert!((0..88).all(|length| socket_in(&answer[..length]).is_none()));
        answer[4] = 2;
        assert_eq!(socket_in(&answer), None, "an error");
    }
}
