//! The files that a host may request from a daemon.

use crate::body::place;
use base::named;

named! {
    /// A file of the guest that the host may request, to explain a rules file with the guest's own
    /// counters. No other file can be named, so a host cannot read arbitrary files.
    #[allow(missing_docs)]
    pub enum File {
        Stat = "proc/stat",
        Loadavg = "proc/loadavg",
        Meminfo = "proc/meminfo",
        Vmstat = "proc/vmstat",
        CpuOnline = "sys/devices/system/cpu/online",
        CpuPresent = "sys/devices/system/cpu/present",
        PressureCpu = "proc/pressure/cpu",
        PressureMemory = "proc/pressure/memory",
        PressureIo = "proc/pressure/io",
        Rules = "",
    }
}

impl File {
    /// Returns the file's path below the root; `None` for the daemon's own rules file.
    pub fn path(self) -> Option<&'static str> {
        (self != File::Rules).then(|| self.name())
    }
}

place!(File);
