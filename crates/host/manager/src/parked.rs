//! The list of guests that a manager has parked or reclaimed memory from, on disk for the next
//! manager.
//!
//! ```text
//!   SOCKET.PID.parked    a parked guest: process ID, start time, and `ran` with the CPU time of
//!                        the virtual CPUs at the stop
//!                        a smaller guest: process ID, start time, and `size` with the bytes to
//!                        restore
//! ```
//!
//! The keeper wakes and restores the guests at the manager's end. If both processes are killed, or
//! memory is short, the next manager wakes and restores the guests. The next manager holds the
//! socket's lock, so all other such files belong to dead managers.
//!
//! If a listed guest's virtual CPUs have run since the stop, the guest was resumed by hand. If
//! these CPUs are stopped again, the guest was then paused by hand.
//!
//! A dead manager's keeper may change the manager's file while the next manager takes over the
//! file. Both processes therefore lock the file, and then check that the file still exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::Bytes;
use hypervisor::{Id, ProcessId};
use rustix::fs::OFlags;

const SUFFIX: &str = ".parked";
/// Maximum number of bytes read from a file, enough for two lines of 67 bytes for each guest of the
/// largest host.
const BYTES_MAX: u64 = 1 << 20;
/// Maximum number of attempts to open a file that is replaced each time.
const TRIES_MAX: usize = 16;
/// Number of stored sizes above which the sizes of ended processes are removed.
const SIZES_MIN: usize = 64;

/// A guest that was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stood {
    /// Process of the guest.
    pub process: ProcessId,
    /// CPU time of the virtual CPUs at the stop, in nanoseconds, if known.
    pub ran_ns: Option<u64>,
}

/// The listed guests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Parked guests, with the CPU time of their virtual CPUs in nanoseconds.
    pub parked: BTreeMap<ProcessId, Option<u64>>,
    /// Full size of each guest that has less memory.
    pub sizes: BTreeMap<ProcessId, Bytes>,
}

/// The file of this manager, which exists while there is something to list. Without a path the list
/// is in memory only.
#[derive(Debug, Default)]
pub(crate) struct ParkedFile {
    path: Option<PathBuf>,
    guests: BTreeMap<Id, Stood>,
    sizes: BTreeMap<ProcessId, Bytes>,
    /// Number of stored sizes at which the sizes of ended processes are removed.
    sizes_max: usize,
    /// Reason for a failed write, until it is reported.
    trouble: Option<String>,
}

impl ParkedFile {
    /// Opens the file next to this manager's control socket, and takes over the files of dead
    /// managers there. The caller holds the socket's lock.
    pub(crate) fn beside(socket: &Path) -> ParkedFile {
        let path = path_beside(socket, std::process::id());
        let mut file = ParkedFile { path: Some(path.clone()), ..ParkedFile::default() };
        let open = |path: PathBuf| {
            let held = hold(&path).ok()?;
            Some((read(&held).ok()?, held, path))
        };
        let found: Vec<(Written, File, PathBuf)> =
            files(socket).into_iter().filter_map(open).collect();
        let mut parked = BTreeMap::new();
        for (written, ..) in &found {
            parked.extend(written.parked.iter().filter(|(process, _)| process.is_alive()));
            let alive = written.sizes.iter().filter(|(process, _)| process.is_alive());
            file.sizes.extend(alive);
        }
        let left = parked.into_iter().map(|(process, ran_ns)| Stood { process, ran_ns });
        // These ids count down from the maximum, because sources' ids count up from 1.
        file.guests = (0..=u64::MAX).rev().map(Id).zip(left).collect();
        file.save();
        if file.trouble.is_none() {
            for (.., path) in found.iter().filter(|(.., other)| *other != path) {
                // A file that could not be removed is read again by the next manager.
                let _ = fs::remove_file(path);
            }
        }
        file
    }

    pub(crate) fn sizes(&self) -> &BTreeMap<ProcessId, Bytes> {
        &self.sizes
    }

    /// Sets the size to restore, or removes it for a guest with its full size.
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

    /// Returns the guests listed as parked, by id.
    pub(crate) fn guests(&self) -> impl Iterator<Item = (Id, Stood)> {
        self.guests.iter().map(|(id, stood)| (*id, *stood))
    }

    /// Lists a guest that is stopped, or that is about to be parked.
    pub(crate) fn add(&mut self, id: Id, stood: Stood) {
        if self.guests.insert(id, stood) != Some(stood) {
            self.save();
        }
    }

