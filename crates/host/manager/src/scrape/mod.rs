//! The metrics, served over HTTP on loopback or on a separate socket.
//!
//! ```text
//!   publish(moment) ─► Latest ─► text, made when it is asked for and kept until the next moment
//!                                  │
//!   accept ─► read one request ────┴─► answer it ─► close
//! ```
//!
//! No call blocks. A client that sends a wrong or slow request, or does not read its response, is
//! disconnected. Requests in quick succession get the same text.

mod listen;
mod push;

pub use listen::Listen;
pub(crate) use push::{host_name, pushing};

use crate::config::MetricsSettings;
use crate::control::socket::Socket;
use metrics::http::{HEAD_MAX, Refusal, Request, answer};
use metrics::text::{Format, render};
use metrics::{Latest, Processes};
use model::{GuestIdentity, Moment};
use reactor::{Acceptor, Event, Lookup, PollSet, Reply, read_some};
use rustix::event::PollFlags;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// Maximum number of clients. A host has one or two scrapers.
const CLIENTS_MAX: usize = 16;
/// Timeout of a request.
const REQUEST_MS: u64 = 5_000;
/// Timeout of a response. The text of 100 guests has half a megabyte.
const ANSWER_MS: u64 = 30_000;
/// Key of the listening socket in a poll set. Keys of clients start at 1.
const LISTENER: u64 = 0;

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(Socket),
}

#[derive(Debug)]
struct Client {
    key: u64,
    stream: UnixStream,
    input: Vec<u8>,
    /// Response to send. All clients share its text.
    out: Option<Reply>,
    until_ms: u64,
}

/// The end of a client, with or without an error.
struct Done;

/// The server of the metrics.
#[derive(Debug)]
pub struct ScrapeServer {
    listener: Listener,
    clients: Vec<Client>,
    given: u64,
    acceptor: Acceptor,
    text: Text,
}

/// The newest values, and their text in each format that was requested.
#[derive(Debug)]
struct Text {
    latest: Latest,
    processes: Processes,
    host: String,
    version: String,
    made: [Option<Rc<str>>; 2],
}

impl ScrapeServer {
    /// Returns the server if it is configured. A failure is reported to the operator, and does not
    /// stop the management of guests.
    pub(crate) fn of(settings: &MetricsSettings) -> (Option<ScrapeServer>, Option<String>) {
        let Some(listen) = &settings.listen else { return (None, None) };
        let (host, version) = (push::host_name(settings), push::VERSION.to_owned());
        match ScrapeServer::open(listen, host, version, settings.processes) {
            Ok(server) => (Some(server), None),
            Err(error) => {
                (None, Some(format!("Metrics are not served at {}: {error}", listen.shown())))
            }
        }
    }

