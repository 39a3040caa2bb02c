//! Boot images for guests, made from Debian's packages without root, and kept in a cache.
//!
//! ```text
//!   apt (packages by name) ─► kernel (module order) ─┐
//!                             daemon, files ─────────┼─► image: a kernel and its first files
//!                             cpio (archive) ────────┘
//!   mmdebstrap ─► rootfs: a disk that many guests share, read only (disk)
//! ```
//!
//! Every part of the cache is either complete or absent.

mod accounts;
pub mod apt;
mod arch;
mod cache;
mod clock;
mod cpio;
mod disk;
mod elf;
mod error;
mod files;
mod image;
mod inventory;
mod kernel;
mod ours;
mod packages;
mod qcow2;
mod record;
pub mod rootfs;
pub mod sources;
mod sys;
mod tool;
mod vmlinux;
mod web;

pub use accounts::is_private;
pub use apt::Fetch;
pub use arch::Arch;
pub use cache::{Cache, SYSTEM};
pub use clock::time_of_day;
pub use cpio::Archive;
pub use disk::{DISK_ID, Disk, HostCache, Writes, escape_commas, make_overlay};
pub use elf::{depends, libraries};
pub use error::{Error, FileContext};
pub use files::{by_age, lock_file};
pub use image::{FirstProcess, GuestFile, Image, ImageSpec};
pub use inventory::{Kind, OLD_S, Part};
pub use kernel::{Module, Modules};
pub use ours::{check_dir, check_file, create_dir, create_dir_mode};
pub use packages::{GuestPackages, WEB_SET};
pub use qcow2::{Below, DiskFormat, Header};
pub use record::Record;
pub use sys::bind_child;
pub use tool::{Output, not_started, run};
pub use vmlinux::unwrap as unwrap_kernel;
pub use web::{PAGE_BYTES, WEB_PORT, web_files};
