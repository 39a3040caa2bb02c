//! Monitor data of z/VM, of LPARs and of the Linux guests on them: bytes to values and back.
//!
//! ```text
//!   MONWRITE file ─► file::Reader ─┐
//!                                  ├─► frame: records ─► domain: contents of records
//!   /dev/monreader ─► stream ──────┘                        │ of domain 10
//!                                                           └─► appldata, procd, fsstatd, pinhead
//!   debugfs diag_2fc, diag_204, diag_0c ─► hypfs ◄─ tree ◄─ /sys/hypervisor/s390
//!   /proc/sysinfo ─► sysinfo ◄── sthyi ◄─ STHYI
//! ```
//!
//! Each record is a table of fields with their offsets ([`layout`]), from which both directions are
//! generated. Records grow from release to release, so a field after the end of a record is
//! missing, and never 0. All numbers are big-endian, names are EBCDIC.
//!
//! This crate does no I/O. All input comes from a file or a guest and is untrusted, so lengths in
//! it are checked against the actual length.

#![forbid(unsafe_code)]

pub mod appldata;
pub mod domain;
mod error;
pub mod file;
pub mod frame;
pub mod fsstatd;
pub mod hypfs;
pub mod layout;
pub mod monwriter;
pub mod pinhead;
pub mod procd;
pub mod sthyi;
pub mod stream;
pub mod sysinfo;
mod text;
mod texts;
mod tod;
pub mod tree;

pub use error::Error;
pub use text::{from_ebcdic, to_ebcdic};
pub use tod::{TICKS_PER_US, Tod, ns_of_ticks, ticks_of_ns};
