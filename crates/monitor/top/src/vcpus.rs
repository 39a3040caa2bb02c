//! vCPUs of the guest on the screen, one by one.
//!
//! Recordings contain only the sum of a guest's vCPUs, because the single vCPUs of a hundred guests
//! would fill a disk. The threads of the guest on the screen are therefore read here, once per
//! sample.

use manager::control::GuestRow;
use procfs::Kept;
use procfs::parse::schedstat;
use std::path::Path;

/// Maximum number of vCPUs. No screen has room for more.
const MOST: usize = 512;
const NS_A_MS: f64 = 1e6;
/// Maximum length of the file's text. The text consists of three numbers.
const TEXT_MAX: usize = 64;

/// Use of a vCPU between two readings, in percent of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Share of time in which the vCPU ran on a CPU of the host.
    pub(super) run: f64,
    /// Share of time in which the vCPU was ready while others ran (steal).
    pub(super) delay: f64,
}

/// Run time and wait time of a thread, in nanoseconds.
type Counts = Option<(u64, u64)>;

/// Last reading of one guest.
#[derive(Clone, Debug, Default)]
pub(super) struct Vcpus {
    /// Guest, process and threads that were read. Threads belong to one process.
    of: Option<(u64, Option<u32>, Vec<u32>)>,
    at_ms: u64,
    counts: Vec<Counts>,
    /// Shares since the previous reading. A share is missing if it is unknown.
    pub(super) shares: Vec<Option<Share>>,
}

impl Vcpus {
    /// Reads the threads of a guest's vCPUs below a root directory.
    pub(super) fn look(&mut self, root: &Path, row: &GuestRow, now_ms: u64) {
        let tids: Vec<u32> = row.vcpu_tids.iter().copied().take(MOST).collect();
        let counts: Vec<Counts> = tids.iter().map(|tid| read(root, row.pid?, *tid)).collect();
        let of = Some((row.id, row.pid, tids));
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        let is_next = self.of == of && passed_ms > 0;
        let share = |(now, before): (&Counts, &Counts)| {
            let ((run, delay), (old_run, old_delay)) = ((*now)?, (*before)?);
            let percent = |now: u64, before: u64| {
                Some(now.checked_sub(before)? as f64 / NS_A_MS / passed_ms as f64 * 100.0)
            };
            Some(Share { run: percent(run, old_run)?, delay: percent(delay, old_delay)? })
        };
        self.shares = match is_next {
            true => counts.iter().zip(&self.counts).map(share).collect(),
            false => vec![None; counts.len()],
        };
        (self.of, self.at_ms, self.counts) = (of, now_ms, counts);
    }

    /// Returns the state after two readings of a guest.
    #[cfg(test)]
    pub(super) fn made_up(id: u64, shares: Vec<Option<Share>>) -> Vcpus {
        let of = Some((id, None, Vec::new()));
        Vcpus { of, at_ms: 0, counts: vec![Some((0, 0)); shares.len()], shares }
    }

    /// Returns true if the last reading was of this guest.
    pub(super) fn is_of(&self, id: u64) -> bool {
        self.of.as_ref().is_some_and(|(of, ..)| *of == id)
    }

    /// Returns true if any thread could be read.
    pub(super) fn is_readable(&self) -> bool {
        self.counts.iter().any(Option::is_some)
    }
}

fn read(root: &Path, pid: u32, tid: u32) -> Counts {
    let file = Kept::open(&root.join(format!("proc/{pid}/task/{tid}/schedstat")));
    let ran = schedstat::parse(file.start(&mut [0; TEXT_MAX])?)?;
    Some((ran.run_ns, ran.delay_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, tid: u32, text: &str) {
        let dir = root.join(format!("proc/7/task/{tid}"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("schedstat"), text).unwrap();
    }

    #[test]
    fn virtual_cpus_are_measured_between_two_readings_of_a_guest() {
        let root = std::env::temp_dir().join(format!("pinhead-top-vcpus-{}", std::process::id()));
        let row = |id, pid| GuestRow {
            id,
            pid: Some(pid),
            vcpu_tids: vec![8, 9, 10],
            ..GuestRow::default()
        };
        write(&root, 8, "1000000000 5000000 3\n");
        write(&root, 9, "7 8 9\n");
        let mut vcpus = Vcpus::default();
        vcpus.look(&root, &row(1, 7), 1_000);
        assert_eq!((vcpus.shares.clone(), vcpus.is_readable()), (vec![None; 3], true));
        write(&root, 8, "1450000000 15000000 4\n");
        write(&root, 9, "no number\n");
        vcpus.look(&root, &row(1, 7), 2_000);
        let share = Share { run: 45.0, delay: 1.0 };
        assert_eq!(vcpus.shares, [Some(share), None, None]);
        // Counters that decrease belong to another thread.
        write(&root, 8, "1 1 1\n");
        vcpus.look(&root, &row(1, 7), 3_000);
        assert_eq!(vcpus.shares[0], None);
        vcpus.look(&root, &row(2, 7), 4_000);
        assert!(vcpus.shares.iter().all(Option::is_none) && vcpus.is_of(2) && !vcpus.is_of(1));
        vcpus.look(&root, &row(2, 70), 5_000);
        assert!(!vcpus.is_readable());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
