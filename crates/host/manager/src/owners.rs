//! Owners of the host's memory. Each byte has only one owner. Memory shared by guests counts once,
//! not once for each guest.

use crate::guest::ManagedGuest;
use base::Bytes;
use hypervisor::{BackingFile, ZVM_SOURCE};
use std::collections::BTreeMap;

/// The host's memory used by guests and the manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    /// Private memory of guests' processes, without reserved huge pages.
    pub guests: Bytes,
    /// Hypervisors' own part of `guests`.
    pub hypervisors: Bytes,
    /// Shared memory: templates, and the hypervisor's program.
    pub shared: Bytes,
    /// Part of `shared` in files on disk, which the kernel counts as available.
    pub in_files: Bytes,
    /// Memory of the manager.
    pub manager: Bytes,
    /// Private memory of guests merged by KSM. A shared page counts for each guest.
    merged: Bytes,
    /// Memory saved by KSM, which is no longer part of `guests`.
    pub saved: Bytes,
    /// Reported memory of guests without a visible process.
    unseen: Bytes,
}

impl Owners {
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

    /// Returns the owners less the memory saved by KSM, because a merged page exists once.
    pub(crate) fn with_saved(self, saved: Bytes) -> Owners {
        let saved = saved.min(self.merged);
        Owners { guests: self.guests.less(saved), saved, ..self }
    }

    /// Returns the owners with invisible guests. `handed_out` is all memory in use on the host.
    /// Invisible guests may report any size. They count for at most the memory in use that no
    /// visible owner has.
    pub(crate) fn with_unseen(self, handed_out: Option<Bytes>) -> Owners {
        // Pages of files on disk count as available.
        let seen = self.sum().less(self.in_files);
        let most = handed_out.map_or(self.unseen, |all| all.less(seen));
        let guests = self.guests.plus(self.unseen.min(most));
        Owners { guests, unseen: Bytes::ZERO, ..self }
    }

    /// Returns the sum of all owners, which counts against a budget.
    pub(crate) fn sum(self) -> Bytes {
        self.guests.plus(self.shared).plus(self.manager)
    }
}

/// Returns the memory of a guest without a visible process: its full size. z/VM's users have no
/// memory of this host.
fn unseen(guest: &ManagedGuest) -> Bytes {
    match guest.found.source == ZVM_SOURCE {
        true => Bytes::ZERO,
        false => guest.memory.actual,
    }
}

/// Shared memory of processes. Processes with the same template map mostly the same pages, so the
/// largest amount counts for all of them.
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
    fn ksm_savings_of_other_processes_do_not_count_for_guests() {
        let mib = Bytes::mib;
        let owners = Owners { guests: mib(900), merged: mib(300), ..Owners::default() };
        assert_eq!(owners.with_saved(mib(250)).sum(), mib(650));
        assert_eq!(owners.with_saved(mib(250)).saved, mib(250));
        assert_eq!(owners.with_saved(mib(5000)).sum(), mib(600));
        assert_eq!(owners.with_saved(mib(5000)).saved, mib(300));
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
        assert_eq!(guests(mib(1 << 20), Some(mib(2000))), 900 + 2000 - 960, "1 TiB reported");
        assert_eq!(guests(mib(500), Some(mib(900))), 900);
        assert_eq!(guests(mib(500), None), 1400, "the host could not be read");
    }

    #[test]
    fn clones_of_one_template_count_its_pages_once() {
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
