//! Guests as they would be if another policy had moved their memory, or if they needed more memory.
//!
//! A guest uses the same memory as in the recording, independent of its imagined size. Additional
//! memory is available in the guest, and missing memory reduces its available memory. If the guest
//! used more memory than its imagined size, its tasks wait. If the guest waited in the recording
//! and its imagined size is larger, its tasks no longer wait. The guest then takes the memory that
//! it was known to lack. A guest that lacked memory could have used even more, and this additional
//! use is unknown. The estimate for a policy that grants more memory therefore starts from the use
//! under the recorded policy.

use crate::change::{Change, Names};
use base::{Bytes, PAGE_BYTES, glob};
use model::GuestIdentity;
use policy::arbiter::{GuestSample, HostSample, Key, Memory};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Part of the time for which a guest's tasks wait if the guest lacks memory, in thousandths.
const WAITS_PERMILLE: u64 = 100;
/// Part of the missing memory that is read from swap in a second, in thousandths.
const SWAPS_PERMILLE: u64 = 100;
/// First key of added guests.
const ADDED: u64 = 1 << 62;

/// Counters of a guest's waits and swapping in the imagined world.
#[derive(Clone, Copy, Debug, Default)]
struct Strain {
    swap_in: u64,
    swap_out: u64,
    refaults: u64,
    stalls: u64,
    oom_kills: u64,
    psi_us: u64,
}

#[derive(Clone, Debug, Default)]
struct Guest {
    /// Size in the imagined world; `None` before the first sample.
    size: Option<Bytes>,
    /// Part of its additional memory that the guest uses.
    taken: Bytes,
    /// Memory that the guest would use but does not have.
    lacks: Bytes,
    /// Last recorded sample.
    before: Option<Memory>,
    strain: Strain,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Imagined {
    guests: BTreeMap<Key, Guest>,
    /// Keys of the guests that the added guests copy.
    copies: BTreeMap<Key, Key>,
}

impl Imagined {
    /// Sets sizes: balloons reach their targets at once.
    pub(crate) fn set(&mut self, targets: impl Iterator<Item = (Key, Bytes)>) {
        for (key, size) in targets {
            self.guests.entry(key).or_default().size = Some(size);
        }
    }

    /// Forgets a guest that restarts. The guest then begins with its recorded size.
    pub(crate) fn forget(&mut self, key: Key) {
        self.guests.remove(&key);
    }

    /// Returns the memory that a guest would use but does not have.
    pub(crate) fn lacks(&self, key: Key) -> Bytes {
        self.guests.get(&key).map_or(Bytes::ZERO, |guest| guest.lacks)
    }

    /// Turns recorded samples into samples of the imagined world, `ms` after the last samples.
    /// Returns the keys of the added guests that copy another guest from now on.
    pub(crate) fn see(
        &mut self,
        change: &Change,
        host: Option<&mut HostSample>,
        samples: &mut Vec<GuestSample>,
        names: &mut Names,
        ms: u64,
    ) -> Vec<Key> {
        // Amount by which the host has less free memory than in the recording.
        let mut more = 0i128;
        let changed = self.add(change, samples, names, &mut more);
        for sample in samples.iter_mut() {
            let guest = self.guests.entry(sample.key).or_default();
            more += guest.see(sample, change.growth_permille, ms);
        }
        // Samples are in the order of their keys, as in a recording.
        let is_there = |key: &Key| samples.binary_search_by_key(key, |sample| sample.key).is_ok();
        self.guests.retain(|key, _| is_there(key));
        let Some(host) = host else { return changed };
        let total = change.total.unwrap_or(host.total);
        let wider = i128::from(total.0) - i128::from(host.total.0);
        let available = i128::from(host.available.0) + wider - more;
        // The host would have to swap the missing memory.
        host.strained = available < 0 || (host.strained && more >= wider);
        host.available = Bytes(u64::try_from(available.max(0)).unwrap_or(u64::MAX));
        host.total = total;
        changed
    }

