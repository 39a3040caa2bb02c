//! Counters of the hypervisor, by DIAGNOSE X'2FC' of z/VM and X'204' of the machine.

use crate::states::CountedUser;
use model::{GuestField as G, GuestIdentity, HostField as H, Moment, Row};
use std::collections::BTreeMap;
use zmon::Error;
use zmon::hypfs::{Guest, LogicalCpu, Partition, guests, partitions};
use zmon::tree::{self, Tree};

const NS_PER_US: u64 = 1_000;

/// Previous readings of guests. The samples between two readings give the times.
#[derive(Clone, Debug, Default)]
pub struct Hypervisor {
    states: BTreeMap<String, CountedUser>,
}

fn named(name: String) -> GuestIdentity {
    GuestIdentity { name, ..GuestIdentity::default() }
}

fn moment(at_ms: i64, guests: BTreeMap<GuestIdentity, Row<G>>) -> Moment {
    let mut host = Row::default();
    host.set(H::Guests, Some(guests.len() as u64));
    Moment { at_ms, host, guests, ..Moment::default() }
}

impl Hypervisor {
    /// Reads z/VM's guests from a diag_2fc file.
    pub fn guests(&mut self, file: &[u8], at_ms: i64) -> Result<Moment, Error> {
        Ok(self.of_guests(&guests(file)?, at_ms))
    }

    /// Reads the machine's partitions from a diag_204 file.
    pub fn partitions(&mut self, file: &[u8], at_ms: i64) -> Result<Moment, Error> {
        let (top, found) = partitions(file)?;
        Ok(self.of_partitions(top.physical, &found, at_ms))
    }

