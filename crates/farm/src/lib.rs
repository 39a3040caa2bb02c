//! Real guests: from the name of a Debian package to a Linux that answers.
//!
//! ```text
//!   apt (packages by name) ─► kernel (module order) ─┐
//!                             daemon, files ─────────┼─► image ─► qemu ─► Guest
//!                             cpio (archive) ────────┘             │
//!                                            console, ctl, monitor ◄┘ (sockets, no files)
//! ```
//!
//! Nothing outlives its owner: a guest's QEMU is killed when its [`Guest`] is dropped and when this
//! process dies, however it dies; its sockets have no names, or are in a directory that was asked
//! for and go with the [`Guest`]; what the cache holds is either whole or not there.
//!
//! JUSTIFICATION for unsafe code: a child must be bound to this process between fork and exec, and
//! a process must be waited for with a deadline, and the processor's time stamp counter be read.
//! The standard library offers none of these; all are in the module `sys`, and nowhere else is
//! unsafe code allowed.

#![deny(unsafe_code)]

mod apt;
mod arch;
mod clock;
pub mod config;
mod console;
mod cpio;
mod ctl;
mod deadline;
mod disk;
mod emulator;
mod error;
mod evidence;
pub mod fleet;
mod identity;
mod image;
mod kernel;
mod machine;
mod monitor;
mod net;
mod process;
mod qemu;
pub mod rootfs;
pub mod service;
mod session;
mod shelf;
mod sockets;
mod sources;
mod spec;
mod sys;
mod template;
pub mod tiers;
mod tool;
mod tsc;
mod vmlinux;
mod web;

pub use apt::{Cache, GuestPackages};
pub use arch::{Accel, Arch, WhyEmulation, probe_kvm};
pub use clock::Clock;
pub use console::{CONSOLE_BYTES_MAX, Console};
pub use cpio::Archive;
pub use ctl::{Ctl, OUTPUT_BYTES_MAX, Output};
pub use deadline::Deadline;
pub use disk::{DISK_ID, Disk, DiskFormat, Writes, make_overlay};
pub use error::Error;
pub use image::{FirstProcess, GuestFile, Image, ImageSpec};
pub use kernel::{Module, Modules};
pub use monitor::Monitor;
pub use net::{FORWARDS_MAX, Forward, GATEWAY, NUMBER_MAX, Net};
pub use process::{Process, STDERR_BYTES_MAX, raise_files};
pub use qemu::{GoOn, Guest};
pub use session::Session;
pub use shelf::{Held, Template};
pub use sockets::SocketFile;
pub use spec::{BALLOON_PATH, GuestSpec, NAME_BYTES_MAX};
pub use sys::wait_for_exit;
pub use template::Clones;
pub use web::{PAGE_BYTES, WEB_PORT, web_files};
