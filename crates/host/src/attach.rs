//! Guests that `pinhead up` started have their daemons' ports with it. It hands them over to a
//! manager that asks, and takes them back when the manager's connection closes, however it ends.

use hypervisor::Found;
use rustix::event::PollFlags;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

/// The beginning of the names of the sockets that `pinhead up` listens on.
const PREFIX: &str = "pinhead/up/";
/// An answer that is longer is not read further.
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
}

impl Attachments {
    /// Asks whoever started this guest for its port, if it was `pinhead up`.
    pub fn attach(&mut self, found: &Found) {
        let Some(pid) = starter(Path::new(&found.source)) else { return };
        if self.open.contains_key(&pid) {
            return;
        }
        let connect = || -> std::io::Result<UnixStream> {
            let address = SocketAddr::from_abstract_name(format!("{PREFIX}{pid}"))?;
            let mut stream = UnixStream::connect_addr(&address)?;
            stream.set_nonblocking(true)?;
            stream.write_all(b"{\"manage\": true}\n")?;
            Ok(stream)
        };
        // Without it the guest is managed by its balloon's statistics alone.
        if let Ok(stream) = connect() {
            self.open.insert(pid, Attachment { stream, answer: Vec::new() });
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
                Ok(count) => one.answer.extend_from_slice(&buffer[..count]),
                Err(error) => {
                    return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                }
            }
            let Some(end) = one.answer.iter().position(|byte| *byte == b'\n') else {
                return one.answer.len() <= ANSWER_MAX;
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

/// The process that started a guest whose socket is below a run directory of `pinhead up`.
fn starter(socket: &Path) -> Option<u32> {
    let directory = socket.parent()?;
    let is_up = directory.parent()?.ends_with("pinhead/up");
    is_up.then(|| directory.file_name()?.to_str()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_starter_is_in_the_path() {
        assert_eq!(starter(Path::new("/run/pinhead/up/4711/g1.qmp")), Some(4711));
        assert_eq!(starter(Path::new("/run/user/0/pinhead/up/12/g1.qmp")), Some(12));
        assert_eq!(starter(Path::new("/var/run/qemu-server/100.qmp")), None);
        assert_eq!(starter(Path::new("g1.qmp")), None);
    }
}
