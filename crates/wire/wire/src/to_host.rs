//! The short messages of a guest's daemon; the longer bodies are in other files.

use crate::body::{body, place};
use crate::file::File;

/// The way in which a guest gives up memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The guest has no pool.
    None,
    /// The kernel's own CMM pool, which needs no requests to the host.
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
    /// A daemon's introduction: at its start, and after the welcome of a new host.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Hello {
        /// The id of the guest's boot, from /proc/sys/kernel/random/boot_id, as 16 bytes.
        pub boot_id: [u8; 16];
        /// CPUs present.
        pub cpus_present: u32;
        /// Milliseconds between two samples.
        pub update_ms: u32;
        /// The kind of pool.
        pub pool: PoolKind;
        /// Set if the message answers a welcome, and needs no welcome in return.
        pub reply: bool;
        /// The daemon's version.
        pub version: String;
    }
}

body! {
    /// The previous host's name, sent if the daemon had received another name before.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CameFrom {
        /// The previous host's name.
        pub host: String;
    }
}

body! {
    /// A daemon's observations and actions.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Status {
        /// Increases with each status.
        pub sequence: u32;
        /// CPUs online.
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
        /// Set if nothing changes any more: the host need not wake the daemon before the guest's
        /// virtual CPUs have run.
        pub settled: bool;
        /// The last action and its reason.
        pub reason: String;
    }
}

body! {
    /// A daemon's request for a size of the pool.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PoolRequest {
        /// Returned with the grant.
        pub sequence: u32;
        /// The size wanted, in pages.
        pub pages: u64;
    }
}

body! {
    /// A piece of a captured file.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Chunk {
        /// The number of the answered request.
        pub sequence: u32;
        /// The file.
        pub file: File;
        /// The piece's offset.
        pub offset: u32;
        /// Set in the last piece.
        pub last: bool;
        /// The piece, at most [`MAX_CHUNK`](crate::MAX_CHUNK) bytes.
        pub bytes: Vec<u8>;
    }
}

body! {
    /// The next time at which a guest wants to run.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Alarm {
        /// The number of the answered request.
        pub sequence: u32;
        numbers:
        /// Milliseconds until that time; `None` if no such time is known within a day.
        in_ms;
    }
}

body! {
    /// The result of taking on an identity.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Identified {
        /// The reason for a refusal; empty after success.
        pub refusal: String;
    }
}
