//! The memory of all guests together: one limit, and what lies below it.
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
//! Every change of the host is written down before it is made, with what was there before
//! ([`undo`]), and is undone in the opposite order: when [`Tiers`] is closed or dropped, or, if
//! the process was killed, by the next [`restore_left`], which every start of tiers begins with.
//! What another program made or has changed since is left alone. The owner of a [`Tiers`] handles
//! the signals that end a process, so that it is dropped.

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

use counters::Bytes;
use procfs::{KillWatch, Root};

use crate::Error;
use crate::config::Limits;
use fault::{CGROUP, SWAP, TierContext, ZRAM};
use groups::Group;
use ksm::Ksm;
use machine::{Machine, write};
use record::Record;

/// A swap device that is emptied before it is used again.
const ZRAM_PRIORITY: u16 = 100;
/// Behind it.
const SWAP_PRIORITY: u16 = 10;

/// The tiers of a farm, as long as it lives.
#[derive(Debug)]
pub struct Tiers {
    places: Places,
    machine: Machine,
    /// `None` where nothing was asked for.
    record: Option<Record>,
    tier: Tier,
    ksm: Option<Ksm>,
    /// Held so that nobody takes the file for one that was left.
    swap_file: Option<File>,
    notes: Vec<String>,
}

/// Where guests are put. It can be handed to the code that starts them.
#[derive(Clone, Debug, Default)]
pub struct Tier {
    /// The list of the cgroup's processes; `None` where there is no limit.
    procs: Option<PathBuf>,
    /// The same of the cgroup whose reads of swap are limited, where it is another.
    readers: Option<PathBuf>,
    /// The cgroups below which each guest has its own.
    groups: Arc<[Group]>,
    arrivals: Arc<AtomicU64>,
}

impl Tier {
    /// Puts a process under the limit. To be called as soon as it has started: what it has
    /// touched before stays with the cgroup that it came from.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.arrivals.fetch_add(1, Ordering::Relaxed);
        join_list(&self.procs, pid)?;
        join_list(&self.readers, pid)
    }

    /// Puts a guest's process into a cgroup of the guest's own, where there are such, and so under
    /// the limit of all. Returns the counts of the kernel's kills there; none where others share it
    /// as well.
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

    /// The directory of the cgroup, if there is one.
    pub fn cgroup(&self) -> Option<PathBuf> {
        self.procs.as_ref()?.parent().map(PathBuf::from)
    }
}

impl Tiers {
    /// Makes the tiers that are asked for, after undoing what dead ones left. If one cannot be
    /// made, those before it are undone.
    pub fn open(limits: &Limits) -> Result<Tiers, Error> {
        Tiers::open_at(&Places::usual(), Box::new(Live), limits)
    }

    /// The same on a machine of the caller's: for tests, which have a directory for its root.
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
                // What cannot be undone now stays in the record for the next start.
                tiers.undo();
                Err(error)
            }
        }
    }

    /// Begins a record, after undoing what was left, and gives its name.
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

    /// Gives each guest a cgroup of its own from now on, where this process may make them and the
    /// kernel has them. Guests can do without, so what stands against it is a note.
    pub fn separate_guests(&mut self) {
        if self.machine.check_root().is_ok()
            && let Err(error) = self.try_separating()
        {
            let note = format!("Guests have no cgroup of their own: {}", fault::sentence(&error));
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
                    "KSM is on already, by somebody else's hand: it is left as it is".to_owned(),
                ),
            }
        }
        Ok(())
    }

    /// Where guests are put.
    pub fn tier(&self) -> Tier {
        self.tier.clone()
    }

    /// Messages for the operator, each once.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Lets the kernel look for equal pages as hard as it pays. Once a second is often enough;
    /// `guests` are those that run.
    pub fn turn(&mut self, guests: usize, now_ms: u64) {
        let (Some(ksm), Some(record)) = (&mut self.ksm, &mut self.record) else { return };
        let arrivals = self.tier.arrivals.load(Ordering::Relaxed);
        if let Some(note) = ksm.turn(record, guests, arrivals, now_ms) {
            self.notes.push(note);
        }
    }

    /// Undoes everything; gives what could not be undone, in sentences. The guests should have
    /// ended: those that have not are let out of the limit first, and the host needs memory for
    /// what of them is swapped out.
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
        // What could not be undone stays in the record, and is reported by the next start.
        self.undo();
    }
}

/// Puts a process into the cgroup of this list, if there is one.
fn join_list(list: &Option<PathBuf>, pid: u32) -> Result<(), Error> {
    let Some(path) = list else { return Ok(()) };
    let what = format!("cannot put process {pid} into {}", path.display());
    write(path, &pid.to_string()).tier(CGROUP, what)
}

/// The kernel rounds sizes up to pages, and what is ours is known by its size.
fn whole_pages(size: Bytes) -> Bytes {
    Bytes(size.0.checked_next_multiple_of(swap::PAGE_BYTES).unwrap_or(size.0))
}

#[cfg(test)]
mod tests;
