//! Pressure triggers. The kernel signals when tasks start to wait, so an idle guest need not be
//! polled.

use crate::args::Pace;
use crate::sys::Interest;
use procfs::Root;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use wire::{Pressure, Welcome};

/// Trigger for memory stalls of 100 ms within one second. Every program start causes shorter
/// stalls.
const MEMORY: &str = "some 100000 1000000";
/// Trigger for the same share of stalls within half a second, the shortest window that the kernel
/// accepts. A host with spare memory should learn of pressure soon. The kernel checks ten times in
/// this half second, but only while tasks wait. A guest without pressure therefore has no cost.
const MEMORY_FOR_HOST: &str = "some 50000 500000";
/// Trigger for waits for a CPU of 300 ms within one second.
const CPU: &str = "some 300000 1000000";

/// Armed triggers, which end with the daemon.
#[derive(Debug, Default)]
pub struct Triggers {
    cpu: Option<File>,
    memory: Option<File>,
}

impl Triggers {
    /// Arms the triggers that a pace needs, if the kernel has triggers. With a host, the memory
    /// trigger is always armed, because the host moves memory and must learn of pressure.
    pub fn open(root: &Root, pace: Pace, host: Option<Welcome>) -> Triggers {
        let trigger = |name: &str, line: &str| {
            let path = root.join("proc/pressure").join(name);
            let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
            // The kernel requires a terminating zero after the line.
            file.write_all(format!("{line}\0").as_bytes()).ok()?;
            Some(file)
        };
        let memory = match (host, pace) {
            (Some(_), _) => trigger("memory", MEMORY_FOR_HOST),
            (None, Pace::Fixed) => None,
            (None, Pace::Host | Pace::Adaptive) => trigger("memory", MEMORY),
        };
        let cpu = match (host, pace) {
            (_, Pace::Fixed) => None,
            // A host notices running vCPUs without waking the guest.
            (Some(Welcome { paces: true, .. }), Pace::Host) => None,
            (_, Pace::Host | Pace::Adaptive) => trigger("cpu", CPU),
        };
        Triggers { cpu, memory }
    }

    /// Returns the files and events to poll for, the CPU's first.
    pub fn files(&self) -> [Option<(RawFd, Interest)>; 2] {
        [&self.cpu, &self.memory]
            .map(|file| file.as_ref().map(|f| (f.as_raw_fd(), Interest::Priority)))
    }

    pub fn close(&mut self, pressure: Pressure) {
        match pressure {
            Pressure::Cpu => self.cpu = None,
            Pressure::Memory => self.memory = None,
        }
    }
}
