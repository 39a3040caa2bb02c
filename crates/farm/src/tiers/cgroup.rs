//! One memory cgroup for all guests, of either version.
//!
//! Version 1 lies below our own cgroup, so that a limit that we are under ourselves holds for the
//! guests too. Version 2 allows no cgroup with both processes and limited children, so there it
//! lies beside ours, in the nearest directory that hands the controller on.

use std::path::{Path, PathBuf};

use counters::Bytes;
use procfs::parse::cgroup::{of_controller, unified};

use super::fault::{CGROUP, TierContext, refused};
use super::machine::{Machine, write};
use super::record::Record;
use super::step::{PREFIX, Undo};
use crate::Error;

/// Where version 1 is mounted.
const V1: &str = "sys/fs/cgroup/memory";
/// Where version 2 is mounted.
const V2: &str = "sys/fs/cgroup";
/// A cgroup's place is no deeper.
const DEPTH_MAX: usize = 64;

/// Makes it, with its limit, and gives its directory.
pub(super) fn make(
    machine: &Machine,
    record: &mut Record,
    id: &str,
    limit: Bytes,
) -> Result<PathBuf, Error> {
    let name = format!("{PREFIX}{id}");
    // A place that leads out of the tree, as those of other namespaces do, is taken for its top.
    let ours = machine.read("proc/self/cgroup").unwrap_or_default();
    let ours = ours.as_bytes();
    let (dir, home, file) = if machine.path(V1).join("memory.limit_in_bytes").exists() {
        let home = machine.path(V1).join(of_controller(ours, "memory").unwrap_or_default());
        // From inside of a namespace the name may lead nowhere.
        let home = if home.is_dir() { home } else { machine.path(V1) };
        (home.join(name), home, "memory.limit_in_bytes")
    } else {
        let home = machine.path(V2).join(unified(ours).unwrap_or_default());
        let parent = parent_v2(machine, record, &home)?;
        (parent.join(name), home, "memory.max")
    };
    if dir.exists() {
        return Err(refused(CGROUP, format!("{} is there already, and not ours", dir.display())));
    }
    record.add(Undo::Cgroup { dir: dir.clone(), home })?;
    let made = machine.calls.make_cgroup(&dir);
    made.tier(CGROUP, format!("cannot make {}", dir.display()))?;
    let path = dir.join(file);
    write(&path, &limit.0.to_string())
        .tier(CGROUP, format!("cannot set the limit of {} in {}", limit.0, path.display()))?;
    Ok(dir)
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

/// The nearest directory above ours whose children have the controller. If none has, the top may
/// be made to hand it on: it alone can have processes as well.
fn parent_v2(machine: &Machine, record: &mut Record, home: &Path) -> Result<PathBuf, Error> {
    let top = machine.path(V2);
    let has = |dir: &Path, file: &str| {
        let text = super::machine::read(&dir.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().any(|name| name == "memory")
    };
    let above = home.ancestors().skip(usize::from(home != top)).take(DEPTH_MAX);
    let mut above = above.take_while(|dir| dir.starts_with(&top));
    if let Some(dir) = above.find(|dir| has(dir, "cgroup.subtree_control")) {
        return Ok(dir.to_path_buf());
    }
    if !has(&top, "cgroup.controllers") {
        let what = format!(
            "this kernel has no memory controller at {} (version 2) nor {} (version 1): take \
             `memory` out of [limits], or start the kernel with cgroup_enable=memory",
            top.display(),
            machine.path(V1).display()
        );
        return Err(refused(CGROUP, what));
    }
    record.add(Undo::Controller { dir: top.clone() })?;
    machine.write(CGROUP, &format!("{V2}/cgroup.subtree_control"), "+memory")?;
    Ok(top)
}
