//! Uses of the host's memory, which add up to its total.

use crate::Facts;
use crate::facts::{MIB, PAGE};
use model::{GuestField, HostField, TierField};

/// Guest memory on the host, in mebibytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GuestStorage {
    /// Memory private to each guest; pages shared through KSM count once.
    pub own: f64,
    /// Memory of the hypervisors themselves.
    pub hypervisors: f64,
    /// Memory shared by guests, counted once: templates and programs, in files.
    pub together: f64,
}

/// Uses of the host's memory, in mebibytes that sum to its total.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Storage {
    /// Guest memory.
    pub guests: GuestStorage,
    /// The manager and monitor.
    pub manager: f64,
    /// Anonymous memory of everything else.
    pub processes: f64,
    /// Cache of files.
    pub cache: f64,
    /// Shared memory and tmpfs.
    pub shared: f64,
    /// Cache of block devices.
    pub buffers: f64,
    /// The kernel's objects.
    pub slab: f64,
    /// Page tables of processes and guests.
    pub tables: f64,
    /// Kernel stacks and per-CPU memory.
    pub kernel: f64,
    /// The zswap pool.
    pub zswap: f64,
    /// Memory of compressed swap devices.
    pub zram: f64,
    /// Huge pages set aside.
    pub huge: f64,
    /// Free memory.
    pub free: f64,
    /// Free memory kept on per-CPU lists.
    pub lists: f64,
    /// Remainder: drivers, and memory that /proc/meminfo does not name.
    pub other: f64,
}

/// Splits the host's memory. Returns `None` if the total, the free or the anonymous memory is not
/// known. Any other missing part is in the remainder.
pub fn storage(facts: &Facts<'_>) -> Option<Storage> {
    let mib = |field| facts.h(field).map(|bytes| bytes / MIB);
    let known = |field| mib(field).unwrap_or(0.0);
    let total = mib(HostField::Total)?;
    let free = mib(HostField::Free)?;
    let anonymous = mib(HostField::Anonymous)?;
    // A page shared through KSM is resident in each process, but counts as anonymous memory only
    // once.
    let saved = facts.h(HostField::KsmSharing).unwrap_or(0.0) * PAGE / MIB;
    let of_guests = |field| facts.g(field).map(|bytes| bytes / MIB);
    // Old recordings contain only resident sets, and each set includes the shared pages.
    let held = of_guests(GuestField::Private).or_else(|| of_guests(GuestField::Resident));
    let manager = known(HostField::OwnResident).min(anonymous);
    // Guest memory that is not anonymous is in huge pages, or in files that exist only in memory.
    let (huge, shared) = (known(HostField::HugeTlb), known(HostField::Shared));
    let room = anonymous - manager + huge + shared;
    let held = (held.unwrap_or(0.0) - saved).clamp(0.0, room);
    let (anonymous, left) = rest(anonymous - manager, held);
    let (huge, left) = rest(huge, left);
    let (shared, _) = rest(shared, left);
    let hypervisors = of_guests(GuestField::Hypervisor).unwrap_or(0.0).min(held);
    let cached = (known(HostField::Cached) - known(HostField::Shared)).max(0.0);
    let together = known(HostField::Together).min(cached);
    let mut split = Storage {
        guests: GuestStorage { own: held - hypervisors, hypervisors, together },
        manager,
        processes: anonymous,
        cache: cached - together,
        shared,
        buffers: known(HostField::Buffers),
        slab: known(HostField::Slab),
        tables: known(HostField::PageTables) + known(HostField::SecondaryTables),
        kernel: known(HostField::KernelStack) + known(HostField::PerCpu),
        zswap: known(HostField::Zswap),
        zram: facts.t(TierField::Resident).map_or(0.0, |bytes| bytes / MIB),
        huge,
        free,
        lists: known(HostField::CpuLists),
        other: 0.0,
    };
    split.other = total - split.sum();
    Some(split)
}

/// Subtracts an amount from a part. Returns the rest of the part, and the amount not yet
/// subtracted.
fn rest(part: f64, taken: f64) -> (f64, f64) {
    ((part - taken).max(0.0), (taken - part).max(0.0))
}

impl Storage {
    /// Returns the sum of all parts.
    pub fn sum(&self) -> f64 {
        let GuestStorage { own, hypervisors, together } = self.guests;
        let guests = own + hypervisors + together;
        let used = guests + self.manager + self.processes + self.cache + self.shared;
        let kernel = self.buffers + self.slab + self.tables + self.kernel;
        used + kernel + self.zswap + self.zram + self.huge + self.free + self.lists + self.other
    }
}
