//! Guests that `pinhead up` started have their daemons' ports with it. It hands them over to a
//! manager that asks, and takes them back when the manager's connection closes, however it ends.

use hypervisor::Found;
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The beginning of the names of the sockets that `pinhead up` listens on.
const PREFIX: &str = "pinhead/up/";
/// What one of them may say in all: it has one answer to give. Anybody may listen under such a
/// name, and one that goes on would keep the manager reading.
const ANSWER_MAX: usize = 64 * 1024;

/// The connections to all `pinhead up` whose guests are managed.
#[derive(Debug, Default)]
pub struct Attachments {
    open: BTreeMap<u32, Attachment>,
}

#[derive(Debug)]
struct Attachment {
    stream: UnixStream,
    answer: Vec<u8>,
    /// What it may still say.
    left: usize,
}

impl Attachments {
    /// Asks whoever started this guest for its port, if it was `pinhead up`.
    pub fn attach(&mut self, found: &Found) {
        let Some(pid) = starter(Path::new(&found.source)) else { return };
        if self.open.contains_key(&pid) {
            return;
        }
        // Without it the guest is managed by its balloon's statistics alone.
        if let Ok(stream) = connect(&format!("{PREFIX}{pid}")) {
            self.open.insert(pid, Attachment { stream, answer: Vec::new(), left: ANSWER_MAX });
        }
    }

    /// Adds what to wait for.
    pub fn fds<'a>(&'a self, out: &mut Vec<(BorrowedFd<'a>, PollFlags)>) {
        out.extend(self.open.values().map(|one| (one.stream.as_fd(), PollFlags::IN)));
    }

    /// Takes what has come: complaints to tell of. A connection that closes has ended with its
    /// `pinhead up`.
    pub fn turn(&mut self) -> Vec<String> {
        let mut complaints = Vec::new();
        self.open.retain(|pid, one| {
            let mut buffer = [0; 4096];
            match one.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) if count > one.left => return false,
                Ok(count) => {
                    one.left -= count;
                    one.answer.extend_from_slice(&buffer[..count]);
                }
                Err(error) => {
                    return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                }
            }
            let Some(end) = one.answer.iter().position(|byte| *byte == b'\n') else {
                return true;
            };
            let answer: Result<serde_json::Value, _> = serde_json::from_slice(&one.answer[..end]);
            one.answer.clear();
            let error = answer.ok().and_then(|v| v.get("error")?.as_str().map(str::to_owned));
            match error {
                Some(error) => {
                    complaints.push(format!(
                        "The guests of pinhead up (process {pid}) keep their ports: {error}"
                    ));
                    false
                }
                None => true,
            }
        });
        complaints
    }
}

/// Asks at a socket of this abstract name. It does not wait: one whose queue is full is as good
/// as none, since whoever listens there could leave it full forever.
fn connect(name: &str) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    let mut stream = UnixStream::from(socket);
    stream.write_all(b"{\"manage\": true}\n")?;
    Ok(stream)
}

/// The process that started a guest whose socket is below a run directory of `pinhead up`.
fn starter(socket: &Path) -> Option<u32> {
    let directory = socket.parent()?;
    let is_up = directory.parent()?.ends_with("pinhead/up");
    is_up.then(|| directory.file_name()?.to_str()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    fn listen(name: &str) -> UnixListener {
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
    }

    #[test]
    fn a_listener_that_takes_nobody_is_not_waited_for() {
        let name = format!("pinhead/test/full/{}", std::process::id());
        let listener = listen(&name);
        rustix::net::listen(&listener, 0).unwrap();
        let mut kept = Vec::new();
        let refused = loop {
            match connect(&name) {
                Ok(stream) => kept.push(stream),
                Err(error) => break error,
            }
            assert!(kept.len() < 10_000);
        };
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn one_that_says_more_than_an_answer_is_left() {
        let name = format!("pinhead/test/flood/{}", std::process::id());
        let listener = listen(&name);
        let stream = connect(&name).unwrap();
        let one = Attachment { stream, answer: Vec::new(), left: ANSWER_MAX };
        let mut attachments = Attachments { open: BTreeMap::from([(1, one)]) };
        let (mut other, _) = listener.accept().unwrap();
        other.set_nonblocking(true).unwrap();
        for turn in 0.. {
            let _ = other.write(&b"{}\n".repeat(1000));
            attachments.turn();
            if attachments.open.is_empty() {
                break;
            }
            assert!(turn < 100, "it says lines forever, and is read forever");
        }
    }

    #[test]
    fn the_starter_is_in_the_path() {
        assert_eq!(starter(Path::new("/run/pinhead/up/4711/g1.qmp")), Some(4711));
        assert_eq!(starter(Path::new("/run/user/0/pinhead/up/12/g1.qmp")), Some(12));
        assert_eq!(starter(Path::new("/var/run/qemu-server/100.qmp")), None);
        assert_eq!(starter(Path::new("g1.qmp")), None);
    }
}
