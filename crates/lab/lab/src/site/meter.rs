//! The host's resources that a site's guests used between two readings.
//!
//! ```text
//!   /proc/PID of each QEMU ─► CPU time, dispatches, resident ─┐
//!   /proc/stat, vmstat, zram, KSM ────────────────────────────┴─► Reading ─► Usage (of two)
//! ```

use super::Guest;
use crate::Measures;
use crate::clock::{self, wait};
use procfs::parse::{counts, numbers, value_of};
use procfs::{Root, TaskDir, TaskSeen, USER_HZ};
use std::fs;
use std::time::Duration;

const PAGE_BYTES: f64 = 4096.0;
const MIB: f64 = 1_048_576.0;
/// Maximum number of threads read of one QEMU.
const THREADS_MAX: usize = 512;
const ZRAM_MAX: usize = 64;

/// Maximum relative change of settled memory in a step.
const REST: f64 = 0.01;

/// Parameters of the wait for settled memory.
#[derive(Clone, Copy, Debug)]
pub struct Settle {
    /// Interval of the checks.
    pub step: Duration,
    /// Maximum wait.
    pub most: Duration,
}

impl Settle {
    /// Waits until these guests' host memory has settled.
    pub fn wait(self, guests: &[Guest]) {
        let used = |reading: &Reading| reading.resident_mib - reading.shared_mib;
        let mut last = Reading::of(guests, false);
        let until_s = last.at_s + self.most.as_secs_f64();
        loop {
            wait(self.step);
            let now = Reading::of(guests, false);
            let change = (used(&now) - used(&last)).abs() / used(&last).max(1.0);
            if change < REST || now.at_s > until_s {
                return;
            }
            last = now;
        }
    }
}

/// Counters of the guests and the host up to a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Time, in seconds.
    pub at_s: f64,
    /// Number of QEMUs that could be read.
    pub guests: usize,
    /// CPU time of all QEMUs, in seconds.
    pub cpu_s: f64,
    /// CPU time of the guests' virtual CPUs.
    pub vcpu_s: f64,
    /// Time for which the guests' virtual CPUs were ready and did not run.
    pub steal_s: f64,
    /// Dispatches of the guests' threads.
    pub dispatches: f64,
    /// Dispatches of the guests' virtual CPUs.
    pub vcpu_dispatches: f64,
    /// Resident memory on the host. Shared memory counts in full for each guest.
    pub resident_mib: f64,
    /// Resident memory, with shared pages divided among the processes that share them.
    pub proportional_mib: Option<f64>,
    /// Swapped memory of all QEMUs.
    pub swapped_mib: f64,
    /// Busy CPU time of the host, in seconds.
    pub host_busy_s: f64,
    /// Total CPU time of the host, in seconds.
    pub host_all_s: f64,
    /// Pages that the host has swapped in, over all of its swap.
    pub swap_in: f64,
    /// Pages that the host has swapped out.
    pub swap_out: f64,
    /// Swapped-in pages that came from compressed memory.
    pub zram_in: f64,
    /// Memory that compressed pages take.
    pub zram_mib: f64,
    /// Contents of compressed memory, in their original size.
    pub zram_holds_mib: f64,
    /// Memory that KSM saves by sharing equal pages.
    pub shared_mib: f64,
    /// Available memory of the host.
    pub available_mib: f64,
}

/// Two readings, and the resources used between them.
#[derive(Clone, Copy, Debug)]
pub struct Usage<'a> {
    /// The earlier reading.
    pub from: &'a Reading,
    /// The later reading.
    pub to: &'a Reading,
}

