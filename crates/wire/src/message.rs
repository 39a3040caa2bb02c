//! The messages.

use crate::body::{Reader, Writer};
use crate::identity::Identity;
use crate::memory::Memory;
use crate::processes::{Processes, Scan};
use crate::system::System;

/// The longest text in a message, in bytes: a reason has to fit a line of a table.
pub const MAX_TEXT: usize = 200;
/// The most bytes of a captured file in one message.
pub const MAX_CHUNK: usize = 2048;

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

/// A file of the guest that the host may ask for, to explain a rules file with the
/// guest's own counters. There is no other way to name a file: a host cannot read
/// what it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum File {
    Stat,
    Loadavg,
    Meminfo,
    Vmstat,
    CpuOnline,
    CpuPresent,
    PressureCpu,
    PressureMemory,
    PressureIo,
    Rules,
}

impl File {
    /// All of them.
    pub const ALL: [File; 10] = [
        File::Stat,
        File::Loadavg,
        File::Meminfo,
        File::Vmstat,
        File::CpuOnline,
        File::CpuPresent,
        File::PressureCpu,
        File::PressureMemory,
        File::PressureIo,
        File::Rules,
    ];

    /// Where it is below the root; `None` for the daemon's own rules file.
    pub fn path(self) -> Option<&'static str> {
        Some(match self {
            File::Stat => "proc/stat",
            File::Loadavg => "proc/loadavg",
            File::Meminfo => "proc/meminfo",
            File::Vmstat => "proc/vmstat",
            File::CpuOnline => "sys/devices/system/cpu/online",
            File::CpuPresent => "sys/devices/system/cpu/present",
            File::PressureCpu => "proc/pressure/cpu",
            File::PressureMemory => "proc/pressure/memory",
            File::PressureIo => "proc/pressure/io",
            File::Rules => return None,
        })
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

/// A daemon asks for a size of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRequest {
    /// Comes back with the grant.
    pub sequence: u32,
    /// The size wanted, in pages.
    pub pages: u64,
}

/// A host introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The guest's memory as the hypervisor gave it, in pages.
    pub memory_pages: u64,
    /// Whether pool requests are answered.
    pub grants: bool,
    /// Whether the host says when to look.
    pub paces: bool,
}

/// A host answers a request for a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The request that it answers; 0 for a change that nobody asked for.
    pub sequence: u32,
    /// The size granted, in pages.
    pub pages: u64,
    /// Why it is not what was asked for; empty if it is.
    pub reason: String,
}

/// A host asks for the text of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Comes back with the chunks.
    pub sequence: u32,
    /// Which file.
    pub file: File,
}

/// A host asks how the guest's memory is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Comes back with the answer; not 0, which stands for an answer that nobody asked for.
    pub sequence: u32,
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

/// Whether a guest has become who it is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identified {
    /// Why not; empty if it has.
    pub refusal: String,
}

/// Everything that can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Guest: I am here.
    Hello(Hello),
    /// Guest: this is how things are.
    Status(Status),
    /// Guest: give me (or take) memory.
    PoolRequest(PoolRequest),
    /// Guest: tasks wait for this, now.
    Need(Pressure),
    /// Guest: a piece of a file.
    Chunk(Chunk),
    /// Guest: I end, and have given back what I took.
    Bye,
    /// Guest: this is how my memory is.
    Memory(Memory),
    /// Guest: these run in me.
    Processes(Processes),
    /// Guest: this is how I am as a whole.
    System(System),
    /// Guest: I am who you said, or this is why not.
    Identified(Identified),
    /// Host: I am here.
    Welcome(Welcome),
    /// Host: this is the pool that you have.
    Grant(Grant),
    /// Host: your virtual CPUs have run, look.
    Look,
    /// Host: show me a file.
    Capture(Capture),
    /// Host: how is your memory now?
    Sample(Sample),
    /// Host: who runs in you?
    Scan(Scan),
    /// Host: this is who you are.
    Identify(Identity),
}

