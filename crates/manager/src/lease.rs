//! The keeper of this manager: what it has to know of each guest, and its troubles.

use crate::config::{Libvirt, Settings};
use crate::control::LeaseRow;
use crate::guest::ManagedGuest;
use crate::keeper::{self, Held, Place};
use crate::ksm::Saved;
use crate::parked::{ParkedFile, Stood, path_beside};
use crate::unseen::UnseenSizes;
use counters::Bytes;
use hypervisor::{Found, Id, ProcessId, RunState, ZVM_SOURCE};
use std::io;
use std::path::Path;

/// The lease of this manager's targets. One that only looks on has none to keep.
#[derive(Debug)]
pub struct Lease {
    keeper: Option<keeper::Lease>,
    reported_restarts: u64,
    /// That there is no keeper was reported.
    is_absence_reported: bool,
    /// The guests that are parked or have less than they had, for the next manager.
    written: ParkedFile,
    /// The same of guests without a process, for this manager alone.
    unseen: UnseenSizes,
}

impl Lease {
    /// For a manager that takes nothing.
    pub fn none() -> Lease {
        Lease {
            keeper: None,
            reported_restarts: 0,
            is_absence_reported: false,
            written: ParkedFile::default(),
            unseen: UnseenSizes::default(),
        }
    }

    /// Starts the keeper: this program again, under a hidden name. Guests are written down beside
    /// the manager's control socket, which is this process's already.
    pub fn start(
        reserve: Bytes,
        ksm: Option<&Saved>,
        socket: &Path,
        now_ms: u64,
    ) -> io::Result<Lease> {
        let program = std::env::current_exe()?;
        let parked = path_beside(socket, std::process::id());
        let mut keeper =
            keeper::Lease::start(program, vec!["keeper".into(), parked.into()], now_ms)?;
        keeper.set_reserve(reserve);
        keeper.set_ksm(ksm.cloned());
        Ok(Lease::of(keeper).written_beside(socket))
    }

    /// The lease that this keeper holds.
    pub fn of(keeper: keeper::Lease) -> Lease {
        Lease { keeper: Some(keeper), ..Lease::none() }
    }

    /// The same, with guests written down beside a control socket of this process's.
    #[must_use]
    pub fn written_beside(self, socket: &Path) -> Lease {
        Lease { written: ParkedFile::beside(socket), ..self }
    }

    /// The guests that a dead manager had parked, and its dead keeper did not wake.
    pub(crate) fn left(&self) -> Vec<(Id, Stood)> {
        self.written.guests().collect()
    }

    /// The size that a guest is to have again, after this manager or a dead one has left it less.
    pub(crate) fn size_of(&self, found: &Found) -> Option<Bytes> {
        match found.process {
            Some(process) => self.written.sizes().get(&process).copied(),
            None => self.unseen.of(found),
        }
    }

    /// A guest has this size, or is about to: it is to be given back what it had before.
    pub fn hold(&mut self, guest: &ManagedGuest, size: Bytes, settings: &Settings) {
        let Some(keeper) = &mut self.keeper else { return };
        let restore = guest.restore();
        // Without its maximum, which may be another with the next manager.
        let again = Some(guest.memory.restore()).filter(|found| size < *found);
        match guest.found.process {
            Some(process) => self.written.set_size(process, again),
            // From another user's without a process nothing is taken.
            None if guest.part.is_none() => self.unseen.set(&guest.found, again),
            None => {}
        }
        if size >= restore {
            return keeper.release(guest.id.0);
        }
        let taken = guest.memory.had_before(size).min(restore).less(size);
        let held = held(guest, settings, restore, size);
        keeper.hold(Held { taken: taken.0, ..held });
    }

