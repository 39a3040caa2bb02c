//! Counters of the hypervisor in debugfs/s390_hypfs.

use crate::layout::{Layout, record};
use crate::text::from_ebcdic;
use crate::{Error, Tod};

/// Length of the head of each file.
pub const HEAD_BYTES: usize = 64;
/// Maximum number of guests, CPUs or partitions read from a file.
const COUNT_MAX: u64 = 65_536;

record! {
    /// Head of diag_2fc.
    GuestsHead, 34, {
        length: u64 = 0;
        version: u16 = 8;
        tod: [u8; 16] = 10;
        count: u64 = 26;
    }
}

record! {
    /// A guest of z/VM: an entry of diag_2fc. Times are in microseconds, sizes in KiB; samples
    /// count how often the guest was found in each state.
    Guest, 112, {
        version: u32 = 0;
        flags: u32 = 4;
        used_us: u64 = 8;
        elapsed_us: u64 = 16;
        memory_min: u64 = 24;
        memory_max: u64 = 32;
        memory_share: u64 = 40;
        memory_used: u64 = 48;
        processors: u32 = 56;
        logical: u32 = 60;
        virtual_cpus: u32 = 64;
        operating: u32 = 68;
        cpu_max: u32 = 72;
        cpu_shares: u32 = 76;
        using_samples: u32 = 80;
        delay_samples: u32 = 84;
        page_samples: u32 = 88;
        idle_samples: u32 = 92;
        other_samples: u32 = 96;
        all_samples: u32 = 100;
        name: [u8; 8] = 104;
    }
}

impl Guest {
    /// Returns the guest's name.
    pub fn name(&self) -> String {
        from_ebcdic(&self.name)
    }

    /// Returns the number of running virtual CPUs. For a user with an absolute share, the number is
    /// not reported, and all virtual CPUs count.
    pub fn cpus(&self) -> u32 {
        if self.cpu_max == 0 { self.virtual_cpus } else { self.operating }
    }

    /// Returns the capping: 0 for none, 1 for soft, 2 for hard.
    pub fn capped(&self) -> u32 {
        (self.flags & 6) >> 1
    }

    /// Returns true if the guest has dedicated processors.
    pub fn is_dedicated(&self) -> bool {
        self.flags & 8 != 0
    }
}

/// Reads the guests of a diag_2fc file.
pub fn guests(bytes: &[u8]) -> Result<Vec<Guest>, Error> {
    let head = GuestsHead::read(bytes)?;
    entries(bytes, HEAD_BYTES, head.count, "GuestsHead")
}

/// Returns a file with these guests and this time. A reader waits until the time changes.
pub fn guests_bytes(guests: &[Guest], at: Tod) -> Vec<u8> {
    let count = guests.len() as u64;
    let length = count * Guest::BYTES as u64;
    // The extended clock has eight more bits at the front.
    let mut tod = [0; 16];
    tod[1..9].copy_from_slice(&at.0.to_be_bytes());
    let mut bytes = GuestsHead { length, version: 0, tod, count }.bytes();
    bytes.resize(HEAD_BYTES, 0);
    guests.iter().for_each(|guest| bytes.extend(guest.bytes()));
    bytes
}

fn entries<T: Layout>(
    bytes: &[u8],
    from: usize,
    count: u64,
    record: &'static str,
) -> Result<Vec<T>, Error> {
    if count > COUNT_MAX {
        let wanted = "which is more than any machine has";
        return Err(Error::Wrong { record, field: "count", value: count, wanted });
    }
    (0..count as usize).map(|number| whole(bytes, from + number * T::BYTES)).collect()
}

/// Reads a record that must be complete.
fn whole<T: Layout>(bytes: &[u8], from: usize) -> Result<T, Error> {
    let to = from + T::BYTES;
    let short = Error::Short { record: T::NAME, field: "its end", from, to, length: bytes.len() };
    T::read(bytes.get(from..to).ok_or(short)?)
}

record! {
    /// Head of diag_0c.
    OwnHead, 40, {
        length: u64 = 0;
        version: u16 = 8;
        tod: [u8; 16] = 16;
        count: u64 = 32;
    }
}

record! {
    /// A virtual CPU of this guest: an entry of diag_0c, in microseconds.
    OwnCpu, 40, {
        date: [u8; 8] = 0;
        time: [u8; 8] = 8;
        virtual_us: u64 = 16;
        /// CPU time including CP's work for the guest.
        total_us: u64 = 24;
        address: u32 = 32;
    }
}