impl Usage<'_> {
    /// Returns the elapsed time.
    pub fn seconds(&self) -> f64 {
        self.to.at_s - self.from.at_s
    }

    /// Returns the growth of one counter divided by the growth of another counter.
    pub fn ratio(
        &self,
        of: impl Fn(&Reading) -> f64,
        over: impl Fn(&Reading) -> f64,
    ) -> Option<f64> {
        let grown = over(self.to) - over(self.from);
        (grown > 0.0).then(|| (of(self.to) - of(self.from)) / grown)
    }

    /// Returns a counter's growth per second.
    pub fn rate(&self, of: impl Fn(&Reading) -> f64) -> Option<f64> {
        self.ratio(of, |reading| reading.at_s)
    }

    /// Returns a counter's growth per second and guest.
    fn rate_each(&self, of: impl Fn(&Reading) -> f64) -> Option<f64> {
        let guests = self.to.guests as f64;
        self.rate(of).filter(|_| guests > 0.0).map(|rate| rate / guests)
    }

    /// Returns the ratio of the guests' total CPU time to the CPU time of their virtual CPUs.
    fn t_to_v(&self) -> Option<f64> {
        self.ratio(|reading| reading.cpu_s, |reading| reading.vcpu_s)
    }

    /// Returns the host's busy part, in percent of all CPUs.
    pub fn host_busy_percent(&self) -> Option<f64> {
        self.ratio(|reading| reading.host_busy_s * 100.0, |reading| reading.host_all_s)
    }

    /// Notes the measures of every phase.
    pub fn note(&self, measures: &mut Measures) {
        let percent = self.rate_each(|reading| reading.cpu_s * 100.0);
        measures.note("CPU a guest", "% of a core", percent);
        let wakes = self.rate_each(|reading| reading.vcpu_dispatches * 60.0);
        measures.note("wake-ups a guest", "1/min", wakes);
        let wakes = self.rate_each(|reading| reading.dispatches * 60.0);
        measures.note("wake-ups of its QEMU", "1/min", wakes);
        measures.note("T:V", "", self.t_to_v());
        measures.note("host busy", "%", self.host_busy_percent());
        measures.note("swap in", "pages/s", self.rate(|reading| reading.swap_in));
        measures.note("swap out", "pages/s", self.rate(|reading| reading.swap_out));
        measures.note("in from zram", "pages/s", self.rate(|reading| reading.zram_in));
        self.to.note(measures);
    }
}

impl Reading {
    /// Reads all counters of these guests and of the host. With `maps`, it also reads the
    /// proportional memory, for which the kernel walks all of the guests' memory.
    pub fn of(guests: &[Guest], maps: bool) -> Reading {
        let mut reading = Reading { at_s: clock::seconds(), ..Reading::default() };
        let pids = || guests.iter().filter_map(|guest| guest.pid);
        reading.guests = pids().filter(|pid| process(*pid, &mut reading).is_some()).count();
        reading.proportional_mib = maps.then(|| pids().filter_map(proportional_mib).sum());
        host(&mut reading);
        reading
    }

    /// Notes the memory of this moment.
    pub fn note(&self, measures: &mut Measures) {
        let guests = self.guests as f64;
        measures.note("resident", "MiB", self.resident_mib);
        if guests > 0.0 {
            measures.note("resident a guest", "MiB", self.resident_mib / guests);
            let proportional = self.proportional_mib.map(|mib| mib / guests);
            measures.note("memory a guest, shared", "MiB", proportional);
        }
        measures.note("in swap", "MiB", self.swapped_mib);
        measures.note("zram", "MiB", self.zram_mib);
        measures.note("zram holds", "MiB", self.zram_holds_mib);
        measures.note("saved by sharing", "MiB", self.shared_mib);
        measures.note("available", "MiB", self.available_mib);
    }
}

/// Returns the CPU time of a process, for all of its threads, in seconds.
pub(super) fn cpu_s(pid: u32) -> f64 {
    let mut tasks = TaskDir::open(&Root::default());
    tasks.of_process(pid, THREADS_MAX).iter().map(|task| task.ran.run_ns as f64 / 1e9).sum()
}

