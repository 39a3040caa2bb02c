//! The memory statistics of a guest, on which a manager of many guests bases its decisions.

use crate::body::body;

body! {
    /// A guest's memory at one moment, as its kernel shows it. Sizes are current values. All other
    /// values count from the guest's boot, so that any two samples give a rate, and a lost sample
    /// costs nothing. A value that the kernel does not show is `None`, and is sent as the greatest
    /// number.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Memory {
        /// The number of the answered request; 0 without a request.
        pub sequence: u32;
        /// Milliseconds since the guest's boot, including suspended time.
        pub uptime_ms: u64;
        numbers:
        /// MemTotal, in KiB.
        total_kib;
        /// MemFree, in KiB.
        free_kib;
        /// MemAvailable, in KiB.
        available_kib;
        /// Cached, in KiB.
        cached_kib;
        /// Active(file), in KiB: cache that is in use.
        active_file_kib;
        /// Inactive(file), in KiB: cache that has gone cold.
        inactive_file_kib;
        /// AnonPages, in KiB.
        anon_kib;
        /// SwapTotal, in KiB.
        swap_total_kib;
        /// SwapFree, in KiB.
        swap_free_kib;
        /// Pages read from swap.
        swap_in_pages;
        /// Pages written to swap.
        swap_out_pages;
        /// File pages that were read again soon after they had been dropped.
        refault_file;
        /// Anonymous pages that were read again, from swap, soon after they had been dropped.
        refault_anon;
        /// Number of times that a task had to free memory itself before it got memory, in all
        /// zones.
        stalls;
        /// Processes killed for lack of memory.
        oom_kills;
        /// Faults that had to read.
        major_faults;
        /// Microseconds that at least one task waited for memory.
        psi_some_us;
        /// Microseconds that all tasks waited for memory.
        psi_full_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Body, Reader, Writer};

    #[test]
    fn only_missing_numbers_come_back_missing() {
        let mut sent = Memory { sequence: 7, uptime_ms: 12, ..Memory::default() };
        for (value, field) in sent.numbers().into_iter().enumerate() {
            *field = (value % 3 > 0).then(|| value as u64 - 1);
        }
        let mut body = Vec::new();
        sent.write(&mut Writer(&mut body));
        assert_eq!(body.len(), 4 + 8 + 8 * Memory::NUMBERS);
        assert_eq!(Memory::read(&mut Reader::new(&body)), Some(sent));
        assert_eq!(sent.free_kib, Some(0));
        assert_eq!(sent.cached_kib, None);
        for short in 0..body.len() {
            assert_eq!(Memory::read(&mut Reader::new(&body[..short])), None);
        }
    }
}
