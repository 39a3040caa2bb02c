//! Activity of a guest's virtual CPUs, measured on the host: CPU usage, and detection of sleep.
//!
//! ```text
//!   schedstat, 4 a second ─┬─► since the newest sample ─► worth asking? (arbiter)
//!                          └─► windows of a second ─► usage, asleep (people)
//! ```

use crate::control::ASLEEP_PERCENT;
use hypervisor::{Found, ThreadRan, Usage, Vcpus};

/// CPU time since a sample below which a guest gets no new request. A kernel's housekeeping and the
/// response to the last request use less.
const IDLE_MS: f64 = 20.0;
/// CPU usage since a sample below which a guest gets no new request, in percent of one CPU. The
/// larger of this limit and `IDLE_MS` applies.
const IDLE_PERCENT: f64 = 2.0;
/// Interval between readings of a guest that sleeps soundly, see `ManagedGuest::is_sound`.
pub(crate) const SOUND_TICK_MS: u64 = 1_000;
/// Window over which usage is averaged for display.
const WINDOW_MS: u64 = 1_000;
/// Number of newest windows over which usage is averaged to detect sleep.
const ASLEEP_WINDOWS: usize = 5;

/// CPU time since the start of a window, in milliseconds of a CPU.
#[derive(Debug, Default)]
struct Window {
    start_ms: u64,
    ran_ms: f64,
    stolen_ms: f64,
}

/// Time for which the virtual CPUs of a parked guest were stopped.
#[derive(Debug, Default)]
struct Stands {
    since_ms: Option<u64>,
    before_ms: u64,
}

/// The virtual CPUs of a guest.
#[derive(Debug, Default)]
pub struct CpuWatch {
    vcpus: Option<Vcpus>,
    /// True if the last tick could read the threads.
    is_watched: bool,
    tick_ms: Option<u64>,
    /// CPU time since the newest sample of the guest's memory.
    ran_ms: f64,
    window: Window,
    /// Usage in the last whole windows, in percent of one CPU, from oldest to newest. `None` is a
    /// window without a reading.
    recent_percent: [Option<f64>; ASLEEP_WINDOWS],
    parked: Stands,
    /// True if the virtual CPUs ran, as counted by the hypervisor itself; `None` without such a
    /// count.
    ran_elsewhere: Option<bool>,
    /// Usage in the last whole window.
    pub usage: Option<Usage>,
}

impl CpuWatch {
    /// Returns the watch of a new guest. There is no usage if the guest's threads are unknown.
    pub fn new(found: &Found, now_ms: u64) -> CpuWatch {
        let window = Window { start_ms: now_ms, ..Window::default() };
        let mut watch = CpuWatch { window, ..CpuWatch::default() };
        watch.watch(found);
        watch
    }

    /// Replaces the watched threads after a hotplug.
    pub fn watch(&mut self, found: &Found) {
        let process = found.process.filter(|_| !found.vcpu_tids.is_empty());
        self.vcpus = process.map(|process| Vcpus::new(process.pid, &found.vcpu_tids));
    }

    /// Reads the threads. The threads of a guest that sleeps soundly are read only once a
    /// second. Returns the usage since the last reading, in percent of one CPU.
    pub fn tick(&mut self, is_sound: bool, now_ms: u64) -> Option<f64> {
        let since_ms = self.tick_ms.map(|then_ms| now_ms.saturating_sub(then_ms));
        if is_sound && since_ms.is_some_and(|ms| ms < SOUND_TICK_MS) {
            return None;
        }
        let before = self.tick_ms.replace(now_ms).unwrap_or(now_ms);
        let usage = self.vcpus.as_mut()?.usage(now_ms);
        self.take(usage, before, now_ms)
    }

