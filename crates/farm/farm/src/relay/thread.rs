//! The relay thread, which owns all connections.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use reactor::{PollFlags, PollSet, Ready, Users, is_passing};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, getrlimit};

use super::far::Far;
use super::gate::{CLOCK, Gate, Visitor};
use super::pair::Pair;
use crate::news::{News, Teller};

/// Maximum number of clients of one port that wait for their guest's return. The kernel's own
/// default is the same.
pub(super) const WAITING_MAX: i32 = 4096;
/// Maximum number of connections of one guest. The guest's QEMU can open only a limited number of
/// files.
const INSIDE_MAX: usize = 1024;
/// Silence after which a client that has sent data may be displaced by another client.
const IDLE_MAX_MS: u64 = 60_000;
/// Maximum number of connections accepted from one listener at once.
const ACCEPTS_MAX: usize = 64;
/// Maximum number of connections of all guests together. Each connection needs two descriptors, and
/// each guest about ten. At most half of this number of clients may wait for their guests.
const ALL_MAX: usize = 8 * 1024;
/// Pause in accepting when no descriptor, or no place, is left for another client.
const PAUSE_MS: u64 = 100;
/// Longest wait of the idle thread.
const IDLE_MS: u64 = 3_600_000;

/// A forwarded port. Connections to it are relayed to the same port at the address of the guest's
/// QEMU.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) listener: TcpListener,
    pub(super) port: u16,
    pub(super) gate: Arc<Gate>,
    /// Time until which no client is accepted here.
    pub(super) paused_until_ms: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Maximum number of connections of one guest.
    pub(super) inside_max: usize,
    /// Maximum number of connections of all guests together.
    pub(super) all_max: usize,
}

impl Places {
    /// Returns the limits for this process. Each connection needs two open files, and all
    /// connections together use at most half of the files that the process may open.
    pub(super) fn of_this_process() -> Places {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let all_max = ALL_MAX.min(usize::try_from(files / 4).unwrap_or(ALL_MAX));
        Places { inside_max: INSIDE_MAX, all_max }
    }
}

mod owner {
    pub(super) const KNOCK: u64 = 0;
    pub(super) const LISTENERS: u64 = 1;
    pub(super) const CLIENTS: u64 = 2;
    pub(super) const GUESTS: u64 = 3;
    pub(super) const WAITING: u64 = 4;
}

/// A client to let in later, such as a silent client of a parked guest.
#[derive(Debug)]
struct Waiting {
    client: TcpStream,
    port: u16,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Inside {
    pair: Pair,
    port: u16,
    gate: Arc<Gate>,
    has_spoken: bool,
    /// True if the client has sent data.
    has_asked: bool,
    /// Time of the last data from the client, or of its arrival.
    last_ms: u64,
}

impl Inside {
    /// Returns true if the connection may be displaced by another client, because its client has
    /// sent no data, or no data for a long time.
    fn may_be_displaced(&self, now_ms: u64) -> bool {
        !self.has_asked || now_ms.saturating_sub(self.last_ms) >= IDLE_MAX_MS
    }
}

#[derive(Debug)]
struct Thread {
    listening: Vec<Listening>,
    inside: BTreeMap<u64, Inside>,
    /// Waiting clients, the oldest first.
    waiting: BTreeMap<u64, Waiting>,
    next_number: u64,
    /// Time until which no client is accepted anywhere.
    paused_until_ms: u64,
    places: Places,
    /// Kernel interface that reports the user that listens at a QEMU's address.
    users: Users,
}

/// Runs until the owner of the relay is gone.
pub(super) fn run(new: &Receiver<Vec<Listening>>, knocked: &News, told: &Teller, places: Places) {
    let mut thread = Thread {
        listening: Vec::new(),
        inside: BTreeMap::new(),
        waiting: BTreeMap::new(),
        next_number: 0,
        paused_until_ms: 0,
        places,
        users: Users::open(),
    };
    loop {
        let Ok(ready) = thread.wait(knocked) else { return };
        if ready.has(owner::KNOCK) {
            if !knocked.drain() {
                // The fleet is gone.
                return;
            }
            new.try_iter().for_each(|doors| thread.listening.extend(doors));
            thread.look_at_doors();
        }
        if thread.turn(&ready) {
            told.tell();
        }
    }
}

impl Thread {
    fn wait(&self, knocked: &News) -> io::Result<Ready> {
        let mut set = PollSet::new();
        set.owner(owner::KNOCK).add(0, knocked.fd(), PollFlags::IN);
        set.owner(owner::LISTENERS);
        let (now_ms, mut wait_ms) = (CLOCK.ms(), IDLE_MS);
        for (key, one) in (0..).zip(&self.listening) {
            let state = one.gate.lock();
            let paused_until_ms = self.paused_until_ms.max(one.paused_until_ms);
            let is_waited_for = match state.far {
                Some(_) if paused_until_ms > now_ms => {
                    wait_ms = wait_ms.min(paused_until_ms - now_ms);
                    false
                }
                Some(_) => true,
                None => !state.is_wanted,
            };
            if is_waited_for {
                set.add(key, one.listener.as_fd(), PollFlags::IN);
            }
        }
        set.owner(owner::WAITING);
        for (key, one) in &self.waiting {
            let state = one.gate.lock();
            if state.far.is_some() || !state.is_wanted {
                set.add(*key, one.client.as_fd(), PollFlags::IN);
            }
        }
        // A connection that waits for no event is left out. Otherwise poll would report its hang-up
        // forever.
        set.owner(owner::CLIENTS);
        for (key, one) in &self.inside {
            let flags = one.pair.flags()[0];
            if !flags.is_empty() {
                set.add(*key, one.pair.client.as_fd(), flags);
            }
        }
        set.owner(owner::GUESTS);
        for (key, one) in &self.inside {
            let flags = one.pair.flags()[1];
            if !flags.is_empty() {
                set.add(*key, one.pair.guest().as_fd(), flags);
            }
        }
        set.wait(wait_ms)
    }

