//! Readiness of guests' services, probed from the side of their clients.
//!
//! QEMU accepts every connection to a forwarded port even if the guest has no server, so only a
//! response counts. A guest is probed from its hello on until each service has responded once.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use manager::control::ServedPort;
use reactor::{Event, PollSet, is_passing};
use rustix::event::PollFlags;

use crate::config::Probe;

/// A port of a guest, and the probe of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbedPort {
    /// The port.
    pub at: ServedPort,
    /// The probe that shows if the service responds.
    pub probe: Probe,
}

/// Maximum number of guests probed at the same time. More probes would slow down the responses.
const PROBES_MAX: usize = 32;
/// Timeout of a response, after which the probe is sent again.
const ANSWER_MS: u64 = 3_000;
/// First and longest pause between two probes.
const PAUSE_MS: u64 = 50;
const PAUSE_MAX_MS: u64 = 1_000;
/// Timeout of a connection. The kernel connects on the loopback at once, or not at all.
const CONNECT: Duration = Duration::from_millis(50);

/// PostgreSQL's `SSLRequest`. The server answers with one letter, which states if it supports
/// encryption.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Readiness of a guest's services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyState {
    /// The guest is not up yet.
    Starting,
    /// The guest is up, and some of its services have not responded yet.
    Asked,
    /// All services have responded.
    Ready,
    /// The guest has ended.
    Ended,
}

#[derive(Debug)]
struct Guest {
    ports: Vec<ProbedPort>,
    state: ReadyState,
    /// Number of ports that have responded.
    answered: usize,
    probe: Option<TcpStream>,
    /// Time of the current probe, or of the next probe if none is under way.
    at_ms: u64,
    pause_ms: u64,
}

#[derive(Debug)]
pub(super) struct Readiness {
    guests: Vec<Guest>,
    now_ms: u64,
}

impl Readiness {
    pub(super) fn new(ports: Vec<Vec<ProbedPort>>) -> Readiness {
        let guest = |ports: Vec<ProbedPort>| Guest {
            ports: ports.into_iter().filter(|port| port.probe != Probe::None).collect(),
            state: ReadyState::Starting,
            answered: 0,
            probe: None,
            at_ms: 0,
            pause_ms: PAUSE_MS,
        };
        Readiness { guests: ports.into_iter().map(guest).collect(), now_ms: 0 }
    }

    pub(super) fn state(&self, guest: usize) -> ReadyState {
        self.guests[guest].state
    }

    /// Returns the guests with services that have not responded yet.
    pub(super) fn asked(&self) -> impl Iterator<Item = usize> {
        let is_asked = |guest: &Guest| guest.state == ReadyState::Asked;
        (0..).zip(&self.guests).filter(move |(_, guest)| is_asked(guest)).map(|(place, _)| place)
    }

    pub(super) fn is_up(&mut self, guest: usize, now_ms: u64) {
        let guest = &mut self.guests[guest];
        if guest.state == ReadyState::Starting {
            guest.state = ReadyState::Asked;
            guest.at_ms = now_ms;
        }
    }

    pub(super) fn has_ended(&mut self, guest: usize) {
        self.guests[guest].state = ReadyState::Ended;
        self.guests[guest].probe = None;
    }

    pub(super) fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        for (guest, key) in self.guests.iter().zip(0..) {
            if let Some(probe) = &guest.probe {
                set.add(key, probe.as_fd(), PollFlags::IN);
            }
        }
    }

    /// Returns the time of the next probe or timeout.
    pub(super) fn next_ms(&self) -> u64 {
        let asked = self.guests.iter().filter(|guest| guest.state == ReadyState::Asked);
        let due = asked.map(|guest| match guest.probe {
            Some(_) => guest.at_ms + ANSWER_MS,
            None => guest.at_ms,
        });
        due.min().map_or(u64::MAX, |due| due.max(self.now_ms + PAUSE_MS))
    }

    /// Reads responses and sends probes. Returns the guests that have become ready.
    pub(super) fn turn(&mut self, ready: &[Event], now_ms: u64) -> Vec<usize> {
        self.now_ms = now_ms;
        for event in ready {
            self.guests[event.key as usize].read_answer(now_ms);
        }
        let mut open = self.guests.iter().filter(|guest| guest.probe.is_some()).count();
        let mut became = Vec::new();
        for (place, guest) in self.guests.iter_mut().enumerate() {
            if guest.state != ReadyState::Asked {
                continue;
            }
            if guest.answered >= guest.ports.len() {
                guest.state = ReadyState::Ready;
                became.push(place);
            } else if guest.probe.is_some() {
                if now_ms.saturating_sub(guest.at_ms) > ANSWER_MS {
                    guest.later(now_ms);
                }
            } else if now_ms >= guest.at_ms && open < PROBES_MAX {
                guest.ask(now_ms);
                open += usize::from(guest.probe.is_some());
            }
        }
        became
    }
}

