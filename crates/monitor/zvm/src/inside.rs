//! Data from inside a guest's Linux, from its kernel or from programs in it.

use crate::growth::Growth;
use crate::ticks::Ticks;
use base::KIB;
use model::{GuestField as G, ProcessField as P, ProcessName, Row};
use std::collections::BTreeMap;
use zmon::Error;
use zmon::appldata::{Cpu, LOAD_ONE, MEMORY, Memory, NETWORK, Network, Origin, SYSTEM, System};
use zmon::domain::Application;
use zmon::procd::{self, Numbers, Record, Summary, Task};
use zmon::{fsstatd, pinhead};

#[derive(Clone, Debug, Default)]
pub(crate) struct Inside {
    memory: Option<Memory>,
    system: Option<System>,
    network: Option<Network>,
    summary: Option<Summary>,
    root: Option<fsstatd::Numbers>,
    own: Option<pinhead::Numbers>,
    busy: Growth,
    idle: Growth,
    steal: Growth,
    ticks: Ticks,
    /// Tasks by record number. An ended task has no entry.
    tasks: BTreeMap<u16, Task>,
}

impl Inside {
    /// Processes an application's data. Unsupported data are not an error.
    pub(crate) fn take(&mut self, said: &Application<'_>) -> Result<(), Error> {
        let product = &said.product;
        match (product.origin(), product.record) {
            // The last copy of a kernel record has no new data.
            (Origin::Kernel, _) if said.is_over => {}
            (Origin::Kernel, MEMORY) => self.memory = Some(Memory::whole(said.data)?),
            (Origin::Kernel, SYSTEM) => self.take_system(System::read(said.data)?),
            (Origin::Kernel, NETWORK) => self.network = Some(Network::whole(said.data)?),
            (Origin::Writer, record) if product.function == procd::APPLICATION => {
                if said.is_over && record == procd::TASK {
                    // The place of an ended task may be reused.
                    self.tasks.remove(&product.modification);
                    return Ok(());
                }
                match Record::read(record, said.data)?.1 {
                    Record::Task(task) => _ = self.tasks.insert(product.modification, *task),
                    Record::Summary(summary) => self.summary = Some(*summary),
                }
            }
            (Origin::Writer, _) if product.function == fsstatd::APPLICATION && !said.is_over => {
                let (_, system) = fsstatd::FileSystem::read(said.data)?;
                let [_, directory, _] = &system.texts;
                if directory == b"/" {
                    self.root = Some(system.numbers);
                }
            }
            (Origin::Writer, _) if product.function == pinhead::APPLICATION => {
                self.own = Some(pinhead::Own::read(said.data)?.1.numbers);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_system(&mut self, system: System) {
        for (place, cpu) in (0..).zip(&system.cpus) {
            let Cpu { user, nice, system: kernel, irq, soft_irq, io_wait, idle, steal, number } =
                cpu;
            // Only online CPUs have entries, so the place of a CPU's entry may change, but the
            // CPU's number does not.
            let number = number.unwrap_or(place);
            let busy = [user, nice, kernel, irq, soft_irq].into_iter();
            self.busy.take(number, busy.map(|ticks| u64::from(*ticks)).sum());
            self.idle.take(number, u64::from(*idle) + u64::from(*io_wait));
            if let Some(steal) = steal {
                self.steal.take(number, (*steal).into());
            }
        }
        self.ticks.look(&system, self.system.as_ref());
        self.system = Some(system);
    }

    /// Removes and returns the tasks of an interval. The records of the next interval contain all
    /// tasks again.
    pub(crate) fn processes(&mut self) -> BTreeMap<ProcessName, Row<P>> {
        let row = |numbers: &Numbers| {
            let mut row = Row::default();
            row.extend([
                (P::Count, Some(1)),
                // The record has only the whole CPU time of a task, not its part in the kernel.
                (P::Run, Some(numbers.time.saturating_mul(procd::NS_PER_CENTI))),
                (P::Resident, Some(numbers.resident.saturating_mul(KIB))),
                (P::MajorFaults, Some(numbers.major_faults)),
            ]);
            row
        };
        let tasks = std::mem::take(&mut self.tasks).into_values();
        let named = tasks.map(|task| {
            let name = String::from_utf8_lossy(&task.texts[Task::COMMAND]).into_owned();
            (ProcessName { name, pid: task.numbers.pid }, row(&task.numbers))
        });
        named.collect()
    }

    /// Fills in the fields. If both the kernel and programs provide a value, the kernel's value is
    /// used, because it is more direct.
    pub(crate) fn put(&self, row: &mut Row<G>) {
        let kib = |size: u64| Some(size.saturating_mul(KIB));
        self.put_written(row);
        if let Some(memory) = &self.memory {
            row.extend([
                (G::OwnTotal, kib(memory.total)),
                (G::OwnFree, kib(memory.free)),
                (G::OwnCached, kib(memory.cached.saturating_add(memory.buffers))),
                (G::OwnSwapTotal, kib(memory.swap_total)),
                (G::OwnSwapFree, kib(memory.swap_free)),
                (G::OwnSwapIn, Some(memory.swapped_in)),
                (G::OwnSwapOut, Some(memory.swapped_out)),
                (G::OwnMajorFaults, Some(memory.major_faults)),
            ]);
        }
        if let Some(System { os, cpus, .. }) = &self.system {
            let permille = |load: u32| Some(u64::from(load) * 1_000 / u64::from(LOAD_ONE));
            let hundredths = |of: &Growth| self.ticks.hundredths(of.sum()?);
            row.extend([
                (G::OwnCpus, Some(cpus.len() as u64)),
                (G::OwnBusy, hundredths(&self.busy)),
                (G::OwnIdle, hundredths(&self.idle)),
                (G::OwnSteal, hundredths(&self.steal)),
                (G::OwnLoad, permille(os.load_1)),
                (G::OwnLoad5, permille(os.load_5)),
                (G::OwnLoad15, permille(os.load_15)),
                (G::OwnRunning, Some(os.running.into())),
                (G::OwnBlocked, Some(os.waiting_for_io.into())),
            ]);
        }
        if let Some(network) = &self.network {
            row.extend([
                (G::OwnReceived, Some(network.received_bytes)),
                (G::OwnReceivedPackets, Some(network.received_packets)),
                (G::OwnSent, Some(network.sent_bytes)),
                (G::OwnSentPackets, Some(network.sent_packets)),
            ]);
        }
    }

    /// Fills in the fields written by programs.
    fn put_written(&self, row: &mut Row<G>) {
        let kib = |size: u64| Some(size.saturating_mul(KIB));
        if let Some(told) = &self.summary {
            row.extend([
                (G::OwnTotal, kib(told.memory_total)),
                (G::OwnFree, kib(told.memory_free)),
                (G::OwnCached, kib(told.cached.saturating_add(told.buffers))),
                (G::OwnSwapTotal, kib(told.swap_total)),
                (G::OwnSwapFree, kib(told.swap_free)),
                (G::OwnSwapIn, Some(told.swapped_in)),
                (G::OwnSwapOut, Some(told.swapped_out)),
                (G::OwnCpus, Some(told.cpus.into())),
                (G::OwnLoad, permille(&told.load_1)),
                (G::OwnLoad5, permille(&told.load_5)),
                (G::OwnLoad15, permille(&told.load_15)),
                (G::OwnRunning, Some(told.running.into())),
            ]);
        }
        if let Some(root) = self.root.as_ref().filter(|root| root.blocks > 0) {
            let bytes = |blocks: u64| Some(blocks.saturating_mul(root.fragment_bytes));
            let used = u128::from(root.blocks.saturating_sub(root.available)) * 1_000;
            row.extend([
                (G::OwnRootTotal, bytes(root.blocks)),
                (G::OwnRootAvailable, bytes(root.available)),
                (G::OwnRootUsed, u64::try_from(used / u128::from(root.blocks)).ok()),
            ]);
        }
        if let Some(own) = &self.own {
            let known = |value: u64| Some(value).filter(|value| *value != pinhead::UNKNOWN);
            let has_rules = own.flags & pinhead::HAS_RULES != 0;
            let ruled = |value: u64| known(value).filter(|_| has_rules);
            let ns = |us: u64| known(us).map(|us| us.saturating_mul(NS_PER_US));
            row.extend([
                (G::OwnCpus, Some(own.cpus.into())),
                (G::OwnCpusPresent, Some(own.present.into())),
                (G::OwnPool, known(own.pool_pages)),
                (G::OwnAvailable, known(own.available).and_then(kib)),
                (G::OwnPsiSome, ns(own.some_us)),
                (G::OwnPsiFull, ns(own.full_us)),
                (G::OwnOomKills, known(own.killed)),
                (G::OwnPlugs, ruled(own.plugs)),
                (G::OwnUnplugs, ruled(own.unplugs)),
                (G::OwnGrows, ruled(own.grows)),
                (G::OwnShrinks, ruled(own.shrinks)),
                (G::OwnSettled, ruled((own.flags & pinhead::IS_SETTLED).min(1).into())),
            ]);
        }
    }
}

const NS_PER_US: u64 = 1_000;

/// Parses a load average such as `0.15`, and returns it in thousandths.
fn permille(text: &[u8; 6]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_end_matches('\0');
    let load: f64 = text.parse().ok()?;
    Some((load * 1_000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmon::appldata::Os;
    use zmon::ticks_of_ns;

    #[test]
    fn kernel_times_are_recorded_once_its_ticks_are_known() {
        let mut inside = Inside::default();
        let mut told = Vec::new();
        for minute in 1..4_u32 {
            // The kernel counts 250 ticks per second. A third of the time is busy, and a sixth is
            // stolen.
            let [user, steal, idle] = [5_000, 2_500, 7_500].map(|ticks| ticks * minute);
            let cpu = Cpu { user, idle, steal: Some(steal), number: Some(0), ..Cpu::default() };
            let timestamp = ticks_of_ns(60_000_000_000 * u64::from(minute));
            let os = Os { timestamp, ..Os::default() };
            inside.take_system(System { os, cpus: vec![cpu], has_steal: true });
            let mut row = Row::default();
            inside.put(&mut row);
            told.push([G::OwnBusy, G::OwnSteal, G::OwnIdle].map(|field| row.get(field)));
        }
        // Times before the first copy are unknown.
        assert_eq!(told, [[None; 3], [None; 3], [4_000, 2_000, 6_000].map(Some)]);
    }
}
