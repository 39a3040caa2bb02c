//! The files that a host may ask a daemon for.

use crate::body::place;
use base::named;

named! {
    /// A file of the guest that the host may ask for, to explain a rules file with the
    /// guest's own counters. There is no other way to name a file: a host cannot read
    /// what it likes.
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
    /// Where it is below the root; `None` for the daemon's own rules file.
    pub fn path(self) -> Option<&'static str> {
        (self != File::Rules).then(|| self.name())
    }
}

place!(File);
