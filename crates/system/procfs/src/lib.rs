//! Readers of /proc and /sys under a replaceable root.
//!
//! ```text
//!   Source ──bytes──► Window ──► parse (pure) ──► Table / CpuClock ──► row
//!   (Fs, Texts,       (one buffer,                (where lines stand,
//!    a faulty one)     all I/O rules)              what a plugged CPU
//!                                                  does to the clock)
//! ```
//!
//! The guest daemon reads counters once an interval, in a guest that is most likely idle, so the
//! cost matters. Files stay open and are read again from their start. Only files with a wanted
//! [`Counter`](model::counters::Counter) are read, mostly with one system call each, and nothing is
//! allocated after the first row.
//!
//! The crate also serves other readers of /proc. It provides files that stay open ([`Kept`]), all
//! tasks of a system ([`TaskDir`]), and the bounds of control groups ([`MemoryGroup`]).
//! [`KillWatch`] finds the reason for which the kernel killed a process, and [`Chance`] measures
//! the time in which a process could have made progress.
//!
//! All parsing is in [`parse`]: functions from bytes to values that open no file and never panic. A
//! [`Source`] only returns bytes, so that recorded files ([`Texts`]) go through exactly the code
//! that reads live files ([`Fs`]).

#![deny(unsafe_code)]

mod chance;
mod cpu_clock;
mod error;
mod file;
mod kept;
mod kills;
mod memory_group;
mod names;
pub mod parse;
mod reader;
mod source;
mod sys;
mod table;
mod tasks;
pub mod testing;
mod window;
mod zfs;

pub use chance::{Chance, Work};
pub use cpu_clock::{CpuClock, USER_HZ};
pub use error::Error;
pub use file::{ProcFile, Root};
pub use kept::{Buffer, Kept};
pub use kills::{AllKills, KillWatch, Shortage};
pub use memory_group::{GroupUse, MemoryGroup};
pub use names::{kernel_names, names_of};
pub use parse::cpulist::{CpuList, MAX_CPUS};
pub use reader::Reader;
pub use source::{Fs, Source, Texts};
pub use sys::next_name;
pub use tasks::{TaskDir, TaskSeen, children};
pub use window::MAX_FILE_BYTES;
pub use zfs::ZfsCache;
