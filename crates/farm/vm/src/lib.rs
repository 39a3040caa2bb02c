//! Start and use of a single guest, from its image to a running Linux. [`images`] are made and kept
//! in a cache, and a guest that is parked on disk is in a [`parkfile`].
//!
//! ```text
//!   images: image, disk; net ─► GuestSpec ─► machine (QEMU's words) ─► qemu ─► Guest
//!                                                                       │
//!                                         console, ctl, monitor ◄───────┘ (sockets, no files)
//! ```
//!
//! Every resource ends with its owner. A guest's QEMU is killed when its [`Guest`] is dropped, and
//! also when this process dies for any reason. The guest's sockets have no names, or are in a
//! requested directory and are removed with the [`Guest`].
//!
//! JUSTIFICATION for unsafe code: a child, QEMU or a tool, must be prepared between fork and exec
//! and bound to this process, and the processor's time stamp counter must be read. No safe library
//! here offers these operations. All unsafe code is in the modules `sys` and `images::sys`.

#![deny(unsafe_code)]

mod accel;
mod clock;
mod console;
mod ctl;
mod deadline;
mod devices;
mod emulator;
mod error;
pub mod evidence;
mod forwarded;
mod identity;
pub mod images;
mod link;
mod machine;
mod mark;
mod monitor;
mod net;
mod opened;
pub mod parkfile;
mod probe;
mod process;
mod qemu;
mod random;
mod rights;
mod saved;
mod scratch;
mod session;
mod sockets;
mod spare;
mod spec;
mod sys;
mod template;
mod tsc;

pub use accel::{Accel, WhyEmulation};
pub use clock::Clock;
pub use console::{CONSOLE_BYTES_MAX, Console, ConsoleLog};
pub use ctl::{Ctl, OUTPUT_BYTES_MAX, Output};
pub use deadline::{Deadline, read_before};
pub use devices::DeviceFile;
pub use error::Error;
pub use forwarded::PortSockets;
pub use identity::identity;
pub use link::NetLink;
pub use mark::{Fed, Mark};
pub use monitor::Monitor;
pub use net::{FORWARDS_MAX, Forward, NUMBER_MAX, Net, first_host_port};
pub use probe::probe_kvm;
pub use process::{Process, STDERR_BYTES_MAX, raise_files, wait_for_end, wait_for_exit};
pub use qemu::{GoOn, Guest};
pub use random::random;
pub use rights::{Footprint, notes as rights_notes, user_of};
pub use saved::{Held, Template};
pub use scratch::Scratch;
pub use session::Session;
pub use sockets::{SocketFile, listen};
pub use spare::spare_this_process;
pub use spec::{BALLOON_PATH, DAEMON_PORT, GuestSpec, NAME_BYTES_MAX, up_marker};
pub use template::Clones;