impl Message {
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Message::Hello(_) => 1,
            Message::Status(_) => 2,
            Message::PoolRequest(_) => 3,
            Message::Need(_) => 4,
            Message::Chunk(_) => 5,
            Message::Bye => 6,
            Message::Memory(_) => 7,
            Message::Processes(_) => 8,
            Message::System(_) => 9,
            Message::Identified(_) => 10,
            Message::Welcome(_) => 65,
            Message::Grant(_) => 66,
            Message::Look => 67,
            Message::Capture(_) => 68,
            Message::Sample(_) => 69,
            Message::Scan(_) => 71,
            Message::Identify(_) => 72,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        match self {
            Message::Bye | Message::Look => {}
            Message::Hello(hello) => {
                out.bytes(&hello.boot_id);
                out.u32(hello.cpus_present);
                out.u32(hello.update_ms);
                out.u8(match hello.pool {
                    PoolKind::None => 0,
                    PoolKind::Cmm => 1,
                    PoolKind::Host => 2,
                });
                out.u8(u8::from(hello.reply));
                out.text(&hello.version);
            }
            Message::Status(s) => {
                for value in [s.sequence, s.cpus_online, s.cpus_present] {
                    out.u32(value);
                }
                for value in [
                    s.pool_pages,
                    s.mem_total_kib,
                    s.mem_free_kib,
                    s.mem_available_kib,
                    s.busy_ticks,
                    s.idle_ticks,
                    s.steal_ticks,
                ] {
                    out.u64(value);
                }
                for value in [s.plugs, s.unplugs, s.grows, s.shrinks] {
                    out.u32(value);
                }
                out.u8(u8::from(s.settled));
                out.text(&s.reason);
            }
            Message::PoolRequest(request) => {
                out.u32(request.sequence);
                out.u64(request.pages);
            }
            Message::Need(pressure) => out.u8(match pressure {
                Pressure::Cpu => 0,
                Pressure::Memory => 1,
            }),
            Message::Chunk(chunk) => {
                out.u32(chunk.sequence);
                out.u8(chunk.file as u8);
                out.u32(chunk.offset);
                out.u8(u8::from(chunk.last));
                let length = chunk.bytes.len().min(MAX_CHUNK);
                out.u16(length as u16);
                out.bytes(&chunk.bytes[..length]);
            }
            Message::Welcome(welcome) => {
                out.u64(welcome.memory_pages);
                out.u8(u8::from(welcome.grants));
                out.u8(u8::from(welcome.paces));
            }
            Message::Grant(grant) => {
                out.u32(grant.sequence);
                out.u64(grant.pages);
                out.text(&grant.reason);
            }
            Message::Capture(capture) => {
                out.u32(capture.sequence);
                out.u8(capture.file as u8);
            }
            Message::Memory(memory) => memory.write(out),
            Message::Processes(processes) => processes.write(out),
            Message::System(system) => system.write(out),
            Message::Identified(identified) => out.text(&identified.refusal),
            Message::Identify(identity) => identity.write(out),
            Message::Sample(sample) => out.u32(sample.sequence),
            Message::Scan(scan) => {
                out.u32(scan.sequence);
                out.u8(scan.top);
            }
        }
    }

    /// The message of a kind and a body; `None` if the body is not one of that kind.
    pub(crate) fn read(kind: u8, body: &[u8]) -> Option<Message> {
        let mut from = Reader::new(body);
        let from = &mut from;
        let message = match kind {
            1 => Message::Hello(Hello {
                boot_id: from.bytes(16)?.try_into().ok()?,
                cpus_present: from.u32()?,
                update_ms: from.u32()?,
                pool: match from.u8()? {
                    0 => PoolKind::None,
                    1 => PoolKind::Cmm,
                    2 => PoolKind::Host,
                    _ => return None,
                },
                reply: from.flag()?,
                version: from.text()?,
            }),
            2 => Message::Status(Status {
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
            }),
            3 => Message::PoolRequest(PoolRequest { sequence: from.u32()?, pages: from.u64()? }),
            4 => Message::Need(match from.u8()? {
                0 => Pressure::Cpu,
                1 => Pressure::Memory,
                _ => return None,
            }),
            5 => {
                let sequence = from.u32()?;
                let file = *File::ALL.get(usize::from(from.u8()?))?;
                let (offset, last) = (from.u32()?, from.flag()?);
                let length = usize::from(from.u16()?);
                if length > MAX_CHUNK {
                    return None;
                }
                let bytes = from.bytes(length)?.to_vec();
                Message::Chunk(Chunk { sequence, file, offset, last, bytes })
            }
            6 => Message::Bye,
            7 => Message::Memory(Memory::read(from)?),
            8 => Message::Processes(Processes::read(from)?),
            9 => Message::System(System::read(from)?),
            10 => Message::Identified(Identified { refusal: from.text()? }),
            65 => Message::Welcome(Welcome {
                memory_pages: from.u64()?,
                grants: from.flag()?,
                paces: from.flag()?,
            }),
            66 => Message::Grant(Grant {
                sequence: from.u32()?,
                pages: from.u64()?,
                reason: from.text()?,
            }),
            67 => Message::Look,
            68 => Message::Capture(Capture {
                sequence: from.u32()?,
                file: *File::ALL.get(usize::from(from.u8()?))?,
            }),
            69 => Message::Sample(Sample { sequence: from.u32()? }),
            71 => Message::Scan(Scan { sequence: from.u32()?, top: from.u8()? }),
            72 => Message::Identify(Identity::read(from)?),
            _ => return None,
        };
        from.is_done().then_some(message)
    }
}