    /// Removes a guest that runs or is gone.
    pub(crate) fn remove(&mut self, id: Id) {
        if self.guests.remove(&id).is_some() {
            self.save();
        }
    }

    /// Returns the reason for a failed write, once.
    pub(crate) fn take_trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    fn save(&mut self) {
        let Some(path) = &self.path else { return };
        let parked = self.guests.values().map(|stood| (stood.process, stood.ran_ns)).collect();
        if let Err(error) = write(path, &Written { parked, sizes: self.sizes.clone() }) {
            self.trouble = Some(format!(
                "{} cannot be written: {error}. If the manager and its keeper are killed together, \
                 parked guests stay paused, and shrunk guests stay small, until somebody resumes \
                 or enlarges them",
                path.display()
            ));
        }
    }
}

/// Returns the path of the file of a manager with this process ID.
pub(crate) fn path_beside(socket: &Path, pid: u32) -> PathBuf {
    socket.with_added_extension(format!("{pid}{SUFFIX}"))
}

/// Removes `woken` and `restored` guests from a dead manager's file. A guest with a larger size to
/// restore stays in the file, because the dead manager's maximum for the guest was lower.
pub(crate) fn strike_out(
    path: &Path,
    woken: &BTreeSet<ProcessId>,
    restored: &BTreeMap<ProcessId, Bytes>,
) -> io::Result<()> {
    let held = match hold(path) {
        Ok(held) => held,
        // Either no guest was listed, or the next manager has taken over the file.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut written = read(&held)?;
    written.parked.retain(|process, _| !woken.contains(process));
    written.sizes.retain(|process, size| restored.get(process).is_none_or(|has| has < size));
    write(path, &written)
}

/// Returns the files of a socket's managers.
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

/// Opens a file of this user, and locks it until the returned value is dropped.
fn hold(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    for _ in 0..TRIES_MAX {
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            let text = "the file does not belong to this user";
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        // Another process holds the lock only while it writes a page.
        file.lock()?;
        let there = fs::symlink_metadata(path)?;
        if (there.dev(), there.ino()) == (found.dev(), found.ino()) {
            return Ok(file);
        }
    }
    Err(io::Error::other("it is replaced again and again"))
}

/// Reads the guests in a file. Invalid lines are left out.
fn read(file: &File) -> io::Result<Written> {
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(record(&text))
}

fn record(text: &str) -> Written {
    let mut written = Written::default();
    text.lines().for_each(|line| _ = add_line(&mut written, line));
    written
}

/// Reads a record, and returns its text as this module would write it.
pub fn record_again(text: &str) -> String {
    lines(&record(text))
}

fn add_line(written: &mut Written, line: &str) -> Option<()> {
    let mut words = line.split(' ');
    let (pid, start_ticks) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let process = ProcessId { pid, start_ticks };
    match (words.next(), words.next().map(str::parse)) {
        (None, _) => drop(written.parked.insert(process, None)),
        (Some("ran"), Some(Ok(ran_ns))) => drop(written.parked.insert(process, Some(ran_ns))),
        (Some("size"), Some(Ok(size))) => drop(written.sizes.insert(process, Bytes(size))),
        _ => {}
    }
    Some(())
}

fn lines(written: &Written) -> String {
    let line = |process: &ProcessId, name: &str, number: Option<u64>| {
        let number = number.map_or(String::new(), |number| format!(" {name} {number}"));
        format!("{} {}{number}\n", process.pid, process.start_ticks)
    };
    let parked = written.parked.iter().map(|(process, ran_ns)| line(process, "ran", *ran_ns));
    let sizes = written.sizes.iter().map(|(process, size)| line(process, "size", Some(size.0)));
    parked.chain(sizes).collect()
}

/// Writes a file as a whole, or removes it if there is nothing to write. The file need not survive
/// a crash of the machine, because such a crash also ends the guests.
fn write(path: &Path, written: &Written) -> io::Result<()> {
    if *written == Written::default() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let part = path.with_extension("part");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&part)?;
    file.write_all(lines(written).as_bytes())?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;

    fn own() -> Stood {
        Stood { process: ProcessId::of(std::process::id()).unwrap(), ran_ns: Some(5) }
    }

    fn other(pid: u32) -> Stood {
        Stood { process: ProcessId { pid, start_ticks: u64::MAX }, ran_ns: None }
    }

    fn line(stood: Stood) -> String {
        format!("{} {} ran 5\n", stood.process.pid, stood.process.start_ticks)
    }

    fn written(path: &Path) -> Vec<ProcessId> {
        read(&File::open(path).unwrap()).unwrap().parked.into_keys().collect()
    }

    #[test]
    fn finding2_18_record_of_a_dead_manager_is_taken_over() {
        let kernel = FakeKernel::new(1, 1);
        let socket = kernel.path("host.sock");
        let dead = path_beside(&socket, 1);
        let text = format!("{}7 1\nnonsense\n", line(own()));
        kernel.write("host.sock.1.parked", &text);
        kernel.write("host.sock.x.parked", &text);
        let mut file = ParkedFile::beside(&socket);
        let left: Vec<_> = file.guests().collect();
        assert_eq!(left, [(Id(u64::MAX), own())], "the other process is gone");
        let path = file.path.clone().unwrap();
        assert!(!dead.exists() && path.exists());
        file.add(Id(1), other(8));
        file.remove(Id(u64::MAX));
        assert_eq!(written(&path), [other(8).process]);
        file.remove(Id(1));
        assert!(!path.exists());
        assert_eq!(file.take_trouble(), None);
    }

    #[test]
    fn report_h10_sizes_of_ended_processes_do_not_pile_up() {
        let kernel = FakeKernel::new(1, 1);
        let mut file = ParkedFile::beside(&kernel.path("host.sock"));
        let own = own().process;
        file.set_size(own, Some(Bytes::mib(256)));
        (0..1_000).for_each(|pid| file.set_size(other(pid).process, Some(Bytes(1))));
        assert!(file.sizes().len() <= SIZES_MIN + 1, "{}", file.sizes().len());
        let again = ParkedFile::beside(&kernel.path("host.sock"));
        assert_eq!(*again.sizes(), BTreeMap::from([(own, Bytes::mib(256))]));
        file.set_size(own, None);
        assert!(!file.sizes().contains_key(&own));
    }

    #[test]
    fn finding2_18_record_is_no_link_and_no_pipe() {
        let kernel = FakeKernel::new(1, 1);
        let socket = kernel.path("host.sock");
        kernel.write("text", &line(own()));
        std::os::unix::fs::symlink(kernel.path("text"), path_beside(&socket, 1)).unwrap();
        let pipe = path_beside(&socket, 2);
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        assert_eq!(ParkedFile::beside(&socket).guests().count(), 0);
        assert!(path_beside(&socket, 2).exists(), "only files taken over are removed");
    }

    #[test]
    fn finding2_18_keeper_strikes_out_what_it_has_woken() {
        let kernel = FakeKernel::new(1, 1);
        let path = kernel.path("host.sock.1.parked");
        kernel.write("host.sock.1.parked", "7 1\n8 1 ran 9\n7 1 size 512\n");
        let only = |pid| BTreeSet::from([ProcessId { pid, start_ticks: 1 }]);
        let has = |pid, size| BTreeMap::from([(ProcessId { pid, start_ticks: 1 }, Bytes(size))]);
        strike_out(&path, &only(7), &has(8, 512)).unwrap();
        assert_eq!(kernel.read("host.sock.1.parked"), "8 1 ran 9\n7 1 size 512\n");
        strike_out(&path, &only(8), &has(7, 511)).unwrap();
        assert_eq!(kernel.read("host.sock.1.parked"), "7 1 size 512\n", "the maximum is lower");
        strike_out(&path, &only(8), &has(7, 512)).unwrap();
        assert!(!path.exists());
        strike_out(&path, &only(7), &has(7, 512)).unwrap();
    }

    #[test]
    fn finding2_18_keeper_leaves_a_record_that_was_taken_over() {
        let kernel = FakeKernel::new(1, 1);
        let (socket, path) = (kernel.path("host.sock"), kernel.path("host.sock.1.parked"));
        let woken = BTreeSet::from([other(7).process]);
        for _ in 0..200 {
            kernel.write("host.sock.1.parked", &format!("{}7 {}\n", line(own()), u64::MAX));
            let mut next = std::thread::scope(|scope| {
                let next = scope.spawn(|| ParkedFile::beside(&socket));
                strike_out(&path, &woken, &BTreeMap::new()).unwrap();
                next.join().unwrap()
            });
            assert!(!path.exists(), "the dead manager's file is there again");
            assert_eq!(next.guests().map(|(_, stood)| stood).collect::<Vec<_>>(), [own()]);
            next.remove(Id(u64::MAX));
        }
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
