//! Undoing of each kind of change.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use vm::Deadline;

use super::fault::{CGROUP, SWAP, TierContext, ZRAM, refused, unless_gone};
use super::machine::{Machine, write};
use super::step::{Done, Undo};
use super::{cgroup, groups, ksm, swap, zram};
use crate::Error;

/// Time for killed guests to exit, and for other programs to finish reading a new device.
const PATIENCE: Duration = Duration::from_secs(4);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Lifts a memory limit before other changes are undone. Processes that still run need memory for
/// the pages that are read back from swap.
pub(super) fn prepare(step: &Undo) {
    if let Undo::Cgroup { dir, .. } = step {
        cgroup::lift(dir);
    }
}

/// Undoes a change, if it is still in place.
pub(super) fn undo(step: &Undo, machine: &Machine) -> Result<Done, Error> {
    match step {
        Undo::Ksm { saved, written } => return ksm::put_back(machine, saved, written),
        Undo::Controller { dir } => {
            let path = dir.join("cgroup.subtree_control");
            match write(&path, "-memory") {
                // Other cgroups use the controller by now.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                written => {
                    unless_gone(written).tier(CGROUP, format!("cannot write {}", path.display()))?
                }
            }
        }
        Undo::Cgroup { dir, home } => {
            clear_cgroup(dir, home)?;
            cgroup::empty(dir);
            remove_cgroup(machine, dir)?;
        }
        Undo::Guests { dir, home } => {
            clear_cgroup(dir, home)?;
            remove_cgroup(machine, dir)?;
        }
        Undo::ZramModule => zram::unload(machine)?,
        Undo::ZramAdding { before } => zram::remove_half_made(machine, before)?,
        Undo::Zram { id, bytes } => retry(|| zram::remove(machine, *id, *bytes))
            .tier(ZRAM, format!("cannot remove /dev/zram{id}"))?,
        Undo::SwapFile { path } => unless_gone(fs::remove_file(path))
            .tier(SWAP, format!("cannot remove {}", path.display()))?,
        Undo::Swap { path, bytes } => swap::off(machine, path, *bytes)?,
    }
    Ok(Done::Undone)
}

/// Retries while another process keeps the resource busy.
fn retry(mut step: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        match step() {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy
                    && deadline.remaining().is_some() =>
            {
                std::thread::sleep(PAUSE);
            }
            done => return unless_gone(done),
        }
    }
}

/// Waits for the processes of a cgroup to end, and moves the remaining processes to the cgroup
/// `home`.
fn clear_cgroup(dir: &Path, home: &Path) -> Result<(), Error> {
    let deadline = Deadline::after(PATIENCE / 2);
    while !groups::processes(dir).is_empty() && deadline.remaining().is_some() {
        std::thread::sleep(PAUSE);
    }
    for pid in groups::processes(dir) {
        // A process that has ended meanwhile need not be moved.
        let _ = write(&home.join("cgroup.procs"), &pid);
    }
    match groups::processes(dir).first() {
        None => Ok(()),
        Some(pid) => {
            let what = format!("process {pid} does not leave {}", dir.display());
            Err(refused(CGROUP, what))
        }
    }
}

/// Removes a cgroup, and the remaining cgroups of its guests.
fn remove_cgroup(machine: &Machine, dir: &Path) -> Result<(), Error> {
    if !dir.exists() {
        return Ok(());
    }
    for dir in groups::with_guests(dir) {
        retry(|| machine.calls.remove_cgroup(&dir))
            .tier(CGROUP, format!("cannot remove {}", dir.display()))?;
    }
    Ok(())
}
