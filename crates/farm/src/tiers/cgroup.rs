//! The cgroups of a farm, of either version: one with a limit of memory for all guests, and those
//! that have the guests' own below them.
//!
//! Version 1 lies below our own cgroup, so that a limit that we are under ourselves holds for the
//! guests too. Version 2 allows no cgroup with both processes and limited children, so there it
//! lies beside ours, in the nearest directory that hands the controller on. Where we are under a
//! limit ourselves, none is made there: the guests would leave it.

use std::path::{Path, PathBuf};

use counters::Bytes;
use procfs::parse::cgroup::{of_controller, unified};

use super::fault::{CGROUP, TierContext, refused};
use super::machine::{Machine, write};
use super::record::Record;
use super::step::{PREFIX, Undo};
use crate::Error;

/// Where version 2 is mounted, or version 1 with a directory for each controller.
const TOP: &str = "sys/fs/cgroup";
/// Where version 1 has the memory.
const V1: &str = "sys/fs/cgroup/memory";
/// What a cgroup may be limited by, and how the file begins if it is not.
const LIMITS: [(&str, &str); 4] =
    [("memory.max", "max"), ("memory.high", "max"), ("cpu.max", "max"), ("cpuset.cpus", "")];
/// A cgroup's place is no deeper.
const DEPTH_MAX: usize = 64;

/// Which of the kernel's two kinds of cgroups has the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Version {
    /// The file of a limit on memory.
    pub(super) fn memory_file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }
}

/// Where a farm's cgroup lies, and where our own does.
#[derive(Debug)]
struct Place {
    dir: PathBuf,
    home: PathBuf,
}

/// Which kind this machine has.
pub(super) fn version(machine: &Machine) -> Version {
    match machine.path(V1).join(Version::One.memory_file()).exists() {
        true => Version::One,
        false => Version::Two,
    }
}

/// Makes it, with its limit, and gives its directory.
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

/// Makes one without a limit of its own, for those below it, where there is a place for it.
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
        return Err(refused(CGROUP, format!("{} is there already, and not ours", dir.display())));
    }
    record.add(undo)?;
    machine.calls.make_cgroup(dir).tier(CGROUP, format!("cannot make {}", dir.display()))
}

/// Where a farm's cgroup may lie without a change of any other.
fn place(machine: &Machine, id: &str, controller: &str) -> Option<Place> {
    if version(machine) == Version::One {
        let top = machine.path(TOP).join(controller);
        return top.join("cgroup.procs").exists().then(|| place_v1(machine, id, controller));
    }
    let home = home_v2(machine);
    let parent = handing_on(&machine.path(TOP), &home, controller)?;
    Some(Place { dir: parent.join(format!("{PREFIX}{id}")), home })
}

/// Whether a farm's cgroup could limit reads: version 1 in its own tree for that, version 2 where
/// the memory is limited, if `io` is handed on to there as well.
pub(super) fn hands_on_reads(machine: &Machine, v1_tree: &str) -> bool {
    match version(machine) {
        Version::One => place(machine, "", v1_tree).is_some(),
        Version::Two => handing_on(&machine.path(TOP), &home_v2(machine), "memory")
            .is_some_and(|dir| lists(&dir.join("cgroup.subtree_control"), "io")),
    }
}

/// A place that leads out of the tree, as those of other namespaces do, is taken for its top.
fn place_v1(machine: &Machine, id: &str, controller: &str) -> Place {
    let top = machine.path(TOP).join(controller);
    let ours = machine.read("proc/self/cgroup").unwrap_or_default();
    let home = top.join(of_controller(ours.as_bytes(), controller).unwrap_or_default());
    // From inside of a namespace the name may lead nowhere.
    let home = if home.is_dir() { home } else { top };
    Place { dir: home.join(format!("{PREFIX}{id}")), home }
}

fn home_v2(machine: &Machine) -> PathBuf {
    let ours = machine.read("proc/self/cgroup").unwrap_or_default();
    machine.path(TOP).join(unified(ours.as_bytes()).unwrap_or_default())
}

/// Takes its limit away. Where there is none, or no cgroup any more, nothing is to be done.
pub(super) fn lift(dir: &Path) {
    let _ = write(&dir.join("memory.max"), "max");
    let _ = write(&dir.join("memory.limit_in_bytes"), "-1");
}

/// Lets go of what files of its processes left in it, where the kernel can.
pub(super) fn empty(dir: &Path) {
    let _ = write(&dir.join("memory.force_empty"), "0");
}

/// Whether a list of controllers has this one.
fn lists(file: &Path, controller: &str) -> bool {
    let text = super::machine::read(file).unwrap_or_default();
    text.split_ascii_whitespace().any(|name| name == controller)
}

/// The nearest directory above ours whose children have the controller.
fn handing_on(top: &Path, home: &Path, controller: &str) -> Option<PathBuf> {
    let above = home.ancestors().skip(usize::from(home != top)).take(DEPTH_MAX);
    let mut above = above.take_while(|dir| dir.starts_with(top));
    above.find(|dir| lists(&dir.join("cgroup.subtree_control"), controller)).map(Path::to_path_buf)
}

/// Refuses a place where processes would leave a limit that holds for ours.
fn stay_within(home: &Path, parent: &Path) -> Result<(), Error> {
    let left = || home.ancestors().take_while(|dir| *dir != parent).take(DEPTH_MAX);
    for (dir, (file, none)) in left().flat_map(|dir| LIMITS.map(|limit| (dir, limit))) {
        let path = dir.join(file);
        let text = super::machine::read(&path).unwrap_or_default();
        let text = text.trim();
        if !text.is_empty() && (none.is_empty() || !text.starts_with(none)) {
            let what = format!(
                "{} is {text}, which guests in a cgroup of {} would leave; start pinhead outside \
                 of that limit",
                path.display(),
                parent.display()
            );
            return Err(refused(CGROUP, what));
        }
    }
    Ok(())
}

/// The nearest directory above ours whose children have the controller of memory. If none has, the
/// top may be made to hand it on: it alone can have processes as well.
fn parent_v2(machine: &Machine, record: &mut Record, home: &Path) -> Result<PathBuf, Error> {
    let top = machine.path(TOP);
    if let Some(dir) = handing_on(&top, home, "memory") {
        return Ok(dir);
    }
    if !lists(&top.join("cgroup.controllers"), "memory") {
        let what = format!(
            "this kernel has no memory controller at {} (version 2) nor {} (version 1): take \
             `memory` out of [limits], or start the kernel with cgroup_enable=memory",
            top.display(),
            machine.path(V1).display()
        );
        return Err(refused(CGROUP, what));
    }
    record.add(Undo::Controller { dir: top.clone() })?;
    machine.write(CGROUP, &format!("{TOP}/cgroup.subtree_control"), "+memory")?;
    Ok(top)
}
