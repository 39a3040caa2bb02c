//! The keeper's own connections to the guests that it restores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hypervisor::{
    Event, Found, Hypervisor, Id, IdSource, Libvirt, Owner, QmpSource, RunState, Trust,
};
use reactor::{PollSet, Ready};

use super::{Book, Held, Place, Rescue, Wakes};

/// Sources of all guests in the book, and the guests' ids in these sources.
pub(super) struct Sources {
    sources: Vec<Box<dyn Hypervisor>>,
    /// Index of the source and the guest's number in the book, by the guest's id in the source.
    places: BTreeMap<Id, (usize, u64)>,
}

impl Sources {
    /// Opens the sources of all guests in a book: one for all QMP sockets, and one for each
    /// libvirt. Each QMP socket has its own connection, so that a hung QEMU delays no other guest.
    pub(super) fn of(book: &Book) -> Sources {
        let ids = IdSource::new();
        let trust = Trust::naming(book.all().map(|held| Owner(held.owner)));
        let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let mut paths: Vec<&str> = Vec::new();
        let mut libvirts: BTreeMap<&Place, Libvirt> = BTreeMap::new();
        for held in book.all() {
            match &held.place {
                // An invalid path affects only its own guest.
                Place::Qmp(path) if QmpSource::new(&[path], trust.clone(), ids.clone()).is_ok() => {
                    paths.push(path);
                }
                Place::Qmp(_) | Place::Messages { .. } => {}
                place @ Place::Libvirt { uri, socket } => {
                    let socket = socket.as_deref().map(Path::new);
                    let libvirt = Libvirt::of_uri(uri, socket, runtime_dir.as_deref(), ids.clone());
                    libvirts
                        .extend(libvirt.map(|libvirt| (place, libvirt.trusting(trust.clone()))));
                }
            }
        }
        let mut sources: Vec<Box<dyn Hypervisor>> = Vec::new();
        if let Ok(source) = QmpSource::new(&paths, trust, ids)
            && !paths.is_empty()
        {
            sources.push(Box::new(source));
        }
        sources.extend(libvirts.into_values().map(|source| Box::new(source) as _));
        Sources { sources, places: BTreeMap::new() }
    }

    /// Returns the descriptors to wait for. The owner of each descriptor is the index of its
    /// source.
    pub(super) fn poll_set(&self) -> PollSet<'_> {
        let mut set = PollSet::new();
        for (at, source) in self.sources.iter().enumerate() {
            source.fds(set.owner(at as u64));
        }
        set
    }

    /// Returns the time at which a turn is due even without an event.
    pub(super) fn next_ms(&self) -> u64 {
        self.sources.iter().map(|source| source.next_ms()).min().unwrap_or(u64::MAX)
    }

    /// Handles events, and passes them to the rescue. Parked guests are resumed.
    pub(super) fn turn(
        &mut self,
        ready: Option<&Ready>,
        book: &Book,
        (rescue, wakes): (&mut Rescue, &mut Wakes),
        now_ms: u64,
    ) {
        for (at, source) in self.sources.iter_mut().enumerate() {
            let mut events = Vec::new();
            source.turn(ready.map(|ready| ready.of(at as u64)), now_ms, &mut events);
            for event in events {
                if let Some(parked) =
                    learn(event, (at, now_ms), &mut self.places, book, (rescue, wakes))
                {
                    source.set_running(parked, true, now_ms);
                }
            }
        }
    }

    pub(super) fn ask(&mut self, targets: &[(u64, base::Bytes)], now_ms: u64) {
        for (guest, target) in targets {
            let who = self.places.iter().find(|(_, (_, held))| held == guest);
            if let Some((id, (at, _))) = who
                && let Some(source) = self.sources.get_mut(*at)
            {
                source.set_target(*id, *target, now_ms);
            }
        }
    }
}

