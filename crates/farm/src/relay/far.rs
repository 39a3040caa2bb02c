//! The far end of a door: where a guest's QEMU listens, and that it still does.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use vm::wait_for_end;

/// A QEMU that listens at an address of its own.
#[derive(Clone, Debug)]
pub(crate) struct Far {
    pub(super) address: Ipv4Addr,
    process: Arc<OwnedFd>,
}

impl Far {
    /// The QEMU behind this descriptor of a process, which listens at this address.
    pub(crate) fn new(process: OwnedFd, address: Ipv4Addr) -> Far {
        Far { address, process: Arc::new(process) }
    }

    /// True while that QEMU runs. A connection that was made before is its own, and not one of a
    /// process that has taken the address after its end. A QEMU that ends by itself closes its
    /// ports a moment before.
    pub(super) fn runs(&self) -> bool {
        matches!(wait_for_end(&self.process, Duration::ZERO), Ok(false))
    }
}
