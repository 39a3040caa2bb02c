//! What a guest's daemon says, as far as it is short; the longer bodies have files of their own.

use crate::body::{Body, MAX_CHUNK, Reader, Writer};
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

/// A resource that tasks in the guest wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
}

impl Body for Pressure {
    fn write(&self, out: &mut Writer<'_>) {
        out.u8(*self as u8);
    }

    fn read(from: &mut Reader<'_>) -> Option<Pressure> {
        [Pressure::Cpu, Pressure::Memory].get(usize::from(from.u8()?)).copied()
    }
}

/// A daemon introduces itself: at its start, and when a host that is new says welcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The guest's boot, from /proc/sys/kernel/random/boot_id, as its 16 bytes.
    pub boot_id: [u8; 16],
    /// CPUs present.
    pub cpus_present: u32,
    /// Milliseconds between two looks.
    pub update_ms: u32,
    /// How it gives up memory.
    pub pool: PoolKind,
    /// Whether it answers a welcome, and needs none in return.
    pub reply: bool,
    /// The daemon's version.
    pub version: String,
}

impl Body for Hello {
    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(&self.boot_id);
        out.u32(self.cpus_present);
        out.u32(self.update_ms);
        out.u8(self.pool as u8);
        out.u8(u8::from(self.reply));
        out.text(&self.version);
    }

    fn read(from: &mut Reader<'_>) -> Option<Hello> {
        const POOLS: [PoolKind; 3] = [PoolKind::None, PoolKind::Cmm, PoolKind::Host];
        Some(Hello {
            boot_id: from.array()?,
            cpus_present: from.u32()?,
            update_ms: from.u32()?,
            pool: *POOLS.get(usize::from(from.u8()?))?,
            reply: from.flag()?,
            version: from.text()?,
        })
    }
}

/// What a daemon saw and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Counts up with each status.
    pub sequence: u32,
    /// CPUs online and present.
    pub cpus_online: u32,
    /// CPUs present, online or not.
    pub cpus_present: u32,
    /// The size of the pool, in pages.
    pub pool_pages: u64,
    /// MemTotal as the guest's rules see it, in KiB.
    pub mem_total_kib: u64,
    /// MemFree, in KiB.
    pub mem_free_kib: u64,
    /// MemAvailable, in KiB.
    pub mem_available_kib: u64,
    /// Ticks that CPUs were busy, since boot.
    pub busy_ticks: u64,
    /// Ticks that CPUs were idle, since boot.
    pub idle_ticks: u64,
    /// Ticks stolen, since boot.
    pub steal_ticks: u64,
    /// CPUs plugged by this daemon.
    pub plugs: u32,
    /// CPUs unplugged by this daemon.
    pub unplugs: u32,
    /// Times the pool grew.
    pub grows: u32,
    /// Times the pool shrank.
    pub shrinks: u32,
    /// Whether nothing changes any more: the daemon need not be told to look before
    /// the guest's virtual CPUs have run.
    pub settled: bool,
    /// What it did last, and why.
    pub reason: String,
}

impl Body for Status {
    fn write(&self, out: &mut Writer<'_>) {
        for value in [self.sequence, self.cpus_online, self.cpus_present] {
            out.u32(value);
        }
        for value in [
            self.pool_pages,
            self.mem_total_kib,
            self.mem_free_kib,
            self.mem_available_kib,
            self.busy_ticks,
            self.idle_ticks,
            self.steal_ticks,
        ] {
            out.u64(value);
        }
        for value in [self.plugs, self.unplugs, self.grows, self.shrinks] {
            out.u32(value);
        }
        out.u8(u8::from(self.settled));
        out.text(&self.reason);
    }

    fn read(from: &mut Reader<'_>) -> Option<Status> {
        Some(Status {
            sequence: from.u32()?,
            cpus_online: from.u32()?,
            cpus_present: from.u32()?,
            pool_pages: from.u64()?,
            mem_total_kib: from.u64()?,
            mem_free_kib: from.u64()?,
            mem_available_kib: from.u64()?,
            busy_ticks: from.u64()?,
            idle_ticks: from.u64()?,
            steal_ticks: from.u64()?,
            plugs: from.u32()?,
            unplugs: from.u32()?,
            grows: from.u32()?,
            shrinks: from.u32()?,
            settled: from.flag()?,
            reason: from.text()?,
        })
    }
}

/// A daemon asks for a size of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRequest {
    /// Comes back with the grant.
    pub sequence: u32,
    /// The size wanted, in pages.
    pub pages: u64,
}

impl Body for PoolRequest {
    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.sequence);
        out.u64(self.pages);
    }

    fn read(from: &mut Reader<'_>) -> Option<PoolRequest> {
        Some(PoolRequest { sequence: from.u32()?, pages: from.u64()? })
    }
}

/// A piece of a captured file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The request that it answers.
    pub sequence: u32,
    /// Which file.
    pub file: File,
    /// Where the piece starts.
    pub offset: u32,
    /// Whether it is the last one.
    pub last: bool,
    /// The piece, at most [`MAX_CHUNK`] bytes.
    pub bytes: Vec<u8>,
}

impl Body for Chunk {
    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.sequence);
        self.file.write(out);
        out.u32(self.offset);
        out.u8(u8::from(self.last));
        let length = self.bytes.len().min(MAX_CHUNK);
        out.u16(length as u16);
        out.bytes(&self.bytes[..length]);
    }

    fn read(from: &mut Reader<'_>) -> Option<Chunk> {
        let (sequence, file) = (from.u32()?, File::read(from)?);
        let (offset, last) = (from.u32()?, from.flag()?);
        let length = Some(usize::from(from.u16()?)).filter(|length| *length <= MAX_CHUNK)?;
        Some(Chunk { sequence, file, offset, last, bytes: from.bytes(length)?.to_vec() })
    }
}

/// Whether a guest has become who it is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identified {
    /// Why not; empty if it has.
    pub refusal: String,
}

impl Body for Identified {
    fn write(&self, out: &mut Writer<'_>) {
        out.text(&self.refusal);
    }

    fn read(from: &mut Reader<'_>) -> Option<Identified> {
        Some(Identified { refusal: from.text()? })
    }
}