    /// Applies the changes that owners have made to their doors.
    fn look_at_doors(&mut self) {
        self.listening.retain(|one| !one.gate.lock().is_gone);
        self.waiting.retain(|_, one| !one.gate.lock().is_gone);
        let left: Vec<(u64, Inside)> = self
            .inside
            .extract_if(.., |number, one| !one.gate.lock().inside.contains_key(number))
            .collect();
        for (number, Inside { pair, port, gate, has_spoken, .. }) in left {
            // The guest's end is closed. A silent client may wait for the next QEMU.
            if !has_spoken && !gate.lock().is_gone {
                self.waiting.insert(number, Waiting { client: pair.client, port, gate });
            }
        }
        while self.waiting.len() > self.places.all_max / 2 {
            self.waiting.pop_first();
        }
    }

    fn turn(&mut self, ready: &Ready) -> bool {
        let mut is_news = false;
        for event in ready.of(owner::LISTENERS) {
            is_news |= self.came(event.key as usize);
        }
        for event in ready.of(owner::WAITING) {
            is_news |= self.speaks(event.key);
        }
        for event in ready.of(owner::CLIENTS).iter().chain(ready.of(owner::GUESTS)) {
            self.pass(event.key);
        }
        is_news
    }

    /// Accepts clients. Returns true if the door is closed and its owner has not been notified of a
    /// waiting client yet.
    fn came(&mut self, at: usize) -> bool {
        let Some(gate) = self.listening.get(at).map(|one| Arc::clone(&one.gate)) else {
            return false;
        };
        let room = self.room(&gate);
        let Some(Listening { listener, port, paused_until_ms, .. }) = self.listening.get_mut(at)
        else {
            return false;
        };
        let (port, now_ms, mut clients) = (*port, CLOCK.ms(), Vec::new());
        let is_open = gate.lock().far.is_some();
        if room == 0 && is_open {
            *paused_until_ms = now_ms + PAUSE_MS;
        }
        let far = {
            let mut state = gate.lock();
            let Some(far) = state.far.clone() else {
                return !std::mem::replace(&mut state.is_wanted, true);
            };
            while clients.len() < room {
                let client = match listener.accept() {
                    Ok((client, _)) => client,
                    Err(error) if is_passing(&error) => break,
                    Err(_) => {
                        self.paused_until_ms = now_ms + PAUSE_MS;
                        break;
                    }
                };
                let number = self.next_number;
                self.next_number += 1;
                let visitor = Visitor { came_ms: now_ms, has_spoken: false };
                state.inside.insert(number, visitor);
                clients.push((number, client));
            }
            far
        };
        for (number, client) in clients {
            self.let_in(number, Waiting { client, port, gate: Arc::clone(&gate) }, &far);
        }
        false
    }

