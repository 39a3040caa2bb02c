//! The host as the tiers see it: files below a root, and three calls that files cannot do.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use procfs::parse::swaps::{SwapArea, swap_areas};

use super::fault::{RECORD, TierContext, refused};
use crate::{Error, sys};

/// Files of the kernel that are read here are numbers, words or short tables.
const TEXT_BYTES_MAX: u64 = 256 * 1024;

/// The directories that the tiers use.
#[derive(Clone, Debug)]
pub struct Places {
    /// The root of /proc, /sys and /dev: `/` but for tests.
    pub root: PathBuf,
    /// Where it is written down what is to be undone. It must not outlive the machine's next
    /// start, which undoes everything but the swap file.
    pub records: PathBuf,
    /// Where swap files are made.
    pub swap_dir: PathBuf,
}

impl Places {
    /// Those of this machine.
    pub fn usual() -> Places {
        Places {
            root: PathBuf::from("/"),
            records: PathBuf::from("/run/pinhead/tiers"),
            swap_dir: PathBuf::from("/var/lib/pinhead"),
        }
    }
}

/// What only the kernel can do.
pub trait Calls: fmt::Debug + Send {
    /// Swaps onto a file or a device from now on.
    fn swap_on(&self, path: &Path, priority: u16) -> io::Result<()>;
    /// Brings everything back from it.
    fn swap_off(&self, path: &Path) -> io::Result<()>;
    /// Loads or unloads a module of the kernel: the arguments of modprobe.
    fn module(&self, arguments: &[&str]) -> io::Result<()>;

    /// Makes the directory of a cgroup, which the kernel fills with its files.
    fn make_cgroup(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)
    }

    /// Removes it; the files go with it.
    fn remove_cgroup(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    /// Adds a zram device and gives what the kernel calls it. To read the file is what adds one.
    fn add_zram(&self, control: &Path) -> io::Result<String> {
        read(&control.join("hot_add"))
    }

    /// Removes one.
    fn remove_zram(&self, control: &Path, id: u32) -> io::Result<()> {
        write(&control.join("hot_remove"), &id.to_string())
    }
}

/// This machine.
#[derive(Clone, Copy, Debug)]
pub struct Live;

impl Calls for Live {
    fn swap_on(&self, path: &Path, priority: u16) -> io::Result<()> {
        sys::swap_on(path, priority)
    }

    fn swap_off(&self, path: &Path) -> io::Result<()> {
        sys::swap_off(path)
    }

    fn module(&self, arguments: &[&str]) -> io::Result<()> {
        let mut command = Command::new("modprobe");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status()? {
            status if status.success() => Ok(()),
            status => {
                let words = arguments.join(" ");
                Err(io::Error::other(format!("modprobe {words} failed ({status})")))
            }
        }
    }
}

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    root: PathBuf,
    pub(super) calls: Box<dyn Calls>,
}

impl Machine {
    pub(super) fn new(places: &Places, calls: Box<dyn Calls>) -> Machine {
        Machine { root: places.root.clone(), calls }
    }

    /// A file of the machine, by its name without the slash at its start.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn check_root(&self) -> Result<(), Error> {
        if self.root != Path::new("/") || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let what = "limits for all guests together, zram, swap and KSM are root's: run it as \
                    root, or take [limits] out of the farm's file";
        Err(refused(RECORD, what))
    }

    pub(super) fn read(&self, name: &str) -> io::Result<String> {
        read(&self.path(name))
    }

    /// `None` where the file is not there, or holds no number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.read(name).ok()?.trim().parse().ok()
    }

    pub(super) fn write(&self, tier: &'static str, name: &str, text: &str) -> Result<(), Error> {
        let path = self.path(name);
        write(&path, text).tier(tier, format!("cannot write {text:?} to {}", path.display()))
    }

    /// What is swapped to.
    pub(super) fn swaps(&self) -> io::Result<Vec<SwapArea>> {
        Ok(swap_areas(self.read("proc/swaps")?.as_bytes()).collect())
    }
}

pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes to a file that is there: one of the kernel's is never made by writing to it.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

/// The names in a directory that begin so.
pub(super) fn names(path: &Path, prefix: &str) -> Vec<String> {
    /// Devices and records: there are never so many.
    const ENTRIES_MAX: usize = 10_000;
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let names = entries
        .take(ENTRIES_MAX)
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(prefix)).collect()
}
