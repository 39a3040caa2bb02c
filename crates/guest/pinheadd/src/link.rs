//! Port to the host, and the host's balloon as the guest's pool.

use crate::plug::{Error, Pool};
use crate::sys::{self, Interest};
use base::Pages;
use procfs::Root;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem::discriminant;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wire::{CameFrom, Decoder, Grant, MAX_FRAME, PORT, PoolRequest, ToGuest, ToHost, Welcome};

/// Maximum number of ports that are searched for the daemon's port.
const MAX_PORTS: usize = 64;

#[derive(Debug)]
pub struct Link {
    port: File,
    path: PathBuf,
    decoder: Decoder<ToGuest>,
    out: Vec<u8>,
    /// Answers that the port has not accepted yet, the oldest first, at most one of each kind.
    owed: Vec<ToHost>,
    /// Description of the host, once received.
    pub host: Option<Welcome>,
    /// Name of the host, once received. The name is kept while the guest migrates, so that the new
    /// host learns the previous host's name.
    host_name: String,
    /// Known state of the balloon.
    pub balloon: Balloon,
    /// Set while the host's side is closed. The port is not polled until the host opens it again.
    pub closed: bool,
}

/// Known state of the host's balloon.
#[derive(Debug, Default)]
pub struct Balloon {
    sequence: u32,
    /// Size requested last.
    asked: Pages,
    /// The host's limit, known once the host has granted less than requested.
    cap: Option<Pages>,
    /// Size granted last.
    granted: Option<Pages>,
    /// Size that the guest's kernel counts, if the kernel has such a count.
    counted: Option<Pages>,
    /// Last grant of the host, until it is written to the file.
    pub last_grant: Option<Grant>,
}

impl Balloon {
    /// Records the host's answer. An answer to an older request is ignored.
    pub fn granted(&mut self, grant: &Grant) {
        if grant.sequence == 0 || grant.sequence == self.sequence {
            let granted = Pages(grant.pages);
            self.granted = Some(granted);
            self.last_grant = Some(grant.clone());
            // A host that changes a grant without a request may have more memory available again.
            self.cap = (grant.sequence != 0 && granted < self.asked).then_some(granted);
        }
    }

    /// Returns the size to request instead of a wanted size. If the host has granted less than
    /// requested, a size above the host's limit is replaced by the limit, or by a larger current
    /// size.
    pub fn reachable(&self, wanted: Pages, current: Pages) -> Pages {
        match self.cap {
            Some(cap) if wanted > cap => cap.max(current),
            _ => wanted,
        }
    }

    pub fn counted(&mut self, pages: Option<Pages>) {
        self.counted = pages;
    }

    /// Returns the size of the balloon: the kernel's count, or else the host's grant. The rules are
    /// about the guest, so its kernel's count comes first.
    pub fn size(&self) -> Option<Pages> {
        self.counted.or(self.granted)
    }

    /// Returns true if the host has answered the last request.
    pub fn is_answered(&self) -> bool {
        self.granted.is_some()
    }
}

impl Link {
    /// Opens the named port, or else the daemon's port. Returns `None` if there is no port.
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

    /// Records the host's name, and sends the previous host's name to a new host.
    pub fn is_at(&mut self, host: String) {
        let before = std::mem::replace(&mut self.host_name, host);
        if !before.is_empty() && before != self.host_name {
            self.answer(ToHost::CameFrom(CameFrom { host: before }));
        }
    }

    /// Sends a message. If the host is slow and the port is full, the message is lost. The next
    /// status repeats all values.
    pub fn send(&mut self, message: &ToHost) -> io::Result<()> {
        self.out.clear();
        wire::encode(message, &mut self.out);
        let sent = self.port.write(&self.out)?;
        if sent < self.out.len() {
            // The rest of a started frame must be sent, because the host could not read the next
            // frame after an incomplete one.
            return self.port.write_all(&self.out[sent..]);
        }
        Ok(())
    }

    /// Sends an answer that the host requests only once. An answer that the port does not accept
    /// yet is kept. Messages of a new host can arrive before the kernel has opened the port for
    /// writing. An older answer of the same kind is dropped.
    pub fn answer(&mut self, message: ToHost) {
        self.owed.retain(|owed| discriminant(owed) != discriminant(&message));
        self.owed.push(message);
        self.settle();
    }

