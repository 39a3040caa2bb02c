//! Forwarded ports of guests that may be parked on disk. The QEMU of a guest on disk has ended.
//!
//! ```text
//!   client ─► 127.0.0.1:PORT, ours for as long as the farm runs
//!                 │ open: relayed in both ways        │ shut: waits, the guest is wanted
//!                 ▼                                   ▼
//!             127.X.X.X:PORT, QEMU's              news, to the fleet's poll set
//! ```
//!
//! QEMU gets another address at each start. While a guest is away, another process can therefore
//! not take over the guest's address. Data is relayed only if QEMU still runs after the connection
//! to QEMU was made.
//!
//! One thread handles all connections, so relaying uses neither a guest's CPU nor the fleet's loop.
//! A connection without data in either direction survives parking. A client with such a connection
//! is connected again once it sends data.

mod far;
mod gate;
mod pair;
mod thread;

pub(crate) use far::Far;
pub(crate) use gate::Door;

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use vm::Net;

use crate::news::{News, news};
use gate::{Gate, Knock};
use thread::{Listening, Places};

/// The relay thread, started with the first door.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    doors: Sender<Vec<Listening>>,
    knock: Arc<Knock>,
    /// Readable when a client waits at a closed door.
    news: News,
}

impl Relay {
    /// Listens on a guest's forwarded ports. The door is closed at first.
    pub(crate) fn door(&mut self, net: &Net) -> io::Result<Door> {
        if self.running.is_none() {
            self.running = Some(start(Places::of_this_process())?);
        }
        let Some(running) = &self.running else { return Err(io::Error::other("no thread")) };
        let gate = Arc::new(Gate::default());
        let mut listening = Vec::new();
        for forward in &net.forwards {
            let port = forward.host_port;
            let listener = TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
            let failed = |error: io::Error| {
                io::Error::new(error.kind(), format!("cannot listen on port {port}: {error}"))
            };
            let listener = listener.map_err(failed)?;
            listener.set_nonblocking(true)?;
            // The backlog of std is smaller than the number of clients that may wait for a guest's
            // return.
            rustix::net::listen(&listener, thread::WAITING_MAX)?;
            let gate = Arc::clone(&gate);
            listening.push(Listening { listener, port, gate, paused_until_ms: 0 });
        }
        running.doors.send(listening).map_err(|_| io::Error::other("the thread has ended"))?;
        running.knock.knock();
        Ok(Door::new(gate, Arc::clone(&running.knock)))
    }

    /// Returns the descriptor that is readable when a client waits at a closed door.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.running.as_ref()?.news.fd())
    }

    /// Clears the readiness of the descriptor.
    pub(crate) fn drain(&self) {
        self.running.iter().for_each(|running| _ = running.news.drain());
    }
}

fn start(places: Places) -> io::Result<Running> {
    let (news, told) = news()?;
    let (knocked, knock) = crate::news::news()?;
    let (doors, new) = channel();
    let work = move || thread::run(&new, &knocked, &told, places);
    std::thread::Builder::new().name("relay".into()).spawn(work)?;
    Ok(Running { doors, knock: Arc::new(Knock(knock)), news })
}

#[cfg(test)]
mod tests;
