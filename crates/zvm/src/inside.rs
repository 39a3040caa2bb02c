//! What a guest's own Linux has told, by its kernel or by programs in it.

use base::KIB;
use model::{GuestField as G, ProcessField as P, ProcessName, Row};
use std::collections::BTreeMap;
use zmon::Error;
use zmon::appldata::{Cpu, LOAD_ONE, Memory, Network, Origin, System};
use zmon::domain::Application;
use zmon::procd::{self, Record, Task};

/// Nanoseconds in a hundredth of a second.
const NS_PER_CENTI: u64 = 10_000_000;
/// The kernel's records.
const MEMORY: u8 = 1;
const CPUS: u8 = 2;
const NETWORK: u8 = 3;

/// Counters of 32 bits that begin anew, added up.
#[derive(Clone, Debug, Default)]
struct Sum {
    before: BTreeMap<usize, u32>,
    sum: u64,
}

impl Sum {
    fn add(&mut self, number: usize, now: u32) {
        // The first value is counted as it is: it has grown since the guest's start.
        let more = match self.before.insert(number, now) {
            Some(before) => now.wrapping_sub(before),
            None => now,
        };
        self.sum = self.sum.saturating_add(more.into());
    }
}

/// What is known of the inside of a guest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside {
    memory: Option<Memory>,
    system: Option<System>,
    network: Option<Network>,
    busy: Sum,
    idle: Sum,
    steal: Sum,
    /// By the number of the record: a task that has gone has none any more.
    tasks: BTreeMap<u16, Task>,
}

impl Inside {
    /// Takes what an application had copied. What is not read here is no error.
    pub(crate) fn take(&mut self, said: &Application<'_>) -> Result<(), Error> {
        let product = &said.product;
        match (product.origin(), product.record) {
            (Origin::Kernel, MEMORY) => self.memory = Some(Memory::whole(said.data)?),
            (Origin::Kernel, CPUS) => self.take_system(System::read(said.data)?),
            (Origin::Kernel, NETWORK) => self.network = Some(Network::whole(said.data)?),
            (Origin::Writer, record) if product.function == procd::APPLICATION => {
                if let (_, Record::Task(task)) = Record::read(record, said.data)? {
                    self.tasks.insert(product.modification, *task);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn take_system(&mut self, system: System) {
        for (number, cpu) in system.cpus.iter().enumerate() {
            let Cpu { user, nice, system: kernel, irq, soft_irq, io_wait, idle, .. } = cpu;
            let busy = [user, nice, kernel, irq, soft_irq].into_iter();
            self.busy.add(number, busy.fold(0, |sum, ticks| sum.wrapping_add(*ticks)));
            self.idle.add(number, idle.wrapping_add(*io_wait));
            if system.has_steal {
                self.steal.add(number, cpu.steal);
            }
        }
        self.system = Some(system);
    }

    /// Forgets the tasks of an interval: those of the next one are told again.
    pub(crate) fn processes(&mut self) -> BTreeMap<ProcessName, Row<P>> {
        let mut sums: BTreeMap<ProcessName, [u64; 4]> = BTreeMap::new();
        for task in std::mem::take(&mut self.tasks).into_values() {
            let name = String::from_utf8_lossy(&task.texts[Task::COMMAND]).into_owned();
            let sum = sums.entry(ProcessName { name, pid: 0 }).or_default();
            let numbers = &task.numbers;
            let time = numbers.time.saturating_mul(NS_PER_CENTI);
            let resident = numbers.resident.saturating_mul(KIB);
            for (sum, more) in sum.iter_mut().zip([1, time, resident, numbers.major_faults]) {
                *sum = sum.saturating_add(more);
            }
        }
        let row = |[count, time, resident, faults]: [u64; 4]| {
            let mut row = Row::default();
            row.extend([
                (P::Count, Some(count)),
                // What of it was in the kernel is not told.
                (P::Run, Some(time)),
                (P::Resident, Some(resident)),
                (P::MajorFaults, Some(faults)),
            ]);
            row
        };
        sums.into_iter().map(|(name, sums)| (name, row(sums))).collect()
    }

    pub(crate) fn put(&self, row: &mut Row<G>) {
        let kib = |size: u64| Some(size.saturating_mul(KIB));
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
        if let Some(System { os, cpus, has_steal }) = &self.system {
            let permille = |load: u32| Some(u64::from(load) * 1_000 / u64::from(LOAD_ONE));
            row.extend([
                (G::OwnCpus, Some(cpus.len() as u64)),
                (G::OwnBusy, Some(self.busy.sum)),
                (G::OwnIdle, Some(self.idle.sum)),
                (G::OwnSteal, has_steal.then_some(self.steal.sum)),
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
}
