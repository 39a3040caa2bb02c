//! Forwarded ports of a guest, observed without its QEMU.
//!
//! A stopped QEMU accepts no connection, but its listening sockets stay open. The kernel queues
//! connections and their data until QEMU continues. Duplicates of QEMU's sockets show that a client
//! waits, so no proxy is needed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use procfs::parse::tcp::{self, TcpSocket, TcpState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use crate::{Process, sys};

const SOCKETS: &str = "/proc/net/tcp";
/// Maximum number of clients that may wait at one port until the guest is awake. The kernel's own
/// default is the same.
const WAITING_MAX: i32 = 4096;
/// Time after which a guest is assumed to have read and answered a client's data.
const QUIET_MS: u32 = 2_000;

/// Duplicates of QEMU's sockets at its guest's forwarded ports: the listening sockets, and the
/// sockets of connected clients.
#[derive(Debug, Default)]
pub struct PortSockets {
    listeners: Vec<OwnedFd>,
    clients: Vec<OwnedFd>,
    connections: usize,
}

impl PortSockets {
    /// Duplicates the sockets at these ports of the host's loopback. The error names a port on
    /// which no process listens.
    pub fn of(qemu: &Process, ports: &[u16]) -> io::Result<PortSockets> {
        if ports.is_empty() {
            return Ok(PortSockets::default());
        }
        let process = qemu.descriptor()?;
        let at_ports = at(&fs::read(SOCKETS)?, ports)?;
        let by_inode: BTreeMap<u64, TcpState> =
            at_ports.iter().map(|one| (one.inode, one.state)).collect();
        let (mut listeners, mut clients) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(format!("/proc/{}/fd", qemu.id()))? {
            let entry = entry?;
            // The descriptor was closed meanwhile.
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let inode = target.to_str().and_then(|target| target.strip_prefix("socket:["));
            let inode = inode.and_then(|rest| rest.strip_suffix(']')?.parse::<u64>().ok());
            let Some(state) = inode.and_then(|inode| by_inode.get(&inode)) else { continue };
            // A client that has shut down its sending side is always readable (end of stream), so
            // it is not polled.
            let ours = match state {
                TcpState::Listen => &mut listeners,
                TcpState::Established => &mut clients,
                TcpState::HalfClosed | TcpState::Passing => continue,
            };
            if let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                ours.push(pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?);
            }
        }
        if listeners.len() < ports.len() {
            return Err(io::Error::other("another process uses them"));
        }
        for socket in &listeners {
            // QEMU requests a backlog of one client, which is too short for a parked guest.
            rustix::net::listen(socket, WAITING_MAX)?;
        }
        let connections = at_ports.iter().filter(|one| one.state != TcpState::Listen).count();
        Ok(PortSockets { listeners, clients, connections })
    }

    /// Returns the descriptors that become readable when a client waits.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listeners.iter().chain(&self.clients).map(AsFd::as_fd)
    }

    /// Returns true if all clients are quiet. A quiet client has sent nothing for two seconds, and
    /// its connection accepts more data from the guest.
    pub fn are_quiet(&self) -> io::Result<bool> {
        for client in &self.clients {
            let mut writable = [PollFd::new(client, PollFlags::OUT)];
            if sys::heard(client.as_fd())?.ago_ms < QUIET_MS
                || poll(&mut writable, Some(&Timespec::default()))? == 0
            {
                return Ok(false);
            }
        }
        // A client that has shut down its sending side is not in `clients`, but waits for its last
        // answer.
        Ok(self.connections == self.clients.len())
    }

    /// Returns the number of connected clients, including those that QEMU has not accepted yet.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Returns the number of clients that connected at least this long ago and have sent nothing
    /// yet.
    pub fn silent(&self, for_ms: u32) -> io::Result<usize> {
        let mut silent = 0;
        for client in &self.clients {
            let heard = sys::heard(client.as_fd())?;
            silent += usize::from(heard.bytes == 0 && heard.ago_ms >= for_ms);
        }
        Ok(silent)
    }

    /// Returns true if a client has connected or sent data. Connections closed by their clients are
    /// dropped, because nobody waits for the guest's reaction to a close.
    pub fn are_wanted(&mut self) -> bool {
        let mut has_spoken = false;
        self.clients.retain(|client| {
            match recv(client, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                // The client has closed, and everything it sent was read.
                Ok((_, 0)) => return false,
                Ok(_) => has_spoken = true,
                Err(error) => return error == rustix::io::Errno::AGAIN,
            }
            true
        });
        let come = self.listeners.iter();
        let mut come: Vec<_> =
            come.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        // A failed poll counts as a waiting client.
        has_spoken || poll(&mut come, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
    }
}