    /// Starts to listen. The metrics contain the host's name.
    pub fn open(
        listen: &Listen,
        host: String,
        version: String,
        processes: Processes,
    ) -> io::Result<ScrapeServer> {
        let listener = match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Listener::Tcp(listener)
            }
            Listen::Unix(path) => {
                Listener::Unix(Socket::open(path, None).map_err(io::Error::other)?)
            }
        };
        let latest = Latest::new(processes);
        let text = Text { latest, processes, host, version, made: [None, None] };
        let acceptor = Acceptor::default();
        Ok(ScrapeServer { listener, clients: Vec::new(), given: 0, acceptor, text })
    }

    /// Returns the TCP address in use; `None` for a socket in the file system.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    /// Stores the newest values. Present guests that are missing in a moment keep their last
    /// values.
    pub fn publish(&mut self, moment: &Moment, is_present: &dyn Fn(&GuestIdentity) -> bool) {
        self.text.latest.take(moment, is_present);
        self.text.made = [None, None];
    }

    /// Drops all values, because no new values will arrive, and old values must not appear as
    /// current.
    pub fn forget(&mut self) {
        self.text.latest = Latest::new(self.text.processes);
        self.text.made = [None, None];
    }

    /// Adds descriptors to the poll set.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        set.add(LISTENER, self.listener.as_fd(), self.acceptor.flags());
        for client in &self.clients {
            let flags = if client.out.is_some() { PollFlags::OUT } else { PollFlags::IN };
            set.add(client.key, client.stream.as_fd(), flags);
        }
    }

    /// Returns the time at which a turn is due even without input.
    pub fn next_ms(&self) -> u64 {
        let untils = self.clients.iter().map(|client| client.until_ms);
        untils.chain(self.acceptor.next_ms()).min().unwrap_or(u64::MAX)
    }

    /// Handles the ready descriptors.
    pub fn turn(&mut self, ready: &[Event], now_ms: u64) {
        let ScrapeServer { clients, text, .. } = self;
        let mut ready = Lookup::new(ready);
        // The listening socket's event, if any, comes first. An accept is tried in any case.
        ready.flags(LISTENER);
        clients.retain_mut(|client| {
            let is_ready = !ready.flags(client.key).is_empty();
            if is_ready && client.turn(text, now_ms).is_err() {
                return false;
            }
            now_ms < client.until_ms || client.expire(now_ms).is_ok()
        });
        self.accept(now_ms);
    }

    fn accept(&mut self, now_ms: u64) {
        let listener = self.listener.as_fd();
        for stream in self.acceptor.turn(now_ms, || reactor::accept(listener)).streams {
            self.given += 1;
            let mut client = Client {
                key: self.given,
                stream,
                input: Vec::new(),
                out: None,
                until_ms: now_ms.saturating_add(REQUEST_MS),
            };
            // Most clients have sent their request before they are accepted.
            if client.turn(&mut self.text, now_ms).is_ok() && self.has_room() {
                self.clients.push(client);
            }
        }
    }

    /// Returns true if there is room for another client. If all places are taken, the oldest client
    /// without a request is disconnected.
    fn has_room(&mut self) -> bool {
        if self.clients.len() < CLIENTS_MAX {
            return true;
        }
        let silent = self.clients.iter().position(|client| client.out.is_none());
        silent.map(|index| self.clients.remove(index)).is_some()
    }
}

impl Text {
    fn get(&mut self, format: Format) -> Rc<str> {
        let Text { latest, host, version, made, .. } = self;
        let place = match format {
            Format::Prometheus => &mut made[0],
            Format::OpenMetrics => &mut made[1],
        };
        let make = || render(latest.moment(), host, version, format).into();
        Rc::clone(place.get_or_insert_with(make))
    }
}

impl Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(socket) => socket.listener.as_fd(),
        }
    }
}

impl Client {
    fn turn(&mut self, text: &mut Text, now_ms: u64) -> Result<(), Done> {
        if self.out.is_none() {
            let mut buffer = [0; HEAD_MAX];
            let count = read_some(&self.stream, &mut buffer).map_err(|_| Done)?;
            self.input.extend_from_slice(&buffer[..count]);
            let (head, body): (_, Rc<str>) = match Request::parse(&self.input) {
                Ok(None) => return Ok(()),
                Ok(Some(Request { wants_body, format })) => {
                    let body = text.get(format);
                    let head = answer(format, body.len());
                    (head, if wants_body { body } else { "".into() })
                }
                Err(refusal) => {
                    // Unread input would make the kernel reset the connection and truncate the
                    // response.
                    let _ = self.stream.read(&mut buffer);
                    (refusal.answer(), "".into())
                }
            };
            self.input = Vec::new();
            self.out = Some(Reply::new(head, body));
            self.until_ms = now_ms.saturating_add(ANSWER_MS);
        }
        self.send()
    }

    fn send(&mut self) -> Result<(), Done> {
        let Some(reply) = &mut self.out else { return Ok(()) };
        if matches!(reply.send(&self.stream), Ok(false)) { Ok(()) } else { Err(Done) }
    }

    /// Handles a timeout. A client without a request gets a timeout response, once.
    fn expire(&mut self, now_ms: u64) -> Result<(), Done> {
        if self.out.is_some() {
            return Err(Done);
        }
        self.out = Some(Reply::new(Refusal::Timeout.answer(), "".into()));
        self.until_ms = now_ms.saturating_add(REQUEST_MS);
        self.send()
    }
}
