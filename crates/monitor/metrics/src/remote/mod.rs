//! Hosts without pinhead: their state as libvirt reports it over ssh, read-only.
//!
//! ```text
//!   qemu+ssh://root@b/system ─► Uri ─► Ssh: ssh b 'virt-ssh-helper -r …, or nc -U …'
//!                                       │ bytes
//!                                       ▼
//!   Host::ask ◄─ rows ◄─ Session: virtrpc's calls, opened for reading only
//! ```
//!
//! [`Host::ask`] returns a moment as a manager of that host would record it, as far as libvirt
//! reports it. The connection is kept for the next query. The other end is untrusted: its data are
//! bounded, and it has a time limit.

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
