//! The files that a host may ask a daemon for.

use crate::body::{Body, Reader, Writer};

/// A file of the guest that the host may ask for, to explain a rules file with the
/// guest's own counters. There is no other way to name a file: a host cannot read
/// what it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum File {
    Stat,
    Loadavg,
    Meminfo,
    Vmstat,
    CpuOnline,
    CpuPresent,
    PressureCpu,
    PressureMemory,
    PressureIo,
    Rules,
}

impl File {
    /// All of them.
    pub const ALL: [File; 10] = [
        File::Stat,
        File::Loadavg,
        File::Meminfo,
        File::Vmstat,
        File::CpuOnline,
        File::CpuPresent,
        File::PressureCpu,
        File::PressureMemory,
        File::PressureIo,
        File::Rules,
    ];

    /// Where it is below the root; `None` for the daemon's own rules file.
    pub fn path(self) -> Option<&'static str> {
        Some(match self {
            File::Stat => "proc/stat",
            File::Loadavg => "proc/loadavg",
            File::Meminfo => "proc/meminfo",
            File::Vmstat => "proc/vmstat",
            File::CpuOnline => "sys/devices/system/cpu/online",
            File::CpuPresent => "sys/devices/system/cpu/present",
            File::PressureCpu => "proc/pressure/cpu",
            File::PressureMemory => "proc/pressure/memory",
            File::PressureIo => "proc/pressure/io",
            File::Rules => return None,
        })
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
