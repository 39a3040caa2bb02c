//! Room in the control groups of a rescue's guests.

use std::collections::BTreeMap;
use std::path::Path;

use base::Bytes;
use hypervisor::ProcessView;
use procfs::AllKills;

use super::Book;
use crate::groups::{Groups, Member, Rooms};
use crate::outside::owned;

/// Upper estimate of a hypervisor's own memory, which is not measured here.
const OWN_MOST: Bytes = Bytes::mib(64);

struct Bounded {
    id: u64,
    groups: Groups,
    actual: Bytes,
    touched: Bytes,
    swapped: Bytes,
}

pub(super) struct GuestGroups {
    own: Groups,
    guests: Vec<Bounded>,
}

impl GuestGroups {
    pub(super) fn of(book: &Book, root: &Path) -> GuestGroups {
        let guests = book.of_this_host().map(|held| {
            let (process, actual) = (held.process(), Bytes(held.held));
            let view = process.and_then(|process| ProcessView::open_under(root, process));
            let apart = view.as_ref().and_then(ProcessView::apart).unwrap_or_default();
            let holds = view.and_then(|view| Some(owned(view.held()?, None, &apart)));
            let swapped = apart.swapped.unwrap_or(Bytes::ZERO);
            let of_guest = holds.map(|holds| holds.private.less(OWN_MOST));
            let touched = of_guest.unwrap_or(actual).min(actual);
            let groups = process
                .map(|process| Groups::of(root, &process.pid.to_string(), &AllKills::default()));
            Bounded { id: held.id, groups: groups.unwrap_or_default(), actual, touched, swapped }
        });
        GuestGroups {
            guests: guests.collect(),
            own: Groups::of(root, "self", &AllKills::default()),
        }
    }

    fn members(&self) -> impl Iterator<Item = (u64, Member<'_>)> {
        self.guests.iter().map(|guest| {
            let Bounded { id, groups, actual, touched, swapped } = guest;
            let (actual, touched, swapped) = (*actual, *touched, *swapped);
            (*id, Member { groups, actual, touched, swapped, may_grow: true })
        })
    }

    fn rooms(&self) -> Rooms {
        let members: Vec<Member<'_>> = self.members().map(|(_, member)| member).collect();
        Rooms::of(&members, &self.own)
    }

    /// Returns the largest size that each limited guest may have.
    pub(super) fn most(&self) -> BTreeMap<u64, Bytes> {
        let rooms = self.rooms();
        self.members().filter_map(|(id, member)| Some((id, rooms.most(&member)?))).collect()
    }

    /// Limits the host's free memory to the free memory of the group with this process and all
    /// guests, if there is such a group.
    pub(super) fn within(&self, free: Bytes) -> Bytes {
        self.rooms().common().map_or(free, |(_, left)| left.min(free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::{Held, Order};
    use procfs::testing::FakeKernel;

    #[test]
    fn report_h10_memory_that_is_shared_is_in_its_group() {
        let kernel = FakeKernel::new(1, 1);
        let stat =
            "7 (qemu) S 1 1 1 0 -1 4194560 900 0 12 0 50 60 0 0 20 0 3 0 9 300000000 2500 1\n";
        kernel.write("proc/7/stat", stat);
        kernel.write("proc/7/cgroup", "0::/vms/one\n");
        let group = "sys/fs/cgroup/vms/one";
        kernel.write(&format!("{group}/cgroup.procs"), "");
        kernel.write(&format!("{group}/memory.max"), &format!("{}\n", 400 << 20));
        kernel.write(&format!("{group}/memory.current"), &format!("{}\n", 260 << 20));
        let held = Held::example(1, Bytes::mib(400).0, Bytes::mib(200).0, 0);
        let held = Held { process: Some((7, 9)), ..held };
        let mut book = Book::new();
        book.take(Order::Guest(held), 0);
        let most = |anonymous: u64, shmem: u64| {
            let pages = |mib: u64| (mib << 20) / rustix::param::page_size() as u64;
            let (all, shared) = (pages(anonymous + shmem), pages(shmem));
            kernel.write("proc/7/statm", &format!("90000 {all} {shared} 1 0 70000 0\n"));
            let sizes =
                format!("RssAnon:\t{} kB\nRssShmem:\t{} kB\n", anonymous << 10, shmem << 10);
            kernel.write("proc/7/status", &sizes);
            GuestGroups::of(&book, kernel.root().path()).most().get(&1).map(|most| most.as_mib())
        };
        let of_group = Some(200 + 140 - 16);
        assert_eq!(most(264, 0), of_group, "the guest has touched all its memory");
        assert_eq!(most(24, 240), of_group, "a guest with shared memory has touched all of it");
    }
}
