//! Guests that `pinhead up` started have their daemons' ports with it. It hands them over to a
//! manager that asks, and takes them back when the manager's connection closes, however it ends.

use hypervisor::Found;
use reactor::{Lines, PollSet, Received};
use rustix::event::PollFlags;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The socket on which `pinhead up` is asked, in the directory of those of its guests.
const SOCKET: &str = "control";
/// The bytes that one of them may send in all: it gives one answer, the names of all its guests,
/// of which there may be thousands. Any user may listen in a directory of this name, and one that
/// goes on would keep the manager reading.
const ANSWER_MAX: usize = 256 * 1024;

/// The connections to all `pinhead up` whose guests are managed.
#[derive(Debug, Default)]
pub struct Attachments {
    /// By the directories of their sockets.
    open: BTreeMap<PathBuf, Attachment>,
}

#[derive(Debug)]
struct Attachment {
    stream: UnixStream,
    lines: Lines,
    /// The bytes that it may still send.
    left: usize,
}

impl Attachments {
    /// Asks the process that started this guest for its port, if it was `pinhead up`.
    pub fn attach(&mut self, found: &Found) {
        let Some(dir) = run_dir(Path::new(&found.source)) else { return };
        if self.open.contains_key(dir) {
            return;
        }
        // Without it the guest is managed by its balloon's statistics alone.
        if let Ok(stream) = connect(dir) {
            let one = Attachment { stream, lines: Lines::default(), left: ANSWER_MAX };
            self.open.insert(dir.to_path_buf(), one);
        }
    }

    /// Adds what to wait for.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        for attachment in self.open.values() {
            set.add(0, attachment.stream.as_fd(), PollFlags::IN);
        }
    }

    /// Takes what has come: complaints to report. A connection that closes has ended with its
    /// `pinhead up`.
    pub fn turn(&mut self) -> Vec<String> {
        let mut complaints = Vec::new();
        self.open.retain(|dir, one| {
            match one.lines.read(&one.stream) {
                Ok(Received::Nothing) => return true,
                Ok(Received::Bytes(count)) if count <= one.left => one.left -= count,
                Ok(Received::Bytes(_) | Received::End) | Err(_) => return false,
            }
            let Some(line) = one.lines.next_line() else { return true };
            let answer: Result<serde_json::Value, _> = serde_json::from_slice(&line);
            let error = answer.ok().and_then(|v| v.get("error")?.as_str().map(str::to_owned));
            match error {
                Some(error) => {
                    complaints.push(format!(
                        "The guests of pinhead up in {} keep their ports: {error}",
                        dir.display()
                    ));
                    false
                }
                None => true,
            }
        });
        complaints
    }
}

/// Asks for the guests of a run directory. It does not wait: a listener whose queue is full is as
/// good as none, since the listener could leave it full forever.
fn connect(dir: &Path) -> io::Result<UnixStream> {
    let mut stream = reactor::connect(&dir.join(SOCKET))?;
    // A link there could lead a manager that is root to anybody's socket.
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    if peer.uid.as_raw() != dir.metadata()?.uid() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    stream.write_all(b"{\"manage\": true}\n")?;
    Ok(stream)
}

/// The run directory of `pinhead up` that a guest's socket is in, if it is in one.
fn run_dir(socket: &Path) -> Option<&Path> {
    let dir = socket.parent()?;
    dir.file_name()?.to_str()?.parse::<u32>().ok()?;
    dir.parent()?.ends_with("pinhead/up").then_some(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::scratch::Scratch;
    use std::os::unix::net::UnixListener;

    /// A run directory whose control socket listens.
    fn listen() -> (Scratch, UnixListener) {
        let dir = Scratch::new();
        let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
        (dir, listener)
    }

    #[test]
    fn a_listener_that_takes_nobody_is_not_waited_for() {
        let (dir, listener) = listen();
        rustix::net::listen(&listener, 0).unwrap();
        let mut kept = Vec::new();
        let refused = loop {
            match connect(dir.path()) {
                Ok(stream) => kept.push(stream),
                Err(error) => break error,
            }
            assert!(kept.len() < 10_000);
        };
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_process_that_sends_more_than_an_answer_is_left() {
        let (dir, listener) = listen();
        let stream = connect(dir.path()).unwrap();
        let one = Attachment { stream, lines: Lines::default(), left: ANSWER_MAX };
        let mut attachments =
            Attachments { open: BTreeMap::from([(dir.path().to_path_buf(), one)]) };
        let (mut other, _) = listener.accept().unwrap();
        other.set_nonblocking(true).unwrap();
        for turn in 0.. {
            let _ = other.write(&b"{}\n".repeat(1000));
            attachments.turn();
            if attachments.open.is_empty() {
                break;
            }
            assert!(turn < 100, "it sends lines forever, and is read forever");
        }
    }

    #[test]
    fn the_run_directory_is_in_the_path() {
        for dir in ["/run/pinhead/up/4711", "/run/user/0/pinhead/up/12"] {
            assert_eq!(run_dir(&Path::new(dir).join("g1.qmp")), Some(Path::new(dir)));
        }
        for other in ["/var/run/qemu-server/100.qmp", "/run/pinhead/up/x/g1.qmp", "g1.qmp"] {
            assert_eq!(run_dir(Path::new(other)), None);
        }
    }
}
