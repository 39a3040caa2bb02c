//! What a guest's virtual CPUs do, seen from outside: whether it sleeps, and what it uses.

use hypervisor::{Found, Usage, Vcpus};

/// Virtual CPUs that used less than this since a sample have changed nothing worth asking for:
/// a kernel that turns over in its sleep, and the answer to the question itself.
const SLEEP_MS: f64 = 20.0;
/// The same as a share of the time since the sample, in percent of one CPU.
const SLEEP_PERCENT: f64 = 2.0;
/// How long usage is averaged for people.
const WINDOW_MS: u64 = 1_000;

/// What was used since a moment, in milliseconds of a CPU.
#[derive(Debug, Default)]
struct Window {
    start_ms: u64,
    ran_ms: f64,
    stolen_ms: f64,
}

/// The virtual CPUs of a guest.
#[derive(Debug, Default)]
pub struct CpuWatch {
    vcpus: Option<Vcpus>,
    /// What they do could be read at the last tick.
    is_watched: bool,
    ticks: u64,
    tick_ms: Option<u64>,
    /// What they have used since the newest sample of the guest's memory.
    ran_ms: f64,
    window: Window,
    /// What they used in the last whole window.
    pub usage: Option<Usage>,
}

impl CpuWatch {
    /// Those of a guest that was found. Nothing is seen of threads that are not known.
    pub fn new(found: &Found, now_ms: u64) -> CpuWatch {
        let process = found.process.filter(|_| !found.vcpu_tids.is_empty());
        CpuWatch {
            vcpus: process.map(|process| Vcpus::new(process.pid, &found.vcpu_tids)),
            window: Window { start_ms: now_ms, ..Window::default() },
            ..CpuWatch::default()
        }
    }

    /// Reads them, those of a guest that sleeps soundly every other tick: what they use since the
    /// last time, in percent of one CPU.
    pub fn tick(&mut self, guest: u64, is_sound: bool, now_ms: u64) -> Option<f64> {
        self.ticks = self.ticks.wrapping_add(1);
        if is_sound && (self.ticks + guest).is_multiple_of(2) {
            return None;
        }
        let before = self.tick_ms.replace(now_ms).unwrap_or(now_ms);
        let usage = self.vcpus.as_mut().and_then(|vcpus| vcpus.usage(now_ms));
        self.is_watched = usage.is_some();
        let usage = usage?;
        let passed_ms = now_ms.saturating_sub(before) as f64;
        let ran_ms = usage.cpu_percent / 100.0 * passed_ms;
        self.ran_ms += ran_ms;
        self.window.ran_ms += ran_ms;
        self.window.stolen_ms += usage.steal_percent / 100.0 * passed_ms;
        let window_ms = now_ms.saturating_sub(self.window.start_ms);
        if window_ms >= WINDOW_MS {
            let percent = |ms: f64| ms / window_ms as f64 * 100.0;
            self.usage = Some(Usage {
                cpu_percent: percent(self.window.ran_ms),
                steal_percent: percent(self.window.stolen_ms),
            });
            self.window = Window { start_ms: now_ms, ..Window::default() };
        }
        Some(usage.cpu_percent)
    }

    /// Whether they have run of late: in this window or in the last. `None` where that cannot be
    /// seen, or was not looked at for so long.
    pub fn runs(&self) -> Option<bool> {
        let usage = self.usage.filter(|_| self.is_watched)?;
        Some(usage.cpu_percent > 0.0 || self.window.ran_ms > 0.0)
    }

    /// The guest's memory is known again.
    pub fn sampled(&mut self) {
        self.ran_ms = 0.0;
    }

    /// Whether they have hardly run since the newest sample, which is so old.
    pub fn has_slept_for(&self, age_ms: u64) -> bool {
        self.is_watched && self.ran_ms <= SLEEP_MS.max(age_ms as f64 * SLEEP_PERCENT / 100.0)
    }
}
