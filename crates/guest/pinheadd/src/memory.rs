//! The guest's memory statistics, for a host that requests them.
//!
//! The first request opens the files, which then stay open with their buffers. Before this request,
//! the daemon uses no memory for the statistics.

use crate::rate::Rate;
use model::counters::{Counter, PsiField, PsiLine, PsiResource};
use procfs::{Reader, Root, kernel_names};
use wire::Memory;

/// Maximum number of requests answered per second, so that a host cannot keep its guest busy.
/// Excess requests are dropped, because their answers would be the same.
const ANSWERS_A_SECOND: usize = 10;

/// Function that returns a field of the answer.
type Slot = fn(&mut Memory) -> &mut Option<u64>;

/// Lines of /proc/meminfo, each with the field of the answer that it fills.
const MEMINFO: [(&str, Slot); 9] = [
    ("MemTotal", |memory| &mut memory.total_kib),
    ("MemFree", |memory| &mut memory.free_kib),
    ("MemAvailable", |memory| &mut memory.available_kib),
    ("Cached", |memory| &mut memory.cached_kib),
    ("Active(file)", |memory| &mut memory.active_file_kib),
    ("Inactive(file)", |memory| &mut memory.inactive_file_kib),
    ("AnonPages", |memory| &mut memory.anon_kib),
    ("SwapTotal", |memory| &mut memory.swap_total_kib),
    ("SwapFree", |memory| &mut memory.swap_free_kib),
];

/// Lines of /proc/vmstat, each with the field of the answer that it fills. `workingset_refault` was
/// `workingset_refault_file` before Linux 5.9.
const VMSTAT: [(&str, Slot); 7] = [
    ("pswpin", |memory| &mut memory.swap_in_pages),
    ("pswpout", |memory| &mut memory.swap_out_pages),
    ("workingset_refault", |memory| &mut memory.refault_file),
    ("workingset_refault_file", |memory| &mut memory.refault_file),
    ("workingset_refault_anon", |memory| &mut memory.refault_anon),
    ("oom_kill", |memory| &mut memory.oom_kills),
    ("pgmajfault", |memory| &mut memory.major_faults),
];

/// Prefix of the lines about stalls in /proc/vmstat. Each zone has one such line.
const STALLS: &str = "allocstall";

/// Reader that answers a host's requests for memory statistics.
#[derive(Debug)]
pub struct MemoryReader {
    open: Option<Open>,
    answers: Rate<ANSWERS_A_SECOND>,
}

#[derive(Debug)]
struct Open {
    reader: Reader,
    wanted: Vec<Counter>,
    row: Vec<f64>,
}

impl MemoryReader {
    pub fn new() -> MemoryReader {
        MemoryReader { open: None, answers: Rate::new() }
    }

    /// Returns true if a request that arrives now may be answered.
    pub fn answers(&mut self, now_ms: u64) -> bool {
        self.answers.take(now_ms)
    }

    /// Returns the current memory statistics. Values that cannot be read are missing.
    pub fn memory(&mut self, root: &Root, sequence: u32, uptime_ms: u64) -> Memory {
        if self.open.is_none() {
            self.open = Open::new(root);
        }
        let nothing = Memory { sequence, uptime_ms, ..Memory::default() };
        let Some(open) = &mut self.open else { return nothing };
        match open.reader.read(0.0, &mut open.row) {
            Ok(()) => Memory { sequence, uptime_ms, ..open.memory() },
            Err(_) => {
                // The next request opens the files again.
                self.open = None;
                nothing
            }
        }
    }
}

