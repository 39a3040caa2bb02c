//! How a guest's memory is: what a manager of many guests decides by.

use crate::body::body;

body! {
    /// A guest's memory at one moment, as its kernel shows it. Sizes are as they are; all else
    /// counts from the guest's boot, so that two of them make a rate and a lost one costs nothing.
    /// What the kernel does not show is `None`, which is written as the greatest number.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Memory {
        /// The question that it answers; 0 where nobody asked.
        pub sequence: u32;
        /// Milliseconds since the guest's boot, with those that it was suspended.
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
        /// Pages of files that were read again soon after they had been dropped.
        refault_file;
        /// The same for anonymous pages, which come back from swap.
        refault_anon;
        /// Times that a task had to free memory itself before it got some, in all zones.
        stalls;
        /// Processes killed because memory had run out.
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
    fn what_is_missing_comes_back_missing_and_nothing_else_does() {
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
