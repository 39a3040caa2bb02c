//! Hosts without pinhead: their state as libvirt reports it over ssh, read-only.
//!
//! ```text
//!   qemu+ssh://root@b/system ─► Uri ─► Ssh: ssh b 'virt-ssh-helper -r …, or nc -U …'
//!                                       │ bytes
//!                                       ▼
//!   Host::ask ◄─ rows ◄─ Session: virtrpc's calls, opened for reading only
//! ```
//!
//! [`Host::ask`] returns a moment as a manager of the host would record it, but only with the
//! values that libvirt reports. The connection is kept for the next query. The host is untrusted:
//! its answers are bounded in size and in time.

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