fn process(pid: u32, reading: &mut Reading) -> Option<()> {
    let mut vcpus = 0;
    let mut tasks = TaskDir::open(&Root::default());
    for TaskSeen { tid, ran, .. } in tasks.of_process(pid, THREADS_MAX).to_vec() {
        let (run, delay) = (ran.run_ns as f64 / 1e9, ran.delay_ns as f64 / 1e9);
        let dispatches = ran.dispatches as f64;
        reading.cpu_s += run;
        reading.dispatches += dispatches;
        // QEMU names the threads of virtual CPUs "CPU 0/TCG" or "CPU 0/KVM".
        let name = tasks.read(pid, Some(tid), "comm").unwrap_or_default();
        if name.starts_with(b"CPU ") {
            vcpus += 1;
            reading.vcpu_s += run;
            reading.steal_s += delay;
            reading.vcpu_dispatches += dispatches;
        }
    }
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    reading.resident_mib += value_of(&status, "VmRSS")? as f64 / 1024.0;
    reading.swapped_mib += value_of(&status, "VmSwap").unwrap_or(0) as f64 / 1024.0;
    (vcpus > 0).then_some(())
}

fn proportional_mib(pid: u32) -> Option<f64> {
    let text = fs::read(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(value_of(&text, "Pss")? as f64 / 1024.0)
}

fn host(reading: &mut Reading) {
    let read = |path: &str| fs::read(path).unwrap_or_default();
    let value = |text: &[u8], name| value_of(text, name).unwrap_or(0) as f64;
    // The remaining columns are guest time, which user time already includes.
    let ticks = counts::parse(&read("/proc/stat")).cpu.unwrap_or_default();
    let [user, nice, system, idle, io_wait, irq, soft_irq, steal, ..] = ticks.map(|n| n as f64);
    let busy = user + nice + system + irq + soft_irq + steal;
    reading.host_busy_s = busy / USER_HZ;
    reading.host_all_s = (busy + idle + io_wait) / USER_HZ;
    let vmstat = read("/proc/vmstat");
    reading.swap_in = value(&vmstat, "pswpin");
    reading.swap_out = value(&vmstat, "pswpout");
    for device in 0..ZRAM_MAX {
        let dir = format!("/sys/block/zram{device}");
        let Some([holds, _, used]) = numbers(&read(&format!("{dir}/mm_stat"))) else { continue };
        reading.zram_holds_mib += holds as f64 / MIB;
        reading.zram_mib += used as f64 / MIB;
        let [_, _, sectors] = numbers(&read(&format!("{dir}/stat"))).unwrap_or_default();
        reading.zram_in += sectors as f64 * 512.0 / PAGE_BYTES;
    }
    let [pages] = numbers(&read("/sys/kernel/mm/ksm/pages_sharing")).unwrap_or_default();
    reading.shared_mib = pages as f64 * PAGE_BYTES / MIB;
    reading.available_mib = value(&read("/proc/meminfo"), "MemAvailable") / 1024.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_the_difference_of_two_readings() {
        let from = Reading { guests: 2, host_all_s: 10.0, ..Reading::default() };
        let to = Reading {
            at_s: 10.0,
            guests: 2,
            cpu_s: 4.0,
            vcpu_s: 2.0,
            host_busy_s: 5.0,
            host_all_s: 30.0,
            ..Reading::default()
        };
        let usage = Usage { from: &from, to: &to };
        assert_eq!(usage.rate_each(|reading| reading.cpu_s), Some(0.2));
        assert_eq!(usage.t_to_v(), Some(2.0));
        assert_eq!(usage.host_busy_percent(), Some(25.0));
        let still = Usage { from: &to, to: &to };
        assert_eq!((still.rate(|r| r.cpu_s), still.t_to_v()), (None, None));
    }

    #[test]
    fn the_calling_process_is_not_a_guest() {
        let pid = Some(std::process::id());
        let ours = Guest { name: "us".into(), pid, ..Guest::default() };
        let reading = Reading::of(&[ours], true);
        assert_eq!(reading.guests, 0, "there is no virtual CPU in it");
        assert!(reading.resident_mib > 0.0 && reading.host_all_s > 0.0);
    }
}
