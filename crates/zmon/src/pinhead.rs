//! The record of our own: what no other program tells z/VM's monitor of a guest, and what its rules
//! did there. Its layout is ours; docs/zvm.md has it.

use crate::layout::{Layout, record};
use crate::monwriter::{Function, Head, Stamp};
use crate::{Error, texts};

/// Our application: "ph" in ASCII. IBM's own have 1 and 2.
pub const APPLICATION: u16 = 0x7068;
/// What stands in the place of a number that is not known, where all bits are ones.
pub const UNKNOWN: u64 = u64::MAX;
/// Bytes of a write, head and all: a buffer of the device has its length for ever.
pub const BYTES: usize = 512;

/// In [`Numbers::flags`]: rules are at work in the guest, and they have nothing to do.
pub const HAS_RULES: u32 = 1;
/// See [`HAS_RULES`].
pub const IS_SETTLED: u32 = 2;

record! {
    /// A guest by its own account.
    Numbers, 92, {
        /// CPUs that are online, and that could be.
        cpus: u32 = 0;
        present: u32 = 4;
        /// Pages of the kernel's pool, and of those that it gives back after a time.
        pool_pages: u64 = 8;
        timed_pages: u64 = 16;
        /// KiB that programs could have without swapping.
        available: u64 = 24;
        /// How long some tasks, and all of them, have waited for memory since the start.
        some_us: u64 = 32;
        full_us: u64 = 40;
        /// Tasks that the kernel ended for lack of memory.
        killed: u64 = 48;
        flags: u32 = 56;
        /// CPUs that the rules plugged and unplugged, times that they took memory and gave it back.
        plugs: u64 = 60;
        unplugs: u64 = 68;
        grows: u64 = 76;
        shrinks: u64 = 84;
    }
}

/// A guest by its own account, and why its rules did last what they did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Its numbers.
    pub numbers: Numbers,
    /// The rules' reason; empty where no rules are at work.
    pub reason: Vec<u8>,
}

impl Own {
    /// Reads what stands behind the head.
    pub fn read(data: &[u8]) -> Result<(Stamp, Own), Error> {
        let (stamp, data) = Stamp::split(data)?;
        let numbers = Numbers::read(data)?;
        let ([reason], _) = texts::read(&data[Numbers::BYTES..], "Own")?;
        Ok((stamp, Own { numbers, reason }))
    }

    /// A whole write to the device.
    pub fn write(&self, seconds: u64) -> Vec<u8> {
        let mut data = self.numbers.bytes();
        let least = BYTES - Head::BYTES;
        texts::write(std::slice::from_ref(&self.reason), least - Stamp::BYTES, &mut data);
        Head::of(Function::Start, APPLICATION, 0, 0).with(&Stamp::with(seconds, &data, least))
    }
}