    /// Reads guests or partitions from the files of a tree.
    pub fn tree<'a>(
        &mut self,
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
        at_ms: i64,
    ) -> Result<Moment, Error> {
        Ok(match tree::read(files)? {
            Tree::Guests(found) => self.of_guests(&found, at_ms),
            Tree::Partitions(physical, found) => self.of_partitions(physical, &found, at_ms),
        })
    }

    fn of_guests(&mut self, found: &[Guest], at_ms: i64) -> Moment {
        let mut states = std::mem::take(&mut self.states);
        let mut rows = BTreeMap::new();
        for guest in found {
            let mut known = states.remove(&guest.name()).unwrap_or_default();
            known.add(guest);
            rows.insert(named(guest.name()), known.row());
            self.states.insert(guest.name(), known);
        }
        let mut moment = moment(at_ms, rows);
        // Guests from a tree have only a count of logical processors.
        let processors = found.iter().map(|guest| match guest.processors {
            0 => u64::from(guest.logical),
            count => u64::from(count),
        });
        moment.host.set(H::Cpus, processors.max().filter(|count| *count > 0));
        moment
    }

    fn of_partitions(&self, physical: u16, found: &[Partition], at_ms: i64) -> Moment {
        let mut rows = BTreeMap::new();
        for partition in found {
            let sum = |of: fn(&LogicalCpu) -> u64| {
                let times = partition.cpus.iter().map(of);
                times.fold(0, u64::saturating_add).saturating_mul(NS_PER_US)
            };
            let mut row = Row::default();
            row.extend([
                (G::Vcpus, Some(partition.cpus.len() as u64)),
                (G::VcpuRun, Some(sum(|cpu| cpu.partition_us))),
                // The hypervisor's work for the partition.
                (G::OtherRun, Some(sum(|cpu| cpu.used_us.saturating_sub(cpu.partition_us)))),
            ]);
            rows.insert(named(partition.name()), row);
        }
        let mut moment = moment(at_ms, rows);
        moment.host.set(H::Cpus, Some(u64::from(physical)).filter(|count| *count > 0));
        moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::MIB;
    use zmon::hypfs::{
        Guest, Partition, PartitionHead, PartitionsHead, guests_bytes, partitions_bytes,
    };
    use zmon::{Tod, to_ebcdic};

    fn guest(seconds: u64, delay: u32, idle: u32) -> Guest {
        Guest {
            name: to_ebcdic("LINUX01"),
            used_us: seconds * 100_000,
            elapsed_us: seconds * 1_000_000,
            memory_max: 2 << 20,
            memory_used: 1 << 20,
            processors: 4,
            operating: 2,
            cpu_max: 100,
            delay_samples: delay,
            idle_samples: idle,
            all_samples: seconds as u32,
            ..Guest::default()
        }
    }

    fn only(moment: &Moment) -> (&GuestIdentity, &Row<G>) {
        moment.guests.first_key_value().unwrap()
    }

    #[test]
    fn samples_are_times_between_two_looks() {
        let mut hypervisor = Hypervisor::default();
        let mut look = |guest| hypervisor.guests(&guests_bytes(&[guest], Tod(0)), 7).unwrap();
        let first = look(guest(1_000, 500, 400));
        let (who, row) = only(&first);
        assert_eq!((who.name.as_str(), first.at_ms), ("LINUX01", 7));
        assert_eq!(row.get(G::VcpuRun), Some(100_000_000_000));
        assert_eq!(row.get(G::Resident), Some(1_024 * MIB));
        assert_eq!(first.host.get(H::Cpus), Some(4));
        assert_eq!(row.get(G::VcpuDelay), Some(0), "earlier waits are unknown");
        // The guest with two CPUs a minute later. In a quarter of the samples it waited for a CPU,
        // and in half of the samples it was idle.
        let then = look(guest(1_060, 515, 430));
        let row = only(&then).1;
        assert_eq!(row.get(G::VcpuDelay), Some(30_000_000_000));
        assert_eq!(row.get(G::HaltWait), Some(60_000_000_000));
        assert_eq!(row.get(G::PsiMemory), Some(0));
        // The user has logged on again: its counters restart, and the sums do not decrease.
        let again = look(guest(10, 1, 1));
        assert_eq!(only(&again).1.get(G::VcpuDelay), Some(30_000_000_000));
        let gone = hypervisor.guests(&guests_bytes(&[], Tod(0)), 8).unwrap();
        assert!(gone.guests.is_empty() && hypervisor.states.is_empty());
    }

    #[test]
    fn a_partition_is_a_guest_of_the_machine() {
        let cpu =
            |used_us, partition_us| LogicalCpu { used_us, partition_us, ..LogicalCpu::default() };
        let partition = Partition {
            head: PartitionHead { name: to_ebcdic("LP12"), ..PartitionHead::default() },
            cpus: vec![cpu(2_000, 1_500), cpu(1_000, 1_000)],
        };
        let top = PartitionsHead { physical: 34, ..PartitionsHead::default() };
        let file = partitions_bytes(top, &[partition]);
        let moment = Hypervisor::default().partitions(&file, 0).unwrap();
        let (who, row) = only(&moment);
        assert_eq!((who.name.as_str(), moment.host.get(H::Cpus)), ("LP12", Some(34)));
        assert_eq!(row.get(G::VcpuRun), Some(2_500_000));
        assert_eq!(row.get(G::OtherRun), Some(500_000));
        assert_eq!(row.get(G::Vcpus), Some(2));
    }

    #[test]
    fn report_g12_partitions_without_a_name_are_told_apart() {
        let partition = |number, name| Partition {
            head: PartitionHead { number, name, ..PartitionHead::default() },
            cpus: Vec::new(),
        };
        let named = partition(3, to_ebcdic("LP12"));
        let found = [partition(1, [0; 8]), partition(2, [0x40; 8]), named];
        let file = partitions_bytes(PartitionsHead::default(), &found);
        let moment = Hypervisor::default().partitions(&file, 0).unwrap();
        let names: Vec<_> = moment.guests.keys().map(|guest| guest.name.as_str()).collect();
        assert_eq!(names, ["LP12", "LPAR1", "LPAR2"]);
    }

    #[test]
    fn a_tree_of_texts_says_the_same_as_the_file() {
        let files = |tree: &Tree| zmon::tree::write(tree);
        let read = |files: &[(String, String)], at_ms| {
            let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
            Hypervisor::default().tree(files, at_ms).unwrap()
        };
        let guest = Guest { processors: 0, logical: 4, ..guest(1_000, 500, 400) };
        let told = read(&files(&Tree::Guests(vec![guest.clone()])), 7);
        let file = guests_bytes(&[guest], Tod(0));
        assert_eq!(told, Hypervisor::default().guests(&file, 7).unwrap());
        assert_eq!(told.host.get(H::Cpus), Some(4));

        let cpu = LogicalCpu { used_us: 2_000, partition_us: 1_500, ..LogicalCpu::default() };
        let head = PartitionHead { name: to_ebcdic("LP12"), ..PartitionHead::default() };
        let partition = Partition { head, cpus: vec![cpu] };
        let told = read(&files(&Tree::Partitions(34, vec![partition.clone()])), 9);
        let top = PartitionsHead { physical: 34, ..PartitionsHead::default() };
        let file = partitions_bytes(top, &[partition]);
        assert_eq!(told, Hypervisor::default().partitions(&file, 9).unwrap());
    }
}
