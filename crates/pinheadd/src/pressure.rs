//! Pressure triggers: the kernel says when tasks start to wait, so that nobody has
//! to ask an idle guest.

use crate::args::Pace;
use crate::sys::Interest;
use procfs::Root;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use wire::{Pressure, Welcome};

/// Stalls of 100 ms within one second. Shorter ones come with every program start.
const MEMORY: &str = "some 100000 1000000";
/// The same share of half a second, the shortest time that the kernel takes: a host that has
/// the memory to help wants to know soon. The kernel looks ten times in that half second, but
/// only while tasks do wait, so that this costs a guest without pressure nothing.
const MEMORY_FOR_HOST: &str = "some 50000 500000";
/// Waits for a CPU of 300 ms within one second.
const CPU: &str = "some 300000 1000000";

/// The triggers that are set. They end with the daemon.
#[derive(Debug, Default)]
pub struct Triggers {
    cpu: Option<File>,
    memory: Option<File>,
}

impl Triggers {
    /// Sets the triggers that a pace needs, where the kernel has them, and the one of memory
    /// for a host, whatever the pace and the rules: the mover of memory has to learn of a need.
    pub fn open(root: &Root, pace: Pace, host: Option<Welcome>) -> Triggers {
        let trigger = |name: &str, line: &str| {
            let path = root.join("proc/pressure").join(name);
            let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
            // The kernel wants the line with its closing zero.
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
            // A host sees virtual CPUs that run without waking anybody.
            (Some(Welcome { paces: true, .. }), Pace::Host) => None,
            (_, Pace::Host | Pace::Adaptive) => trigger("cpu", CPU),
        };
        Triggers { cpu, memory }
    }

    /// What to wait for, CPU first.
    pub fn files(&self) -> [Option<(RawFd, Interest)>; 2] {
        [&self.cpu, &self.memory]
            .map(|file| file.as_ref().map(|f| (f.as_raw_fd(), Interest::Priority)))
    }

    /// Gives a trigger up.
    pub fn close(&mut self, pressure: Pressure) {
        match pressure {
            Pressure::Cpu => self.cpu = None,
            Pressure::Memory => self.memory = None,
        }
    }
}
