//! How this guest's memory is, for a host that asks.
//!
//! A daemon that is never asked has none of this: the files are opened by the first question
//! and stay open, with their buffers.

use crate::rate::Rate;
use counters::{Counter, PsiField, PsiLine, PsiResource};
use procfs::{Reader, Root, kernel_names};
use wire::Memory;

/// Questions that are answered in a second. What comes on top is dropped: the answers would
/// be the same, and a host must not be able to keep its guest busy.
const ANSWERS_A_SECOND: usize = 10;

/// Lines of /proc/meminfo.
const MEMINFO: [&str; 9] = [
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Cached",
    "Active(file)",
    "Inactive(file)",
    "AnonPages",
    "SwapTotal",
    "SwapFree",
];

/// Lines of /proc/vmstat, and the one that was `workingset_refault_file` before Linux 5.9.
const VMSTAT: [&str; 7] = [
    "pswpin",
    "pswpout",
    "workingset_refault_file",
    "workingset_refault_anon",
    "workingset_refault",
    "oom_kill",
    "pgmajfault",
];

/// What each zone's line of /proc/vmstat about stalls begins with.
const STALLS: &str = "allocstall";

/// Answers a host's questions.
#[derive(Debug)]
pub struct Teller {
    open: Option<Open>,
    answers: Rate<ANSWERS_A_SECOND>,
}

#[derive(Debug)]
struct Open {
    reader: Reader,
    wanted: Vec<Counter>,
    row: Vec<f64>,
}

impl Teller {
    /// One that has opened nothing.
    pub fn new() -> Teller {
        Teller { open: None, answers: Rate::new() }
    }

    /// Whether a question that comes now is answered.
    pub fn answers(&mut self, now_ms: u64) -> bool {
        self.answers.take(now_ms)
    }

    /// How the memory is now. What cannot be read is missing.
    pub fn memory(&mut self, root: &Root, sequence: u32, uptime_ms: u64) -> Memory {
        if self.open.is_none() {
            self.open = Open::new(root);
        }
        let nothing = Memory { sequence, uptime_ms, ..Memory::default() };
        let Some(open) = &mut self.open else { return nothing };
        match open.reader.read(0.0, &mut open.row) {
            Ok(()) => Memory { sequence, uptime_ms, ..open.memory() },
            Err(_) => {
                // A file that has changed under it: the next question reopens it.
                self.open = None;
                nothing
            }
        }
    }
}

impl Open {
    fn new(root: &Root) -> Option<Open> {
        let names = kernel_names(root).ok()?;
        let meminfo = MEMINFO.into_iter().filter(|name| names.has_meminfo(name));
        let mut wanted: Vec<Counter> = meminfo.map(Counter::meminfo).collect();
        let is_ours = |name: &str| VMSTAT.contains(&name) || name.starts_with(STALLS);
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
        let all = || self.wanted.iter().zip(&self.row).filter(|(_, value)| value.is_finite());
        let find = |is: &dyn Fn(&Counter) -> bool| {
            all().find(|(counter, _)| is(counter)).map(|(_, value)| *value as u64)
        };
        let meminfo = |name: &str| find(&|c| matches!(c, Counter::Meminfo(n) if **n == *name));
        let vmstat = |name: &str| find(&|c| matches!(c, Counter::Vmstat(n) if **n == *name));
        let psi = |line| find(&|c| matches!(c, Counter::Psi(_, l, _) if *l == line));
        let of_zone = |c: &Counter| matches!(c, Counter::Vmstat(n) if n.starts_with(STALLS));
        let zones = all().filter(|(counter, _)| of_zone(counter)).map(|(_, value)| *value as u64);
        Memory {
            sequence: 0,
            uptime_ms: 0,
            total_kib: meminfo("MemTotal"),
            free_kib: meminfo("MemFree"),
            available_kib: meminfo("MemAvailable"),
            cached_kib: meminfo("Cached"),
            active_file_kib: meminfo("Active(file)"),
            inactive_file_kib: meminfo("Inactive(file)"),
            anon_kib: meminfo("AnonPages"),
            swap_total_kib: meminfo("SwapTotal"),
            swap_free_kib: meminfo("SwapFree"),
            swap_in_pages: vmstat("pswpin"),
            swap_out_pages: vmstat("pswpout"),
            refault_file: vmstat("workingset_refault_file")
                .or_else(|| vmstat("workingset_refault")),
            refault_anon: vmstat("workingset_refault_anon"),
            stalls: zones.reduce(u64::saturating_add),
            oom_kills: vmstat("oom_kill"),
            major_faults: vmstat("pgmajfault"),
            psi_some_us: psi(PsiLine::Some),
            psi_full_us: psi(PsiLine::Full),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::{FakeKernel, VMSTAT};

    #[test]
    fn what_the_kernel_shows_is_told_and_the_rest_is_missing() {
        let kernel = FakeKernel::new(1, 1);
        let zones = "allocstall_dma 1\nallocstall_normal 20\nallocstall_movable 300\n";
        kernel.write("proc/vmstat", &format!("{VMSTAT}{zones}workingset_refault 9\n"));
        let mut teller = Teller::new();
        let memory = teller.memory(&kernel.root(), 7, 1234);
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
        let fewer = teller.memory(&kernel.root(), 8, 1235);
        assert_eq!((fewer.sequence, fewer.free_kib), (8, None), "half a reading is none");
        let again = teller.memory(&kernel.root(), 9, 1236);
        assert_eq!((again.free_kib, again.available_kib), (Some(7), None));
    }

    #[test]
    fn without_pressure_files_and_without_any_files() {
        let kernel = FakeKernel::new(1, 1);
        kernel.remove("proc/pressure");
        let memory = Teller::new().memory(&kernel.root(), 1, 0);
        assert_eq!((memory.psi_some_us, memory.psi_full_us), (None, None));
        assert_eq!((memory.free_kib, memory.stalls), (Some(59_903), None));
        kernel.remove("proc/vmstat");
        let memory = Teller::new().memory(&kernel.root(), 2, 5);
        assert_eq!(memory, Memory { sequence: 2, uptime_ms: 5, ..Memory::default() });
    }
}
