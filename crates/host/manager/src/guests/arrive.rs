//! The arrival of a guest, its memory, and its limits.

use super::{Entitlement, Guests};
use crate::attach::{Lent, run_dir};
use crate::effect::{Effect, MemoryEvent, Now, ParkEvent};
use crate::guest::ManagedGuest;
use agent::PoolGrants;
use base::Bytes;
use hypervisor::{Found, Id, Machine, Owner, ZVM_SOURCE};
use store::kinds;

/// Longest name of a guest, in bytes. A request cannot contain a longer name.
const NAME_BYTES_MAX: usize = crate::control::NAME_MAX;

impl Guests {
    /// Handles a guest's new size. The keeper no longer needs to restore a guest that has its
    /// former size.
    pub(super) fn sized(&mut self, id: Id, actual: Bytes) -> Vec<Effect> {
        let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
        guest.memory.told = actual;
        guest.memory.actual = actual.min(guest.found.memory);
        match guest.memory.least() {
            least if least >= guest.restore() => vec![Effect::Hold { guest: id, size: least }],
            _ => Vec::new(),
        }
    }

    /// Handles hotplug of memory or virtual CPUs, and sets the limits again.
    pub(super) fn replugged(
        &mut self,
        id: Id,
        machine: Machine,
        by: Entitlement<'_>,
        now: Now,
    ) -> Vec<Effect> {
        let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
        let before = guest.found.memory;
        guest.replugged(machine);
        guest.entitle(by.settings, self.overrides.get(&id));
        let (memory, owner) = (guest.found.memory, guest.found.owner);
        let mut effects = vec![Effect::Memory(MemoryEvent::LimitsChanged)];
        // A guest can cause hotplug events at any rate.
        if memory != before && guest.identity.is_worth_a_note(now.ms) {
            let mib = |size: Bytes| size.0 >> 20;
            let text = format!("its memory changed from {} to {} MiB", mib(before), mib(memory));
            effects.push(Effect::note(kinds::PLUGGED, text, Some(guest.who())));
        }
        effects.extend(self.share_out(owner, by));
        effects
    }

    pub(super) fn found(
        &mut self,
        source: usize,
        id: Id,
        mut found: Box<Found>,
        by: Entitlement<'_>,
        now: Now,
    ) -> Vec<Effect> {
        let is_twin =
            |guest: &&ManagedGuest| found.process.is_some() && guest.found.process == found.process;
        if let Some(twin) = self.iter().find(is_twin) {
            let text = format!(
                "The guest {} was also found at {}; the guest is managed through {}",
                found.name, found.source, twin.found.source
            );
            return vec![Effect::note("guest-twice", text, None)];
        }
        let mut effects = Vec::new();
        let owner = found.owner;
        let part = self.users.stranger(owner).map(|user| {
            // The prefix distinguishes the guest from the manager's own guests, whatever name the
            // user chose.
            found.name = format!("{user}/{}", found.name);
            found.name.truncate(found.name.floor_char_boundary(NAME_BYTES_MAX));
            self.users.part(&user, std::iter::once(found.memory))
        });
        let (limits, class) = by.settings.entitlement(&found.name, found.memory, part.as_ref());
        let class = class.unwrap_or_default().to_owned();
        let grants = if by.acts { PoolGrants::Yes } else { PoolGrants::No };
        if by.acts {
            effects.push(Effect::Attach(found.clone()));
        }
        self.arrivals += 1;
        let text = format!("it was found at {}", found.source);
        let mut guest = ManagedGuest::new(id, source, *found, limits, class, grants, now.ms);
        let saved = match guest.found.is_restored {
            true => self.saved.take(&guest.found),
            false => None,
        };
        let left = by.lease.size_of(&guest.found).or(saved);
        let had = match run_dir(&guest.found) {
            // The guest's daemon gave the missing memory to `pinhead up`, so the full size must be
            // restored.
            Some(_) => Some(guest.found.memory),
            None => left.map(|size| size.min(guest.found.memory)),
        };
        if let Some(had) = had {
            guest.memory.had(had, now.ms);
            guest.memory.settle_restore();
        }
        if guest.found.is_restored {
            // A restored guest counts as rebooted, because its balloon may still move to an earlier
            // target.
            effects.push(Effect::Memory(MemoryEvent::Rebooted(id)));
        }
        guest.part = part;
        guest.is_parked_by_its_farm(now.ms);
        if by.acts && run_dir(&guest.found).is_some() {
            // The port stays closed until `pinhead up` has answered.
            guest.lend(Lent::No);
        }
        effects.push(Effect::note(kinds::FOUND, text, Some(guest.who())));
        effects.extend(self.tell_unseen(&guest));
        self.guests.insert(id, guest);
        effects.push(Effect::Parking(ParkEvent::Found(id)));
        effects.extend(self.share_out(owner, by));
        // This manager must restore the memory that an earlier manager reclaimed.
        if by.acts
            && let Some(guest) = self.guests.get(&id)
        {
            let size = guest.memory.actual;
            effects.push(Effect::Hold { guest: id, size });
            if left.is_some_and(|left| size < left) && guest.found.can.balloon {
                // The balloon may still move to the former manager's last target.
                effects.push(Effect::SetTarget { guest: id, size });
            }
        }
        effects
    }

    /// Handles the size in a guest's configuration. That size must be restored if the guest arrived
    /// with less.
    pub(super) fn configured(&mut self, id: Id, size: Bytes, now: Now) -> Vec<Effect> {
        let Some(guest) = self.guests.get_mut(&id) else { return Vec::new() };
        match guest.is_configured(size, now.ms) {
            true => vec![Effect::Hold { guest: id, size: guest.memory.least() }],
            false => Vec::new(),
        }
    }

