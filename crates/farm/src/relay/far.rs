//! The far end of a door: where a guest's QEMU listens, and that it still does.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use reactor::Users;
use vm::wait_for_end;

/// A QEMU that listens at an address of its own.
#[derive(Clone, Debug)]
pub(crate) struct Far {
    pub(super) address: Ipv4Addr,
    process: Arc<OwnedFd>,
    /// Number of the user that this QEMU runs as.
    user: u32,
}

impl Far {
    /// Returns the QEMU behind this descriptor of a process, of a user, at this address.
    pub(crate) fn new(process: OwnedFd, user: u32, address: Ipv4Addr) -> Far {
        Far { address, process: Arc::new(process), user }
    }

    /// True if that QEMU still listens at its port. A connection that was made before is its own.
    ///
    /// A QEMU that ends by itself closes its ports a moment before its process has ended. Another
    /// user may listen at its address in that moment.
    pub(super) fn listens(&self, port: u16, users: &Users) -> bool {
        let user_at = |ip: Ipv4Addr| users.listening(SocketAddr::from((ip, port)));
        let has_its_user = match user_at(self.address) {
            Some(user) => user == self.user,
            // A kernel that tells nothing does not tell of our own port either.
            None => user_at(Ipv4Addr::LOCALHOST).is_none(),
        };
        has_its_user && self.runs()
    }

    fn runs(&self) -> bool {
        matches!(wait_for_end(&self.process, Duration::ZERO), Ok(false))
    }
}
