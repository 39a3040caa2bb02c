//! A zram device of our own: compressed memory that the kernel swaps to.

use std::io;
use std::path::{Path, PathBuf};

use base::Bytes;

use super::fault::{TierContext, ZRAM, refused};
use super::machine::{Machine, names};
use super::record::Record;
use super::step::Undo;
use crate::Error;

const CONTROL: &str = "sys/class/zram-control";

/// Adds a device of this size, and returns its path.
pub(super) fn make(machine: &Machine, record: &mut Record, size: Bytes) -> Result<PathBuf, Error> {
    if !machine.path(CONTROL).exists() {
        record.add(Undo::ZramModule)?;
        let what = "this kernel has no zram, and its module cannot be loaded: install the kernel's \
                    extra modules, or remove `zram` from [limits]";
        machine.calls.module(&["zram", "num_devices=0"]).tier(ZRAM, what)?;
    }
    record.add(Undo::ZramAdding { before: devices(machine) })?;
    let control = machine.path(CONTROL);
    let added = machine.calls.add_zram(&control);
    let added =
        added.tier(ZRAM, format!("cannot add a device by {}/hot_add", control.display()))?;
    let id: u32 = added.trim().parse().map_err(|_| {
        let what = format!("the kernel reports {added:?} as the number of its new device");
        refused(ZRAM, what)
    })?;
    record.replace_last(Undo::Zram { id, bytes: size.0 })?;
    machine.write(ZRAM, &format!("sys/block/zram{id}/disksize"), &size.0.to_string())?;
    Ok(machine.path(&format!("dev/zram{id}")))
}

/// Returns the numbers of the existing devices.
fn devices(machine: &Machine) -> Vec<u32> {
    let names = names(&machine.path("sys/block"), "zram").into_iter();
    let mut found: Vec<u32> = names.filter_map(|name| name.get(4..)?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// Removes a device if it has the size that we set, or no size yet.
pub(super) fn remove(machine: &Machine, id: u32, bytes: u64) -> io::Result<()> {
    let Some(found) = machine.number(&format!("sys/block/zram{id}/disksize")) else {
        return Ok(());
    };
    if found != 0 && found != bytes {
        // Our device is gone, and another program has created one with the same number.
        return Ok(());
    }
    let device = machine.path(&format!("dev/zram{id}"));
    if machine.swaps()?.iter().any(|swap| Path::new(&swap.name) == device) {
        return Err(io::Error::other("it is in use for swap"));
    }
    machine.calls.remove_zram(&machine.path(CONTROL), id)
}

/// Removes a device that was added, but not recorded because the process was killed. The device is
/// removed only if it is the only new device and has no size yet.
pub(super) fn remove_half_made(machine: &Machine, before: &[u32]) -> Result<(), Error> {
    let now = devices(machine);
    let mut new = now.iter().filter(|id| !before.contains(id));
    let (Some(&id), None) = (new.next(), new.next()) else { return Ok(()) };
    if machine.number(&format!("sys/block/zram{id}/disksize")) != Some(0) {
        return Ok(());
    }
    remove(machine, id, 0).tier(ZRAM, format!("cannot remove /dev/zram{id}"))
}

/// Unloads the module that we loaded, if no device needs it.
pub(super) fn unload(machine: &Machine) -> Result<(), Error> {
    if !machine.path(CONTROL).exists() || !devices(machine).is_empty() {
        return Ok(());
    }
    machine.calls.module(&["-r", "zram"]).tier(ZRAM, "cannot unload the module of zram")
}
