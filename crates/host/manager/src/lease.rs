//! The keeper of this manager, the messages to the keeper about each guest, and the keeper's
//! failures.

use crate::config::{Libvirt, Settings};
use crate::control::LeaseRow;
use crate::guest::ManagedGuest;
use crate::keeper::{self, Held, Place};
use crate::ksm::Saved;
use crate::parked::{ParkedFile, Stood, path_beside};
use crate::unseen::UnseenSizes;
use base::Bytes;
use hypervisor::{Found, Id, ProcessId, RunState, ZVM_SOURCE};
use std::io;
use std::path::Path;

/// The lease of this manager's targets. A dry run has no keeper, because there is nothing to
/// restore. The manager of a farm has no keeper, because the farm takes its guests back itself.
#[derive(Debug)]
pub struct Lease {
    keeper: Option<keeper::Lease>,
    reported_restarts: u64,
    /// True once the missing keeper was reported.
    is_absence_reported: bool,
    /// Guests that are parked or have less than their full size, for the next manager.
    written: ParkedFile,
    /// Full sizes of guests without a visible process, for the lifetime of this manager.
    unseen: UnseenSizes,
}

impl Lease {
    /// Returns the lease of a manager without a keeper. Such a manager reclaims nothing, or only
    /// from guests that their farm takes back.
    pub fn none() -> Lease {
        Lease {
            keeper: None,
            reported_restarts: 0,
            is_absence_reported: false,
            written: ParkedFile::default(),
            unseen: UnseenSizes::default(),
        }
    }

    /// Starts the keeper: this program again, under a hidden name. Guests are listed in a file next
    /// to the manager's control socket, which belongs to this process.
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

    /// Returns the lease of this keeper.
    pub fn of(keeper: keeper::Lease) -> Lease {
        Lease { keeper: Some(keeper), ..Lease::none() }
    }

    /// Returns the same lease, with guests listed in a file next to a control socket of this
    /// process.
    #[must_use]
    pub fn written_beside(self, socket: &Path) -> Lease {
        Lease { written: ParkedFile::beside(socket), ..self }
    }

    /// Returns the guests that a dead manager had parked, and that the dead manager's keeper did
    /// not wake.
    pub(crate) fn left(&self) -> Vec<(Id, Stood)> {
        self.written.guests().collect()
    }

    /// Returns the size to restore for a guest that this manager or a dead manager left smaller.
    pub(crate) fn size_of(&self, found: &Found) -> Option<Bytes> {
        match found.process {
            Some(process) => self.written.sizes().get(&process).copied(),
            None => self.unseen.of(found),
        }
    }

    /// Records that a guest has `size` or is about to have it, and that its earlier size must be
    /// restored.
    pub fn hold(&mut self, guest: &ManagedGuest, size: Bytes, settings: &Settings) {
        let Some(keeper) = &mut self.keeper else { return };
        let restore = guest.restore();
        // The recorded size is not limited to the maximum, because the next manager may have
        // another maximum.
        let again = Some(guest.memory.restore()).filter(|found| size < *found);
        match guest.found.process {
            Some(process) => self.written.set_size(process, again),
            // Another user's guest without a visible process never loses memory.
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

    /// Notes that a guest's virtual CPUs are stopped or about to be stopped, and must be resumed.
    pub fn park(&mut self, guest: &ManagedGuest, settings: &Settings) {
        // Without the guest's process, the next manager could not distinguish the guest from a
        // guest paused by hand.
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

    /// Notes that a guest's virtual CPUs run again, or that it is gone.
    pub fn awake(&mut self, id: Id) {
        self.written.remove(id);
        if let Some(keeper) = &mut self.keeper {
            keeper.awake(id.0);
        }
    }

    /// Notes that a guest is gone. Its size stays in the file if its process lives on, because the
    /// guest may be found again.
    pub fn drop_guest(&mut self, id: Id, process: Option<ProcessId>) {
        if let Some(process) = process.filter(|process| !process.is_alive()) {
            self.written.set_size(process, None);
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.release(id.0);
        }
    }

    /// Sets the memory that the host keeps free.
    pub fn set_reserve(&mut self, reserve: Bytes) {
        if let Some(keeper) = &mut self.keeper {
            keeper.set_reserve(reserve);
        }
    }

    /// Sends the manager's heartbeat.
    pub fn beat(&mut self, now_ms: u64) {
        if let Some(keeper) = &mut self.keeper {
            keeper.turn(now_ms);
        }
    }

    /// Returns true if memory may be reclaimed, because a keeper would restore it. A manager that
    /// reclaims nothing needs no keeper.
    pub fn is_kept(&self) -> bool {
        self.keeper.as_ref().is_none_or(keeper::Lease::is_kept)
    }

    /// Returns a message about the keeper, once.
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
            let text = "The keeper had ended and was restarted: guests are restored if this \
                        manager dies";
            return Some(text.to_owned());
        }
        let is_long = restarts > self.reported_restarts + 1 && !self.is_absence_reported;
        self.is_absence_reported |= is_long;
        is_long.then(|| {
            "The keeper ends repeatedly: until a keeper stays alive, no memory is taken from any \
             guest"
                .to_owned()
        })
    }

    /// Returns the status of the lease.
    pub fn row(&self) -> LeaseRow {
        self.keeper.as_ref().map_or_else(LeaseRow::default, |keeper| LeaseRow {
            keeper_pid: keeper.keeper_pid(),
            guests: keeper.held(),
            restarts: keeper.restarts,
        })
    }

    /// Ends the lease, and waits until the keeper has restored everything.
    pub fn finish(self) -> Vec<String> {
        let Some(keeper) = self.keeper else { return Vec::new() };
        match keeper.finish() {
            Ok(status) if status.success() => Vec::new(),
            Ok(_) => {
                vec![
                    "Some guests do not have their memory back; the lines above list them with the \
                     reasons"
                        .into(),
                ]
            }
            Err(error) => {
                vec![format!("The request to return memory did not reach the keeper: {error}")]
            }
        }
    }
}

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