    /// Adds the usage from `before` until now. The usage is `None` if the threads could not be
    /// read.
    fn take(&mut self, usage: Option<Usage>, before: u64, now_ms: u64) -> Option<f64> {
        self.is_watched = usage.is_some();
        let Some(usage) = usage else {
            (self.usage, self.recent_percent) = (None, Default::default());
            return None;
        };
        let passed_ms = now_ms.saturating_sub(before) as f64;
        let ran_ms = usage.cpu_percent / 100.0 * passed_ms;
        self.ran_ms += ran_ms;
        self.window.ran_ms += ran_ms;
        self.window.stolen_ms += usage.steal_percent / 100.0 * passed_ms;
        let window_ms = now_ms.saturating_sub(self.window.start_ms);
        if window_ms >= WINDOW_MS {
            let percent = |ms: f64| ms / window_ms as f64 * 100.0;
            let cpu_percent = percent(self.window.ran_ms);
            let steal_percent = percent(self.window.stolen_ms);
            self.usage = Some(Usage { cpu_percent, steal_percent });
            self.recent_percent.rotate_left(1);
            self.recent_percent[ASLEEP_WINDOWS - 1] = Some(cpu_percent);
            self.window = Window { start_ms: now_ms, ..Window::default() };
        }
        Some(usage.cpu_percent)
    }

    /// Returns each thread's counters if they were read at this turn of the loop. The monitor then
    /// need not read them again.
    pub fn just_read(&self, now_ms: u64) -> &[ThreadRan] {
        let read = self.vcpus.as_ref().and_then(Vcpus::read);
        read.filter(|(at_ms, _)| *at_ms == now_ms).map_or(&[], |(_, ran)| ran)
    }

    /// Stores the usage between two readings of a hypervisor's own counters; `None` after the first
    /// reading.
    pub fn counted(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        self.ran_elsewhere = Some(usage.cpu_percent > 0.0);
        self.recent_percent.rotate_left(1);
        self.recent_percent[ASLEEP_WINDOWS - 1] = Some(usage.cpu_percent);
        self.usage = Some(usage);
    }

    /// Returns true if the virtual CPUs ran in this window or in the last. Returns `None` if that
    /// is unknown.
    pub fn runs(&self) -> Option<bool> {
        if self.ran_elsewhere.is_some() {
            return self.ran_elsewhere;
        }
        let usage = self.usage.filter(|_| self.is_watched)?;
        Some(usage.cpu_percent > 0.0 || self.window.ran_ms > 0.0)
    }

    /// Returns the total CPU time in nanoseconds, if it can be read.
    pub fn ran_ns(&self) -> Option<u64> {
        self.vcpus.as_ref()?.run_ns()
    }

