//! Readers of /proc and /sys under a replaceable root.
//!
//! This is what the guest daemon does once an interval, in a guest that is most
//! likely idle, so its price is the point: files stay open and are read again
//! from their start, only files that a wanted [`Counter`](counters::Counter)
//! stands in are read, mostly with one system call each, and nothing is allocated
//! after the first row.
//!
//! ```text
//!   Source ──bytes──► Window ──► parse (pure) ──► Table / CpuClock ──► row
//!   (Fs, Texts,       (one buffer,                (where lines stand,
//!    a faulty one)     all I/O rules)              what a plugged CPU
//!                                                  does to the clock)
//! ```
//!
//! Beside it are what others need who read /proc in their own way: files that stay open
//! ([`Kept`]), all tasks of a system ([`TaskDir`]), the bounds of control groups
//! ([`MemoryGroup`]), why the kernel killed a process ([`KillWatch`]), and how long it could have
//! done what somebody waits for ([`Chance`]).
//!
//! All that parses is in [`parse`]: functions from bytes to values that know no
//! file and never panic. A [`Source`] only hands out bytes, so that recorded
//! files ([`Texts`]) go through exactly the code that reads the live ones ([`Fs`]).

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
