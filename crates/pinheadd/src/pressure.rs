//! Pressure triggers: the kernel reports when tasks start to wait, so that an idle guest is not
//! polled.

use crate::args::Pace;
use crate::sys::Interest;
use procfs::Root;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use wire::{Pressure, Welcome};

/// Stalls of 100 ms within one second. Every program start causes shorter ones.
const MEMORY: &str = "some 100000 1000000";
/// The same share of half a second, the shortest window that the kernel accepts: a host with spare
/// memory should learn of pressure soon. The kernel checks ten times in that half second, but only
/// while tasks wait, so a guest without pressure pays nothing.
const MEMORY_FOR_HOST: &str = "some 50000 500000";
/// Waits for a CPU of 300 ms within one second.
const CPU: &str = "some 300000 1000000";

/// The armed triggers. They end with the daemon.
#[derive(Debug, Default)]
pub struct Triggers {
    cpu: Option<File>,
    memory: Option<File>,
}

impl Triggers {
    /// Arms the triggers that a pace needs, if the kernel has them. With a host, the memory trigger
    /// is always armed, because the host moves memory and must learn of a need.
    pub fn open(root: &Root, pace: Pace, host: Option<Welcome>) -> Triggers {
        let trigger = |name: &str, line: &str| {
            let path = root.join("proc/pressure").join(name);
            let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
            // The kernel requires the line with its terminating zero.
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
            // A host sees running virtual CPUs without waking the guest.
            (Some(Welcome { paces: true, .. }), Pace::Host) => None,
            (_, Pace::Host | Pace::Adaptive) => trigger("cpu", CPU),
        };
        Triggers { cpu, memory }
    }

    /// Returns the files and events to poll for, CPU first.
    pub fn files(&self) -> [Option<(RawFd, Interest)>; 2] {
        [&self.cpu, &self.memory]
            .map(|file| file.as_ref().map(|f| (f.as_raw_fd(), Interest::Priority)))
    }

    /// Closes a trigger.
    pub fn close(&mut self, pressure: Pressure) {
        match pressure {
            Pressure::Cpu => self.cpu = None,
            Pressure::Memory => self.memory = None,
        }
    }
}