impl Guest {
    fn ask(&mut self, now_ms: u64) {
        let Some(port) = self.ports.get(self.answered) else { return };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.at.host));
        let question: &[u8] = match port.probe {
            Probe::Postgres => &SSL_REQUEST,
            Probe::Http | Probe::None => b"HEAD / HTTP/1.0\r\n\r\n",
        };
        let asked = TcpStream::connect_timeout(&address, CONNECT).and_then(|mut stream| {
            stream.set_nonblocking(true)?;
            stream.write_all(question).map(|()| stream)
        });
        match asked {
            Ok(stream) => (self.probe, self.at_ms) = (Some(stream), now_ms),
            Err(_) => self.later(now_ms),
        }
    }

    fn read_answer(&mut self, now_ms: u64) {
        let Some(stream) = &mut self.probe else { return };
        match stream.read(&mut [0; 64]) {
            Ok(1..) => {
                self.answered += 1;
                (self.probe, self.at_ms, self.pause_ms) = (None, now_ms, PAUSE_MS);
            }
            Err(error) if is_passing(&error) => {}
            Ok(0) | Err(_) => self.later(now_ms),
        }
    }

    fn later(&mut self, now_ms: u64) {
        self.probe = None;
        self.at_ms = now_ms + self.pause_ms;
        self.pause_ms = (self.pause_ms * 2).min(PAUSE_MAX_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Runs turns until the state is reached. The clock is stopped while a response is on its way.
    fn until(readiness: &mut Readiness, state: ReadyState) -> Vec<usize> {
        let mut became = Vec::new();
        for now_ms in (0..100_000).step_by(100) {
            let mut set = PollSet::new();
            readiness.fds(&mut set);
            let limit_ms = if set.is_empty() { 0 } else { 60_000 };
            let ready = set.wait(limit_ms).unwrap();
            assert!(limit_ms == 0 || ready.has(0), "nothing comes");
            became.extend(readiness.turn(ready.all(), now_ms));
            if readiness.state(0) == state {
                return became;
            }
        }
        panic!("never {state:?}: {:?}", readiness.state(0));
    }

    #[test]
    fn a_guest_is_ready_when_each_of_its_services_has_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().port();
        let port = |guest, probe| ProbedPort { at: ServedPort { guest, host }, probe };
        let ports = vec![port(80, Probe::Http), port(22, Probe::None), port(5432, Probe::Postgres)];
        let mut readiness = Readiness::new(vec![ports]);
        let server = std::thread::spawn(move || {
            let mut asked = Vec::new();
            // The first connection is accepted and closed, as by QEMU while the guest has no
            // server.
            drop(listener.accept().unwrap());
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut bytes = [0; 64];
                let count = stream.read(&mut bytes).unwrap();
                asked.push(bytes[..count].to_vec());
                stream.write_all(b"x").unwrap();
            }
            asked
        });
        assert_eq!(readiness.state(0), ReadyState::Starting);
        readiness.is_up(0, 0);
        assert_eq!(until(&mut readiness, ReadyState::Ready), [0]);
        let asked = server.join().unwrap();
        assert!(asked[0].starts_with(b"HEAD / "));
        assert_eq!(asked[1], SSL_REQUEST);
        readiness.has_ended(0);
        assert_eq!(readiness.state(0), ReadyState::Ended);
    }

    #[test]
    fn a_guest_without_services_is_ready_when_it_is_up() {
        let mut readiness = Readiness::new(vec![vec![]]);
        assert!(readiness.turn(&[], 0).is_empty());
        readiness.is_up(0, 1);
        assert_eq!(readiness.turn(&[], 2), [0]);
        assert!(readiness.turn(&[], 3).is_empty(), "it is reported once");
        assert_eq!(readiness.next_ms(), u64::MAX);
    }
}
