//! A z/VM user's counters, and the arbiter's view of the user's memory.
//!
//! z/VM reports a user's resident memory, and the number of samples that found the user waiting for
//! a page. z/VM does not report how much memory the user's kernel could spare. Half of the resident
//! memory counts as in use while the user does not wait, and all of it once the user waits.
//!
//! The resident memory at the time of a wait counts as the user's need, which decays to zero within
//! an hour. The arbiter takes memory beyond that need in steps, until the user waits.

use crate::outside::{InHost, Own};
use base::{Bytes, KIB};
use hypervisor::Usage;
use model::{GuestField, Row};
use policy::arbiter::Memory;
use zmon::hypfs::Guest;
use zvm::CountedUser;

/// A user counts as waiting if at least this share of recent samples found the user waiting for a
/// page, in thousandths. One of the newest samples must also have found the user waiting.
const WAITS_PERMILLE: u32 = 50;
/// Number of recent samples above which older samples count half.
const SAMPLES: u32 = 20;
/// Time in which the user's needed size decays to zero.
const FORGET_MS: u64 = 3_600_000;

/// State of a user from z/VM's counters.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    user: CountedUser,
    before: Option<Guest>,
    /// Number of recent samples, and number of those in which the user waited for a page.
    samples: (u32, u32),
    usage: Option<Usage>,
    /// Resident memory when the user last waited, and the time of that wait.
    needed: Option<(Bytes, u64)>,
    resident: Bytes,
}

impl Counted {
    /// Handles a reading of a user. The pool in the user's kernel leaves the user `actual` memory.
    /// Returns the state of the user's memory at the time of the reading.
    pub(super) fn take(&mut self, user: &Guest, actual: Bytes, now_ms: u64) -> Memory {
        self.user.add(user);
        let kib = |size: u64| Bytes(size.saturating_mul(KIB));
        self.resident = kib(user.memory_used);
        let used = self.resident.min(actual);
        let waits = self.look(user);
        if waits {
            let needed = self.needed(now_ms).max(used);
            self.needed = Some((needed, now_ms));
        }
        let in_use = match waits {
            true => used,
            false => self.needed(now_ms).max(Bytes(used.0 / 2)),
        };
        let in_use = in_use.max(kib(user.memory_min)).min(actual);
        Memory {
            at_ms: now_ms,
            clock_ms: user.elapsed_us / 1000,
            actual,
            available: Some(actual.less(in_use)),
            psi_some_us: Some(self.user.waited_for_pages_ns() / 1000),
            ..Memory::default()
        }
    }

    /// Compares a reading with the reading before. Returns true if the user waits for pages.
    fn look(&mut self, now: &Guest) -> bool {
        let before = self.before.replace(now.clone());
        // Counters that restarted at a logon are not compared with earlier counters.
        let Some(before) = before.filter(|before| before.elapsed_us <= now.elapsed_us) else {
            return false;
        };
        let elapsed_us = now.elapsed_us - before.elapsed_us;
        let new = |of: fn(&Guest) -> u32| of(now).wrapping_sub(of(&before));
        let all = new(|guest| guest.all_samples);
        let part = |of: fn(&Guest) -> u32| new(of).min(all);
        if elapsed_us > 0 {
            let percent = |us: u64| us as f64 / elapsed_us as f64 * 100.0;
            let delayed = f64::from(part(|guest| guest.delay_samples)) / f64::from(all.max(1));
            self.usage = Some(Usage {
                cpu_percent: percent(now.used_us.saturating_sub(before.used_us)),
                steal_percent: delayed * f64::from(now.cpus().max(1)) * 100.0,
            });
        }
        let waiting = part(|guest| guest.page_samples);
        let (samples, waited) = self.samples;
        let share = if samples.saturating_add(all) > SAMPLES { 2 } else { 1 };
        let add = |old: u32, new: u32| (old / share).saturating_add(new);
        self.samples = (add(samples, all), add(waited, waiting));
        let (samples, waited) = self.samples;
        waiting > 0 && u64::from(waited) * 1000 >= u64::from(samples) * u64::from(WAITS_PERMILLE)
    }

    /// Returns the needed size, less the part forgotten so far.
    fn needed(&self, now_ms: u64) -> Bytes {
        let Some((needed, at_ms)) = self.needed else { return Bytes::ZERO };
        let left_ms = FORGET_MS.saturating_sub(now_ms.saturating_sub(at_ms));
        let left = u128::from(needed.0) * u128::from(left_ms) / u128::from(FORGET_MS);
        Bytes(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// Returns the resident memory in z/VM, all of which is the user's own.
    pub(super) fn held(&self) -> InHost {
        let own = Own { size: Bytes::ZERO, is_measured: true };
        InHost { private: self.resident, own, ..InHost::default() }
    }

    /// Returns the usage of virtual CPUs between the last two readings.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Returns z/VM's counters, for the record.
    pub fn row(&self) -> Row<GuestField> {
        self.user.row()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: Bytes = Bytes::mib(1_024);

    fn guest(second: u32, used_mib: u64, waited: u32) -> Guest {
        Guest {
            elapsed_us: u64::from(second) * 1_000_000,
            used_us: u64::from(second) * 250_000,
            memory_max: 1_024 << 10,
            memory_used: used_mib << 10,
            memory_min: 100 << 10,
            virtual_cpus: 2,
            all_samples: second * 10,
            page_samples: waited,
            ..Guest::default()
        }
    }

    fn available(counted: &mut Counted, guest: &Guest, actual: Bytes, now_ms: u64) -> u64 {
        counted.take(guest, actual, now_ms).available.unwrap().as_mib()
    }

    #[test]
    fn half_of_resident_memory_is_available_until_a_user_waits() {
        let mut counted = Counted::default();
        assert_eq!(available(&mut counted, &guest(1, 800, 0), GIB, 1_000), 624);
        assert_eq!(counted.held().of_guest(), Bytes::mib(800));
        assert_eq!(available(&mut counted, &guest(2, 150, 0), GIB, 2_000), 924, "the minimum");
        assert_eq!(counted.usage().unwrap().cpu_percent, 25.0);
        // The user has only 600 MiB, and waits in three of ten samples.
        let small = Bytes::mib(600);
        assert_eq!(available(&mut counted, &guest(3, 590, 3), small, 3_000), 10);
        // The user has enough memory. The needed size is remembered at first, and then forgotten.
        assert_eq!(available(&mut counted, &guest(4, 700, 3), GIB, 4_000), 1_024 - 590);
        let half = 3_000 + FORGET_MS / 2;
        assert_eq!(available(&mut counted, &guest(5, 500, 3), GIB, half), 1_024 - 295);
        assert_eq!(available(&mut counted, &guest(6, 500, 3), GIB, 3_000 + FORGET_MS), 774);
    }

    #[test]
    fn user_paged_out_by_z_vm_needs_no_more_from_its_pool() {
        let mut counted = Counted::default();
        counted.take(&guest(1, 300, 0), GIB, 1_000);
        assert_eq!(available(&mut counted, &guest(2, 300, 9), GIB, 2_000), 724);
    }

    #[test]
    fn single_wait_and_restarted_counters_count_as_no_wait() {
        let mut counted = Counted::default();
        let mut has = |second: u32, waited: u32| {
            available(&mut counted, &guest(second, 1_000, waited), GIB, u64::from(second) * 1_000)
        };
        assert_eq!(has(1, 0), 524);
        assert_eq!(has(31, 1), 524, "one of 300");
        assert_eq!(has(32, 1), 524);
        assert_eq!(has(1, 0), 524, "the counters restarted");
    }
}