/// Returns the sockets at these ports that listen or are connected. The error names a port on which
/// no process listens.
fn at(text: &[u8], ports: &[u16]) -> io::Result<Vec<TcpSocket>> {
    let is_ours = |one: &TcpSocket| {
        one.state != TcpState::Passing
            && one.local.ip().is_loopback()
            && ports.contains(&one.local.port())
    };
    let mut all: Vec<TcpSocket> = tcp::parse(text).filter(is_ours).collect();
    // The table lists a socket several times if other sockets are added during the read.
    let ends = |one: &TcpSocket| (one.local, one.remote);
    all.sort_by_key(ends);
    all.dedup_by_key(|one| ends(one));
    let listens =
        |port: u16| all.iter().any(|one| one.state == TcpState::Listen && one.local.port() == port);
    match ports.iter().find(|port| !listens(**port)) {
        Some(port) => Err(io::Error::other(format!("no process listens on port {port}"))),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::process::Command;
    use std::time::Duration;

    fn is_ready(sockets: &PortSockets, wait: Duration) -> bool {
        let mut set: Vec<_> =
            sockets.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        poll(&mut set, Some(&Timespec::try_from(wait).unwrap())).unwrap() > 0
    }

    /// Starts a process that has inherited a listening socket and accepts no connection.
    fn listening() -> (Process, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut command = Command::new("sleep");
        command.arg("1000");
        (Process::start(command, vec![OwnedFd::from(listener)]).unwrap(), port)
    }

    #[test]
    fn client_of_stopped_process_is_seen_and_not_lost() {
        let (process, port) = listening();
        process.pause().unwrap();
        let sockets = PortSockets::of(&process, &[port]).unwrap();
        assert!(!is_ready(&sockets, Duration::ZERO));
        assert_eq!(sockets.connections(), 0);
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(is_ready(&sockets, Duration::from_secs(60)));
        assert_eq!(PortSockets::of(&process, &[port]).unwrap().connections(), 1);
        // The number of clients exceeds the backlog that the process requested. One more client has
        // shut down its sending side.
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
        let more: Vec<_> = (0..8).map(connect).collect();
        more[0].shutdown(std::net::Shutdown::Write).unwrap();
        let all = || PortSockets::of(&process, &[port]).unwrap().connections();
        assert_eq!(all(), 9);
        assert!(!PortSockets::of(&process, &[port]).unwrap().are_quiet().unwrap(), "not accepted");
        process.go_on().unwrap();
    }

    #[test]
    fn a_client_is_quiet_when_it_has_sent_nothing_for_a_while() {
        let (client, sockets) = connected();
        assert!(!sockets.are_quiet().unwrap(), "it has just come");
        until("it has sent nothing for long", || sockets.are_quiet().unwrap());
        (&client).write_all(b"x").unwrap();
        assert!(!sockets.are_quiet().unwrap());
        let half = PortSockets { connections: 1, ..PortSockets::default() };
        assert!(!half.are_quiet().unwrap(), "a half-closed client waits for an answer");
    }

    /// A client and the two ends of its connection.
    fn connected() -> (TcpStream, PortSockets) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let clients = vec![accepted.into()];
        (client, PortSockets { clients, connections: 1, ..PortSockets::default() })
    }

    fn until(what: &str, mut so: impl FnMut() -> bool) {
        let deadline = crate::Deadline::after(Duration::from_secs(60));
        while !so() {
            assert!(deadline.remaining().is_some(), "{what}");
            // This process does not exit, so the call only sleeps.
            let _ = crate::wait_for_exit(std::process::id(), Duration::from_millis(10));
        }
    }

    #[test]
    fn a_client_is_silent_until_it_has_ever_sent_something() {
        let (client, sockets) = connected();
        assert_eq!(sockets.silent(60_000).unwrap(), 0, "it has just come");
        until("it has sent nothing for long", || sockets.silent(50).unwrap() == 1);
        (&client).write_all(b"x").unwrap();
        until("what it has sent is there", || sockets.silent(0).unwrap() == 0);
        assert!(!sockets.are_quiet().unwrap());
    }

    #[test]
    fn closed_client_is_dropped_unless_it_has_sent_data() {
        let (client, mut sockets) = connected();
        assert!(!sockets.are_wanted());
        client.shutdown(std::net::Shutdown::Both).unwrap();
        until("it has gone", || !sockets.are_wanted() && sockets.fds().count() == 0);
        let (client, mut sockets) = connected();
        (&client).write_all(b"x").unwrap();
        client.shutdown(std::net::Shutdown::Both).unwrap();
        until("it has sent something", || sockets.are_wanted());
        assert_eq!(sockets.fds().count(), 1);
    }

    #[test]
    fn a_connection_that_the_table_has_twice_is_one() {
        let end = |port: u16| format!("{:08X}:{port:04X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let line =
            |remote: &str, state| format!("0: {} {remote} {state} 0:0 0:0 0 0 0 7\n", end(80));
        let client = line(&end(50_000), "01");
        let text = [line("00000000:0000", "0A"), client.clone(), line(&end(50_001), "01"), client];
        assert_eq!(at(text.concat().as_bytes(), &[80]).unwrap().len(), 3);
    }

    #[test]
    fn a_port_of_nobody_or_of_another_is_said_so() {
        let (process, _) = listening();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = PortSockets::of(&process, &[port]).unwrap_err().to_string();
        assert_eq!(error, "another process uses them");
        // Another test may start a process that holds a copy of this socket. A drop would then not
        // close the socket.
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        let error = PortSockets::of(&process, &[port]).unwrap_err().to_string();
        assert_eq!(error, format!("no process listens on port {port}"));
        assert_eq!(PortSockets::of(&process, &[]).unwrap().fds().count(), 0);
    }
}
