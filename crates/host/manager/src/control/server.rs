//! The server's end of a control socket, in a manager or a farm. No call blocks.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use reactor::{Acceptor, Event, Lookup, PollSet};
use rustix::event::PollFlags;

use super::client::{Client, Gone, Peer};
use super::codec::{LINE_MAX, decode_request, encode_answer};
use super::permission::Rights;
use super::socket::Socket;
use super::{Answer, Ask, Error, Failure};
use crate::config::GroupMay;

/// Maximum number of clients of a manager. If all places are taken, the client that has been silent
/// longest without an open request is disconnected.
pub const CLIENTS_MAX: usize = 32;
/// Maximum number of requests of one client that are served in a turn.
const REQUESTS_A_TURN: usize = 4;
/// Key of the listening socket in a poll set. Keys of clients start at 1.
const LISTENER: u64 = 0;
/// Maximum number of stored notes for the operator. Further notes are dropped.
const NOTES_MAX: usize = 16;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of clients.
    pub clients: usize,
    /// Longest line, in bytes.
    pub line: usize,
}

impl Bounds {
    /// Limits of a manager. Its longest request contains a guest's name and some numbers.
    pub const MANAGER: Bounds = Bounds { clients: CLIENTS_MAX, line: 4096 };
    /// Limits of a farm. Some clients wait for minutes, and commands are long.
    pub const FARM: Bounds = Bounds { clients: 128, line: LINE_MAX };
}

/// Identity of a connection, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// A request to answer with [`Server::answer`], at once or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Connection of the client.
    pub client: ClientId,
    /// Number that the client gave the request.
    pub id: u64,
    /// Process of the client.
    pub peer: Peer,
    /// The request itself.
    pub ask: Ask,
}

/// Address of a client that waits for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// Connection of the client.
    pub client: ClientId,
    /// Number that the client gave the request.
    pub id: u64,
}

/// The socket and its clients.
#[derive(Debug)]
pub struct Server {
    socket: Socket,
    clients: BTreeMap<ClientId, Client>,
    given: u64,
    acceptor: Acceptor,
    left: Vec<ClientId>,
    notes: Vec<String>,
    rights: Rights,
    bounds: Bounds,
}

impl Server {
    /// Creates the socket for the owner and, if given, a group. A live manager with this socket is
    /// an error. The socket of a dead manager is replaced.
    pub fn open(path: &Path, group: Option<&str>, bounds: Bounds) -> Result<Server, Error> {
        Ok(Server {
            socket: Socket::open(path, group)?,
            clients: BTreeMap::new(),
            given: 0,
            acceptor: Acceptor::default(),
            left: Vec::new(),
            notes: Vec::new(),
            rights: Rights {
                group: group.map(|_| GroupMay::default()),
                owner: rustix::process::geteuid().as_raw(),
            },
            bounds,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.socket.path
    }

    /// Returns the same server with these rights of the group's members.
    #[must_use]
    pub fn group_may(mut self, may: GroupMay) -> Server {
        self.rights.group = self.rights.group.map(|_| may);
        self
    }

    /// Adds descriptors to the poll set.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        set.add(LISTENER, self.socket.listener.as_fd(), self.acceptor.flags());
        for (id, client) in &self.clients {
            set.add(id.0, client.stream.as_fd(), client.flags());
        }
    }

    /// Returns the time at which a turn is due even without input.
    pub fn next_ms(&self) -> u64 {
        let has_more = self.clients.values().any(Client::has_more);
        let untils = self.clients.values().map(Client::until_ms);
        let next = untils.chain(self.acceptor.next_ms()).min().unwrap_or(u64::MAX);
        if has_more { 0 } else { next }
    }

    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Returns the clients that have left or were disconnected since the last call.
    pub fn take_left(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.left)
    }

    /// Returns notes for the operator about disconnected clients.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Handles the ready descriptors.
    pub fn turn(&mut self, ready: &[Event], now_ms: u64, asked: &mut Vec<Asked>) {
        let mut gone = Vec::new();
        let mut ready = Lookup::new(ready);
        // The listening socket's event, if any, comes first. An accept is tried in any case.
        ready.flags(LISTENER);
        for (id, client) in &mut self.clients {
            let flags = ready.flags(id.0);
            if let Err(why) = serve(*id, client, self.rights, flags, now_ms, asked) {
                gone.push((*id, why));
            }
        }
        for (id, why) in gone {
            self.disconnect(id, why);
        }
        self.accept(now_ms, asked);
    }

