//! How each change is undone.
//!
//! A record is read by a process that knows nothing else of its maker, so each entry says what was
//! made in a way by which it can be seen whether it is still ours. What a record names is checked:
//! nothing is removed that does not have a name of ours.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::machine::{Machine, read, write};
use super::{CGROUP, KSM, SWAP, ZRAM, cgroup, failed, ksm, refused, swap, zram};
use crate::{Deadline, Error};

/// Guests that were killed need a moment to go, and a device is looked at by others when it is new.
const PATIENCE: Duration = Duration::from_secs(4);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// There is nothing more to do.
    Undone,
    /// Somebody else has it, who will put back what he found, which was ours: then it is our turn.
    Later,
}

/// What is to be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    /// The controller of memory was given to the cgroups in this directory.
    Controller { dir: PathBuf },
    /// A cgroup was made; its processes go home, to the cgroup of who made it.
    Cgroup { dir: PathBuf, home: PathBuf },
    /// The module was loaded.
    ZramModule,
    /// A device was about to be added, and these were there.
    ZramAdding { before: Vec<u32> },
    /// A device was added; it has this size, or none yet.
    Zram { id: u32, bytes: u64 },
    /// A swap file was made.
    SwapFile { path: PathBuf },
    /// It was swapped on.
    Swap { path: PathBuf, bytes: u64 },
    /// KSM's settings: what was found, and what was written last.
    Ksm { saved: Vec<(String, String)>, told: Vec<(String, String)> },
}

impl Undo {
    /// What makes room for the others: processes that still run need memory to be brought back
    /// from swap, so no limit must stand in the way.
    pub(super) fn prepare(&self) {
        if let Undo::Cgroup { dir, .. } = self {
            cgroup::lift(dir);
        }
    }

    /// Undoes it, if it is still to be undone.
    pub(super) fn undo(&self, machine: &Machine) -> Result<Done, Error> {
        if let Undo::Ksm { saved, told } = self {
            return ksm::put_back(machine, saved, told);
        }
        self.remove(machine).map(|()| Done::Undone)
    }

    fn remove(&self, machine: &Machine) -> Result<(), Error> {
        match self {
            Undo::Controller { dir } => {
                let path = dir.join("cgroup.subtree_control");
                match write(&path, "-memory") {
                    // Others use it by now.
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(()),
                    Err(source) if source.kind() != io::ErrorKind::NotFound => {
                        Err(failed(CGROUP, format!("cannot write {}", path.display()), source))
                    }
                    _ => Ok(()),
                }
            }
            Undo::Cgroup { dir, home } => remove_cgroup(machine, dir, home),
            Undo::ZramModule => zram::unload(machine),
            Undo::ZramAdding { before } => zram::remove_half_made(machine, before),
            Undo::Zram { id, bytes } => {
                retry(ZRAM, &format!("cannot remove /dev/zram{id}"), || {
                    zram::remove(machine, *id, *bytes)
                })
            }
            Undo::SwapFile { path } => match fs::remove_file(path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    Err(failed(SWAP, format!("cannot remove {}", path.display()), source))
                }
                _ => Ok(()),
            },
            Undo::Swap { path, bytes } => swap::off(machine, path, *bytes),
            Undo::Ksm { .. } => Ok(()),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let pairs = |pairs: &[(String, String)]| -> Vec<Value> {
            pairs.iter().map(|(name, text)| json!([name, text])).collect()
        };
        match self {
            Undo::Controller { dir } => json!({"undo": "controller", "dir": dir}),
            Undo::Cgroup { dir, home } => json!({"undo": "cgroup", "dir": dir, "home": home}),
            Undo::ZramModule => json!({"undo": "zram-module"}),
            Undo::ZramAdding { before } => json!({"undo": "zram-adding", "before": before}),
            Undo::Zram { id, bytes } => json!({"undo": "zram", "id": id, "bytes": bytes}),
            Undo::SwapFile { path } => json!({"undo": "swap-file", "path": path}),
            Undo::Swap { path, bytes } => json!({"undo": "swap", "path": path, "bytes": bytes}),
            Undo::Ksm { saved, told } => {
                json!({"undo": "ksm", "saved": pairs(saved), "told": pairs(told)})
            }
        }
    }

