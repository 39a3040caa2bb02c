//! Values that the daemon itself needs from the counters that are read for the rules.

use crate::config::BALLOON;
use model::counters::{Counter, CpuField, History};

/// Counters of the last sample. A counter that is not read for the rules is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// MemTotal, as adjusted for the rules, in KiB.
    pub mem_total_kib: u64,
    pub mem_free_kib: u64,
    pub mem_available_kib: u64,
    /// Ticks that CPUs were busy, in total.
    pub busy_ticks: u64,
    /// Ticks that CPUs were idle, in total.
    pub idle_ticks: u64,
    /// Ticks that the hypervisor stole.
    pub steal_ticks: u64,
}

/// Positions of the daemon's values in a row.
pub struct Slots {
    pub online: Option<usize>,
    pub total: Option<usize>,
    free: Option<usize>,
    available: Option<usize>,
    ticks: Option<[usize; CpuField::ALL.len()]>,
    pub balloon: Option<[usize; 2]>,
}

impl Slots {
    /// Returns the positions of the daemon's values in a row of these counters.
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

    /// Returns the newest row's values. Ticks that are missing in the row keep the value that they
    /// have in `before`.
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
            // User and nice time already include guest time.
            readings.busy_ticks = [User, Nice, System, Irq, Softirq].map(of).iter().sum();
            readings.idle_ticks = of(Idle) + of(Iowait);
            readings.steal_ticks = of(Steal);
        }
        readings
    }
}
