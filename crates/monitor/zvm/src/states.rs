//! Conversion of z/VM's counters of a user to recorded fields.
//!
//! Samples of states become times. A guest found in a state in half of a minute's samples was in
//! that state for half of the minute.

use base::KIB;
use model::{GuestField as G, Row};
use zmon::hypfs::Guest;

/// Nanoseconds in a microsecond.
const US: u128 = 1_000;
const NS_PER_US: u64 = 1_000;

/// Last counters of a user, and the user's time in each state, summed over all samples.
#[derive(Clone, Debug, Default)]
pub struct CountedUser {
    before: Option<Guest>,
    waited_for_cpu: u64,
    waited_for_pages: u64,
    idle: u64,
}

impl CountedUser {
    /// Adds the growth since the last reading.
    pub fn add(&mut self, now: &Guest) {
        let before = self.before.replace(now.clone());
        let Some(before) = before.filter(|before| before.elapsed_us <= now.elapsed_us) else {
            // The growth before the first reading, or before another logon, is unknown.
            return;
        };
        let samples = now.all_samples.wrapping_sub(before.all_samples);
        if samples == 0 {
            return;
        }
        // Samples cover all virtual CPUs.
        let elapsed = u128::from(now.elapsed_us - before.elapsed_us) * US;
        let all = elapsed.saturating_mul(u128::from(now.cpus().max(1)));
        let time = |now: u32, before: u32| {
            let part = u128::from(now.wrapping_sub(before).min(samples));
            u64::try_from(all.saturating_mul(part) / u128::from(samples)).unwrap_or(u64::MAX)
        };
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.waited_for_cpu, time(now.delay_samples, before.delay_samples));
        add(&mut self.waited_for_pages, time(now.page_samples, before.page_samples));
        add(&mut self.idle, time(now.idle_samples, before.idle_samples));
    }

    /// Returns the time that virtual CPUs waited for pages, in nanoseconds.
    pub fn waited_for_pages_ns(&self) -> u64 {
        self.waited_for_pages
    }

    /// Returns the fields; none before the first reading.
    pub fn row(&self) -> Row<G> {
        let mut row = Row::default();
        let Some(guest) = &self.before else { return row };
        let kib = |size: u64| Some(size.saturating_mul(KIB));
        row.extend([
            (G::Vcpus, Some(guest.cpus().into())),
            (G::VcpuRun, Some(guest.used_us.saturating_mul(NS_PER_US))),
            // CP's work for the user is already a part of the run time.
            (G::OtherRun, Some(0)),
            (G::Memory, kib(guest.memory_max)),
            (G::Actual, kib(guest.memory_max)),
            (G::Minimum, kib(guest.memory_min)),
            (G::Resident, kib(guest.memory_used)),
            (G::VcpuDelay, Some(self.waited_for_cpu)),
            (G::PsiMemory, Some(self.waited_for_pages)),
            (G::HaltWait, Some(self.idle)),
        ]);
        row
    }
}
