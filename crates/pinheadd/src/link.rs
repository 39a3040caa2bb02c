//! The port to the host, and the pool that is the host's balloon.

use crate::sys::{self, Interest};
use counters::Pages;
use plug::{Error, Pool};
use procfs::Root;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem::discriminant;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wire::{CameFrom, Decoder, Grant, MAX_FRAME, PORT, PoolRequest, ToGuest, ToHost, Welcome};

/// Ports that are looked at to find the one of our name.
const MAX_PORTS: usize = 64;

/// An open port.
#[derive(Debug)]
pub struct Link {
    port: File,
    path: PathBuf,
    decoder: Decoder<ToGuest>,
    out: Vec<u8>,
    /// Answers that the port did not take, the oldest first: one of a kind.
    owed: Vec<ToHost>,
    /// The host's description of itself, once it has sent it.
    pub host: Option<Welcome>,
    /// The name of the host, once it has sent it. A guest that moves takes it along.
    host_name: String,
    /// The balloon, as far as we know.
    pub balloon: Balloon,
    /// The host's side is closed: nothing to wait for until it comes back.
    pub closed: bool,
}

/// What is known of the host's balloon.
#[derive(Debug, Default)]
pub struct Balloon {
    sequence: u32,
    /// The size that was asked for last.
    asked: Pages,
    /// The most that the host gives, once it gave less than was asked for.
    cap: Option<Pages>,
    /// The size that the host granted last.
    granted: Option<Pages>,
    /// The size that the guest's kernel counts, where it does.
    counted: Option<Pages>,
    /// The host's last grant, until it has been written down.
    pub last_grant: Option<Grant>,
}

impl Balloon {
    /// Takes the host's answer. Older answers than the last request are stale.
    pub fn granted(&mut self, grant: &Grant) {
        if grant.sequence == 0 || grant.sequence == self.sequence {
            let granted = Pages(grant.pages);
            self.granted = Some(granted);
            self.last_grant = Some(grant.clone());
            // A change that nobody asked for may mean that more is to be had again.
            self.cap = (grant.sequence != 0 && granted < self.asked).then_some(granted);
        }
    }

    /// What of a wish is worth a request: nothing, where the host has refused to
    /// give more than there is.
    pub fn reachable(&self, wanted: Pages, current: Pages) -> Pages {
        match self.cap {
            Some(cap) if wanted > cap => cap.max(current),
            _ => wanted,
        }
    }

    /// Takes the kernel's own count.
    pub fn counted(&mut self, pages: Option<Pages>) {
        self.counted = pages;
    }

    /// The size, by the kernel's count before the host's word: the guest is what
    /// the rules are about.
    pub fn size(&self) -> Option<Pages> {
        self.counted.or(self.granted)
    }

    /// Whether the host has answered the last request.
    pub fn is_answered(&self) -> bool {
        self.granted.is_some()
    }
}

impl Link {
    /// Opens the port that was named, or the one that has our name. `None` where
    /// there is none.
    pub fn open(root: &Root, named: Option<&Path>) -> io::Result<Option<Link>> {
        let Some(path) = named.map(Path::to_path_buf).or_else(|| find(root)) else {
            return Ok(None);
        };
        let port =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path)?;
        Ok(Some(Link::on(port, path)))
    }

    fn on(port: File, path: PathBuf) -> Link {
        Link {
            port,
            path,
            decoder: Decoder::new(),
            out: Vec::with_capacity(256),
            owed: Vec::new(),
            host: None,
            host_name: String::new(),
            balloon: Balloon::default(),
            closed: false,
        }
    }

    /// Takes the name of the host, and tells a new one which it was before.
    pub fn is_at(&mut self, host: String) {
        let before = std::mem::replace(&mut self.host_name, host);
        if !before.is_empty() && before != self.host_name {
            self.answer(ToHost::CameFrom(CameFrom { host: before }));
        }
    }

    /// Sends a message. A port that is full loses it: the host is behind, and the
    /// next status says all again.
    pub fn send(&mut self, message: &ToHost) -> io::Result<()> {
        self.out.clear();
        wire::encode(message, &mut self.out);
        let sent = self.port.write(&self.out)?;
        if sent < self.out.len() {
            // The rest of a frame that was begun is owed: half a frame would cost
            // the host the next one too.
            return self.port.write_all(&self.out[sent..]);
        }
        Ok(())
    }

    /// Sends an answer that the host asks for once, and keeps it if the port does not take it yet.
    /// A host that comes at once after another can be heard before the kernel has opened the port
    /// for writing. An answer of the same kind that is still owed is void.
    pub fn answer(&mut self, message: ToHost) {
        self.owed.retain(|owed| discriminant(owed) != discriminant(&message));
        self.owed.push(message);
        self.settle();
    }

    /// Sends what is owed, as far as the port takes it.
    pub fn settle(&mut self) {
        let mut owed = std::mem::take(&mut self.owed);
        while let Some(message) = owed.first() {
            match self.send(message) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // A port that fails otherwise never takes it.
                _ => drop(owed.remove(0)),
            }
        }
        self.owed = owed;
    }

    /// What to wait for on the port.
    pub fn interest(&self) -> Interest {
        if self.owed.is_empty() { Interest::Input } else { Interest::InputOrRoom }
    }

    /// Takes what has come from the host.
    pub fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; MAX_FRAME];
        match self.port.read(&mut buffer) {
            // A port whose host is gone can always be read, and has nothing.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.decoder.feed(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// The host's side is closed. A closed port is ready at all times and cannot be waited
    /// for, but the kernel can send a signal when somebody opens it.
    pub fn lost(&mut self) {
        self.closed = true;
        self.host = None;
        self.owed.clear();
        // A port that cannot do so is looked at again and again instead.
        let _ = sys::signal_changes(self.as_raw_fd());
    }

    /// The host's side is open again: a message that was half sent before is void.
    pub fn reopened(&mut self) {
        self.closed = false;
        let _ = sys::signal_nothing(self.as_raw_fd());
        self.decoder = Decoder::new();
    }

    /// The next message from the host.
    pub fn next(&mut self) -> Option<ToGuest> {
        self.decoder.next()
    }

    /// Whether the host answers requests for a pool.
    pub fn grants(&self) -> bool {
        self.host.is_some_and(|h| h.grants)
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.port.as_raw_fd()
    }
}