    /// `None` for what no record of ours says.
    pub(super) fn from_json(value: &Value) -> Option<Undo> {
        let number = |name: &str| value.get(name)?.as_u64();
        let path = |name: &str| {
            let path = PathBuf::from(value.get(name)?.as_str()?);
            let is_plain = path.components().all(|part| part != Component::ParentDir);
            (path.is_absolute() && is_plain).then_some(path)
        };
        let pairs = |name: &str| -> Option<Vec<(String, String)>> {
            let pairs = value.get(name)?.as_array()?.iter();
            let pair = |pair: &Value| {
                let name = pair.get(0)?.as_str()?;
                let text = pair.get(1)?.as_str()?;
                hypervisor::KsmFiles::is_driven(name).then(|| (name.to_owned(), text.to_owned()))
            };
            pairs.map(pair).collect()
        };
        let id = |number: u64| u32::try_from(number).ok();
        Some(match value.get("undo")?.as_str()? {
            "controller" => Undo::Controller { dir: path("dir")? },
            "cgroup" => Undo::Cgroup {
                dir: path("dir").filter(|dir| has_name(dir, cgroup::PREFIX, ""))?,
                home: path("home")?,
            },
            "zram-module" => Undo::ZramModule,
            "zram-adding" => {
                let before = value.get("before")?.as_array()?.iter();
                let before = before.map(|number| number.as_u64().and_then(id));
                Undo::ZramAdding { before: before.collect::<Option<_>>()? }
            }
            "zram" => Undo::Zram { id: number("id").and_then(id)?, bytes: number("bytes")? },
            "swap-file" => Undo::SwapFile {
                path: path("path").filter(|path| has_name(path, swap::PREFIX, swap::SUFFIX))?,
            },
            "swap" => Undo::Swap {
                path: path("path").filter(|path| {
                    has_name(path, swap::PREFIX, swap::SUFFIX) || has_name(path, "zram", "")
                })?,
                bytes: number("bytes")?,
            },
            "ksm" => Undo::Ksm { saved: pairs("saved")?, told: pairs("told")? },
            _ => return None,
        })
    }
}

fn has_name(path: &Path, prefix: &str, suffix: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(prefix) && name.ends_with(suffix))
}

/// Tries again while somebody is busy with it.
fn retry(
    tier: &'static str,
    what: &str,
    mut step: impl FnMut() -> io::Result<()>,
) -> Result<(), Error> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        match step() {
            Err(source)
                if source.kind() == io::ErrorKind::ResourceBusy
                    && deadline.remaining().is_some() =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(failed(tier, what.to_owned(), source));
            }
            _ => return Ok(()),
        }
    }
}

/// Waits for the processes in it to end, sends home those that do not, and removes it.
fn remove_cgroup(machine: &Machine, dir: &Path, home: &Path) -> Result<(), Error> {
    if !dir.exists() {
        return Ok(());
    }
    let deadline = Deadline::after(PATIENCE / 2);
    let procs = dir.join("cgroup.procs");
    let pids = || read(&procs).unwrap_or_default();
    while !pids().trim().is_empty() && deadline.remaining().is_some() {
        std::thread::sleep(PAUSE);
    }
    for pid in pids().lines() {
        // One that has ended meanwhile needs no home.
        let _ = write(&home.join("cgroup.procs"), pid);
    }
    cgroup::empty(dir);
    if let Some(pid) = pids().lines().next() {
        let what = format!("process {pid} does not leave {}", dir.display());
        return Err(refused(CGROUP, what));
    }
    retry(CGROUP, &format!("cannot remove {}", dir.display()), || machine.calls.remove_cgroup(dir))
}

/// Something is left that is not undone: the sentence for it.
pub(super) fn sentence(error: &Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

/// For errors of KSM.
pub(super) fn ksm_error(what: String, source: io::Error) -> Error {
    failed(KSM, what, source)
}
