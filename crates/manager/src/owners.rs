//! Who has what of the host's memory. Every byte has one owner: what guests have from the same
//! place is counted once, and not with each of them.

use crate::guest::ManagedGuest;
use counters::Bytes;
use hypervisor::BackingFile;
use std::collections::BTreeMap;

/// The parts of the host's memory that guests stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    /// What guests' processes have for themselves, all together.
    pub guests: Bytes,
    /// What they have together: templates, and the hypervisor's program.
    pub shared: Bytes,
    /// The manager's own.
    pub own: Bytes,
}

impl Owners {
    /// Adds up.
    pub(crate) fn of<'a>(guests: impl Iterator<Item = &'a ManagedGuest>, own: Bytes) -> Owners {
        let mut owners = Owners { own, ..Owners::default() };
        let mut shared = SharedOnce::default();
        for guest in guests {
            let held = guest.memory.held.unwrap_or_default();
            owners.guests = owners.guests.plus(held.private);
            shared.add(guest.outside.template(), held.shared);
        }
        Owners { shared: shared.sum(), ..owners }
    }

    /// All of it: this is what a budget pays for.
    pub(crate) fn sum(self) -> Bytes {
        self.guests.plus(self.shared).plus(self.own)
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
