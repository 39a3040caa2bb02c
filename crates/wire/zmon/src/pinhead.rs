//! Pinhead's own record: facts about a guest and its rules that no other program reports to z/VM's
//! monitor. docs/zvm.md describes the layout.

use crate::layout::{Layout, record};
use crate::monwriter::{Function, Head, Stamp};
use crate::{Error, texts};

/// Pinhead's application number: "ph" in ASCII. IBM's application numbers are 1 and 2.
pub const APPLICATION: u16 = 0x7068;
/// Value of an unknown number, with all bits set.
pub const UNKNOWN: u64 = u64::MAX;
/// Length of a write, head included; a buffer of the device never changes its length.
pub const BYTES: usize = 512;

/// Flag in [`Numbers::flags`]: rules are active in the guest.
pub const HAS_RULES: u32 = 1;
/// Flag in [`Numbers::flags`]: the rules have nothing to do.
pub const IS_SETTLED: u32 = 2;

record! {
    /// A guest's report about itself.
    Numbers, 92, {
        /// CPUs online and CPUs present.
        cpus: u32 = 0;
        present: u32 = 4;
        /// Pages of the kernel's pool, and of the timed pool, which the kernel empties after a
        /// while.
        pool_pages: u64 = 8;
        timed_pages: u64 = 16;
        /// KiB available to programs without swapping.
        available: u64 = 24;
        /// Total times since the start in which some tasks, or all tasks, waited for memory.
        some_us: u64 = 32;
        full_us: u64 = 40;
        /// OOM kills.
        killed: u64 = 48;
        flags: u32 = 56;
        /// Number of CPUs plugged and unplugged by the rules, and of times that the pool grew and
        /// shrank.
        plugs: u64 = 60;
        unplugs: u64 = 68;
        grows: u64 = 76;
        shrinks: u64 = 84;
    }
}

/// A guest's report about itself, with the reason of its rules' last action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Numeric fields.
    pub numbers: Numbers,
    /// Reason of the rules; empty if no rules are active.
    pub reason: Vec<u8>,
}

impl Own {
    /// Reads the data after the head.
    pub fn read(data: &[u8]) -> Result<(Stamp, Own), Error> {
        let (stamp, data) = Stamp::split(data)?;
        let numbers = Numbers::read(data)?;
        let ([reason], _) = texts::read(&data[Numbers::BYTES..], "Own")?;
        Ok((stamp, Own { numbers, reason }))
    }

    /// Returns a whole write to the device.
    pub fn write(&self, seconds: u64) -> Vec<u8> {
        let mut data = self.numbers.bytes();
        let least = BYTES - Head::BYTES;
        texts::write(std::slice::from_ref(&self.reason), least - Stamp::BYTES, &mut data);
        Head::of(Function::Start, APPLICATION, 0, 0).with(&Stamp::with(seconds, &data, least))
    }
}
