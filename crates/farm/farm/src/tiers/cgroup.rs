//! The cgroups of a farm, in version 1 or 2 of cgroups. One cgroup has the memory limit for all
//! guests, and others are the parents of the guests' own cgroups.
//!
//! With version 1, the farm's cgroup lies below our own cgroup. A limit on our cgroup then also
//! applies to the guests. Version 2 allows no cgroup with both processes and limited children. With
//! version 2 the farm's cgroup therefore lies outside of ours, in the nearest directory that
//! delegates the controller. If our cgroup has a limit of its own, no cgroup is made, because the
//! guests would escape this limit.

use std::path::{Path, PathBuf};

use base::Bytes;
use procfs::parse::cgroup::{of_controller, unified};

use super::fault::{CGROUP, TierContext, refused};
use super::machine::{Machine, write};
use super::record::Record;
use super::step::{PREFIX, Undo};
use crate::Error;

/// Mount point of version 2, or of version 1 with a directory per controller.
const TOP: &str = "sys/fs/cgroup";
/// Directory of version 1's memory controller.
const V1: &str = "sys/fs/cgroup/memory";
/// Files with limits of a cgroup, each with the beginning of the file's text if there is no limit.
const LIMITS: [(&str, &str); 4] =
    [("memory.max", "max"), ("memory.high", "max"), ("cpu.max", "max"), ("cpuset.cpus", "")];
/// Maximum depth of a cgroup.
const DEPTH_MAX: usize = 64;

/// Version of the cgroups that control memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Version {
    pub(super) fn memory_file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }
}

/// Directories of a farm's cgroup and of our own.
#[derive(Debug)]
struct Place {
    dir: PathBuf,
    home: PathBuf,
}

pub(super) fn version(machine: &Machine) -> Version {
    match machine.path(V1).join(Version::One.memory_file()).exists() {
        true => Version::One,
        false => Version::Two,
    }
}

/// Makes the cgroup with its limit and returns its directory.
pub(super) fn make(
    machine: &Machine,
    record: &mut Record,
    id: &str,
    limit: Bytes,
) -> Result<PathBuf, Error> {
    let version = version(machine);
    let Place { dir, home } = match version {
        Version::One => place_v1(machine, id, "memory"),
        Version::Two => {
            let home = home_v2(machine);
            let parent = parent_v2(machine, record, &home)?;
            stay_within(&home, &parent)?;
            Place { dir: parent.join(format!("{PREFIX}{id}")), home }
        }
    };
    make_dir(machine, record, Undo::Cgroup { dir: dir.clone(), home }, &dir)?;
    let path = dir.join(version.memory_file());
    write(&path, &limit.0.to_string())
        .tier(CGROUP, format!("cannot set the limit of {} in {}", limit.0, path.display()))?;
    Ok(dir)
}

/// Makes a cgroup as a parent for other cgroups, if there is a suitable place. The parent has no
/// limit itself.
pub(super) fn make_plain(
    machine: &Machine,
    record: &mut Record,
    id: &str,
    controller: &str,
) -> Result<Option<PathBuf>, Error> {
    let Some(Place { dir, home }) = place(machine, id, controller) else { return Ok(None) };
    if version(machine) == Version::Two {
        stay_within(&home, dir.parent().unwrap_or(&dir))?;
    }
    make_dir(machine, record, Undo::Guests { dir: dir.clone(), home }, &dir)?;
    Ok(Some(dir))
}

fn make_dir(machine: &Machine, record: &mut Record, undo: Undo, dir: &Path) -> Result<(), Error> {
    if dir.exists() {
        return Err(refused(
            CGROUP,
            format!("{} exists already, and does not belong to this farm", dir.display()),
        ));
    }
    record.add(undo)?;
    machine.calls.make_cgroup(dir).tier(CGROUP, format!("cannot make {}", dir.display()))
}

/// Returns a place where a farm's cgroup can be made without changing any other cgroup.
fn place(machine: &Machine, id: &str, controller: &str) -> Option<Place> {
    if version(machine) == Version::One {
        let top = machine.path(TOP).join(controller);
        return top.join("cgroup.procs").exists().then(|| place_v1(machine, id, controller));
    }
    let home = home_v2(machine);
    let parent = handing_on(&machine.path(TOP), &home, controller)?;
    Some(Place { dir: parent.join(format!("{PREFIX}{id}")), home })
}

