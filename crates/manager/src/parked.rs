//! The guests that a manager has parked or taken memory from, written down for the next one.
//!
//! ```text
//!   SOCKET.PID.parked    a guest that is parked: its process's number, and when that started
//!                        the same and a size: a guest that is to have so many bytes again
//! ```
//!
//! Its keeper wakes and restores them when a manager ends. If both are killed, or there is too
//! little memory, the next manager does. The socket's lock is its own: what else lies there is a
//! dead manager's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use counters::Bytes;
use hypervisor::{Id, ProcessId};
use rustix::fs::OFlags;

const SUFFIX: &str = ".parked";
/// Bytes of a file that are read: two lines of 52 for each guest of the largest host.
const BYTES_MAX: u64 = 1 << 20;
/// Sizes of more processes than that are those of processes that have ended, too.
const SIZES_MIN: usize = 64;

/// The guests that are written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// The guests that are parked.
    pub parked: BTreeSet<ProcessId>,
    /// The guests that have less than they are to have again, and that size.
    pub sizes: BTreeMap<ProcessId, Bytes>,
}

/// The file of this manager, which is there while there is something in it. Without a path it is
/// kept in memory only.
#[derive(Debug, Default)]
pub(crate) struct ParkedFile {
    path: Option<PathBuf>,
    guests: BTreeMap<Id, ProcessId>,
    sizes: BTreeMap<ProcessId, Bytes>,
    /// At so many sizes those of processes that have ended are struck out.
    sizes_max: usize,
    /// Why it is not as it should be, until that was told.
    trouble: Option<String>,
}

impl ParkedFile {
    /// Opens the file beside a control socket that is this manager's, and takes over what dead
    /// managers have left there. The caller holds the socket's lock.
    pub(crate) fn beside(socket: &Path) -> ParkedFile {
        let path = path_beside(socket, std::process::id());
        let mut file = ParkedFile { path: Some(path.clone()), ..ParkedFile::default() };
        let found = files(socket).into_iter().filter_map(|path| Some((read(&path).ok()?, path)));
        let found: Vec<(Written, PathBuf)> = found.collect();
        let mut left = BTreeSet::new();
        for (written, _) in &found {
            left.extend(written.parked.iter().copied().filter(|process| process.is_alive()));
            let alive = written.sizes.iter().filter(|(process, _)| process.is_alive());
            file.sizes.extend(alive);
        }
        // From above: sources give ids from below.
        file.guests = (0..=u64::MAX).rev().map(Id).zip(left).collect();
        file.save();
        if file.trouble.is_none() {
            for (_, path) in found.iter().filter(|(_, other)| *other != path) {
                // One that stays is taken over again by the next manager.
                let _ = fs::remove_file(path);
            }
        }
        file
    }

    /// Sizes that guests are to have again, by their processes.
    pub(crate) fn sizes(&self) -> &BTreeMap<ProcessId, Bytes> {
        &self.sizes
    }

    /// Writes down what a guest is to have again, or that it has it.
    pub(crate) fn set_size(&mut self, process: ProcessId, size: Option<Bytes>) {
        let before = match size {
            Some(size) => self.sizes.insert(process, size),
            None => self.sizes.remove(&process),
        };
        if before == size {
            return;
        }
        if self.sizes.len() > self.sizes_max.max(SIZES_MIN) {
            self.sizes.retain(|process, _| process.is_alive());
            self.sizes_max = 2 * self.sizes.len();
        }
        self.save();
    }

    /// The guests that are parked, by their ids.
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
        let Some(path) = &self.path else { return };
        let parked = self.guests.values().copied().collect();
        if let Err(error) = write(path, &Written { parked, sizes: self.sizes.clone() }) {
            self.trouble = Some(format!(
                "{} cannot be written: {error}. If the manager and its keeper are killed together, \
                 parked guests stay paused until somebody lets them run, and small ones small",
                path.display()
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

/// Strikes out guests that a dead manager's keeper has woken, and those that it has restored.
pub(crate) fn strike_out(
    path: &Path,
    woken: &BTreeSet<ProcessId>,
    restored: &BTreeSet<ProcessId>,
) -> io::Result<()> {
    match read(path) {
        Ok(mut written) => {
            written.parked.retain(|process| !woken.contains(process));
            written.sizes.retain(|process, _| !restored.contains(process));
            write(path, &written)
        }
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

/// The guests in a file that nobody else has made. A line that names none is left out.
fn read(path: &Path) -> io::Result<Written> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is not a file of this user's"));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    let mut written = Written::default();
    for (process, size) in text.lines().filter_map(guest) {
        match size {
            Some(size) => drop(written.sizes.insert(process, size)),
            None => drop(written.parked.insert(process)),
        }
    }
    Ok(written)
}

fn guest(line: &str) -> Option<(ProcessId, Option<Bytes>)> {
    let mut words = line.split(' ');
    let (pid, start_ticks) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let size = match words.next() {
        Some(word) => Some(Bytes(word.parse().ok()?)),
        None => None,
    };
    Some((ProcessId { pid, start_ticks }, size))
}

/// Writes a file as a whole, or removes it where there is nothing to write. It need not survive
/// the machine, which ends its guests too.
fn write(path: &Path, written: &Written) -> io::Result<()> {
    if *written == Written::default() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let line = |process: &ProcessId| format!("{} {}", process.pid, process.start_ticks);
    let parked = written.parked.iter().map(|process| line(process) + "\n");
    let sizes = written.sizes.iter();
    let sizes = sizes.map(|(process, size)| format!("{} {}\n", line(process), size.0));
    let text: String = parked.chain(sizes).collect();
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
        let path = file.path.clone().unwrap();
        assert!(!dead.exists() && path.exists());
        file.add(Id(1), other(8));
        file.remove(Id(u64::MAX));
        assert_eq!(read(&path).unwrap().parked, BTreeSet::from([other(8)]));
        file.remove(Id(1));
        assert!(!path.exists());
        assert_eq!(file.take_trouble(), None);
    }

    #[test]
    fn report_h10_sizes_of_ended_processes_do_not_pile_up() {
        let kernel = FakeKernel::new(1, 1);
        let mut file = ParkedFile::beside(&kernel.path("host.sock"));
        file.set_size(own(), Some(Bytes::mib(256)));
        (0..1_000).for_each(|pid| file.set_size(other(pid), Some(Bytes(1))));
        assert!(file.sizes().len() <= SIZES_MIN + 1, "{}", file.sizes().len());
        let again = ParkedFile::beside(&kernel.path("host.sock"));
        assert_eq!(*again.sizes(), BTreeMap::from([(own(), Bytes::mib(256))]));
        file.set_size(own(), None);
        assert!(!file.sizes().contains_key(&own()));
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
        kernel.write("host.sock.1.parked", "7 1\n8 1\n7 1 512\n");
        let only = |pid| BTreeSet::from([ProcessId { pid, start_ticks: 1 }]);
        strike_out(&path, &only(7), &only(8)).unwrap();
        assert_eq!(kernel.read("host.sock.1.parked"), "8 1\n7 1 512\n");
        strike_out(&path, &only(8), &only(7)).unwrap();
        assert!(!path.exists());
        strike_out(&path, &only(7), &only(7)).unwrap();
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
