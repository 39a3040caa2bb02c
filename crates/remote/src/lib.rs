//! Hosts without pinhead: what their libvirt tells over ssh, and nothing changed there.
//!
//! ```text
//!   qemu+ssh://root@b/system ─► Uri ─► Ssh: ssh b 'virt-ssh-helper -r …, or nc -U …'
//!                                       │ bytes
//!                                       ▼
//!   Host::ask ◄─ rows ◄─ Session: virtrpc's calls, opened for reading only
//! ```
//!
//! [`Host::ask`] gives a moment as a manager of that host would record it, as far as libvirt
//! knows. The connection is kept for the next one. The other end is a stranger: what it sends is
//! bounded, and it has so much time and no more.

#![forbid(unsafe_code)]

mod clock;
mod error;
#[cfg(test)]
mod fake;
mod growth;
mod host;
mod rows;
mod session;
mod ssh;
mod uri;

pub use error::Error;
pub use host::Host;
pub use uri::Uri;
