//! What a guest's virtual CPUs cost.

use agent::BUSY_PERCENT;
use hypervisor::{Usage, Vcpus};
use qmp::Ticket;

/// How often the usage that people see is taken.
const USAGE_MS: u64 = 1_000;

/// The virtual CPUs of a guest, once QEMU has named their threads.
#[derive(Debug, Default)]
pub(super) struct CpuMeter {
    vcpus: Vcpus,
    /// QEMU was asked which threads they are.
    pub(super) asked: Option<Ticket>,
    /// What they cost in the last second.
    pub(super) usage: Option<Usage>,
    usage_ms: u64,
}

impl CpuMeter {
    /// They are these threads.
    pub(super) fn watch(&mut self, pid: u32, tids: &[u32], now_ms: u64) {
        self.vcpus = Vcpus::new(pid, tids);
        self.usage_ms = now_ms;
        self.vcpus.usage(now_ms);
    }

    /// What they have run since their start.
    pub(super) fn run_ns(&self) -> Option<u64> {
        self.vcpus.run_ns()
    }

    /// Reads them, if it is time to: those of a settled guest at each tick, since its daemon sleeps
    /// until they run. Says what they use, in percent of one CPU.
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