/// Returns true if a farm's cgroup could limit reads. Version 1 needs a tree for reads. Version 2
/// needs `io` delegated to the place where memory is limited.
pub(super) fn hands_on_reads(machine: &Machine, v1_tree: &str) -> bool {
    match version(machine) {
        Version::One => place(machine, "", v1_tree).is_some(),
        Version::Two => handing_on(&machine.path(TOP), &home_v2(machine), "memory")
            .is_some_and(|dir| lists(&dir.join("cgroup.subtree_control"), "io")),
    }
}

/// Returns the place of a version 1 cgroup. If our cgroup does not exist in the tree, as inside a
/// namespace, the top of the tree takes its place.
fn place_v1(machine: &Machine, id: &str, controller: &str) -> Place {
    let top = machine.path(TOP).join(controller);
    let ours = machine.read("proc/self/cgroup").unwrap_or_default();
    let home = top.join(of_controller(ours.as_bytes(), controller).unwrap_or_default());
    let home = if home.is_dir() { home } else { top };
    Place { dir: home.join(format!("{PREFIX}{id}")), home }
}

fn home_v2(machine: &Machine) -> PathBuf {
    let ours = machine.read("proc/self/cgroup").unwrap_or_default();
    machine.path(TOP).join(unified(ours.as_bytes()).unwrap_or_default())
}

/// Removes the memory limit. A missing limit or cgroup is no error.
pub(super) fn lift(dir: &Path) {
    let _ = write(&dir.join("memory.max"), "max");
    let _ = write(&dir.join("memory.limit_in_bytes"), "-1");
}

/// Drops the page cache of the cgroup, if the kernel supports that.
pub(super) fn empty(dir: &Path) {
    let _ = write(&dir.join("memory.force_empty"), "0");
}

/// Returns true if a list of controllers contains this controller.
fn lists(file: &Path, controller: &str) -> bool {
    let text = super::machine::read(file).unwrap_or_default();
    text.split_ascii_whitespace().any(|name| name == controller)
}

/// Returns the nearest directory above ours that delegates the controller.
fn handing_on(top: &Path, home: &Path, controller: &str) -> Option<PathBuf> {
    let above = home.ancestors().skip(usize::from(home != top)).take(DEPTH_MAX);
    let mut above = above.take_while(|dir| dir.starts_with(top));
    above.find(|dir| lists(&dir.join("cgroup.subtree_control"), controller)).map(Path::to_path_buf)
}

/// Refuses a place in which processes would escape a limit that applies to our cgroup.
fn stay_within(home: &Path, parent: &Path) -> Result<(), Error> {
    let left = || home.ancestors().take_while(|dir| *dir != parent).take(DEPTH_MAX);
    for (dir, (file, none)) in left().flat_map(|dir| LIMITS.map(|limit| (dir, limit))) {
        let path = dir.join(file);
        let text = super::machine::read(&path).unwrap_or_default();
        let text = text.trim();
        if !text.is_empty() && (none.is_empty() || !text.starts_with(none)) {
            let what = format!(
                "the limit {} is {text}, and guests in a new cgroup in {} would escape this limit: \
                 start pinhead in a cgroup without a limit",
                path.display(),
                parent.display()
            );
            return Err(refused(CGROUP, what));
        }
    }
    Ok(())
}

/// Returns the nearest directory above ours that delegates the memory controller. If there is none,
/// the top directory is changed to delegate the controller. Only the top may have processes and
/// delegate controllers as well.
fn parent_v2(machine: &Machine, record: &mut Record, home: &Path) -> Result<PathBuf, Error> {
    let top = machine.path(TOP);
    if let Some(dir) = handing_on(&top, home, "memory") {
        return Ok(dir);
    }
    if !lists(&top.join("cgroup.controllers"), "memory") {
        let what = format!(
            "this kernel has no memory controller at {} (version 2) nor {} (version 1): remove \
             `memory` from [limits], or start the kernel with cgroup_enable=memory",
            top.display(),
            machine.path(V1).display()
        );
        return Err(refused(CGROUP, what));
    }
    record.add(Undo::Controller { dir: top.clone() })?;
    machine.write(CGROUP, &format!("{TOP}/cgroup.subtree_control"), "+memory")?;
    Ok(top)
}
