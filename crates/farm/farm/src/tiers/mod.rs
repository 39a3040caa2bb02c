//! Memory tiers of all guests together: one limit, and the swap below it.
//!
//! ```text
//!   guests' memory ── equal pages kept once (KSM)
//!        │ a memory cgroup's limit
//!        ▼
//!   zram: compressed memory, as expanded storage was        priority 100
//!        │ full           or, with a limit of its reads, a disk of that speed
//!        ▼
//!   a swap file, as paging disks were                       priority 10
//! ```
//!
//! Every change of the host is recorded before it is made, with the host's previous state
//! ([`undo`]). Changes are undone in the opposite order when [`Tiers`] is closed or dropped. If the
//! process was killed, the next [`restore_left`] undoes its changes. Every start of tiers also
//! undoes these changes.
//!
//! Resources made or changed by another program are left alone. The owner of a [`Tiers`] handles
//! the signals that end a process, so that the `Tiers` is dropped.

mod cgroup;
mod fault;
mod groups;
mod ksm;
mod machine;
mod reads;
mod record;
mod restore;
mod step;
mod swap;
mod undo;
mod zram;

pub use groups::GuestLimits;
pub use machine::{Calls, Live, Places};
pub use reads::can_limit_reads;
pub use record::record_again;
pub use restore::{Left, restore_left, restore_left_at};

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Bytes;
use procfs::{KillWatch, Root};

use crate::Error;
use crate::config::Limits;
use fault::{CGROUP, SWAP, TierContext, ZRAM};
use groups::Group;
use ksm::Ksm;
use machine::{Machine, write};
use record::Record;

/// Priority of zram, which is filled before the swap file.
const ZRAM_PRIORITY: u16 = 100;
/// Priority of the swap file.
const SWAP_PRIORITY: u16 = 10;

/// The tiers of a farm.
#[derive(Debug)]
pub struct Tiers {
    places: Places,
    machine: Machine,
    /// Record of changes; `None` if no tier is configured.
    record: Option<Record>,
    tier: Tier,
    ksm: Option<Ksm>,
    /// The swap file, held open and locked so that it does not look abandoned.
    swap_file: Option<File>,
    notes: Vec<String>,
}

/// The cgroups that guests are put into. The handle can be passed to the code that starts the
/// guests.
#[derive(Clone, Debug, Default)]
pub struct Tier {
    /// Process list of the cgroup with the memory limit; `None` without a limit.
    procs: Option<PathBuf>,
    /// Process list of the cgroup with the limit of swap reads, if that cgroup is a separate one.
    readers: Option<PathBuf>,
    /// Parents of the guests' own cgroups.
    groups: Arc<[Group]>,
    arrivals: Arc<AtomicU64>,
}

impl Tier {
    /// Puts a process under the limit. The call must follow right after the process's start,
    /// because memory touched before stays charged to the old cgroup.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.arrivals.fetch_add(1, Ordering::Relaxed);
        join_list(&self.procs, pid)?;
        join_list(&self.readers, pid)
    }

    /// Puts a guest's process into the guest's own cgroup, if there are such cgroups. The process
    /// is then under the common limit as well. Returns the OOM kill counters of that cgroup, or
    /// empty counters if other guests share the cgroup.
    pub fn join_guest(&self, pid: u32, guest: &GuestLimits<'_>) -> Result<KillWatch, Error> {
        if self.groups.is_empty() {
            return self.join(pid).map(|()| KillWatch::default());
        }
        self.arrivals.fetch_add(1, Ordering::Relaxed);
        self.groups.iter().try_for_each(|group| group.join(pid, guest))?;
        join_list(&self.readers, pid)?;
        Ok(match self.groups.iter().any(Group::has_memory) {
            true => KillWatch::of(&Root::default(), pid),
            false => KillWatch::default(),
        })
    }

    /// Removes the cgroup of a guest that has ended.
    pub fn leave_guest(&self, guest: &str) {
        self.groups.iter().for_each(|group| group.leave(guest));
    }

    /// Returns the directory of the cgroup with the memory limit, if there is one.
    pub fn cgroup(&self) -> Option<PathBuf> {
        self.procs.as_ref()?.parent().map(PathBuf::from)
    }
}

impl Tiers {
    /// Makes the configured tiers, after undoing the changes of killed processes. If a tier cannot
    /// be made, the tiers before it are undone.
    pub fn open(limits: &Limits) -> Result<Tiers, Error> {
        Tiers::open_at(&Places::usual(), Box::new(Live), limits)
    }

    /// Does the same as [`Tiers::open`] on a given machine. Tests pass a directory as the machine's
    /// root.
    pub fn open_at(
        places: &Places,
        calls: Box<dyn Calls>,
        limits: &Limits,
    ) -> Result<Tiers, Error> {
        let machine = Machine::new(places, calls);
        let mut tiers = Tiers {
            places: places.clone(),
            machine,
            record: None,
            tier: Tier::default(),
            ksm: None,
            swap_file: None,
            notes: Vec::new(),
        };
        let Limits { memory, zram, zram_reads: _, swap, ksm } = limits;
        if memory.is_none() && zram.is_none() && swap.is_none() && !ksm {
            return Ok(tiers);
        }
        tiers.machine.check_root()?;
        let id = tiers.begin(swap.is_some())?;
        match tiers.make(limits, &id) {
            Ok(()) => Ok(tiers),
            Err(error) => {
                // Changes that cannot be undone now stay in the record for the next start.
                tiers.undo();
                Err(error)
            }
        }
    }