    /// A guest's virtual CPUs are about to be stopped, or stand still: they are to run again.
    pub fn park(&mut self, guest: &ManagedGuest, settings: &Settings) {
        // Without its process the next manager could not tell it from one that somebody paused.
        if let Some(process) = guest.found.process {
            let stands = matches!(guest.state, RunState::Paused(_));
            let ran_ns = guest.cpu.ran_ns().filter(|_| stands);
            self.written.add(guest.id, Stood { process, ran_ns });
        }
        if let Some(keeper) = &mut self.keeper {
            let has = guest.memory.actual;
            keeper.park(held(guest, settings, has, has));
        }
    }

    /// Its virtual CPUs run again, or it is gone.
    pub fn awake(&mut self, id: Id) {
        self.written.remove(id);
        if let Some(keeper) = &mut self.keeper {
            keeper.awake(id.0);
        }
    }

    /// A guest is gone. Its process may live, and be found again: its size stays written down.
    pub fn drop_guest(&mut self, id: Id, process: Option<ProcessId>) {
        if let Some(process) = process.filter(|process| !process.is_alive()) {
            self.written.set_size(process, None);
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.release(id.0);
        }
    }

    /// What the keeper has to know of the host.
    pub fn set_reserve(&mut self, reserve: Bytes) {
        if let Some(keeper) = &mut self.keeper {
            keeper.set_reserve(reserve);
        }
    }

    /// The manager lives.
    pub fn beat(&mut self, now_ms: u64) {
        if let Some(keeper) = &mut self.keeper {
            keeper.turn(now_ms);
        }
    }

    /// Whether memory may be taken: a keeper would give it back. A manager that takes nothing
    /// needs none.
    pub fn is_kept(&self) -> bool {
        self.keeper.as_ref().is_none_or(keeper::Lease::is_kept)
    }

    /// A message about it, once.
    pub fn take_trouble(&mut self) -> Option<String> {
        if let Some(trouble) = self.written.take_trouble() {
            return Some(trouble);
        }
        let restarts = self.keeper.as_ref()?.restarts;
        if restarts == self.reported_restarts {
            return None;
        }
        if self.is_kept() {
            (self.reported_restarts, self.is_absence_reported) = (restarts, false);
            return Some("The keeper had ended, and was restarted: the lease holds".to_owned());
        }
        let is_long = restarts > self.reported_restarts + 1 && !self.is_absence_reported;
        self.is_absence_reported |= is_long;
        is_long.then(|| {
            "The keeper does not stay: no memory is taken from any guest until it does".to_owned()
        })
    }

    /// How it is.
    pub fn row(&self) -> LeaseRow {
        self.keeper.as_ref().map_or_else(LeaseRow::default, |keeper| LeaseRow {
            keeper_pid: keeper.keeper_pid(),
            guests: keeper.held(),
            restarts: keeper.restarts,
        })
    }

    /// The end: waits until the keeper has given everything back.
    pub fn finish(self) -> Vec<String> {
        let Some(keeper) = self.keeper else { return Vec::new() };
        match keeper.finish() {
            Ok(status) if status.success() => Vec::new(),
            Ok(_) => {
                vec!["Not all guests are as they were; the lines above say who and why".into()]
            }
            Err(error) => vec![format!("The keeper cannot be asked to give memory back: {error}")],
        }
    }
}

/// What the keeper has to know of a guest.
fn held(guest: &ManagedGuest, settings: &Settings, restore: Bytes, size: Bytes) -> Held {
    let socket = match &settings.sources.libvirt {
        Libvirt::Uris(uris) => {
            let of = uris.iter().find(|one| one.uri == guest.found.source);
            of.and_then(|one| one.socket.as_deref()).and_then(|path| path.to_str())
        }
        Libvirt::Auto => None,
    };
    let held = Held::of(guest.id, &guest.found, socket, restore, size);
    match guest.found.source == ZVM_SOURCE {
        true => {
            let program = settings.zvm.program.display().to_string();
            Held { place: Place::Messages { program }, ..held }
        }
        false => held,
    }
}
