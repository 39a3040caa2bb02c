//! The switch between linked guests: a thread that waits for frames and forwards them.
//!
//! The switch has its own thread, so that frames and the loop over a thousand guests never wait for
//! each other. The thread sleeps while no linked guest sends, and ends when the last [`Switch`] is
//! dropped.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use reactor::{Budget, is_passing};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use vm::{Clock, Error, NetLink};

use super::Link;
use super::router::{Route, Router};
use crate::news::{News, Teller, news};

/// Longest frame of a guest: 1,500 bytes of payload and the header.
const FRAME_MAX: usize = 1514;
/// Maximum number of frames per second from a guest, and from its QEMU's network. The limit allows
/// 30 MB/s in full frames, and bounds the CPU time that one guest costs the host.
const FRAMES_A_SECOND: u64 = 20_000;
const FRAMES_AT_ONCE: u64 = 4_000;
/// Maximum number of frames from one guest before the next guest's turn.
const FRAMES_A_TURN: usize = 64;
/// Interval at which paused guests are checked.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const EVENTS_MAX: usize = 64;
/// Event data of the wake-up socket. `NETWORK` is a bit that is added to a guest's number, for the
/// socket of its QEMU's network.
const WAKE: u64 = u64::MAX;
const NETWORK: u64 = 1 << 32;

/// Handle of the switch between the guests of a farm. The default links no guests.
#[derive(Clone, Debug, Default)]
pub struct Switch(Option<Arc<Handle>>);

#[derive(Debug)]
struct Handle {
    changes: Sender<(u32, Option<NetLink>)>,
    wake: Teller,
}

impl Switch {
    /// Starts a switch with only these links. Without links there is no thread.
    pub fn start(links: &[Link]) -> Result<Switch, Error> {
        if links.is_empty() {
            return Ok(Switch::default());
        }
        let failed = |source| Error::Channel { channel: "switch", source };
        let (woken, wake) = news().map_err(failed)?;
        let (changes, receiver) = mpsc::channel();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from);
        let epoll = epoll.map_err(failed)?;
        let data = epoll::EventData::new_u64(WAKE);
        let added = epoll::add(&epoll, woken.fd(), data, epoll::EventFlags::IN);
        added.map_err(|error| failed(error.into()))?;
        let ports = Ports {
            router: Router::new(links),
            epoll,
            guests: HashMap::new(),
            changes: receiver,
            clock: Clock::new(),
        };
        let thread = thread::Builder::new().name("switch".to_owned());
        thread.spawn(move || ports.run(&woken)).map_err(failed)?;
        Ok(Switch(Some(Arc::new(Handle { changes, wake }))))
    }

    /// Connects a guest that was just started, and replaces the connection of its earlier start.
    pub fn connect(&self, number: u32, link: NetLink) {
        self.change(number, Some(link));
    }

    /// Disconnects a guest that has ended, because its sockets do not report the end.
    pub fn disconnect(&self, number: u32) {
        self.change(number, None);
    }

    fn change(&self, number: u32, link: Option<NetLink>) {
        let Some(handle) = &self.0 else { return };
        // An ended switch links no guests, which is the safe state.
        if handle.changes.send((number, link)).is_ok() {
            handle.wake.tell();
        }
    }
}

struct Ports {
    router: Router,
    epoll: OwnedFd,
    guests: HashMap<u32, Port>,
    changes: Receiver<(u32, Option<NetLink>)>,
    clock: Clock,
}

struct Port {
    link: NetLink,
    /// Flow of frames from the guest. `network` is the flow from the network of the guest's QEMU.
    guest: Flow,
    network: Flow,
}

struct Flow {
    budget: Budget,
    is_paused: bool,
}

impl Flow {
    fn new(now_ms: u64) -> Flow {
        Flow { budget: Budget::new(FRAMES_A_SECOND, FRAMES_AT_ONCE, now_ms), is_paused: false }
    }

    /// Returns true if a frame may pass now. Otherwise the flow is paused.
    fn may_go_on(&mut self, now_ms: u64) -> bool {
        self.budget.refill(now_ms);
        self.is_paused = self.budget.left() == 0;
        !self.is_paused
    }
}

impl Port {
    fn is_paused(&self) -> bool {
        self.guest.is_paused || self.network.is_paused
    }
}

