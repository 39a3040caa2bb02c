//! The guests that a manager has parked, written down for the one after it.
//!
//! ```text
//!   SOCKET.PID.parked    a line a guest: its process's number, when that started, and what its
//!                        virtual CPUs had run by the time that they stood still
//! ```
//!
//! Its keeper wakes them when a manager ends. If both are killed, the next manager does: the
//! socket's lock is its own, so that what else lies there is a dead manager's. If a guest's virtual
//! CPUs have run since, it was let run by hand; if it stands still then, it is paused by hand.
//!
//! A dead manager's file is changed by its keeper and taken over by the next manager, perhaps at
//! the same time. Both hold a lock on it, and look then whether it is still there.

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
/// Times that a file is opened which somebody replaces each time.
const TRIES_MAX: usize = 16;

/// A guest that was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stood {
    /// Its process.
    pub process: ProcessId,
    /// Time that its virtual CPUs had run when they stood still, in nanoseconds, if it was seen.
    pub ran_ns: Option<u64>,
}

/// Guests of a file, with what their virtual CPUs had run.
type Record = BTreeMap<ProcessId, Option<u64>>;

/// The file of this manager, which is there while guests are parked.
#[derive(Debug)]
pub(crate) struct ParkedFile {
    path: PathBuf,
    guests: BTreeMap<Id, Stood>,
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
        let open = |path: PathBuf| {
            let held = hold(&path).ok()?;
            Some((read(&held).ok()?, held, path))
        };
        let found: Vec<(Record, File, PathBuf)> =
            files(socket).into_iter().filter_map(open).collect();
        let left: Record = found.iter().flat_map(|(left, ..)| left.clone()).collect();
        let left = left.into_iter().map(|(process, ran_ns)| Stood { process, ran_ns });
        // From above: sources give ids from below.
        let ids = (0..=u64::MAX).rev().map(Id);
        file.guests = ids.zip(left.filter(|stood| stood.process.is_alive())).collect();
        file.save();
        if file.trouble.is_none() {
            for (.., path) in found.iter().filter(|(.., path)| *path != file.path) {
                // One that stays is taken over again by the next manager.
                let _ = fs::remove_file(path);
            }
        }
        file
    }

    /// The guests that are written down, by their ids.
    pub(crate) fn guests(&self) -> impl Iterator<Item = (Id, Stood)> {
        self.guests.iter().map(|(id, stood)| (*id, *stood))
    }

    /// Writes down that a guest is about to be parked, or stands still.
    pub(crate) fn add(&mut self, id: Id, stood: Stood) {
        if self.guests.insert(id, stood) != Some(stood) {
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
        let record = self.guests.values().map(|stood| (stood.process, stood.ran_ns)).collect();
        if let Err(error) = write(&self.path, &record) {
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
    let held = match hold(path) {
        Ok(held) => held,
        // Nobody was parked, or the next manager has taken it over.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut parked = read(&held)?;
    parked.retain(|process, _| !woken.contains(process));
    write(path, &parked)
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

/// Opens a file that nobody else has made, and locks it until it is dropped.
fn hold(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    for _ in 0..TRIES_MAX {
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            let text = "it is not a file of this user's";
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        // Held for as long as it takes to write a page.
        file.lock()?;
        let there = fs::symlink_metadata(path)?;
        if (there.dev(), there.ino()) == (found.dev(), found.ino()) {
            return Ok(file);
        }
    }
    Err(io::Error::other("it is replaced again and again"))
}

/// Guests in a file. A line that is none is left out.
fn read(file: &File) -> io::Result<Record> {
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(record(&text))
}

fn record(text: &str) -> Record {
    text.lines().filter_map(stood).collect()
}

/// Returns a record as it is written once it was read.
pub fn record_again(text: &str) -> String {
    written(&record(text))
}

fn stood(line: &str) -> Option<(ProcessId, Option<u64>)> {
    let mut numbers = line.split(' ');
    let (pid, start_ticks) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let ran_ns = numbers.next().and_then(|text| text.parse().ok());
    Some((ProcessId { pid, start_ticks }, ran_ns))
}

fn written(parked: &Record) -> String {
    let line = |(process, ran_ns): (&ProcessId, &Option<u64>)| {
        let ran = ran_ns.map_or(String::new(), |ns| format!(" {ns}"));
        format!("{} {}{ran}\n", process.pid, process.start_ticks)
    };
    parked.iter().map(line).collect()
}

/// Writes a file as a whole, or removes it where there is nothing to write. It need not survive
/// the machine, which ends its guests too.
fn write(path: &Path, parked: &Record) -> io::Result<()> {
    if parked.is_empty() {
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
    file.write_all(written(parked).as_bytes())?;
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
        format!("{} {} 5\n", stood.process.pid, stood.process.start_ticks)
    }

    fn written(path: &Path) -> Vec<ProcessId> {
        read(&File::open(path).unwrap()).unwrap().into_keys().collect()
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
        assert!(!dead.exists() && file.path.exists());
        file.add(Id(1), other(8));
        file.remove(Id(u64::MAX));
        assert_eq!(written(&file.path), [other(8).process]);
        file.remove(Id(1));
        assert!(!file.path.exists());
        assert_eq!(file.take_trouble(), None);
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
        assert!(path_beside(&socket, 2).exists(), "only what was taken over is removed");
    }

    #[test]
    fn finding2_18_keeper_strikes_out_what_it_has_woken() {
        let kernel = FakeKernel::new(1, 1);
        let path = kernel.path("host.sock.1.parked");
        kernel.write("host.sock.1.parked", "7 1\n8 1\n");
        let process = |pid| ProcessId { pid, start_ticks: 1 };
        strike_out(&path, &BTreeSet::from([process(7)])).unwrap();
        assert_eq!(written(&path), [process(8)]);
        strike_out(&path, &BTreeSet::from([process(8)])).unwrap();
        assert!(!path.exists());
        strike_out(&path, &BTreeSet::new()).unwrap();
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
                strike_out(&path, &woken).unwrap();
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