/// Reads the CPUs of a diag_0c file.
pub fn own_cpus(bytes: &[u8]) -> Result<Vec<OwnCpu>, Error> {
    let head = OwnHead::read(bytes)?;
    entries(bytes, HEAD_BYTES, head.count, "OwnHead")
}

record! {
    /// Head of diag_204, and the part common to all partitions.
    PartitionsHead, 88, {
        length: u64 = 0;
        version: u16 = 8;
        subcode: u8 = 10;
        /// Number of partitions; the data begin after the file's head.
        partitions: u8 = 64;
        /// X'80': a block of physical processors follows the partitions.
        flags: u8 = 65;
        time_slice: u16 = 66;
        physical: u16 = 68;
        this: u16 = 70;
        tod: u64 = 72;
        tod_2: u64 = 80;
    }
}

/// Offset of the first partition.
const PARTITIONS_AT: usize = HEAD_BYTES + 64;
/// Flag: physical processors follow.
const HAS_PHYSICAL: u8 = 0x80;

record! {
    /// A partition; its processors follow it.
    PartitionHead, 96, {
        number: u8 = 0;
        cpus: u8 = 1;
        /// Number of processors that follow.
        real_cpus: u8 = 2;
        flags: u8 = 3;
        memory: u32 = 4;
        name: [u8; 8] = 8;
        program: [u8; 8] = 16;
        system: [u8; 8] = 24;
        online_cores: u64 = 32;
        threads: u8 = 49;
        group: [u8; 8] = 56;
    }
}

record! {
    /// A logical processor, in microseconds.
    LogicalCpu, 96, {
        address: u16 = 0;
        kind: u8 = 4;
        flags: u8 = 5;
        weight: u16 = 6;
        /// CPU time including the hypervisor's work for the processor.
        used_us: u64 = 8;
        /// CPU time without the hypervisor's work.
        partition_us: u64 = 16;
        weight_min: u16 = 24;
        weight_now: u16 = 26;
        weight_max: u16 = 28;
        online_us: u64 = 32;
        wait_us: u64 = 40;
        thread_idle_us: u64 = 64;
    }
}

/// A partition with its processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Head of the partition.
    pub head: PartitionHead,
    /// Logical processors.
    pub cpus: Vec<LogicalCpu>,
}

impl Partition {
    /// Returns the partition's name. A partition without a name, which may be inactive, gets a name
    /// with its number, so that every name is unique.
    pub fn name(&self) -> String {
        match from_ebcdic(&self.head.name) {
            name if name.is_empty() => format!("LPAR{}", self.head.number),
            name => name,
        }
    }
}

/// Reads the head and the partitions of a diag_204 file in its extended format.
pub fn partitions(bytes: &[u8]) -> Result<(PartitionsHead, Vec<Partition>), Error> {
    let top = PartitionsHead::read(bytes)?;
    let mut partitions = Vec::new();
    let mut at = PARTITIONS_AT;
    for _ in 0..top.partitions {
        let head: PartitionHead = whole(bytes, at)?;
        at += PartitionHead::BYTES;
        let cpus: Vec<LogicalCpu> = entries(bytes, at, head.real_cpus.into(), "PartitionHead")?;
        at += cpus.len() * LogicalCpu::BYTES;
        partitions.push(Partition { head, cpus });
    }
    Ok((top, partitions))
}

/// Returns a file with these partitions, without physical processors.
pub fn partitions_bytes(mut top: PartitionsHead, partitions: &[Partition]) -> Vec<u8> {
    top.partitions = u8::try_from(partitions.len()).unwrap_or(u8::MAX);
    top.flags &= !HAS_PHYSICAL;
    let mut bytes = top.bytes();
    bytes.resize(PARTITIONS_AT, 0);
    for partition in partitions.iter().take(top.partitions.into()) {
        let mut head = partition.head.clone();
        head.real_cpus = u8::try_from(partition.cpus.len()).unwrap_or(u8::MAX);
        bytes.extend(head.bytes());
        let cpus = partition.cpus.iter().take(head.real_cpus.into());
        cpus.for_each(|cpu| bytes.extend(cpu.bytes()));
    }
    let length = (bytes.len() - HEAD_BYTES) as u64;
    crate::layout::Value::put(&length, &mut bytes, 0);
    bytes
}