    /// Answers a request. A client that has left needs no response.
    pub fn answer(
        &mut self,
        client: ClientId,
        id: u64,
        answer: &Result<Answer, Failure>,
        now_ms: u64,
    ) {
        let Some(to) = self.clients.get_mut(&client) else { return };
        if let Err(why) = to.answer(&encode_answer(Some(id), answer), now_ms) {
            self.disconnect(client, why);
        }
    }

    /// Removes a client and returns its connection, which continues as a stream after the request.
    /// Input that arrived after the request's line is lost: a client must wait for the response
    /// before it sends more.
    pub fn take(&mut self, client: ClientId) -> Option<UnixStream> {
        self.left.push(client);
        Some(self.clients.remove(&client)?.stream)
    }

    /// Returns a second handle of a client's connection, which stays open until the handle is
    /// closed. The client gets its response, and its later input is for the holder of the handle.
    pub fn lease(&mut self, client: ClientId) -> Option<UnixStream> {
        let client = self.clients.get_mut(&client)?;
        let stream = client.stream.try_clone().ok()?;
        client.leaves_input();
        Some(stream)
    }

    /// Disconnects all clients.
    pub fn hang_up(&mut self) {
        for (id, client) in std::mem::take(&mut self.clients) {
            self.left.push(id);
            client.close();
        }
    }

    fn accept(&mut self, now_ms: u64, asked: &mut Vec<Asked>) {
        let listener = self.socket.listener.as_fd();
        let accepted = self.acceptor.turn(now_ms, || reactor::accept(listener));
        if let Some(why) = accepted.error {
            self.note(format!("The control socket cannot accept clients: {why}"));
        }
        for stream in accepted.streams {
            let Ok(peer) = reactor::peer(&stream) else { continue };
            let peer = Peer { pid: peer.pid.unwrap_or(0), uid: peer.uid, gid: peer.gid };
            if self.clients.len() >= self.bounds.clients && !self.make_room() {
                let mut refused = Client::new(stream, peer, self.bounds.line, now_ms);
                let failure =
                    Failure::new("Too many clients are connected already").help("try again later");
                let _ = refused.answer(&encode_answer(None, &Err(failure)), now_ms);
                continue;
            }
            self.given += 1;
            let id = ClientId(self.given);
            let mut client = Client::new(stream, peer, self.bounds.line, now_ms);
            // Most clients have sent their request before they are accepted.
            match serve(id, &mut client, self.rights, PollFlags::IN, now_ms, asked) {
                Ok(()) => drop(self.clients.insert(id, client)),
                Err(why) => self.note_gone(peer, why),
            }
        }
    }

    /// Disconnects the idle client that has been silent for longest.
    fn make_room(&mut self) -> bool {
        let idle = self.clients.iter().filter(|(_, client)| client.is_idle());
        let Some((id, _)) = idle.min_by_key(|(_, client)| client.active_ms) else { return false };
        self.disconnect(*id, Gone::Displaced);
        true
    }

    fn disconnect(&mut self, id: ClientId, why: Gone) {
        if let Some(client) = self.clients.remove(&id) {
            self.left.push(id);
            self.note_gone(client.peer, why);
            client.close();
        }
    }

    fn note_gone(&mut self, peer: Peer, why: Gone) {
        if let Some(why) = why.why() {
            let Peer { pid, uid, .. } = peer;
            self.note(format!(
                "The control socket's client of user {uid}, process {pid}, was disconnected: {why}"
            ));
        }
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        }
    }
}

/// Serves one client in a turn. Invalid requests and requests without permission are answered here.
fn serve(
    id: ClientId,
    client: &mut Client,
    rights: Rights,
    flags: PollFlags,
    now_ms: u64,
    asked: &mut Vec<Asked>,
) -> Result<(), Gone> {
    client.turn(flags, now_ms)?;
    for _ in 0..REQUESTS_A_TURN {
        let Some(line) = client.next_line()? else { break };
        match decode_request(&line) {
            Ok(request) => {
                let peer = client.peer;
                if let Err(failure) = rights.check(peer, &request.ask) {
                    client.answer(&encode_answer(Some(request.id), &Err(failure)), now_ms)?;
                    continue;
                }
                asked.push(Asked { client: id, id: request.id, peer, ask: request.ask });
            }
            Err(bad) => client.answer(&encode_answer(bad.id, &Err(bad.failure)), now_ms)?,
        }
    }
    Ok(())
}
