//! What a guest's daemon says, as far as it is short; the longer bodies have files of their own.

use crate::body::{body, place};
use crate::file::File;

/// How a guest gives up memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// It cannot.
    None,
    /// The kernel's own CMM pool; the host is not asked.
    Cmm,
    /// The host's balloon, by request.
    Host,
}

impl PoolKind {
    const ALL: [PoolKind; 3] = [PoolKind::None, PoolKind::Cmm, PoolKind::Host];
}

/// A resource that tasks in the guest wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
}

impl Pressure {
    const ALL: [Pressure; 2] = [Pressure::Cpu, Pressure::Memory];
}

place!(PoolKind, Pressure);

body! {
    /// A daemon introduces itself: at its start, and when a host that is new says welcome.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Hello {
        /// The guest's boot, from /proc/sys/kernel/random/boot_id, as its 16 bytes.
        pub boot_id: [u8; 16];
        /// CPUs present.
        pub cpus_present: u32;
        /// Milliseconds between two looks.
        pub update_ms: u32;
        /// How it gives up memory.
        pub pool: PoolKind;
        /// Whether it answers a welcome, and needs none in return.
        pub reply: bool;
        /// The daemon's version.
        pub version: String;
    }
}

body! {
    /// A daemon that was told the name of another host before, tells that.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CameFrom {
        /// The other host's name.
        pub host: String;
    }
}

body! {
    /// What a daemon saw and did.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Status {
        /// Counts up with each status.
        pub sequence: u32;
        /// CPUs online and present.
        pub cpus_online: u32;
        /// CPUs present, online or not.
        pub cpus_present: u32;
        /// The size of the pool, in pages.
        pub pool_pages: u64;
        /// MemTotal as the guest's rules see it, in KiB.
        pub mem_total_kib: u64;
        /// MemFree, in KiB.
        pub mem_free_kib: u64;
        /// MemAvailable, in KiB.
        pub mem_available_kib: u64;
        /// Ticks that CPUs were busy, since boot.
        pub busy_ticks: u64;
        /// Ticks that CPUs were idle, since boot.
        pub idle_ticks: u64;
        /// Ticks stolen, since boot.
        pub steal_ticks: u64;
        /// CPUs plugged by this daemon.
        pub plugs: u32;
        /// CPUs unplugged by this daemon.
        pub unplugs: u32;
        /// Times the pool grew.
        pub grows: u32;
        /// Times the pool shrank.
        pub shrinks: u32;
        /// Whether nothing changes any more: the daemon need not be told to look before
        /// the guest's virtual CPUs have run.
        pub settled: bool;
        /// What it did last, and why.
        pub reason: String;
    }
}

body! {
    /// A daemon asks for a size of the pool.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PoolRequest {
        /// Comes back with the grant.
        pub sequence: u32;
        /// The size wanted, in pages.
        pub pages: u64;
    }
}

body! {
    /// A piece of a captured file.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Chunk {
        /// The request that it answers.
        pub sequence: u32;
        /// Which file.
        pub file: File;
        /// Where the piece starts.
        pub offset: u32;
        /// Whether it is the last one.
        pub last: bool;
        /// The piece, at most [`MAX_CHUNK`](crate::MAX_CHUNK) bytes.
        pub bytes: Vec<u8>;
    }
}

body! {
    /// When a guest wants to run by itself.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Alarm {
        /// The question that it answers.
        pub sequence: u32;
        numbers:
        /// Milliseconds until then; `None`: not within a day, as far as it is known.
        in_ms;
    }
}

body! {
    /// Whether a guest has become who it is to be.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Identified {
        /// Why not; empty if it has.
        pub refusal: String;
    }
}