impl Ports {
    fn run(mut self, woken: &News) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            let has_paused = self.guests.values().any(Port::is_paused);
            let timeout = has_paused.then_some(&PAUSE);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout) {
                Err(error) if error != rustix::io::Errno::INTR => return,
                _ => {}
            }
            for number in events.iter().map(|event| event.data.u64()) {
                match u32::try_from(number) {
                    Ok(number) => self.forward(number),
                    Err(_) if number != WAKE => self.deliver((number & !NETWORK) as u32),
                    Err(_) if woken.drain() => self.take_changes(),
                    // The last handle was dropped.
                    Err(_) => return,
                }
            }
            if has_paused {
                self.resume();
            }
        }
    }

    fn take_changes(&mut self) {
        for (number, link) in self.changes.try_iter() {
            if !self.router.is_linked(number) {
                continue;
            }
            // The sockets of an earlier start leave the epoll set when they are closed.
            self.guests.remove(&number);
            let Some(link) = link else { continue };
            let add = |socket, data| {
                let data = epoll::EventData::new_u64(data);
                epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN).is_ok()
            };
            let number_data = u64::from(number);
            if add(&link.guest, number_data) && add(&link.network, NETWORK | number_data) {
                let [guest, network] = [(); 2].map(|()| Flow::new(self.clock.ms()));
                self.guests.insert(number, Port { link, guest, network });
            }
        }
    }

    /// Forwards frames from QEMU's network to the guest.
    fn deliver(&mut self, number: u32) {
        let mut buffer = [0; FRAME_MAX + 1];
        let now_ms = self.clock.ms();
        let Some(port) = self.guests.get_mut(&number) else { return };
        for _ in 0..FRAMES_A_TURN {
            if !port.network.may_go_on(now_ms) {
                listen(&self.epoll, &port.link.network, NETWORK | u64::from(number), NOTHING);
                return;
            }
            let Ok(length) = port.link.network.recv(&mut buffer) else { return };
            port.network.budget.spend(1);
            let _ = port.link.guest.send(&buffer[..length]);
        }
    }

    /// Forwards frames from a guest.
    fn forward(&mut self, number: u32) {
        let mut buffer = [0; FRAME_MAX + 1];
        let now_ms = self.clock.ms();
        for _ in 0..FRAMES_A_TURN {
            let Some(port) = self.guests.get_mut(&number) else { return };
            if !port.guest.may_go_on(now_ms) {
                listen(&self.epoll, &port.link.guest, number.into(), NOTHING);
                return;
            }
            let length = match port.link.guest.recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if is_passing(&error) => return,
                Err(_) => {
                    // The QEMU has ended.
                    self.guests.remove(&number);
                    return;
                }
            };
            port.guest.budget.spend(1);
            if length > FRAME_MAX {
                continue;
            }
            let frame = &mut buffer[..length];
            let receiver = match self.router.route(number, frame) {
                Route::Own => Some(&port.link.network),
                Route::Back => Some(&port.link.guest),
                Route::To(to) => self.guests.get(&to).map(|port| &port.link.guest),
            };
            if let Some(receiver) = receiver {
                // A guest that does not read, or has ended, loses the frame. TCP sends it again.
                let _ = receiver.send(frame);
            }
        }
    }

    fn resume(&mut self) {
        let now_ms = self.clock.ms();
        for (&number, port) in self.guests.iter_mut().filter(|(_, port)| port.is_paused()) {
            let number = u64::from(number);
            let Port { link, guest, network } = port;
            let flows = [(guest, &link.guest, number), (network, &link.network, NETWORK | number)];
            for (flow, socket, data) in flows {
                if flow.is_paused && flow.may_go_on(now_ms) {
                    listen(&self.epoll, socket, data, epoll::EventFlags::IN);
                }
            }
        }
    }
}

const NOTHING: epoll::EventFlags = epoll::EventFlags::empty();

/// Changes the events that a socket in the set is polled for.
fn listen(epoll: &OwnedFd, socket: &UnixDatagram, data: u64, flags: epoll::EventFlags) {
    // Changing a socket in the set cannot fail.
    let _ = epoll::modify(epoll, socket, epoll::EventData::new_u64(data), flags);
}

