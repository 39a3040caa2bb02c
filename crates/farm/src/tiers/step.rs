//! One change of the host, as the record holds it: what was made, so that it can be undone.
//!
//! A record is read by a process that knows nothing else of its maker, so each entry says what was
//! made in a way by which it can be seen whether it is still ours. What a record names is checked:
//! nothing is removed that does not have a name of ours.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

/// What the names of our cgroups and swap files begin with.
pub(super) const PREFIX: &str = "pinhead-";
/// What the names of our swap files end with.
pub(super) const SWAP_SUFFIX: &str = ".swap";

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// There is nothing more to do.
    Undone,
    /// Another process has it and will put back what it found, which was ours: then it is our turn.
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
                dir: path("dir").filter(|dir| has_name(dir, PREFIX, ""))?,
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
                path: path("path").filter(|path| has_name(path, PREFIX, SWAP_SUFFIX))?,
            },
            "swap" => Undo::Swap {
                path: path("path").filter(|path| {
                    has_name(path, PREFIX, SWAP_SUFFIX) || has_name(path, "zram", "")
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
