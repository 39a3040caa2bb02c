//! Records that CP copies into the monitor for a Linux kernel: memory, CPUs and network of a guest.
//!
//! The kernel increments one counter before it changes a buffer, and another counter afterwards. A
//! copy in which the two counters differ is inconsistent. Sizes are in KiB, times in the kernel's
//! own ticks. The number of ticks per second depends on the kernel's configuration: it is 100 in
//! most distributions and 250 in Debian. This number is not part of the records
//! ([`System::ticks_a_second`]).

use crate::Error;
use crate::layout::{Layout, record};
use crate::text::{from_ebcdic, to_ebcdic};
use crate::tod::ns_of_ticks;

/// Possible numbers of ticks per second, the most common first.
pub const HZ: [u64; 4] = [100, 250, 300, 1_000];
const NS_A_SECOND: u128 = 1_000_000_000;
/// Load average of one, in fixed point.
pub const LOAD_ONE: u32 = 1 << 11;
/// Maximum length of a buffer that CP accepts.
pub const BUFFER_MAX: usize = 4_024;
/// Maximum number of CPUs that fit a buffer.
pub const CPUS_MAX: usize = (BUFFER_MAX - Os::BYTES) / Cpu::BYTES;

record! {
    /// Product id of a buffer: 16 bytes of DIAGNOSE X'DC'.
    ProductId, 16, {
        /// Product, in EBCDIC.
        product: [u8; 7] = 0;
        /// Function, in EBCDIC or as a number.
        function: u16 = 7;
        /// Record number.
        record: u8 = 9;
        /// Version, release and modification, in EBCDIC or numbers.
        version: u16 = 10;
        release: u16 = 12;
        modification: u16 = 14;
    }
}

/// Number of the kernel's memory record.
pub const MEMORY: u8 = 1;
/// Number of the kernel's record of CPUs and load.
pub const SYSTEM: u8 = 2;
/// Number of the kernel's network record.
pub const NETWORK: u8 = 3;

/// Product of the kernel.
const KERNEL: &str = "LINUXKR";
/// Product of programs that write to /dev/monwriter.
const WRITER: &str = "LNXAPPL";

impl ProductId {
    /// Returns the kernel's id for one of its records: [`MEMORY`], [`SYSTEM`] or [`NETWORK`].
    pub fn of_kernel(record: u8, modification: &str) -> ProductId {
        let pair = |text: &str| u16::from_be_bytes(to_ebcdic(text));
        ProductId {
            product: to_ebcdic(KERNEL),
            function: pair("NL"),
            record,
            version: pair("26"),
            release: pair("01"),
            modification: pair(modification),
        }
    }

    /// Returns the id of a program's record.
    pub fn of_writer(application: u16, record: u8, modification: u16) -> ProductId {
        ProductId {
            product: to_ebcdic(WRITER),
            function: application,
            record,
            version: 0,
            release: 0,
            modification,
        }
    }

    /// Returns the origin of the buffer.
    pub fn origin(&self) -> Origin {
        match from_ebcdic(&self.product).as_str() {
            KERNEL => Origin::Kernel,
            WRITER => Origin::Writer,
            _ => Origin::Other,
        }
    }
}

/// Origin of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A Linux kernel.
    Kernel,
    /// A program, through /dev/monwriter.
    Writer,
    /// Another origin.
    Other,
}

record! {
    /// Memory: record 1 of the kernel.
    Memory, 144, {
        timestamp: u64 = 0;
        sync_1: u32 = 8;
        sync_2: u32 = 12;
        /// KiB read from and written to storage.
        paged_in: u64 = 16;
        paged_out: u64 = 24;
        /// Pages read from and written to swap space.
        swapped_in: u64 = 32;
        swapped_out: u64 = 40;
        /// In pages, unlike the sizes around this field: the kernel copies its own count.
        shared: u64 = 48;
        total: u64 = 56;
        free: u64 = 64;
        total_high: u64 = 72;
        free_high: u64 = 80;
        buffers: u64 = 88;
        /// Page cache without buffers.
        cached: u64 = 96;
        swap_total: u64 = 104;
        swap_free: u64 = 112;
        allocations: u64 = 120;
        faults: u64 = 128;
        major_faults: u64 = 136;
    }
}

record! {
    /// CPUs and tasks: record 2 of the kernel. An entry for each CPU follows.
    Os, 52, {
        timestamp: u64 = 0;
        sync_1: u32 = 8;
        sync_2: u32 = 12;
        cpus: u32 = 16;
        /// Length of an entry and offset of the first one, which differ between kernels.
        cpu_bytes: u32 = 20;
        cpu_at: u32 = 24;
        running: u32 = 28;
        tasks: u32 = 32;
        /// Load averages of 1, 5 and 15 minutes.
        load_1: u32 = 36;
        load_5: u32 = 40;
        load_15: u32 = 44;
        waiting_for_io: u32 = 48;
    }
}