    /// Begins a record, after undoing leftover changes, and returns its name.
    fn begin(&mut self, swaps: bool) -> Result<String, Error> {
        let _alone = restore::alone(&self.places)?;
        for left in restore::restore(&self.machine, &self.places) {
            self.notes.extend(left.faults);
        }
        if swaps {
            swap::remove_left(&self.machine, &self.places.swap_dir);
        }
        let record = Record::create(&self.places)?;
        let id = record.id().to_owned();
        self.record = Some(record);
        Ok(id)
    }

    /// Gives each guest that starts later its own cgroup, if the process may make cgroups and the
    /// kernel supports them. Guests can run without such a cgroup, so a failure is only a note.
    pub fn separate_guests(&mut self) {
        if self.machine.check_root().is_ok()
            && let Err(error) = self.try_separating()
        {
            let note = format!("Guests have no cgroup of their own: {}", base::chain(&error));
            self.notes.push(note);
        }
    }

    fn try_separating(&mut self) -> Result<(), Error> {
        if self.record.is_none() {
            self.begin(false)?;
        }
        let Some(record) = &mut self.record else { return Ok(()) };
        let limited = self.tier.cgroup();
        self.tier.groups = groups::make(&self.machine, record, limited.as_deref())?.into();
        Ok(())
    }

    fn make(&mut self, limits: &Limits, id: &str) -> Result<(), Error> {
        let places = self.places.clone();
        let Some(record) = &mut self.record else { return Ok(()) };
        let machine = &self.machine;
        if let Some(limit) = limits.memory {
            let dir = cgroup::make(machine, record, id, limit)?;
            self.tier.procs = Some(dir.join("cgroup.procs"));
        }
        if let Some(size) = limits.zram.map(whole_pages) {
            let device = zram::make(machine, record, size)?;
            if let Some(reads) = limits.zram_reads {
                let limited = self.tier.cgroup();
                self.tier.readers =
                    reads::limit(machine, record, limited.as_deref(), &device, reads)?;
            }
            swap::on(machine, record, ZRAM, &device, size, ZRAM_PRIORITY)?;
        }
        if let Some(size) = limits.swap.map(whole_pages) {
            let path = swap::directory(&places.swap_dir)?.join(format!(
                "{}{id}{}",
                step::PREFIX,
                step::SWAP_SUFFIX
            ));
            self.swap_file = Some(swap::make(record, &path, size)?);
            swap::on(machine, record, SWAP, &path, size, SWAP_PRIORITY)?;
        }
        if limits.ksm {
            match Ksm::open(machine, record)? {
                Some(ksm) => self.ksm = Some(ksm),
                None => self.notes.push(
                    "Another program has switched KSM on already: the farm does not control \
                     KSM"
                    .to_owned(),
                ),
            }
        }
        Ok(())
    }

    /// Returns the cgroups that guests are put into.
    pub fn tier(&self) -> Tier {
        self.tier.clone()
    }

    /// Takes the messages for the operator.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Adjusts KSM's scan rate to the memory that KSM saves. One call a second is enough. `guests`
    /// is the number of running guests.
    pub fn turn(&mut self, guests: usize, now_ms: u64) {
        let (Some(ksm), Some(record)) = (&mut self.ksm, &mut self.record) else { return };
        let arrivals = self.tier.arrivals.load(Ordering::Relaxed);
        if let Some(note) = ksm.turn(record, guests, arrivals, now_ms) {
            self.notes.push(note);
        }
    }

    /// Undoes all changes and returns the failures as sentences. The guests should have ended.
    /// Running guests are first released from the limit, and their swapped memory must fit into the
    /// host's memory.
    pub fn close(mut self) -> Vec<String> {
        self.undo()
    }

    fn undo(&mut self) -> Vec<String> {
        self.ksm = None;
        let Some(record) = self.record.take() else { return Vec::new() };
        let faults = restore::undo_all(record, &self.machine);
        self.swap_file = None;
        faults
    }
}

impl Drop for Tiers {
    fn drop(&mut self) {
        // Changes that could not be undone stay in the record, and the next start reports them.
        self.undo();
    }
}

/// Puts a process into the cgroup of this process list, if there is a list.
fn join_list(list: &Option<PathBuf>, pid: u32) -> Result<(), Error> {
    let Some(path) = list else { return Ok(()) };
    let what = format!("cannot put process {pid} into {}", path.display());
    write(path, &pid.to_string()).tier(CGROUP, what)
}

/// Rounds a size up to whole pages, as the kernel does. Otherwise our devices would not be
/// recognised by their size.
fn whole_pages(size: Bytes) -> Bytes {
    Bytes(size.0.checked_next_multiple_of(swap::PAGE_BYTES).unwrap_or(size.0))
}

#[cfg(test)]
mod tests;
