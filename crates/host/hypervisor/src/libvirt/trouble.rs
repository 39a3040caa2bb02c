//! Messages for a libvirt that cannot be used: one sentence each, with the remedy.

use std::io;
use std::path::{Path, PathBuf};

use virtrpc::{DOMAINS_MAX, Failure};

use super::link::{Loss, Step};
use crate::Owner;

pub(super) const SILENT: &str = "its hypervisor does not answer libvirt";

pub(super) fn no_socket(sockets: &[PathBuf], uri: &str) -> String {
    let places: Vec<_> = sockets.iter().map(|path| path.display().to_string()).collect();
    format!(
        "There is no libvirt at {}: start libvirt's daemon (systemctl start libvirtd), or \
         remove {uri} from `libvirt` in [sources]",
        places.join(" or ")
    )
}

pub(super) fn no_connection(socket: &Path, error: &io::Error) -> String {
    let socket = socket.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "No permission to connect to libvirt at {socket}: run as root, or as a member of \
             libvirt's group (`libvirt` on Debian)"
        ),
        io::ErrorKind::ConnectionRefused => {
            format!("Nobody listens at {socket}: start libvirt's daemon (systemctl start libvirtd)")
        }
        io::ErrorKind::WouldBlock => format!(
            "libvirt at {socket} does not accept connections, because too many are waiting: check \
             libvirt's daemon"
        ),
        _ => format!("Cannot connect to libvirt at {socket}: {error}"),
    }
}

pub(super) fn not_ours(socket: &Path, owner: Option<Owner>) -> String {
    let socket = socket.display();
    match owner {
        Some(Owner(uid)) => format!(
            "libvirt at {socket} belongs to user {uid}: add this user to `users` in [sources] to \
             manage the user's guests"
        ),
        None => format!(
            "The socket {socket} of libvirt is not used: its owner cannot be checked, or several \
             users can write to its directory"
        ),
    }
}

pub(super) fn lost(socket: &Path, loss: &Loss) -> String {
    let socket = socket.display();
    match loss {
        Loss::Closed => {
            format!(
                "libvirt at {socket} has closed the connection: its guests keep their sizes until \
                 libvirt is back"
            )
        }
        Loss::Failed(error) => format!("The connection to libvirt at {socket} failed: {error}"),
        Loss::Foreign(error) => {
            format!("The program that listens at {socket} does not use libvirt's protocol: {error}")
        }
    }
}

pub(super) fn silent(socket: &Path) -> String {
    format!("libvirt at {} does not respond: check libvirt's daemon", socket.display())
}

pub(super) fn no_list(socket: &Path) -> String {
    format!(
        "libvirt at {} does not list its domains: a domain is busy, or the daemon hangs (check \
         with virsh domjobinfo DOMAIN). Known domains are managed meanwhile",
        socket.display()
    )
}

pub(super) fn too_many(socket: &Path, left_out: usize) -> String {
    format!(
        "libvirt at {} runs more than {DOMAINS_MAX} domains, which is the maximum. These domains \
         are not managed until others end: {left_out}",
        socket.display()
    )
}

pub(super) fn no_proof(socket: &Path) -> String {
    format!(
        "libvirt at {} requires a password, which pinhead does not support: allow connections to \
         its socket without a password (auth_unix_rw in libvirtd.conf)",
        socket.display()
    )
}

pub(super) fn refused(socket: &Path, uri: &str, step: Step, failure: &Failure) -> String {
    let (socket, message) = (socket.display(), &failure.message);
    if step == Step::Polkit || failure.code == Some(Failure::AUTH_FAILED) {
        return format!(
            "libvirt at {socket} refuses the connection: {message}; run as root, or as a member of \
             libvirt's group (`libvirt` on Debian)"
        );
    }
    match step {
        Step::Open => format!("libvirt at {socket} does not open {uri}: {message}"),
        _ => format!("libvirt at {socket} does not list its domains: {message}"),
    }
}

pub(super) fn no_description(name: &str, reason: &str) -> String {
    format!(
        "Domain {name} of libvirt is not managed, because its description cannot be read: {reason}"
    )
}
