//! Who has what of the host's memory. Every byte has one owner: what guests have from the same
//! place is counted once, and not with each of them.

use crate::guest::ManagedGuest;
use counters::Bytes;
use hypervisor::{BackingFile, ZVM_SOURCE};
use std::collections::BTreeMap;

/// The parts of the host's memory that guests stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    /// Memory that guests' processes have for themselves, all together, but for the huge pages that
    /// are set aside.
    pub guests: Bytes,
    /// What of that is no guest's memory, but its hypervisor's own.
    pub hypervisors: Bytes,
    /// What they have together: templates, and the hypervisor's program.
    pub shared: Bytes,
    /// What of that lies in files on disk, and so is available to the kernel's mind.
    pub in_files: Bytes,
    /// The manager's own.
    pub manager: Bytes,
    /// What guests have for themselves and KSM has merged, with each that has a page of it.
    merged: Bytes,
    /// Memory that guests without a process that is seen are said to have.
    unseen: Bytes,
}

impl Owners {
    /// Adds up all that is seen.
    pub(crate) fn of<'a>(guests: impl Iterator<Item = &'a ManagedGuest>, manager: Bytes) -> Owners {
        let mut owners = Owners { manager, ..Owners::default() };
        let (mut shared, mut in_files) = (SharedOnce::default(), SharedOnce::default());
        for guest in guests {
            let Some(held) = guest.memory.held else {
                owners.unseen = owners.unseen.plus(unseen(guest));
                continue;
            };
            owners.guests = owners.guests.plus(held.private.less(held.huge));
            owners.merged = owners.merged.plus(held.merged);
            let own = held.own.size.min(held.private.less(held.huge));
            owners.hypervisors = owners.hypervisors.plus(own);
            let template = guest.outside.template();
            shared.add(template, held.shared);
            in_files.add(template, held.in_files);
        }
        Owners { shared: shared.sum(), in_files: in_files.sum(), ..owners }
    }

    /// The same where KSM has saved so much: a page that is merged is there once.
    pub(crate) fn with_saved(self, saved: Bytes) -> Owners {
        Owners { guests: self.guests.less(saved.min(self.merged)), ..self }
    }

    /// The same with those that are not seen, where the host has handed out so much in all. They
    /// may say anything of themselves, and have no more than is missing beside what is seen.
    pub(crate) fn with_unseen(self, handed_out: Option<Bytes>) -> Owners {
        // Pages of files on disk are available.
        let seen = self.sum().less(self.in_files);
        let most = handed_out.map_or(self.unseen, |all| all.less(seen));
        let guests = self.guests.plus(self.unseen.min(most));
        Owners { guests, unseen: Bytes::ZERO, ..self }
    }

    /// All of it: this is what a budget pays for.
    pub(crate) fn sum(self) -> Bytes {
        self.guests.plus(self.shared).plus(self.manager)
    }
}

/// Memory of a guest without a process that is seen: all that its balloon leaves it. z/VM's users
/// have none of this host's.
fn unseen(guest: &ManagedGuest) -> Bytes {
    match guest.found.source == ZVM_SOURCE {
        true => Bytes::ZERO,
        false => guest.memory.actual,
    }
}

/// What processes have together. Those with one template have seen much the same of it: the one
/// that has seen most stands for all of them.
#[derive(Debug, Default)]
struct SharedOnce(BTreeMap<Option<BackingFile>, Bytes>);

impl SharedOnce {
    fn add(&mut self, template: Option<BackingFile>, shared: Bytes) {
        let most = self.0.entry(template).or_default();
        *most = (*most).max(shared);
    }

    fn sum(&self) -> Bytes {
        self.0.values().copied().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_save_by_ksm_is_not_taken_for_what_guests_save() {
        let mib = Bytes::mib;
        let owners = Owners { guests: mib(900), merged: mib(300), ..Owners::default() };
        assert_eq!(owners.with_saved(mib(250)).sum(), mib(650));
        assert_eq!(owners.with_saved(mib(5000)).sum(), mib(600));
    }

    #[test]
    fn report_h09_unseen_guests_have_no_more_than_the_host_lacks() {
        let mib = Bytes::mib;
        let (shared, in_files) = (mib(80), mib(30));
        let seen =
            Owners { guests: mib(900), shared, in_files, manager: mib(10), ..Owners::default() };
        let guests =
            |unseen, handed_out| Owners { unseen, ..seen }.with_unseen(handed_out).guests.as_mib();
        assert_eq!(guests(mib(500), Some(mib(2000))), 1400);
        assert_eq!(guests(mib(1 << 20), Some(mib(2000))), 900 + 2000 - 960, "it says 1 TiB");
        assert_eq!(guests(mib(500), Some(mib(900))), 900);
        assert_eq!(guests(mib(500), None), 1400, "the host could not be read");
    }

    #[test]
    fn what_clones_have_from_one_template_is_counted_once() {
        let template = |inode| Some(BackingFile { device: (8, 1), inode });
        let mut shared = SharedOnce::default();
        for mib in [40, 46, 44] {
            shared.add(template(1), Bytes::mib(mib));
        }
        assert_eq!(shared.sum(), Bytes::mib(46));
        shared.add(template(2), Bytes::mib(70));
        shared.add(None, Bytes::mib(30));
        shared.add(None, Bytes::mib(31));
        assert_eq!(shared.sum(), Bytes::mib(46 + 70 + 31));
    }
}
