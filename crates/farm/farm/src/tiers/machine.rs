//! Access of the tiers to the host: files below a root, and calls for what cannot be done with
//! files.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use procfs::parse::swaps::{SwapArea, swap_areas};

use super::fault::{RECORD, TierContext, refused};
use crate::{Error, sys};

/// Longest text that is read. Kernel files here are numbers, words or short tables.
const TEXT_BYTES_MAX: u64 = 256 * 1024;

/// The directories that the tiers use.
#[derive(Clone, Debug)]
pub struct Places {
    /// Root of /proc, /sys and /dev: `/` outside of tests.
    pub root: PathBuf,
    /// Directory of the records of changes. The directory must not outlive a reboot, because a
    /// reboot undoes everything but the swap file.
    pub records: PathBuf,
    /// Directory of the swap files.
    pub swap_dir: PathBuf,
}

impl Places {
    /// Returns the directories of this machine.
    pub fn usual() -> Places {
        Places {
            root: PathBuf::from("/"),
            records: PathBuf::from("/run/pinhead/tiers"),
            swap_dir: PathBuf::from("/var/lib/pinhead"),
        }
    }
}

/// Calls to the kernel.
pub trait Calls: fmt::Debug + Send {
    /// Activates a swap file or swap device.
    fn swap_on(&self, path: &Path, priority: u16) -> io::Result<()>;
    /// Deactivates a swap file or swap device, and reads all of its pages back.
    fn swap_off(&self, path: &Path) -> io::Result<()>;
    /// Loads or unloads a kernel module, with the arguments of modprobe.
    fn module(&self, arguments: &[&str]) -> io::Result<()>;

    /// Makes the directory of a cgroup, which the kernel fills with its files.
    fn make_cgroup(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)
    }

    /// Removes a cgroup with its files.
    fn remove_cgroup(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    /// Adds a zram device by reading a file. The returned text contains the device's number.
    fn add_zram(&self, control: &Path) -> io::Result<String> {
        read(&control.join("hot_add"))
    }

    /// Removes a zram device.
    fn remove_zram(&self, control: &Path, id: u32) -> io::Result<()> {
        write(&control.join("hot_remove"), &id.to_string())
    }
}

/// The running machine.
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

#[derive(Debug)]
pub(super) struct Machine {
    root: PathBuf,
    pub(super) calls: Box<dyn Calls>,
}

impl Machine {
    pub(super) fn new(places: &Places, calls: Box<dyn Calls>) -> Machine {
        Machine { root: places.root.clone(), calls }
    }

    /// Returns the path of a file of the machine, by its name without a leading slash.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn check_root(&self) -> Result<(), Error> {
        if self.root != Path::new("/") || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let what = "limits for all guests together, zram, swap and KSM need root: run as root, or \
                    remove [limits] from the farm's file";
        Err(refused(RECORD, what))
    }

    pub(super) fn read(&self, name: &str) -> io::Result<String> {
        read(&self.path(name))
    }

    /// Returns a file's number; `None` if the file is missing or has no number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.read(name).ok()?.trim().parse().ok()
    }

    pub(super) fn write(&self, tier: &'static str, name: &str, text: &str) -> Result<(), Error> {
        let path = self.path(name);
        write(&path, text).tier(tier, format!("cannot write {text:?} to {}", path.display()))
    }

    pub(super) fn swaps(&self) -> io::Result<Vec<SwapArea>> {
        Ok(swap_areas(self.read("proc/swaps")?.as_bytes()).collect())
    }
}

pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes to an existing file, as a kernel file is never created by writing.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

/// Returns the names in a directory with this prefix.
pub(super) fn names(path: &Path, prefix: &str) -> Vec<String> {
    /// Maximum number of entries read. There are far fewer devices and records.
    const ENTRIES_MAX: usize = 10_000;
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let names = entries
        .take(ENTRIES_MAX)
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(prefix)).collect()
}