    /// Adds copies of recorded guests. The memory of the copies reduces the host's free memory. If
    /// a copied guest is gone, its copy becomes a copy of another guest.
    fn add(
        &mut self,
        change: &Change,
        samples: &mut Vec<GuestSample>,
        names: &mut Names,
        more: &mut i128,
    ) -> Vec<Key> {
        let Some((count, pattern)) = &change.more else { return Vec::new() };
        let fits = |sample: &&GuestSample| {
            names.get(&sample.key).is_some_and(|who| glob::matches(pattern, &who.name))
        };
        let like: Vec<GuestSample> = samples.iter().filter(fits).copied().collect();
        if like.is_empty() {
            self.copies.clear();
            return Vec::new();
        }
        let mut changed = Vec::new();
        for number in 0..*count {
            let key = Key(ADDED + u64::from(number));
            let place = number as usize % like.len();
            let before = self.copies.get(&key).copied();
            let same = like.iter().find(|sample| Some(sample.key) == before);
            let mut sample = *same.unwrap_or(&like[place]);
            if same.is_none() {
                self.copies.insert(key, sample.key);
                self.guests.remove(&key);
                changed.extend(before.map(|_| key));
            }
            let source = names.get(&sample.key).map_or("", |who| who.name.as_str());
            let name = format!("{source}+{}", number as usize / like.len() + 1);
            names.insert(key, Arc::new(GuestIdentity { name, ..GuestIdentity::default() }));
            sample.key = key;
            let holds = sample.resident.unwrap_or(Bytes::ZERO).plus(sample.doubtful);
            *more += i128::from(holds.0);
            samples.push(sample);
        }
        changed
    }
}

impl Guest {
    /// Turns a sample into the imagined sample. Returns the amount by which the host's free memory
    /// shrinks.
    fn see(&mut self, sample: &mut GuestSample, growth_permille: u64, ms: u64) -> i128 {
        let Some(actual) = sample.actual else { return 0 };
        // The first sample has the recorded size. Later sizes come from the imagined world.
        let size = *self.size.get_or_insert(actual);
        let recorded = sample.memory;
        let (mut lacks, mut grown, mut eased) = (Bytes::ZERO, Bytes::ZERO, false);
        if let Some(memory) = &mut sample.memory {
            let available = memory.available.unwrap_or(Bytes::ZERO);
            let used = memory.actual.less(available);
            // Recorded values are shifted by the growth, and by the difference between imagined and
            // recorded size.
            grown = used.permille(growth_permille);
            let had = memory.actual;
            eased = size > had && grown <= size.less(had);
            self.taken = self.takes(&recorded, size.less(had));
            let wants = used.plus(grown).plus(self.taken);
            lacks = wants.less(size);
            let left = size.less(wants);
            memory.actual = size;
            memory.available = memory.available.map(|_| left);
            // The whole difference in size is free memory, because caches stay unchanged.
            let moved = |free: Bytes| free.plus(size).less(had.plus(grown).plus(self.taken));
            memory.free = memory.free.map(|free| moved(free).min(left));
            memory.cached = memory.cached.map(|cached| cached.min(left));
            memory.active_file = memory.active_file.map(|hot| hot.min(left));
        }
        self.lacks = lacks;
        if let Some(memory) = &mut sample.memory {
            self.strain(memory, lacks, eased, ms);
        }
        self.before = recorded;
        sample.urgent = (sample.urgent && !eased) || lacks.0 > 0;
        sample.idle_since_sample &= lacks.0 == 0;
        sample.actual = Some(size);
        let resident = sample.resident.unwrap_or(Bytes::ZERO);
        let holds = resident.plus(grown).plus(self.taken).min(size);
        sample.resident = sample.resident.map(|_| holds);
        // Missing memory is not on the host: it is in the guest's own swap, or nowhere.
        i128::from(holds.0) - i128::from(resident.0)
    }

    /// Returns the part of the additional memory that the guest uses: the pages that it read again
    /// in the recording.
    fn takes(&self, recorded: &Option<Memory>, more: Bytes) -> Bytes {
        let (Some(before), Some(now)) = (self.before, recorded) else {
            return self.taken.min(more);
        };
        let since = |now: Option<u64>, before: Option<u64>| {
            now.zip(before).map_or(0, |(now, before)| now.saturating_sub(before))
        };
        let read = since(now.swap_in, before.swap_in);
        let missed = read.saturating_add(since(now.refaults, before.refaults));
        let missed = Bytes(missed.saturating_mul(PAGE_BYTES));
        self.taken.plus(missed).min(more)
    }

    /// Continues the counters of waits and swapping as recorded. The counters stop if the guest now
    /// has enough memory, and grow if the guest now lacks memory.
    fn strain(&mut self, memory: &mut Memory, lacks: Bytes, eased: bool, ms: u64) {
        let before = self.before;
        let grow = |own: &mut u64, now: Option<u64>, before: Option<u64>, more: u64| {
            let recorded = now.zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
            *own = own.saturating_add(if eased { 0 } else { recorded }).saturating_add(more);
            now.map(|_| *own)
        };
        let pages = lacks.0 / PAGE_BYTES;
        let swaps = pages.saturating_mul(SWAPS_PERMILLE) / 1000 * ms / 1000;
        let waits_us = if lacks.0 > 0 { ms * WAITS_PERMILLE } else { 0 };
        let stalls = u64::from(lacks.0 > 0);
        let of = |field: fn(&Memory) -> Option<u64>| before.as_ref().and_then(field);
        let own = &mut self.strain;
        memory.swap_in = grow(&mut own.swap_in, memory.swap_in, of(|m| m.swap_in), swaps);
        memory.swap_out = grow(&mut own.swap_out, memory.swap_out, of(|m| m.swap_out), swaps);
        memory.refaults = grow(&mut own.refaults, memory.refaults, of(|m| m.refaults), 0);
        memory.stalls = grow(&mut own.stalls, memory.stalls, of(|m| m.stalls), stalls);
        memory.oom_kills = grow(&mut own.oom_kills, memory.oom_kills, of(|m| m.oom_kills), 0);
        let psi = grow(&mut own.psi_us, memory.psi_some_us, of(|m| m.psi_some_us), waits_us);
        memory.psi_some_us = psi;
        // The guest's clock advances even without a new recorded sample.
        if lacks.0 > 0 && before.is_some_and(|before| before.clock_ms == memory.clock_ms) {
            memory.clock_ms = memory.clock_ms.saturating_add(ms);
        }
    }
}
