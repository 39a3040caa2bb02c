//! Handshake between the daemon and its host.

use crate::clock::Clock;
use crate::config::Loaded;
use crate::link::Link;
use crate::look::Guest;
use crate::plug::{self, boot_id};
use crate::sys::{self, Interest};
use procfs::Root;
use std::os::fd::AsRawFd;
use wire::{Hello, PoolKind, ToGuest, ToHost};

/// Timeout for the host's answer to the hello. Afterwards the daemon starts without a host.
const WELCOME_MS: u64 = 1_500;

/// Sends a hello and waits a moment for the host's answer.
pub fn meet(link: &mut Link, clock: &Clock, root: &Root, cmm: bool) {
    let cpus_present = plug::Cpus::new(root).present().map_or(0, |cpus| cpus.len() as u32);
    let pool = if cmm { PoolKind::Cmm } else { PoolKind::Host };
    let hello = Hello { cpus_present, pool, ..unmanaged(root) };
    if link.send(&ToHost::Hello(hello)).is_ok() {
        listen(link, clock, clock.ms() + WELCOME_MS, |link| link.host.is_some());
    }
}

/// Returns the daemon's hello with its rules.
pub fn hello(root: &Root, guest: &Guest, loaded: &Loaded, reply: bool) -> Hello {
    Hello {
        cpus_present: guest.present(),
        update_ms: loaded.program.update.saturating_mul(1000).min(u64::from(u32::MAX)) as u32,
        pool: guest.pool_kind(&loaded.program),
        reply,
        ..unmanaged(root)
    }
}

/// Returns the daemon's hello without rules.
fn unmanaged(root: &Root) -> Hello {
    Hello {
        boot_id: boot_id(root).ok().and_then(|id| boot_bytes(&id)).unwrap_or_default(),
        cpus_present: 0,
        update_ms: 0,
        pool: PoolKind::None,
        reply: false,
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// Handles messages from the host until a condition holds, or the deadline has passed.
pub fn listen(link: &mut Link, clock: &Clock, deadline_ms: u64, done: impl Fn(&Link) -> bool) {
    while !done(link) {
        let Some(left) = deadline_ms.checked_sub(clock.ms()).filter(|ms| *ms > 0) else { return };
        let seen = sys::wait([Some((link.as_raw_fd(), Interest::Input))], left);
        let usable = seen.is_ok_and(|[seen]| seen.ready || !seen.closed);
        if !usable || link.receive().is_err() {
            link.closed = true;
            return;
        }
        while let Some(message) = link.next() {
            match message {
                ToGuest::Welcome(welcome) => link.host = Some(welcome),
                ToGuest::Grant(grant) => link.balloon.granted(&grant),
                ToGuest::AtHost(host) => link.is_at(host.name),
                // Other messages are ignored before the rules are loaded, because the host repeats
                // them.
                _ => {}
            }
        }
    }
}

/// Parses the 16 bytes of a boot id as the kernel writes it.
fn boot_bytes(id: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = id
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    bytes.try_into().ok()
}
