//! Sockets that connect a linked guest to a switch outside of its QEMU.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use crate::Error;

/// The host's ends of a linked guest's two networks. Each datagram is one Ethernet frame. The
/// sockets never block, so a slow reader loses frames, as on any network.
#[derive(Debug)]
pub struct NetLink {
    /// Frames from and to the guest.
    pub guest: UnixDatagram,
    /// Frames from and to QEMU's own network, from which forwarded connections come.
    pub network: UnixDatagram,
}

impl NetLink {
    /// Creates both links. Returns QEMU's ends in the same order.
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