    /// Sends the kept answers, as far as the port accepts them.
    pub fn settle(&mut self) {
        let mut owed = std::mem::take(&mut self.owed);
        while let Some(message) = owed.first() {
            match self.send(message) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // A port with any other error never accepts the answer.
                _ => drop(owed.remove(0)),
            }
        }
        self.owed = owed;
    }

    pub fn interest(&self) -> Interest {
        if self.owed.is_empty() { Interest::Input } else { Interest::InputOrRoom }
    }

    pub fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; MAX_FRAME];
        match self.port.read(&mut buffer) {
            // Without a host, the port is always readable but has no data.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.decoder.feed(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Handles the closing of the host's side. A closed port is always ready, so it cannot be
    /// polled. Instead, the kernel can send a signal when the host opens the port.
    pub fn lost(&mut self) {
        self.closed = true;
        self.host = None;
        self.owed.clear();
        // If the port does not support signals, every sample checks the port.
        let _ = sys::signal_changes(self.as_raw_fd());
    }

    /// Handles the reopening of the host's side. A message that was received in part is dropped.
    pub fn reopened(&mut self) {
        self.closed = false;
        let _ = sys::signal_nothing(self.as_raw_fd());
        self.decoder = Decoder::new();
    }

    pub fn next(&mut self) -> Option<ToGuest> {
        self.decoder.next()
    }

    /// Returns true if the host answers requests for a size of the pool.
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
            source: io::Error::other("the host has not reported the pool's size"),
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
            source: match source.kind() {
                io::ErrorKind::WouldBlock => {
                    io::Error::other("the host's manager does not read it")
                }
                _ => source,
            },
        })
    }
}

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

    /// Returns a port that accepts nothing until the host reads, and the host's end of the port.
    fn full_port() -> (Link, UnixStream) {
        let (mut guest, host) = UnixStream::pair().unwrap();
        guest.set_nonblocking(true).unwrap();
        while guest.write(&[0; MAX_FRAME]).is_ok() {}
        host.set_nonblocking(true).unwrap();
        let port = File::from(OwnedFd::from(guest));
        (Link::on(port, PathBuf::from("port")), host)
    }

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
    fn answer_refused_by_a_full_port_is_sent_when_there_is_room() {
        let (mut link, mut host) = full_port();
        link.answer(refused("an older answer"));
        link.answer(ToHost::Bye);
        link.answer(refused("no such file"));
        assert_eq!(wait(&link), sys::Ready::default(), "a host that hangs costs nothing");
        assert_eq!(heard(&mut host), [], "only what filled the port");
        assert!(wait(&link).writable);
        link.settle();
        assert_eq!(heard(&mut host), [ToHost::Bye, refused("no such file")]);
        assert_eq!(wait(&link), sys::Ready::default(), "no answer is kept, no room is polled for");
    }

    #[test]
    fn request_to_full_port_is_refused_with_the_cause() {
        let (mut link, _host) = full_port();
        let error = base::chain(&link.request(Pages(7)).unwrap_err());
        assert!(error.ends_with("the host's manager does not read it"), "{error}");
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
        assert_eq!(at("left"), [], "there was no previous host");
        assert_eq!(at("left"), [], "its manager has started again");
        let came = |host: &str| ToHost::CameFrom(CameFrom { host: host.into() });
        assert_eq!(at("right"), [came("left")]);
        assert_eq!(at("left"), [came("right")]);
    }

    #[test]
    fn refused_size_is_not_requested_again() {
        let grant = |sequence, pages| Grant { sequence, pages, reason: String::new() };
        let mut balloon = Balloon { sequence: 7, asked: Pages(100), ..Balloon::default() };
        assert_eq!(balloon.reachable(Pages(100), Pages(50)), Pages(100));
        balloon.granted(&grant(6, 10));
        assert!(!balloon.is_answered(), "an answer to an older request is stale");
        balloon.granted(&grant(7, 80));
        assert_eq!(balloon.reachable(Pages(100), Pages(50)), Pages(80));
        assert_eq!(balloon.reachable(Pages(100), Pages(80)), Pages(80), "no request is needed");
        assert_eq!(balloon.reachable(Pages(60), Pages(80)), Pages(60), "less is always granted");
        balloon.granted(&grant(0, 80));
        assert_eq!(balloon.reachable(Pages(100), Pages(80)), Pages(100));
    }
}