    /// Notes that the guest was parked or woken.
    pub fn set_parked(&mut self, is_parked: bool, now_ms: u64) {
        let parked = &mut self.parked;
        match (parked.since_ms, is_parked) {
            (None, true) => parked.since_ms = Some(now_ms),
            (Some(since_ms), false) => {
                parked.before_ms += now_ms.saturating_sub(since_ms);
                parked.since_ms = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Returns true if the guest is parked.
    pub fn is_parked(&self) -> bool {
        self.parked.since_ms.is_some()
    }

    /// Returns the time parked since the guest was found.
    pub fn parked_ms(&self, now_ms: u64) -> u64 {
        let since = |since_ms| now_ms.saturating_sub(since_ms);
        self.parked.before_ms + self.parked.since_ms.map_or(0, since)
    }

    /// Notes a new sample of the guest's memory.
    pub fn sampled(&mut self) {
        self.ran_ms = 0.0;
    }

    /// Returns true if the guest is asleep, because its virtual CPUs have hardly run over the last
    /// seconds. A guest without readings in that time does not count as asleep.
    pub fn is_asleep(&self) -> bool {
        let seen: Option<f64> = self.recent_percent.iter().copied().sum();
        seen.is_some_and(|sum| sum < (ASLEEP_PERCENT * ASLEEP_WINDOWS as u64) as f64)
    }

    /// Returns true if the virtual CPUs have hardly run since the newest sample, `age_ms` old.
    pub fn was_idle_for(&self, age_ms: u64) -> bool {
        self.is_watched && self.ran_ms <= IDLE_MS.max(age_ms as f64 * IDLE_PERCENT / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_a_guest_is_parked_is_counted() {
        let mut cpu = CpuWatch::default();
        cpu.set_parked(false, 1_000);
        assert_eq!((cpu.is_parked(), cpu.parked_ms(2_000)), (false, 0));
        cpu.set_parked(true, 2_000);
        cpu.set_parked(true, 3_000);
        assert_eq!((cpu.is_parked(), cpu.parked_ms(5_000)), (true, 3_000));
        cpu.set_parked(false, 6_000);
        assert_eq!((cpu.is_parked(), cpu.parked_ms(9_000)), (false, 4_000));
        cpu.set_parked(true, 10_000);
        assert_eq!(cpu.parked_ms(10_500), 4_500);
    }

    /// Simulates CPUs at a constant usage with four readings a second, for `seconds`. For each
    /// second, returns true if the guest was asleep at the end of that second.
    fn watch(cpu: &mut CpuWatch, now_ms: &mut u64, seconds: usize, percent: f64) -> Vec<bool> {
        let quarter = |cpu: &mut CpuWatch, now_ms: &mut u64| {
            let before = *now_ms;
            *now_ms += 250;
            let usage = Usage { cpu_percent: percent, steal_percent: 0.0 };
            cpu.take(Some(usage), before, *now_ms);
        };
        let second = |_| {
            (0..4).for_each(|_| quarter(cpu, now_ms));
            cpu.is_asleep()
        };
        (0..seconds).map(second).collect()
    }

    #[test]
    fn guest_is_asleep_after_five_quiet_seconds() {
        let (mut cpu, mut now_ms) = (CpuWatch::default(), 0);
        let new = watch(&mut cpu, &mut now_ms, 5, 0.5);
        assert_eq!(new, [false, false, false, false, true], "unseen windows do not count as quiet");
        // A request has just arrived. Nothing ran since, but the CPU was busy during the last
        // second.
        assert_eq!(watch(&mut cpu, &mut now_ms, 1, 105.0), [false]);
        cpu.sampled();
        assert!(cpu.was_idle_for(0), "the new sample holds");
        assert!(!cpu.is_asleep(), "the guest runs at {:?}", cpu.usage);
        let after = watch(&mut cpu, &mut now_ms, 6, 0.5);
        assert_eq!(after, [false, false, false, false, true, true]);
        assert!(!cpu.was_idle_for(100), "{} ms since its sample", cpu.ran_ms);
    }

    #[test]
    fn thread_counters_are_shared_only_in_the_turn_that_read_them() {
        let pid = std::process::id();
        let memory = base::Bytes::mib(64);
        let found = Found {
            process: hypervisor::ProcessId::of(pid),
            vcpu_tids: vec![pid],
            ..hypervisor::Fake::found("g", memory)
        };
        let mut cpu = CpuWatch::new(&found, 0);
        assert!(cpu.just_read(0).is_empty());
        cpu.tick(false, 250);
        assert_eq!((cpu.just_read(250).len(), cpu.just_read(500).len()), (1, 0));
    }

    #[test]
    fn a_guest_that_sleeps_soundly_is_read_once_a_second() {
        let mut cpu = CpuWatch::default();
        let mut read_ms = Vec::new();
        for now_ms in (0..3_000).step_by(250) {
            cpu.tick(now_ms >= 1_000, now_ms);
            read_ms.extend(cpu.tick_ms.filter(|at_ms| *at_ms == now_ms));
        }
        assert_eq!(read_ms, [0, 250, 500, 750, 1_750, 2_750]);
    }

    #[test]
    fn intermittent_work_and_unread_threads_are_not_sleep() {
        let (mut cpu, mut now_ms) = (CpuWatch::default(), 0);
        assert_eq!(watch(&mut cpu, &mut now_ms, 5, 1.9).last(), Some(&true));
        assert_eq!(watch(&mut cpu, &mut now_ms, 5, 2.1).last(), Some(&false));
        assert_eq!(watch(&mut cpu, &mut now_ms, 5, 0.0).last(), Some(&true));
        // A fifth of a CPU for one of five seconds is four percent of a CPU, which is twice the
        // limit.
        assert_eq!(watch(&mut cpu, &mut now_ms, 1, 20.0), [false]);
        watch(&mut cpu, &mut now_ms, 5, 0.0);
        cpu.take(None, now_ms, now_ms + 250);
        assert_eq!(cpu.usage.map(|usage| usage.cpu_percent), None);
        assert!(!cpu.is_asleep(), "the threads could not be read");
    }
}
