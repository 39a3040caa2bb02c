//! The daemon's own values among the counters read for its rules.

use crate::config::BALLOON;
use counters::{Counter, CpuField, History};

/// Counters of the last look; 0 if the rules do not need the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// MemTotal, as the rules see it, in KiB.
    pub mem_total_kib: u64,
    /// MemFree, in KiB.
    pub mem_free_kib: u64,
    /// MemAvailable, in KiB.
    pub mem_available_kib: u64,
    /// Ticks that CPUs were busy.
    pub busy_ticks: u64,
    /// Ticks that they were idle.
    pub idle_ticks: u64,
    /// Ticks stolen.
    pub steal_ticks: u64,
}

/// Positions of the daemon's own values in a row.
pub struct Slots {
    pub online: Option<usize>,
    pub total: Option<usize>,
    free: Option<usize>,
    available: Option<usize>,
    ticks: Option<[usize; CpuField::ALL.len()]>,
    pub balloon: Option<[usize; 2]>,
}

impl Slots {
    /// Returns the positions in a row of these counters.
    pub fn new(counters: &[Counter]) -> Slots {
        let of = |counter: Counter| counters.iter().position(|c| *c == counter);
        let mut ticks = [0; CpuField::ALL.len()];
        let all = CpuField::ALL.iter().zip(&mut ticks);
        let complete = all.into_iter().all(|(field, slot)| match of(Counter::Cpu(*field)) {
            Some(found) => {
                *slot = found;
                true
            }
            None => false,
        });
        let [inflated, deflated] = BALLOON.map(|name| of(Counter::vmstat(name)));
        Slots {
            online: of(Counter::OnlineCpus),
            total: of(Counter::meminfo("MemTotal")),
            free: of(Counter::meminfo("MemFree")),
            available: of(Counter::meminfo("MemAvailable")),
            ticks: complete.then_some(ticks),
            balloon: inflated.zip(deflated).map(|(a, b)| [a, b]),
        }
    }

    /// Returns the newest row's values. Ticks that the row lacks keep their earlier value.
    pub fn readings(&self, history: &History, before: Readings) -> Readings {
        let whole = |slot: usize| history.get(slot, 0).unwrap_or_default() as u64;
        let mut readings = Readings {
            mem_total_kib: self.total.map_or(0, whole),
            mem_free_kib: self.free.map_or(0, whole),
            mem_available_kib: self.available.map_or(0, whole),
            ..before
        };
        if let Some(ticks) = self.ticks {
            use CpuField::{Idle, Iowait, Irq, Nice, Softirq, Steal, System, User};
            let of = |field| whole(ticks[field as usize]);
            // Guest time is in user and nice already.
            readings.busy_ticks = [User, Nice, System, Irq, Softirq].map(of).iter().sum();
            readings.idle_ticks = of(Idle) + of(Iowait);
            readings.steal_ticks = of(Steal);
        }
        readings
    }
}