    /// Returns the number of free places for clients of an open door. If no place is free, one
    /// client is displaced: a client that has sent no data, or else the client that was idle for
    /// longest.
    fn room(&mut self, gate: &Arc<Gate>) -> usize {
        let of_door = {
            let state = gate.lock();
            if state.far.is_none() {
                return 0;
            }
            self.places.inside_max.saturating_sub(state.inside.len())
        };
        let of_all = self.places.all_max.saturating_sub(self.inside.len());
        if of_door.min(of_all) > 0 {
            return of_door.min(of_all).min(ACCEPTS_MAX);
        }
        let now_ms = CLOCK.ms();
        // The door with the most clients loses one client.
        let fullest = || {
            let doors = self.listening.iter().map(|one| &one.gate);
            doors.max_by_key(|gate| gate.lock().inside.len())
        };
        let from = if of_door == 0 { Some(gate) } else { fullest() };
        let may_go = |one: &Inside| {
            one.may_be_displaced(now_ms) && from.is_some_and(|from| Arc::ptr_eq(&one.gate, from))
        };
        let idle = self.inside.iter().filter(|(_, one)| may_go(one));
        let idlest = idle.map(|(number, one)| (one.has_asked, one.last_ms, *number)).min();
        let Some((.., number)) = idlest else { return 0 };
        if let Some(one) = self.inside.remove(&number) {
            one.gate.lock().inside.remove(&number);
        }
        1
    }

    /// Connects a client that already counts as inside.
    fn let_in(&mut self, number: u64, Waiting { client, port, gate }: Waiting, far: &Far) {
        match pair(client, far, port) {
            Ok(pair) => {
                let one = Inside {
                    pair,
                    port,
                    gate,
                    has_spoken: false,
                    has_asked: false,
                    last_ms: CLOCK.ms(),
                };
                self.inside.insert(number, one);
            }
            Err(_) => drop(gate.lock().inside.remove(&number)),
        }
    }

    /// Handles data from a waiting client, or the end of the client's connection. Returns true if
    /// the door is closed and its owner has not been notified of this client yet.
    fn speaks(&mut self, number: u64) -> bool {
        let Some(one) = self.waiting.get(&number) else { return false };
        if !matches!(one.client.peek(&mut [0; 1]), Ok(1..)) {
            self.waiting.remove(&number);
            return false;
        }
        let gate = Arc::clone(&one.gate);
        let room = self.room(&gate);
        let far = {
            let mut state = gate.lock();
            let Some(far) = state.far.clone() else {
                return !std::mem::replace(&mut state.is_wanted, true);
            };
            if room == 0 {
                // The guest has no place left. If the client stayed, poll would report it forever.
                drop(state);
                self.waiting.remove(&number);
                return false;
            }
            let visitor = Visitor { came_ms: CLOCK.ms(), has_spoken: true };
            state.inside.insert(number, visitor);
            far
        };
        if let Some(waiting) = self.waiting.remove(&number) {
            self.let_in(number, waiting, &far);
        }
        false
    }

    fn pass(&mut self, number: u64) {
        let Some(one) = self.inside.get_mut(&number) else { return };
        // The lock is held until `has_spoken` is updated, so that the door is not closed in
        // between.
        let mut state = one.gate.lock();
        let Some(visitor) = state.inside.get_mut(&number) else { return };
        match one.pair.pass(&self.users) {
            Some((0, 0)) => {}
            Some((sent, _)) => {
                (one.has_spoken, visitor.has_spoken) = (true, true);
                // A server may send first, even to a client that never sends.
                if sent > 0 {
                    (one.has_asked, one.last_ms) = (true, CLOCK.ms());
                }
            }
            None => {
                state.inside.remove(&number);
                drop(state);
                self.inside.remove(&number);
            }
        }
    }
}

/// Starts a connection to the guest, and pairs it with the client's connection.
fn pair(client: TcpStream, far: &Far, port: u16) -> io::Result<Pair> {
    client.set_nonblocking(true)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let guest = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    match connect(&guest, &SocketAddrV4::new(far.address, port)) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let guest = TcpStream::from(guest);
    client.set_nodelay(true)?;
    guest.set_nodelay(true)?;
    Ok(Pair::new(client, guest, far.clone(), port))
}
