//! Samples of states as times: a guest that was found so in half of the samples of a minute was
//! so for half of the minute.

use model::{GuestField as G, Row};
use zmon::hypfs::Guest;

/// Nanoseconds in a microsecond.
const US: u128 = 1_000;

/// Times in states so far, from samples that each cover a part of the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    before: Option<Guest>,
    waited_for_cpu: u64,
    waited_for_pages: u64,
    idle: u64,
}

impl States {
    /// Adds what happened since the last time.
    pub(crate) fn add(&mut self, now: &Guest) {
        let before = self.before.replace(now.clone());
        let Some(before) = before.filter(|before| before.elapsed_us <= now.elapsed_us) else {
            // The first look, or another logon: what was before is not known.
            return;
        };
        let samples = now.all_samples.wrapping_sub(before.all_samples);
        if samples == 0 {
            return;
        }
        // All of its virtual CPUs are sampled.
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

    /// The fields that these times are.
    pub(crate) fn put(&self, row: &mut Row<G>) {
        row.extend([
            (G::VcpuDelay, Some(self.waited_for_cpu)),
            (G::PsiMemory, Some(self.waited_for_pages)),
            (G::HaltWait, Some(self.idle)),
        ]);
    }
}
