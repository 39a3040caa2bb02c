//! What a guest's own Linux has told, by its kernel or by programs in it.

use crate::growth::Growth;
use base::KIB;
use model::{GuestField as G, ProcessField as P, ProcessName, Row};
use std::collections::BTreeMap;
use zmon::Error;
use zmon::appldata::{Cpu, LOAD_ONE, MEMORY, Memory, NETWORK, Network, Origin, SYSTEM, System};
use zmon::domain::Application;
use zmon::procd::{self, Numbers, Record, Task};

/// What is known of the inside of a guest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside {
    memory: Option<Memory>,
    system: Option<System>,
    network: Option<Network>,
    busy: Growth,
    idle: Growth,
    steal: Growth,
    /// By the number of the record: a task that has gone has none any more.
    tasks: BTreeMap<u16, Task>,
}

impl Inside {
    /// Takes what an application had copied. What is not read here is no error.
    pub(crate) fn take(&mut self, said: &Application<'_>) -> Result<(), Error> {
        let product = &said.product;
        match (product.origin(), product.record) {
            // What was copied when it ended was told before.
            (Origin::Kernel, _) if said.is_over => {}
            (Origin::Kernel, MEMORY) => self.memory = Some(Memory::whole(said.data)?),
            (Origin::Kernel, SYSTEM) => self.take_system(System::read(said.data)?),
            (Origin::Kernel, NETWORK) => self.network = Some(Network::whole(said.data)?),
            (Origin::Writer, 1) if said.is_over => {
                // Its place is another's, or nobody's.
                self.tasks.remove(&product.modification);
            }
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
        for (place, cpu) in (0..).zip(&system.cpus) {
            let Cpu { user, nice, system: kernel, irq, soft_irq, io_wait, idle, steal, number } =
                cpu;
            // Only CPUs that are online are told, so that a place may be another's next time.
            let number = number.unwrap_or(place);
            let busy = [user, nice, kernel, irq, soft_irq].into_iter();
            self.busy.take(number, busy.map(|ticks| u64::from(*ticks)).sum());
            self.idle.take(number, u64::from(*idle) + u64::from(*io_wait));
            if let Some(steal) = steal {
                self.steal.take(number, (*steal).into());
            }
        }
        self.system = Some(system);
    }

    /// The tasks of an interval, which are told again in the next one.
    pub(crate) fn processes(&mut self) -> BTreeMap<ProcessName, Row<P>> {
        let row = |numbers: &Numbers| {
            let mut row = Row::default();
            row.extend([
                (P::Count, Some(1)),
                // What of it was in the kernel is not told.
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
        if let Some(System { os, cpus, .. }) = &self.system {
            let permille = |load: u32| Some(u64::from(load) * 1_000 / u64::from(LOAD_ONE));
            row.extend([
                (G::OwnCpus, Some(cpus.len() as u64)),
                (G::OwnBusy, self.busy.sum()),
                (G::OwnIdle, self.idle.sum()),
                (G::OwnSteal, self.steal.sum()),
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