/// Handles an event. Returns the id of a parked guest that must be resumed.
fn learn(
    event: Event,
    (at, now_ms): (usize, u64),
    places: &mut BTreeMap<Id, (usize, u64)>,
    book: &Book,
    (rescue, wakes): (&mut Rescue, &mut Wakes),
) -> Option<Id> {
    let guest = |id: &Id| places.get(id).map(|(_, guest)| *guest);
    match event {
        Event::Found(id, found) => {
            let held = book.all().find(|held| is_at(held, &found))?;
            places.retain(|_, (_, guest)| *guest != held.id);
            places.insert(id, (at, held.id));
            let is_same =
                held.process().is_none_or(|process| found.process.is_none_or(|now| now == process));
            if !is_same || held.uuid != found.uuid {
                rescue.gone(held.id, "it was restarted, with all its memory");
                wakes.gone(held.id);
            } else if found.state == RunState::Dead {
                rescue.gone(held.id, "it has ended");
                wakes.gone(held.id);
            } else {
                rescue.reached(held.id, found.actual);
                return wakes.is_in(held.id, found.state, now_ms).then_some(id);
            }
        }
        Event::Taken(id, target) => {
            if let Some(guest) = guest(&id) {
                rescue.taken(guest, target);
            }
        }
        Event::Refused(id, reason) => {
            if let Some(guest) = guest(&id) {
                rescue.refused(guest, &reason);
            }
        }
        Event::State(id, state) => {
            let guest = guest(&id)?;
            if state == RunState::Dead {
                rescue.gone(guest, "it has ended");
            }
            return wakes.is_in(guest, state, now_ms).then_some(id);
        }
        Event::Stays(id, reason) => {
            if let Some(guest) = guest(&id) {
                wakes.stays(guest, &reason);
            }
        }
        // The guest may be found again. Its process is checked separately.
        Event::Gone(id, _) => {
            if let Some((_, guest)) = places.remove(&id) {
                rescue.lost(guest);
            }
        }
        Event::Answers(..)
        | Event::Rebooted(_)
        | Event::Actual(..)
        | Event::Stats(..)
        | Event::Blocks(..)
        | Event::Machine(..)
        | Event::Devices(..)
        | Event::Counted(..)
        | Event::Configured(..)
        | Event::Trouble(_) => {}
    }
    None
}

/// Returns true if a guest was found at its place in the book, with the same owner. A UUID counts
/// only at the expected libvirt, because a monitor may report any UUID.
fn is_at(held: &Held, found: &Found) -> bool {
    let is_there = match &held.place {
        Place::Qmp(path) => found.has_monitor() && *path == found.source,
        Place::Libvirt { uri, .. } => *uri == found.source && held.uuid == found.uuid,
        // The keeper does not search for guests of z/VM.
        Place::Messages { .. } => false,
    };
    is_there && Owner(held.owner) == found.owner
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Bytes;
    use hypervisor::Fake;

    #[test]
    fn finding_04_fake_with_a_libvirt_guests_uuid_is_another_guest() {
        let found = |source: &str| Found {
            source: source.into(),
            ..Fake::found("victim", Bytes::mib(512))
        };
        let real = found("qemu:///system");
        let held = Held::of(Id(1), &real, None, Bytes::mib(512), Bytes::mib(336));
        assert!(is_at(&held, &real));
        assert!(!is_at(&held, &found("/run/user/1000/pinhead/up/7/g1.qmp")));
        assert!(!is_at(&held, &Found { owner: Owner(1000), ..real }));
        let plain = found("/run/pinhead/up/7/g1.qmp");
        let held = Held::of(Id(1), &plain, None, Bytes::mib(512), Bytes::mib(336));
        assert!(is_at(&held, &plain));
        assert!(!is_at(&held, &Found { owner: Owner(1000), ..plain.clone() }));
        assert!(!is_at(&held, &Found { source: "qemu:///system".into(), ..plain }));
    }
}
