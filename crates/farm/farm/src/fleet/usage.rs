//! CPU usage of a guest's vCPUs.

use super::park_clock::Ran;
use agent::BUSY_PERCENT;
use hypervisor::{Usage, Vcpus};
use qmp::Ticket;

/// Interval of the usage that is shown to users.
const USAGE_MS: u64 = 1_000;

/// The vCPUs of a guest, once QEMU has named their threads.
#[derive(Debug, Default)]
pub(super) struct CpuMeter {
    vcpus: Vcpus,
    /// Ticket of the request for the thread ids.
    pub(super) asked: Option<Ticket>,
    /// Usage in the last second.
    pub(super) usage: Option<Usage>,
    usage_ms: u64,
}

impl CpuMeter {
    pub(super) fn watch(&mut self, pid: u32, tids: &[u32], now_ms: u64) {
        self.vcpus = Vcpus::new(pid, tids);
        self.usage_ms = now_ms;
        self.vcpus.usage(now_ms);
    }

    /// Returns the run time of the vCPUs since their start.
    pub(super) fn run_ns(&self) -> Option<u64> {
        self.vcpus.run_ns()
    }

    /// Returns the run time of the vCPUs from their start to the last reading, in milliseconds.
    pub(super) fn ran(&self) -> Option<Ran> {
        let (at_ms, threads) = self.vcpus.read()?;
        let ran_ms = threads.iter().map(|thread| thread.ran.run_ns as f64 / 1e6).sum();
        Some(Ran { at_ms, ran_ms })
    }

    /// Reads the usage in percent of one CPU, if a reading is due. For a settled guest a reading is
    /// due in each tick, because the guest's daemon sleeps until the vCPUs are busy.
    pub(super) fn tick(&mut self, is_settled: bool, now_ms: u64) -> Option<f64> {
        let window_ms = now_ms.saturating_sub(self.usage_ms);
        if !is_settled && window_ms < USAGE_MS {
            return None;
        }
        let usage = self.vcpus.usage(now_ms)?;
        if window_ms >= USAGE_MS || usage.cpu_percent >= BUSY_PERCENT {
            self.usage = Some(usage);
            self.usage_ms = now_ms;
        }
        Some(usage.cpu_percent)
    }
}
