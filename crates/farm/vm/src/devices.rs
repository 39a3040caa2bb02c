//! The state of a guest's devices, written by its QEMU without the guest's memory.
//!
//! ```text
//!   virtual CPUs stopped ─► xen-save-devices-state ─► a file in memory ─► its owner
//!   owner ─► a file in memory ─► a QEMU with the guest's memory, which resumes from this state
//! ```
//!
//! QEMU may open no files, so it inherits the file at its start. Commands to QEMU name the file by
//! the number of a descriptor set.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use qmp::Command;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::emulator;
use crate::images::Arch;

/// Number of the descriptor set to which QEMU writes device state. The sets of a guest's disks have
/// smaller numbers.
const SET: u32 = 9_000;

/// Number of the descriptor set from which QEMU loads a saved state.
pub(crate) const STATE_SET: u32 = SET + 1;

/// Maximum size of device state, in bytes. Every machine has less, but a guest that controls its
/// QEMU could write more.
const STATE_MAX: u64 = 64 << 20;

/// The file to which one QEMU writes its device state.
#[derive(Debug)]
pub struct DeviceFile {
    file: File,
    /// A descriptor for writing, which shares its file offset with QEMU's inherited descriptor.
    written: File,
}

impl DeviceFile {
    /// Creates an empty file. Returns the file, the descriptor for QEMU to inherit, and QEMU's
    /// arguments.
    pub(crate) fn new() -> io::Result<(DeviceFile, OwnedFd, [String; 2])> {
        let file = in_memory()?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // QEMU accepts only a descriptor that is write-only here.
        let written = OpenOptions::new().write(true).open(path)?;
        let given = OwnedFd::from(written.try_clone()?);
        let words = ["-add-fd".to_owned(), format!("fd={},set={SET}", given.as_raw_fd())];
        Ok((DeviceFile { file, written }, given, words))
    }

    /// Empties the file, and returns the command that makes QEMU write its device state.
    pub fn save(&mut self) -> io::Result<Command> {
        self.written.set_len(0)?;
        self.written.rewind()?;
        Ok(Command::SaveDevices { path: format!("/dev/fdset/{SET}") })
    }

    /// Returns the bytes that QEMU has written.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.rewind()?;
        (&self.file).take(STATE_MAX + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > STATE_MAX {
            true => Err(io::Error::other("QEMU writes more device data than any machine has")),
            false => Ok(bytes),
        }
    }
}

pub(crate) fn state_file(state: &[u8]) -> io::Result<File> {
    let mut file = in_memory()?;
    file.write_all(state)?;
    // QEMU accepts only a descriptor that is read-only here.
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Returns the arguments that pass a file with a state to a starting QEMU, and the state's URI.
pub(crate) fn state_words(arch: Arch, file: &File) -> (Option<[String; 2]>, String) {
    let fd = file.as_raw_fd();
    match emulator::names_states(arch) {
        true => (Some(["-add-fd".into(), format!("fd={fd},set={STATE_SET}")]), state_uri()),
        false => (None, format!("fd:{fd}")),
    }
}

pub(crate) fn state_uri() -> String {
    format!("file:/dev/fdset/{STATE_SET}")
}

fn in_memory() -> io::Result<File> {
    Ok(File::from(memfd_create("devices", MemfdFlags::CLOEXEC)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_written_from_the_beginning() {
        let (mut devices, given, words) = DeviceFile::new().unwrap();
        assert_eq!(words[1], format!("fd={},set=9000", given.as_raw_fd()));
        let mut qemus = File::from(given);
        for state in ["long and old", "newer"] {
            let command = devices.save().unwrap();
            assert_eq!(command, Command::SaveDevices { path: "/dev/fdset/9000".into() });
            qemus.write_all(state.as_bytes()).unwrap();
            assert_eq!(devices.read().unwrap(), state.as_bytes());
        }
        qemus.set_len(STATE_MAX + 1).unwrap();
        assert!(devices.read().is_err(), "sparse, and endless");
        let mut state = String::new();
        state_file(b"a state").unwrap().read_to_string(&mut state).unwrap();
        assert_eq!(state, "a state");
    }
}
