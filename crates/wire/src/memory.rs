//! How a guest's memory is: what a manager of many guests decides by.

use crate::body::{Reader, Writer};

/// A guest's memory at one moment, as its kernel shows it. Sizes are as they are; all else
/// counts from the guest's boot, so that two of them make a rate and a lost one costs nothing.
/// What the kernel does not show is `None`, which is written as the greatest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The question that it answers; 0 where nobody asked.
    pub sequence: u32,
    /// Milliseconds since the guest's boot, with those that it was suspended.
    pub uptime_ms: u64,
    /// MemTotal, in KiB.
    pub total_kib: Option<u64>,
    /// MemFree, in KiB.
    pub free_kib: Option<u64>,
    /// MemAvailable, in KiB.
    pub available_kib: Option<u64>,
    /// Cached, in KiB.
    pub cached_kib: Option<u64>,
    /// Active(file), in KiB: cache that is in use.
    pub active_file_kib: Option<u64>,
    /// Inactive(file), in KiB: cache that has gone cold.
    pub inactive_file_kib: Option<u64>,
    /// AnonPages, in KiB.
    pub anon_kib: Option<u64>,
    /// SwapTotal, in KiB.
    pub swap_total_kib: Option<u64>,
    /// SwapFree, in KiB.
    pub swap_free_kib: Option<u64>,
    /// Pages read from swap.
    pub swap_in_pages: Option<u64>,
    /// Pages written to swap.
    pub swap_out_pages: Option<u64>,
    /// Pages of files that were read again soon after they had been dropped.
    pub refault_file: Option<u64>,
    /// The same for anonymous pages, which come back from swap.
    pub refault_anon: Option<u64>,
    /// Times that a task had to free memory itself before it got some, in all zones.
    pub stalls: Option<u64>,
    /// Processes killed because memory had run out.
    pub oom_kills: Option<u64>,
    /// Faults that had to read.
    pub major_faults: Option<u64>,
    /// Microseconds that at least one task waited for memory.
    pub psi_some_us: Option<u64>,
    /// Microseconds that all tasks waited for memory.
    pub psi_full_us: Option<u64>,
}

/// Stands for what is missing. No counter gets there in the life of a machine.
const MISSING: u64 = u64::MAX;

impl Memory {
    /// How many of the numbers may be missing.
    const FIELDS: usize = 18;

    /// The numbers that may be missing, in the order in which they are sent.
    fn fields(&mut self) -> [&mut Option<u64>; Memory::FIELDS] {
        [
            &mut self.total_kib,
            &mut self.free_kib,
            &mut self.available_kib,
            &mut self.cached_kib,
            &mut self.active_file_kib,
            &mut self.inactive_file_kib,
            &mut self.anon_kib,
            &mut self.swap_total_kib,
            &mut self.swap_free_kib,
            &mut self.swap_in_pages,
            &mut self.swap_out_pages,
            &mut self.refault_file,
            &mut self.refault_anon,
            &mut self.stalls,
            &mut self.oom_kills,
            &mut self.major_faults,
            &mut self.psi_some_us,
            &mut self.psi_full_us,
        ]
    }

    pub(crate) fn write(mut self, out: &mut Writer<'_>) {
        out.u32(self.sequence);
        out.u64(self.uptime_ms);
        for field in self.fields() {
            out.u64(field.unwrap_or(MISSING));
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Memory> {
        let mut memory =
            Memory { sequence: from.u32()?, uptime_ms: from.u64()?, ..Memory::default() };
        for field in memory.fields() {
            *field = Some(from.u64()?).filter(|value| *value != MISSING);
        }
        Some(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_back_missing_and_nothing_else_does() {
        let mut sent = Memory { sequence: 7, uptime_ms: 12, ..Memory::default() };
        for (value, field) in sent.fields().into_iter().enumerate() {
            *field = (value % 3 > 0).then(|| value as u64 - 1);
        }
        let mut body = Vec::new();
        sent.write(&mut Writer(&mut body));
        assert_eq!(body.len(), 4 + 8 + 8 * Memory::FIELDS);
        assert_eq!(Memory::read(&mut Reader::new(&body)), Some(sent));
        assert_eq!(sent.free_kib, Some(0));
        assert_eq!(sent.cached_kib, None);
        for short in 0..body.len() {
            assert_eq!(Memory::read(&mut Reader::new(&body[..short])), None);
        }
    }
}
