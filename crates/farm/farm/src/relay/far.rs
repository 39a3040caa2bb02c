//! The far end of a door: the address of a guest's QEMU, and the check that this QEMU still
//! listens.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use reactor::Users;
use vm::wait_for_end;

/// The QEMU behind a door. Each QEMU listens on an address of its own.
#[derive(Clone, Debug)]
pub(crate) struct Far {
    pub(super) address: Ipv4Addr,
    process: Arc<OwnedFd>,
    /// User id that the QEMU runs as.
    user: u32,
}

impl Far {
    /// Creates the far end for a QEMU: its pidfd, its user and its address.
    pub(crate) fn new(process: OwnedFd, user: u32, address: Ipv4Addr) -> Far {
        Far { address, process: Arc::new(process), user }
    }

    /// Returns true if the QEMU still listens on its port. If so, a connection made before this
    /// check leads to this QEMU.
    ///
    /// If a QEMU ends by itself, it closes its ports a moment before its process ends. In that
    /// moment another user may listen on the same address.
    pub(super) fn listens(&self, port: u16, users: &Users) -> bool {
        let user_at = |ip: Ipv4Addr| users.listening(SocketAddr::from((ip, port)));
        let has_its_user = match user_at(self.address) {
            Some(user) => user == self.user,
            // If even our own port is not reported, the kernel lacks this interface, and the check
            // is skipped.
            None => user_at(Ipv4Addr::LOCALHOST).is_none(),
        };
        has_its_user && self.runs()
    }

    fn runs(&self) -> bool {
        matches!(wait_for_end(&self.process, Duration::ZERO), Ok(false))
    }
}
