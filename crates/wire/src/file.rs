//! The files that a host may ask a daemon for.

use crate::body::{Body, Reader, Writer};
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

impl Body for File {
    fn write(&self, out: &mut Writer<'_>) {
        out.u8(*self as u8);
    }

    fn read(from: &mut Reader<'_>) -> Option<File> {
        File::ALL.get(usize::from(from.u8()?)).copied()
    }
}