impl Open {
    fn new(root: &Root) -> Option<Open> {
        let names = kernel_names(root).ok()?;
        let mut wanted: Vec<Counter> = Vec::new();
        for (name, _) in MEMINFO.iter().filter(|(name, _)| names.has_meminfo(name)) {
            wanted.push(Counter::meminfo(name));
        }
        let is_ours =
            |name: &str| VMSTAT.iter().any(|(ours, _)| *ours == name) || name.starts_with(STALLS);
        let vmstat = names.vmstat.iter().filter(|name| is_ours(name));
        wanted.extend(vmstat.map(|name| Counter::vmstat(name)));
        if names.psi {
            for line in [PsiLine::Some, PsiLine::Full] {
                wanted.push(Counter::Psi(PsiResource::Memory, line, PsiField::Total));
            }
        }
        let reader = Reader::open(root, &wanted).ok()?;
        let row = vec![f64::NAN; wanted.len()];
        Some(Open { reader, wanted, row })
    }

    fn memory(&self) -> Memory {
        let mut memory = Memory::default();
        let known = self.wanted.iter().zip(&self.row).filter(|(_, value)| value.is_finite());
        for (counter, value) in known {
            let value = *value as u64;
            let slot = match counter {
                Counter::Meminfo(name) => slot_of(&MEMINFO, name),
                Counter::Vmstat(name) if name.starts_with(STALLS) => {
                    memory.stalls = Some(value.saturating_add(memory.stalls.unwrap_or(0)));
                    continue;
                }
                Counter::Vmstat(name) => slot_of(&VMSTAT, name),
                Counter::Psi(_, PsiLine::Some, _) => Some((|m| &mut m.psi_some_us) as Slot),
                _ => Some((|m| &mut m.psi_full_us) as Slot),
            };
            if let Some(slot) = slot {
                *slot(&mut memory) = Some(value);
            }
        }
        memory
    }
}

fn slot_of(table: &[(&str, Slot)], name: &str) -> Option<Slot> {
    table.iter().find(|(known, _)| *known == name).map(|(_, slot)| *slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::{FakeKernel, VMSTAT};

    #[test]
    fn kernels_values_are_reported_and_the_rest_is_missing() {
        let kernel = FakeKernel::new(1, 1);
        let zones = "allocstall_dma 1\nallocstall_normal 20\nallocstall_movable 300\n";
        kernel.write("proc/vmstat", &format!("{VMSTAT}{zones}workingset_refault 9\n"));
        let mut memory_reader = MemoryReader::new();
        let memory = memory_reader.memory(&kernel.root(), 7, 1234);
        assert_eq!((memory.sequence, memory.uptime_ms), (7, 1234));
        assert_eq!((memory.total_kib, memory.free_kib), (Some(524_288), Some(59_903)));
        assert_eq!(
            (memory.swap_total_kib, memory.swap_free_kib),
            (Some(1_048_572), Some(1_044_922))
        );
        assert_eq!((memory.swap_in_pages, memory.swap_out_pages), (Some(335_996), Some(641_887)));
        assert_eq!((memory.refault_file, memory.refault_anon), (Some(9), None));
        assert_eq!((memory.stalls, memory.oom_kills), (Some(321), None));
        assert_eq!((memory.psi_some_us, memory.psi_full_us), (Some(9_784_276), Some(4711)));
        assert_eq!(memory.anon_kib, None);

        kernel.write("proc/meminfo", "MemTotal: 524288 kB\nMemFree: 7 kB\n");
        let fewer = memory_reader.memory(&kernel.root(), 8, 1235);
        assert_eq!((fewer.sequence, fewer.free_kib), (8, None), "a partial reading is dropped");
        let again = memory_reader.memory(&kernel.root(), 9, 1236);
        assert_eq!((again.free_kib, again.available_kib), (Some(7), None));
    }

    #[test]
    fn without_pressure_files_and_without_any_files() {
        let kernel = FakeKernel::new(1, 1);
        kernel.remove("proc/pressure");
        let memory = MemoryReader::new().memory(&kernel.root(), 1, 0);
        assert_eq!((memory.psi_some_us, memory.psi_full_us), (None, None));
        assert_eq!((memory.free_kib, memory.stalls), (Some(59_903), None));
        kernel.remove("proc/vmstat");
        let memory = MemoryReader::new().memory(&kernel.root(), 2, 5);
        assert_eq!(memory, Memory { sequence: 2, uptime_ms: 5, ..Memory::default() });
    }
}
