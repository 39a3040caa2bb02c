//! The frames of a linked guest, for the switch of its owner.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use crate::Error;

/// Our ends of a linked guest's two ways. Each datagram is a frame of Ethernet. They never wait:
/// who does not read loses frames, as on any network.
#[derive(Debug)]
pub struct NetLink {
    /// What the guest sends, and what it is to get.
    pub guest: UnixDatagram,
    /// The network of its QEMU, where its forwarded ports come from.
    pub network: UnixDatagram,
}

impl NetLink {
    /// A new one, and QEMU's ends of it in the same order.
    pub(crate) fn new() -> Result<(NetLink, [OwnedFd; 2]), Error> {
        let pair = || {
            let (ours, theirs) = UnixDatagram::pair()?;
            ours.set_nonblocking(true)?;
            Ok((ours, OwnedFd::from(theirs)))
        };
        let failed = |source| Error::Channel { channel: "link", source };
        let (guest, guest_end) = pair().map_err(failed)?;
        let (network, network_end) = pair().map_err(failed)?;
        Ok((NetLink { guest, network }, [guest_end, network_end]))
    }
}
