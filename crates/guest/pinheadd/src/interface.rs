//! Changes of a network interface's addresses by ioctl, which needs only a socket.
#![allow(unsafe_code)]

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct sockaddr`: an address family, and its data.
type SocketAddress = [u8; 16];

/// `struct ifreq`. The kernel reads an interface's name and, for the requests here, an address.
#[repr(C)]
struct Request {
    name: [u8; 16],
    address: SocketAddress,
    rest: [u8; 8],
}

/// `struct rtentry`.
#[repr(C)]
struct Route {
    pad1: libc::c_ulong,
    to: SocketAddress,
    gateway: SocketAddress,
    mask: SocketAddress,
    flags: libc::c_ushort,
    pad2: libc::c_short,
    pad3: libc::c_ulong,
    tos: [u8; 8],
    metric: libc::c_short,
    device: *mut libc::c_char,
    mtu: libc::c_ulong,
    window: libc::c_ulong,
    round_trip: libc::c_ushort,
}

/// A socket for requests about interfaces.
#[derive(Debug)]
pub struct Interfaces(OwnedFd);

impl Interfaces {
    pub fn open() -> io::Result<Interfaces> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes numbers and touches no memory.
        match unsafe { libc::socket(libc::AF_INET, kind, 0) } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: the descriptor is new and has no other owner.
            fd => Ok(Interfaces(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }

    pub fn set_hardware(&self, name: &str, address: [u8; 6]) -> io::Result<()> {
        let mut bytes = family(libc::ARPHRD_ETHER);
        bytes[2..8].copy_from_slice(&address);
        self.set(libc::SIOCSIFHWADDR, name, bytes)
    }

    /// Sets an interface's address and netmask.
    pub fn set_address(&self, name: &str, address: Ipv4Addr, mask: Ipv4Addr) -> io::Result<()> {
        self.set(libc::SIOCSIFADDR, name, internet(address))?;
        self.set(libc::SIOCSIFNETMASK, name, internet(mask))
    }

    /// Routes packets for other networks to this gateway.
    pub fn set_gateway(&self, gateway: Ipv4Addr) -> io::Result<()> {
        let everywhere = internet(Ipv4Addr::UNSPECIFIED);
        let mut route = Route {
            pad1: 0,
            to: everywhere,
            gateway: internet(gateway),
            mask: everywhere,
            flags: libc::RTF_UP | libc::RTF_GATEWAY,
            pad2: 0,
            pad3: 0,
            tos: [0; 8],
            metric: 0,
            device: std::ptr::null_mut(),
            mtu: 0,
            window: 0,
            round_trip: 0,
        };
        // SAFETY: the kernel reads a structure of this shape, which outlives the call.
        done(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCADDRT as _, &mut route) })
    }

    fn set(&self, what: libc::c_ulong, name: &str, address: SocketAddress) -> io::Result<()> {
        let mut request = Request { name: [0; 16], address, rest: [0; 8] };
        // The last byte stays zero and ends the name.
        let room = request.name.len() - 1;
        let to = request.name.get_mut(..name.len()).filter(|to| to.len() <= room);
        to.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(name.as_bytes());
        // SAFETY: the kernel reads a structure of this shape, which outlives the call.
        done(unsafe { libc::ioctl(self.0.as_raw_fd(), what as _, &mut request) })
    }
}

fn done(code: libc::c_int) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn family(number: u16) -> SocketAddress {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&number.to_ne_bytes());
    bytes
}

fn internet(address: Ipv4Addr) -> SocketAddress {
    let mut bytes = family(libc::AF_INET as u16);
    bytes[4..8].copy_from_slice(&address.octets());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let interfaces = Interfaces::open().unwrap();
        let one = Ipv4Addr::new(10, 1, 0, 7);
        let error = interfaces.set_address("no-such-one", one, one).unwrap_err();
        // Without the right to set addresses, the call fails before the kernel searches for the
        // interface.
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{error}");
        let error = interfaces.set_hardware("a-name-with-16-b", [2; 6]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn structures_have_the_sizes_of_the_kernels() {
        assert_eq!((size_of::<Request>(), size_of::<Route>()), (40, 120));
    }
}
