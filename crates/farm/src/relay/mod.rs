//! Forwarded ports of guests whose QEMU comes and goes.
//!
//! ```text
//!   client ─► 127.0.0.1:PORT, ours for as long as the farm runs
//!                 │ open: handed on, both ways        │ shut: waits, and its guest is wanted
//!                 ▼                                   ▼
//!             127.X.X.X:PORT, QEMU's              news, to the fleet's poll set
//! ```
//!
//! QEMU's address is another one at each start. While a guest is away there is none that somebody
//! else could hold, and what is connected is passed on only if that QEMU still ran afterwards.
//!
//! One thread has all connections: what it passes on costs a guest's CPU nothing, and the fleet's
//! loop does not see it. Who has said nothing yet, and was told nothing, does not notice that its
//! guest is parked: such a client is connected anew when it speaks.

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

/// The thread, from the first door on.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    doors: Sender<Vec<Listening>>,
    knock: Arc<Knock>,
    /// Readable when somebody waits at a door that is shut.
    news: News,
}

impl Relay {
    /// Listens at a guest's forwarded ports. The door is shut.
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
                io::Error::new(error.kind(), format!("port {port} cannot be listened at: {error}"))
            };
            let listener = listener.map_err(failed)?;
            listener.set_nonblocking(true)?;
            // std's own has room for fewer than may wait until a guest is back.
            rustix::net::listen(&listener, thread::WAITING_MAX)?;
            let gate = Arc::clone(&gate);
            listening.push(Listening { listener, port, gate, paused_until_ms: 0 });
        }
        running.doors.send(listening).map_err(|_| io::Error::other("the thread has ended"))?;
        running.knock.knock();
        Ok(Door::new(gate, Arc::clone(&running.knock)))
    }

    /// What becomes readable when somebody waits at a door that is shut.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.running.as_ref()?.news.fd())
    }

    /// Forgets that it was readable.
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