    /// Reports the first guest without a visible process, and the consequences for all such guests.
    fn tell_unseen(&mut self, guest: &ManagedGuest) -> Option<Effect> {
        let Found { name, process, source, .. } = &guest.found;
        let is_unseen = process.is_none() && source != ZVM_SOURCE;
        if !is_unseen || std::mem::replace(&mut self.is_unseen_told, true) {
            return None;
        }
        Some(Effect::Complain(format!(
            "The process of {name} is not visible (does the manager run in a container?), so its \
             resident memory is not known. For such guests, all memory that their balloons leave \
             counts as resident. To see the processes, run the manager as root and outside of \
             containers"
        )))
    }

    /// Divides a user's part of the host again, after a change of the user's guests.
    pub(super) fn share_out(&mut self, owner: Owner, by: Entitlement<'_>) -> Option<Effect> {
        let user = self.users.stranger(owner)?;
        let of_user = |guest: &&ManagedGuest| guest.found.owner == owner;
        let sizes = self.iter().filter(of_user).map(|guest| guest.found.memory);
        let part = self.users.part(&user, sizes);
        for guest in self.guests.values_mut().filter(|guest| guest.found.owner == owner) {
            guest.part = Some(part.clone());
            guest.entitle(by.settings, self.overrides.get(&guest.id));
        }
        Some(Effect::Memory(MemoryEvent::LimitsChanged))
    }
}

#[cfg(test)]
mod tests {
    use crate::effect::GuestEvent;
    use crate::guest::ManagedGuest;
    use crate::guests::testing::{OneGuest, now};
    use agent::{DaemonEvent, Port};
    use base::Bytes;
    use hypervisor::{Event, RunState};
    use reactor::PollFlags;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use wire::{Hello, PoolKind, Status, ToHost};

    #[test]
    fn configuration_counts_before_a_daemons_word() {
        let (memory, small) = (Bytes::mib(256), Bytes::mib(128));
        let mut one = OneGuest::start(memory, small);
        let guest = one.guests.guests.get_mut(&one.id).unwrap();
        guest.found.state = RunState::Migrating;
        let configured = Event::Configured(one.id, Bytes::mib(160));
        one.step(GuestEvent::Source(0, configured), 1);
        assert_eq!(one.restore(), Bytes::mib(160));
        one.guests.react(one.id, DaemonEvent::CameFrom("x".into()), now(2));
        assert_eq!(one.restore(), Bytes::mib(160));
        // A transient domain has only its current size as configuration, so this event changes
        // nothing.
        one.step(GuestEvent::Source(0, Event::Configured(one.id, small)), 3);
        assert_eq!(one.restore(), Bytes::mib(160));
    }

    #[test]
    fn report_h10_daemon_alone_gives_no_guest_its_maximum() {
        let (memory, small) = (Bytes::mib(256), Bytes::mib(160));
        let says = |one: &mut OneGuest| {
            let effects = one.guests.react(one.id, DaemonEvent::CameFrom("x".into()), now(60));
            (effects.len(), one.restore())
        };
        let mut one = OneGuest::start(memory, small);
        assert_eq!(says(&mut one), (1, small), "the report is noted");
        // The guest was found while its memory was still migrating to this host.
        let guest = one.guests.guests.get_mut(&one.id).unwrap();
        guest.found.state = RunState::Migrating;
        assert_eq!(says(&mut one), (1, memory), "the keeper gets the size");
        let guest = one.guests.guests.get_mut(&one.id).unwrap();
        guest.memory.left_at(small, false, false, 3_600_000);
        assert_eq!(says(&mut one), (0, small), "once");
    }

    #[test]
    fn status_of_a_farms_guest_is_taken_once_after_each_report() {
        let memory = Bytes::mib(256);
        let mut one = OneGuest::start(memory, memory);
        let (mut daemon, port) = UnixStream::pair().unwrap();
        let guest = one.guests.guests.get_mut(&one.id).unwrap();
        guest.daemon.link.open(Port::new(port, 0).unwrap());
        let mut reports = |one: &mut OneGuest, message: ToHost| {
            let mut frame = Vec::new();
            wire::encode(&message, &mut frame);
            daemon.write_all(&frame).unwrap();
            one.step(GuestEvent::Port(one.id, PollFlags::IN), 1);
        };
        let taken = |one: &mut OneGuest| -> Vec<(PathBuf, String, u32)> {
            let all = one.guests.iter_mut().filter_map(ManagedGuest::take_status);
            all.map(|(dir, name, status)| (dir, name, status.cpus_online)).collect()
        };
        let hello = Hello {
            boot_id: [1; 16],
            cpus_present: 2,
            update_ms: 1_000,
            pool: PoolKind::None,
            reply: true,
            version: "0".into(),
        };
        reports(&mut one, ToHost::Hello(hello));
        let status = |cpus_online| ToHost::Status(Status { cpus_online, ..Status::default() });
        reports(&mut one, status(2));
        assert_eq!(taken(&mut one), [], "no farm started the guest");
        let guest = one.guests.guests.get_mut(&one.id).unwrap();
        guest.found.source = "/run/pinhead/up/7/g1.qmp".into();
        for cpus in [2, 1] {
            reports(&mut one, status(cpus));
            let expected = (PathBuf::from("/run/pinhead/up/7"), "g1".to_owned(), cpus);
            assert_eq!(taken(&mut one), [expected]);
            assert_eq!(taken(&mut one), [], "once");
        }
    }
}