impl Pool for Link {
    fn size(&mut self) -> Result<Pages, Error> {
        self.balloon.size().ok_or_else(|| Error::Read {
            path: self.path.clone(),
            source: io::Error::other("the host has not said how large the pool is"),
        })
    }

    fn request(&mut self, size: Pages) -> Result<(), Error> {
        self.balloon.sequence = self.balloon.sequence.wrapping_add(1).max(1);
        let request = PoolRequest { sequence: self.balloon.sequence, pages: size.0 };
        self.balloon.granted = None;
        self.balloon.asked = size;
        self.send(&ToHost::PoolRequest(request)).map_err(|source| Error::Write {
            path: self.path.clone(),
            value: format!("a request for {size}"),
            source,
        })
    }
}

/// The port whose name is ours.
fn find(root: &Root) -> Option<PathBuf> {
    let ports = std::fs::read_dir(root.join("sys/class/virtio-ports")).ok()?;
    let found = ports.take(MAX_PORTS).flatten().find(|port| {
        let name = std::fs::read_to_string(port.path().join("name"));
        name.is_ok_and(|name| name.trim_end() == PORT)
    })?;
    Some(root.join("dev").join(found.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use wire::Identified;

    /// A port that takes nothing more until the host reads, and the host's end.
    fn full_port() -> (Link, UnixStream) {
        let (mut guest, host) = UnixStream::pair().unwrap();
        guest.set_nonblocking(true).unwrap();
        while guest.write(&[0; MAX_FRAME]).is_ok() {}
        host.set_nonblocking(true).unwrap();
        let port = File::from(OwnedFd::from(guest));
        (Link::on(port, PathBuf::from("port")), host)
    }

    /// What the host reads: the messages in it.
    fn heard(host: &mut UnixStream) -> Vec<ToHost> {
        let mut bytes = Vec::new();
        let _ = host.read_to_end(&mut bytes);
        let mut decoder = Decoder::<ToHost>::new();
        decoder.feed(&bytes);
        std::iter::from_fn(|| decoder.next()).collect()
    }

    fn wait(link: &Link) -> sys::Ready {
        let [seen] = sys::wait([Some((link.as_raw_fd(), link.interest()))], 0).unwrap();
        seen
    }

    fn refused(why: &str) -> ToHost {
        ToHost::Identified(Identified { refusal: why.to_string() })
    }

    #[test]
    fn an_answer_that_the_port_does_not_take_is_sent_when_there_is_room() {
        let (mut link, mut host) = full_port();
        link.answer(refused("an older answer"));
        link.answer(ToHost::Bye);
        link.answer(refused("no such file"));
        assert_eq!(wait(&link), sys::Ready::default(), "a host that hangs costs nothing");
        assert_eq!(heard(&mut host), [], "only what filled the port");
        assert!(wait(&link).writable);
        link.settle();
        assert_eq!(heard(&mut host), [ToHost::Bye, refused("no such file")]);
        assert_eq!(wait(&link), sys::Ready::default(), "nothing is owed, nothing waited for");
    }

    #[test]
    fn the_next_host_does_not_get_what_the_last_one_asked_for() {
        let (mut link, mut host) = full_port();
        link.answer(refused(""));
        link.lost();
        link.reopened();
        heard(&mut host);
        assert_eq!(wait(&link), sys::Ready::default());
        link.settle();
        assert_eq!(heard(&mut host), []);
    }

    #[test]
    fn a_new_host_is_told_which_was_the_last_one() {
        let (mut link, mut host) = full_port();
        heard(&mut host);
        let mut at = |name: &str| {
            link.is_at(name.into());
            heard(&mut host)
        };
        assert_eq!(at("left"), [], "it was nowhere before");
        assert_eq!(at("left"), [], "its manager has started again");
        let came = |host: &str| ToHost::CameFrom(CameFrom { host: host.into() });
        assert_eq!(at("right"), [came("left")]);
        assert_eq!(at("left"), [came("right")]);
    }

    #[test]
    fn what_the_host_does_not_give_is_not_asked_for_again() {
        let grant = |sequence, pages| Grant { sequence, pages, reason: String::new() };
        let mut balloon = Balloon { sequence: 7, asked: Pages(100), ..Balloon::default() };
        assert_eq!(balloon.reachable(Pages(100), Pages(50)), Pages(100));
        balloon.granted(&grant(6, 10));
        assert!(!balloon.is_answered(), "an answer to an older request is stale");
        balloon.granted(&grant(7, 80));
        assert_eq!(balloon.reachable(Pages(100), Pages(50)), Pages(80));
        assert_eq!(balloon.reachable(Pages(100), Pages(80)), Pages(80), "nothing to ask for");
        assert_eq!(balloon.reachable(Pages(60), Pages(80)), Pages(60), "less is always given");
        balloon.granted(&grant(0, 80));
        assert_eq!(balloon.reachable(Pages(100), Pages(80)), Pages(100));
    }
}