#[cfg(test)]
mod tests {
    use super::super::class_address;
    use super::*;
    use std::time::Duration;
    use vm::Net;

    const WEB: u32 = 1;
    const DB: u32 = 2;

    /// An ARP request of a guest for an address.
    fn question(from: u32, target: [u8; 4]) -> Vec<u8> {
        let net = Net { linked: true, ..Net::new(from) };
        let sender = [&net.mac()[..], &net.address().octets()].concat();
        let kind = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
        [&[0xff; 6], &net.mac()[..], &kind, &sender, &[0; 6], &target].concat()
    }

    /// A connected guest, and its QEMU's network.
    fn guest(switch: &Switch, number: u32) -> [UnixDatagram; 2] {
        let pair = || {
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            (ours, theirs)
        };
        let ((guest, guest_end), (network, network_end)) = (pair(), pair());
        switch.connect(number, NetLink { guest, network });
        [guest_end, network_end]
    }

    fn linked() -> Switch {
        let link = Link { client: WEB, address: class_address(1), port: 80, server: DB };
        Switch::start(&[link]).unwrap()
    }

    #[test]
    fn a_restarted_guest_is_answered_as_well() {
        let switch = linked();
        for _ in 0..2 {
            let [guest, network] = guest(&switch, WEB);
            guest.send(&[7; 2000]).unwrap();
            guest.send(&question(WEB, [10, 0, 0, 2])).unwrap();
            guest.send(&question(WEB, class_address(1).octets())).unwrap();
            let mut answer = [0; 100];
            assert_eq!(guest.recv(&mut answer).unwrap(), 42);
            assert_eq!(answer[28..32], class_address(1).octets(), "the switch knows its link");
            assert_eq!(network.recv(&mut answer).unwrap(), 42);
            assert_eq!(answer[38..42], [10, 0, 0, 2], "and its own network the rest");
            network.send(b"a page").unwrap();
            assert_eq!(guest.recv(&mut answer).unwrap(), 6);
        }
    }

    #[test]
    fn a_guest_that_floods_waits_and_the_others_are_answered() {
        for flooding in 0..2 {
            let switch = linked();
            let (flooded, [other, _]) = (guest(&switch, WEB), guest(&switch, DB));
            let socket = &flooded[flooding];
            socket.set_nonblocking(true).unwrap();
            let (clock, mut sent) = (Clock::new(), 0);
            while clock.ms() < 300 || sent < FRAMES_AT_ONCE {
                assert!(clock.ms() < 60_000, "{sent} frames are taken");
                sent += u64::from(socket.send(&[0; 60]).is_ok());
            }
            // The limit counts the frames that the switch has taken, and 1,000 frames that may wait
            // in the socket.
            let taken_max = FRAMES_AT_ONCE + FRAMES_A_SECOND * clock.ms() / 1000 + 1000;
            assert!(sent < taken_max, "{sent} of {taken_max}");
            let client = Net { linked: true, ..Net::new(WEB) };
            other.send(&question(DB, client.address().octets())).unwrap();
            assert_eq!(other.recv(&mut [0; 100]).unwrap(), 42);
        }
    }

    /// Waits until the other end of a socket is closed.
    fn wait_for_end(socket: &UnixDatagram) {
        socket.set_nonblocking(true).unwrap();
        let clock = Clock::new();
        while socket.send(&[0; 60]).map_or_else(|error| is_passing(&error), |_| true) {
            assert!(clock.ms() < 60_000, "its end is open");
        }
    }

    #[test]
    fn switch_closes_sockets_of_ended_guest() {
        let switch = linked();
        let ended = guest(&switch, WEB);
        switch.disconnect(WEB);
        ended.iter().for_each(wait_for_end);
    }

    #[test]
    fn switch_ends_with_its_last_handle() {
        let switch = linked();
        let [guest, _network] = guest(&switch, WEB);
        drop(switch.clone());
        guest.send(&question(WEB, class_address(1).octets())).unwrap();
        drop(switch);
        wait_for_end(&guest);
    }

    #[test]
    fn without_links_there_is_no_switch() {
        let switch = Switch::start(&[]).unwrap();
        assert!(guest(&switch, WEB)[0].send(&[0; 60]).is_err(), "its link is closed");
    }
}
