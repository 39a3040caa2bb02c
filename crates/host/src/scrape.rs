//! The metrics, served to whoever scrapes them: HTTP on loopback or on a socket of its own.
//!
//! ```text
//!   publish(moment) ─► Latest ─► text, made when it is asked for and kept until the next moment
//!                                  │
//!   accept ─► hear one request ────┴─► answer it ─► close
//! ```
//!
//! Nothing here waits. Who asks for something else, asks too slowly or does not take the answer
//! is sent away; whoever asks often is given the same text again.

use crate::control::socket::Socket;
use counters::series::{Moment, Who};
use metrics::http::{HEAD_MAX, Refusal, Request, answer};
use metrics::text::{Format, render};
use metrics::{Latest, Processes};
use rustix::event::PollFlags;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;

/// Clients at once: a host has one or two scrapers.
const CLIENTS_MAX: usize = 16;
/// Clients taken in one turn, so that guests have theirs.
const ACCEPTS_A_TURN: usize = 8;
/// A request must be there after this time,
const REQUEST_MS: u64 = 5_000;
/// and its answer be taken after this one: the text of 100 guests has half a megabyte.
const ANSWER_MS: u64 = 30_000;
/// After a client could not be taken, for want of descriptors, nobody is for this time.
const ACCEPT_PAUSE_MS: u64 = 1000;

/// Where scrapers connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address of this host.
    Tcp(SocketAddr),
    /// A socket in the file system, open to its owner.
    Unix(PathBuf),
}

impl Listen {
    /// As it is written.
    pub fn shown(&self) -> String {
        match self {
            Listen::Tcp(address) => address.to_string(),
            Listen::Unix(path) => path.display().to_string(),
        }
    }

    /// Reads `127.0.0.1:9177`, `[::1]:9177` or `/a/path`.
    pub fn parse(text: &str) -> Option<Listen> {
        match text.starts_with('/') {
            true => Some(Listen::Unix(text.into())),
            false => text.parse().ok().map(Listen::Tcp),
        }
    }
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(Socket),
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
struct Client {
    stream: Stream,
    heard: Vec<u8>,
    /// What is to be sent: a head, and a text that all clients share.
    out: Option<(Vec<u8>, Rc<str>)>,
    sent: usize,
    until_ms: u64,
}

/// A client is done with, well or badly.
struct Done;

/// The server of the metrics.
#[derive(Debug)]
pub struct Scrape {
    listener: Listener,
    clients: Vec<Client>,
    paused_until_ms: Option<u64>,
    text: Text,
}

/// The newest values, and their text in both formats as far as somebody has asked.
#[derive(Debug)]
struct Text {
    latest: Latest,
    host: String,
    version: String,
    made: [Option<Rc<str>>; 2],
}

impl Scrape {
    /// Begins to listen. The metrics carry the host's name.
    pub fn open(
        listen: &Listen,
        host: String,
        version: String,
        processes: Processes,
    ) -> io::Result<Scrape> {
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
        let text = Text { latest: Latest::new(processes), host, version, made: [None, None] };
        Ok(Scrape { listener, clients: Vec::new(), paused_until_ms: None, text })
    }

    /// The address that it has got, of those that were asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    /// Takes the newest values in. Guests that a moment leaves out are shown as they were seen
    /// last, while they are present.
    pub fn publish(&mut self, moment: &Moment, is_present: &dyn Fn(&Who) -> bool) {
        self.text.latest.take(moment, is_present);
        self.text.made = [None, None];
    }

    /// Adds what it waits for.
    pub fn fds<'a>(&'a self, out: &mut Vec<(BorrowedFd<'a>, PollFlags)>) {
        let listener = match &self.listener {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(socket) => socket.listener.as_fd(),
        };
        let is_open = self.paused_until_ms.is_none();
        out.push((listener, if is_open { PollFlags::IN } else { PollFlags::empty() }));
        out.extend(self.clients.iter().map(|client| {
            let flags = if client.out.is_some() { PollFlags::OUT } else { PollFlags::IN };
            (client.stream.fd(), flags)
        }));
    }

