//! Host memory of the guests' QEMUs: private, shared and compressed.
//!
//! ```text
//!   /proc/PID/smaps_rollup ─► private, swapped ─┐
//!   zram: what it takes for what it holds ──────┴─► Held
//! ```

use super::Guest;
use super::meter::Reading;
use procfs::parse::value_of;
use std::fs;

/// Memory of several guests together, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// Resident on the host, and mapped by no other process.
    pub private_mib: f64,
    /// Memory mapped by several processes, mostly the code of QEMU. It exists once for all guests,
    /// so the largest value of any guest counts.
    pub shared_mib: f64,
    /// Swapped memory, in its original size.
    pub swapped_mib: f64,
    /// Host memory that the swapped pages take in compressed memory. Without compressed memory,
    /// swap is on a disk, and the original size counts, because the pages still belong to the
    /// guests.
    pub compressed_mib: f64,
}

impl Held {
    /// Reads counters for which the kernel walks all of the guests' memory. If a guest cannot be
    /// read, the sum is unknown.
    pub fn of(guests: &[Guest], host: &Reading) -> Option<Held> {
        let mut held = Held::default();
        for guest in guests {
            let text = fs::read(format!("/proc/{}/smaps_rollup", guest.pid?)).ok()?;
            held.add(&text)?;
        }
        held.compressed_mib = held.swapped_mib * ratio(host);
        Some(held)
    }

    /// Returns all memory of the guests on the host.
    pub fn all_mib(&self) -> f64 {
        self.private_mib + self.shared_mib + self.compressed_mib
    }

    fn add(&mut self, rollup: &[u8]) -> Option<()> {
        let mib = |name| Some(value_of(rollup, name)? as f64 / 1024.0);
        self.private_mib += mib("Private_Clean")? + mib("Private_Dirty")?;
        self.shared_mib = self.shared_mib.max(mib("Shared_Clean")? + mib("Shared_Dirty")?);
        self.swapped_mib += mib("Swap")?;
        Some(())
    }
}

/// Returns zram's compression ratio. zram does not report the ratio of a single process.
fn ratio(host: &Reading) -> f64 {
    match host.zram_holds_mib {
        holds if holds > 0.0 => (host.zram_mib / holds).min(1.0),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unshared_memory_is_private_and_swap_counts_compressed() {
        let text = b"Rss: 204800 kB\nPss: 100000 kB\nShared_Clean: 61440 kB\nShared_Dirty: 0 kB\n\
                     Private_Clean: 2048 kB\nPrivate_Dirty: 141312 kB\nSwap: 30720 kB\n";
        let mut held = Held::default();
        assert_eq!(held.add(text), Some(()));
        assert_eq!((held.private_mib, held.swapped_mib), (140.0, 30.0));
        assert_eq!(held.add(text), Some(()));
        assert_eq!((held.private_mib, held.shared_mib), (280.0, 60.0), "shared is there once");
        assert_eq!(held.all_mib(), 340.0);
        assert_eq!(held.add(b"Rss: 1 kB\n"), None, "missing is not 0");
        let host = Reading { zram_mib: 10.0, zram_holds_mib: 40.0, ..Reading::default() };
        assert_eq!((ratio(&host), ratio(&Reading::default())), (0.25, 1.0));
    }

    #[test]
    fn a_guest_that_is_gone_makes_the_sum_unknown() {
        let gone = Guest { pid: None, ..Guest::default() };
        assert_eq!(Held::of(&[gone], &Reading::default()), None);
        let us = Guest { pid: Some(std::process::id()), ..Guest::default() };
        assert!(Held::of(&[us], &Reading::default()).is_some_and(|held| held.private_mib > 0.0));
    }
}
