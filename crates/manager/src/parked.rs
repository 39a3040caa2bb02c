//! The guests that a manager has parked, written down for the one after it.
//!
//! ```text
//!   SOCKET.PID.parked    a line a guest: its process's number, and when that started
//! ```
//!
//! Its keeper wakes them when a manager ends. If both are killed, the next manager does: the
//! socket's lock is its own, so that what else lies there is a dead manager's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hypervisor::{Id, ProcessId};
use rustix::fs::OFlags;

const SUFFIX: &str = ".parked";
/// Bytes of a file that are read: a line of 32 for each guest of the largest host, and more.
const BYTES_MAX: u64 = 1 << 20;

/// The file of this manager, which is there while guests are parked.
#[derive(Debug)]
pub(crate) struct ParkedFile {
    path: PathBuf,
    guests: BTreeMap<Id, ProcessId>,
    /// Why it is not as it should be, until that was told.
    trouble: Option<String>,
}

impl ParkedFile {
    /// Opens the file beside a control socket that is this manager's, and takes over what dead
    /// managers have left there. The caller holds the socket's lock.
    pub(crate) fn beside(socket: &Path) -> ParkedFile {
        let mut file = ParkedFile {
            path: path_beside(socket, std::process::id()),
            guests: BTreeMap::new(),
            trouble: None,
        };
        let found = files(socket).into_iter().filter_map(|path| Some((read(&path).ok()?, path)));
        let found: Vec<(BTreeSet<ProcessId>, PathBuf)> = found.collect();
        let left: BTreeSet<ProcessId> = found.iter().flat_map(|(left, _)| left).copied().collect();
        // From above: sources give ids from below.
        let ids = (0..=u64::MAX).rev().map(Id);
        file.guests = ids.zip(left.into_iter().filter(|process| process.is_alive())).collect();
        file.save();
        if file.trouble.is_none() {
            for (_, path) in found.iter().filter(|(_, path)| *path != file.path) {
                // One that stays is taken over again by the next manager.
                let _ = fs::remove_file(path);
            }
        }
        file
    }

    /// The guests that are written down, by their ids.
    pub(crate) fn guests(&self) -> impl Iterator<Item = (Id, ProcessId)> {
        self.guests.iter().map(|(id, process)| (*id, *process))
    }

    /// Writes down that a guest is about to be parked.
    pub(crate) fn add(&mut self, id: Id, process: ProcessId) {
        if self.guests.insert(id, process) != Some(process) {
            self.save();
        }
    }

    /// Strikes out a guest that runs or is gone.
    pub(crate) fn remove(&mut self, id: Id) {
        if self.guests.remove(&id).is_some() {
            self.save();
        }
    }

    /// Returns what went wrong, once.
    pub(crate) fn take_trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    fn save(&mut self) {
        let processes: BTreeSet<ProcessId> = self.guests.values().copied().collect();
        if let Err(error) = write(&self.path, &processes) {
            self.trouble = Some(format!(
                "{} cannot be written: {error}. If the manager and its keeper are killed together, \
                 parked guests stay paused until somebody lets them run",
                self.path.display()
            ));
        }
    }
}

/// The file of a manager with this number.
pub(crate) fn path_beside(socket: &Path, pid: u32) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(format!(".{pid}{SUFFIX}"));
    name.into()
}

/// Strikes out guests that a dead manager's keeper has woken.
pub(crate) fn strike_out(path: &Path, woken: &BTreeSet<ProcessId>) -> io::Result<()> {
    match read(path) {
        Ok(parked) => write(path, &parked.difference(woken).copied().collect()),
        // Nobody was parked, or the next manager has taken it over.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The files of managers of a socket.
fn files(socket: &Path) -> Vec<PathBuf> {
    let (Some(dir), Some(name)) =
        (socket.parent(), socket.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let is_one = |found: &str| {
        let pid = found.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(SUFFIX)?;
        pid.parse::<u32>().ok()
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_name().to_str().and_then(is_one).is_some());
    names.map(|entry| entry.path()).collect()
}

/// The processes in a file that nobody else has made. A line that is none is left out.
fn read(path: &Path) -> io::Result<BTreeSet<ProcessId>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is not a file of this user's"));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.lines().filter_map(process).collect())
}

fn process(line: &str) -> Option<ProcessId> {
    let (pid, start_ticks) = line.split_once(' ')?;
    Some(ProcessId { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
}

/// Writes a file as a whole, or removes it where there is nothing to write. It need not survive
/// the machine, which ends its guests too.
fn write(path: &Path, parked: &BTreeSet<ProcessId>) -> io::Result<()> {
    if parked.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let line = |process: &ProcessId| format!("{} {}\n", process.pid, process.start_ticks);
    let text: String = parked.iter().map(line).collect();
    let part = path.with_extension("part");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&part)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;

    fn own() -> ProcessId {
        ProcessId::of(std::process::id()).unwrap()
    }

    fn other(pid: u32) -> ProcessId {
        ProcessId { pid, start_ticks: u64::MAX }
    }

    #[test]
    fn finding2_18_record_of_a_dead_manager_is_taken_over() {
        let kernel = FakeKernel::new(1, 1);
        let socket = kernel.path("host.sock");
        let dead = path_beside(&socket, 1);
        let text = format!("{} {}\n7 1\nnonsense\n", own().pid, own().start_ticks);
        kernel.write("host.sock.1.parked", &text);
        kernel.write("host.sock.x.parked", &text);
        let mut file = ParkedFile::beside(&socket);
        let left: Vec<_> = file.guests().collect();
        assert_eq!(left, [(Id(u64::MAX), own())], "the other process is gone");
        assert!(!dead.exists() && file.path.exists());
        file.add(Id(1), other(8));
        file.remove(Id(u64::MAX));
        assert_eq!(read(&file.path).unwrap(), BTreeSet::from([other(8)]));
        file.remove(Id(1));
        assert!(!file.path.exists());
        assert_eq!(file.take_trouble(), None);
    }

    #[test]
    fn finding2_18_record_is_no_link_and_no_pipe() {
        let kernel = FakeKernel::new(1, 1);
        let socket = kernel.path("host.sock");
        kernel.write("text", &format!("{} {}\n", own().pid, own().start_ticks));
        std::os::unix::fs::symlink(kernel.path("text"), path_beside(&socket, 1)).unwrap();
        let pipe = path_beside(&socket, 2);
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        assert_eq!(ParkedFile::beside(&socket).guests().count(), 0);
        assert!(path_beside(&socket, 2).exists(), "only what was taken over is removed");
    }

    #[test]
    fn finding2_18_keeper_strikes_out_what_it_has_woken() {
        let kernel = FakeKernel::new(1, 1);
        let path = kernel.path("host.sock.1.parked");
        kernel.write("host.sock.1.parked", "7 1\n8 1\n");
        let process = |pid| ProcessId { pid, start_ticks: 1 };
        strike_out(&path, &BTreeSet::from([process(7)])).unwrap();
        assert_eq!(read(&path).unwrap(), BTreeSet::from([process(8)]));
        strike_out(&path, &BTreeSet::from([process(8)])).unwrap();
        assert!(!path.exists());
        strike_out(&path, &BTreeSet::new()).unwrap();
    }

    #[test]
    fn finding2_18_record_that_cannot_be_written_is_told() {
        let kernel = FakeKernel::new(1, 1);
        let mut file = ParkedFile::beside(&kernel.path("none/host.sock"));
        assert_eq!(file.take_trouble(), None, "there is nothing to write");
        file.add(Id(1), own());
        assert!(file.take_trouble().unwrap().contains("none/host.sock"));
    }
}