    /// When it wants its next turn, even if nothing can be read.
    pub fn next_ms(&self) -> u64 {
        let untils = self.clients.iter().map(|client| client.until_ms);
        untils.chain(self.paused_until_ms).min().unwrap_or(u64::MAX)
    }

    /// Takes what has come and hands over what waits. `ready` has one entry for each descriptor
    /// that the last call of [`fds`](Self::fds) added, in the same order; it may be empty.
    pub fn turn(&mut self, ready: &[PollFlags], now_ms: u64) {
        let Scrape { clients, text, .. } = self;
        let mut flags = ready.iter().skip(1).copied();
        clients.retain_mut(|client| {
            let is_ready = flags.next().is_some_and(|flags| !flags.is_empty());
            if is_ready && client.turn(text, now_ms).is_err() {
                return false;
            }
            now_ms < client.until_ms || client.expire(now_ms).is_ok()
        });
        if self.paused_until_ms.is_some_and(|until| now_ms >= until) {
            self.paused_until_ms = None;
        }
        if self.paused_until_ms.is_none() {
            self.accept(now_ms);
        }
    }

    fn accept(&mut self, now_ms: u64) {
        for _ in 0..ACCEPTS_A_TURN {
            let stream = match self.listener.accept() {
                Ok(stream) => stream,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    // A client that has left while it waited.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => continue,
                    _ => {
                        self.paused_until_ms = Some(now_ms.saturating_add(ACCEPT_PAUSE_MS));
                        return;
                    }
                },
            };
            let mut client = Client {
                stream,
                heard: Vec::new(),
                out: None,
                sent: 0,
                until_ms: now_ms.saturating_add(REQUEST_MS),
            };
            // Most have said what they want before they are taken.
            if client.turn(&mut self.text, now_ms).is_ok() && self.has_room() {
                self.clients.push(client);
            }
        }
    }

    /// Whether there is room for one more; the one that has asked for nothing for longest goes.
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
        let Text { latest, host, version, made } = self;
        let place = match format {
            Format::Prometheus => &mut made[0],
            Format::OpenMetrics => &mut made[1],
        };
        let make = || render(latest.moment(), host, version, format).into();
        Rc::clone(place.get_or_insert_with(make))
    }
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(socket) => {
                let (stream, _) = socket.listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }
        }
    }
}

impl Stream {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }
}

impl Client {
    fn turn(&mut self, text: &mut Text, now_ms: u64) -> Result<(), Done> {
        if self.out.is_none() {
            let mut buffer = [0; HEAD_MAX];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Done),
                Ok(count) => self.heard.extend_from_slice(&buffer[..count]),
                Err(error) if is_passing(&error) => return Ok(()),
                Err(_) => return Err(Done),
            }
            let (head, body): (_, Rc<str>) = match Request::parse(&self.heard) {
                Ok(None) => return Ok(()),
                Ok(Some(Request { wants_body, format })) => {
                    let body = text.get(format);
                    let head = answer(format, body.len());
                    (head, if wants_body { body } else { "".into() })
                }
                Err(refusal) => {
                    // What is left unread would make the kernel cut the answer off.
                    let _ = self.stream.read(&mut buffer);
                    (refusal.answer(), "".into())
                }
            };
            self.heard = Vec::new();
            self.out = Some((head, body));
            self.until_ms = now_ms.saturating_add(ANSWER_MS);
        }
        self.send()
    }

    fn send(&mut self) -> Result<(), Done> {
        let Some((head, body)) = &self.out else { return Ok(()) };
        loop {
            let rest = match self.sent.checked_sub(head.len()) {
                None => &head[self.sent..],
                Some(sent) => &body.as_bytes()[sent..],
            };
            if rest.is_empty() {
                return Err(Done);
            }
            match self.stream.write(rest) {
                Ok(0) => return Err(Done),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => return Ok(()),
                Err(_) => return Err(Done),
            }
        }
    }

    /// Its time is over: who has not asked is told so, once.
    fn expire(&mut self, now_ms: u64) -> Result<(), Done> {
        if self.out.is_some() {
            return Err(Done);
        }
        self.out = Some((Refusal::Timeout.answer(), "".into()));
        self.until_ms = now_ms.saturating_add(REQUEST_MS);
        self.send()
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
