//! The process at the other end of a monitor's socket.
//!
//! The kernel reports the number of the process that called listen. That process may have ended
//! while a child still has the socket open, and another process may have got its number. In this
//! way a user could present root's QEMU as the user's own. A pidfd (Linux 6.5) never refers to
//! another process.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::Errno;

use crate::{Owner, ProcessId};

/// Longest fdinfo that is read.
const FDINFO_MAX: u64 = 4096;

/// Returns the process that listens at the other end, and the user as which it listened. The
/// process is `None` if it has ended, has no number in our namespace, or may be another user's.
pub(crate) fn of(
    stream: &UnixStream,
    owner: Owner,
    root: &Path,
) -> (Option<Owner>, Option<ProcessId>) {
    let Ok(peer) = reactor::peer(stream) else { return (None, None) };
    let user = Owner(peer.uid);
    let process = peer.pid.and_then(|pid| ProcessId::of_under(root, pid));
    // The pidfd is checked after the start time was read, so the time belongs to the listener.
    let process = process.filter(|process| is_listener(stream, process.pid));
    (Some(user), process.filter(|process| owner.is_trusted() || runs_as(*process, owner, root)))
}

fn is_listener(stream: &UnixStream, pid: u32) -> bool {
    match reactor::peer_pidfd(stream) {
        Ok(pidfd) => number_of(&pidfd) == Some(pid),
        // An older kernel has no pidfd of the peer. The other comparisons must suffice.
        Err(error) => error.raw_os_error() == Some(Errno::NOPROTOOPT.raw_os_error()),
    }
}

/// Returns the number of a process, unless it has ended.
fn number_of(pidfd: &OwnedFd) -> Option<u32> {
    let mut text = String::new();
    let info = File::open(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    info.take(FDINFO_MAX).read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
}

/// Returns true if a process belongs to a user now. A listener that has since changed its user by a
/// setuid program does not belong to its first user.
fn runs_as(process: ProcessId, owner: Owner, root: &Path) -> bool {
    let dir = root.join(format!("proc/{}", process.pid));
    fs::metadata(dir).is_ok_and(|found| Owner(found.uid()) == owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    #[test]
    fn finding_14_number_of_an_ended_listener_is_not_trusted() {
        let tree = Tree::create();
        let path = tree.path().join("a.qmp");
        let listener = UnixListener::bind(&path).unwrap();
        // The kernel reports the process that called listen last.
        let held = OwnedFd::from(listener.try_clone().unwrap());
        let mut child = Command::new("perl")
            .args(["-e", "listen(STDIN, 5) or die $!"])
            .stdin(Stdio::from(held))
            .spawn()
            .unwrap();
        let pid = child.id();
        assert!(child.wait().unwrap().success());
        let stream = reactor::connect(&path).unwrap();
        // Another process has got the number in the meantime, for example root's QEMU.
        tree.process(pid, "qemu", 'S', 777);
        let (user, process) = of(&stream, Owner::own(), tree.path());
        assert_eq!((user, process), (Some(Owner::own()), None), "{pid} is not the listener");
    }

    #[test]
    fn a_listener_that_lives_is_known() {
        let tree = Tree::create();
        let path = tree.path().join("a.qmp");
        let _listener = UnixListener::bind(&path).unwrap();
        let stream = reactor::connect(&path).unwrap();
        let own = ProcessId::of(std::process::id());
        assert_eq!(of(&stream, Owner::own(), Path::new("/")).1, own);
        let other = Owner(Owner::own().0 + 1);
        assert_eq!(of(&stream, other, Path::new("/")).1, None, "not a process of that user");
    }
}