record! {
    /// Times of a CPU, in ticks. The counters wrap at 2^32.
    Cpu, 36, {
        user: u32 = 0;
        nice: u32 = 4;
        system: u32 = 8;
        idle: u32 = 12;
        irq: u32 = 16;
        soft_irq: u32 = 20;
        io_wait: u32 = 24;
        /// Kernels before 2.6.18 have no steal time. Some of them have the number of the CPU here.
        steal: Option<u32> = 28;
        number: Option<u32> = 32;
    }
}

record! {
    /// Network, all interfaces together: record 3 of the kernel.
    Network, 96, {
        timestamp: u64 = 0;
        sync_1: u32 = 8;
        sync_2: u32 = 12;
        interfaces: u32 = 16;
        received_packets: u64 = 24;
        sent_packets: u64 = 32;
        received_bytes: u64 = 40;
        sent_bytes: u64 = 48;
        received_errors: u64 = 56;
        sent_errors: u64 = 64;
        received_dropped: u64 = 72;
        sent_dropped: u64 = 80;
        collisions: u64 = 88;
    }
}

impl Cpu {
    /// Returns the sum of all times, which is the time online.
    fn all(&self) -> u64 {
        let times = [self.user, self.nice, self.system, self.idle, self.irq, self.soft_irq];
        let more = [self.io_wait, self.steal.unwrap_or(0)];
        times.into_iter().chain(more).map(u64::from).sum()
    }
}

/// CPUs and tasks, in the format of any kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// Fixed part at the start.
    pub os: Os,
    /// Online CPUs.
    pub cpus: Vec<Cpu>,
    /// True if steal time is included.
    pub has_steal: bool,
}

impl System {
    /// Reads a whole buffer.
    pub fn read(bytes: &[u8]) -> Result<System, Error> {
        let os = whole::<Os>(bytes)?;
        let (each, at) = (os.cpu_bytes as usize, os.cpu_at as usize);
        let wrong = |field, value: u32, wanted| Error::Wrong {
            record: "Os",
            field,
            value: value.into(),
            wanted,
        };
        if !(28..=1_024).contains(&each) {
            return Err(wrong("cpu_bytes", os.cpu_bytes, "an entry has 28 bytes at least"));
        }
        if os.cpus as usize > bytes.len() / each {
            return Err(wrong("cpus", os.cpus, "which is more than there are bytes for"));
        }
        let has_steal = each >= Cpu::BYTES;
        let mut cpus = Vec::new();
        for number in 0..os.cpus as usize {
            let from = number.saturating_mul(each).saturating_add(at);
            let entry = bytes.get(from..).unwrap_or_default();
            let entry = &entry[..each.min(entry.len())];
            let mut cpu = Cpu::read(entry)?;
            if !has_steal {
                (cpu.number, cpu.steal) = (cpu.steal, None);
            }
            cpus.push(cpu);
        }
        Ok(System { os, cpus, has_steal })
    }

    /// Returns a whole buffer in the format of current kernels.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.os.bytes();
        self.cpus.iter().take(CPUS_MAX).for_each(|cpu| bytes.extend(cpu.bytes()));
        bytes
    }

    /// Returns the number of ticks per second of this kernel. The number is derived from an earlier
    /// copy, and a majority of CPUs must agree. The sum of all times of a CPU is its time online.
    /// Returns `None` if the copies are inconclusive.
    pub fn ticks_a_second(&self, earlier: &System) -> Option<u64> {
        let passed_ns = ns_of_ticks(self.os.timestamp.checked_sub(earlier.os.timestamp)?);
        let pairs = self.cpus.iter().zip(&earlier.cpus);
        let same = pairs.filter(|(now, before)| now.number == before.number);
        let grown = same.map(|(now, before)| now.all().checked_sub(before.all()));
        let grown: Vec<Option<u64>> = grown.collect();
        // The possible values differ by more than a twelfth.
        let is_it = |hz: u64, ticks: u64| {
            let expected = u128::from(passed_ns) * u128::from(hz) / NS_A_SECOND;
            expected >= hz.into() && expected.abs_diff(ticks.into()) <= expected / 12
        };
        let say_so = |hz: u64| grown.iter().flatten().filter(|ticks| is_it(hz, **ticks)).count();
        HZ.into_iter().find(|hz| say_so(*hz) * 2 > grown.len())
    }
}

/// A buffer with counters that reveal a torn copy.
trait Synced: Layout {
    fn counts(&self) -> (u32, u32);
}

macro_rules! synced {
    ($($name:ident)*) => { $(
        impl Synced for $name {
            fn counts(&self) -> (u32, u32) {
                (self.sync_1, self.sync_2)
            }
        }
    )* };
}
synced!(Memory Os Network);

fn whole<T: Synced>(bytes: &[u8]) -> Result<T, Error> {
    let read = T::read(bytes)?;
    let (one, two) = read.counts();
    if one == two { Ok(read) } else { Err(Error::Torn { record: T::NAME, one, two }) }
}

impl Memory {
    /// Reads a whole buffer.
    pub fn whole(bytes: &[u8]) -> Result<Memory, Error> {
        whole(bytes)
    }
}

impl Network {
    /// Reads a whole buffer.
    pub fn whole(bytes: &[u8]) -> Result<Network, Error> {
        whole(bytes)
    }
}
