//! What a guest's virtual CPUs do, seen from outside: what they use, and whether the guest sleeps.
//!
//! ```text
//!   schedstat, 4 a second ─┬─► since the newest sample ─► worth asking? (arbiter)
//!                          └─► windows of a second ─► usage, asleep (people)
//! ```

use crate::control::ASLEEP_PERCENT;
use hypervisor::{Found, ThreadRan, Usage, Vcpus};

/// Virtual CPUs that used less than this since a sample have changed nothing worth asking for:
/// a kernel that turns over in its sleep, and the answer to the question itself.
const IDLE_MS: f64 = 20.0;
/// The same as a share of the time since the sample, in percent of one CPU.
const IDLE_PERCENT: f64 = 2.0;
/// How often those of a guest that sleeps soundly are read.
pub(crate) const SOUND_TICK_MS: u64 = 1_000;
/// How long usage is averaged for people.
const WINDOW_MS: u64 = 1_000;
/// How many of these windows have to be quiet together before a guest counts as asleep.
const ASLEEP_WINDOWS: usize = 5;

/// What was used since a moment, in milliseconds of a CPU.
#[derive(Debug, Default)]
struct Window {
    start_ms: u64,
    ran_ms: f64,
    stolen_ms: f64,
}

/// How long they have stood still because the guest is parked.
#[derive(Debug, Default)]
struct Stands {
    since_ms: Option<u64>,
    before_ms: u64,
}

/// The virtual CPUs of a guest.
#[derive(Debug, Default)]
pub struct CpuWatch {
    vcpus: Option<Vcpus>,
    /// What they do could be read at the last tick.
    is_watched: bool,
    tick_ms: Option<u64>,
    /// What they have used since the newest sample of the guest's memory.
    ran_ms: f64,
    window: Window,
    /// What they ran in the last whole windows, in percent of one CPU, from oldest to newest.
    /// Empty places are windows that were not seen.
    recent_percent: [Option<f64>; ASLEEP_WINDOWS],
    parked: Stands,
    /// Whether they ran, where somebody else counts it.
    ran_elsewhere: Option<bool>,
    /// What they used in the last whole window.
    pub usage: Option<Usage>,
}

impl CpuWatch {
    /// Those of a guest that was found. Nothing is seen of threads that are not known.
    pub fn new(found: &Found, now_ms: u64) -> CpuWatch {
        let window = Window { start_ms: now_ms, ..Window::default() };
        let mut watch = CpuWatch { window, ..CpuWatch::default() };
        watch.watch(found);
        watch
    }

    /// Some were plugged or unplugged.
    pub fn watch(&mut self, found: &Found) {
        let process = found.process.filter(|_| !found.vcpu_tids.is_empty());
        self.vcpus = process.map(|process| Vcpus::new(process.pid, &found.vcpu_tids));
    }

    /// Reads them, those of a guest that sleeps soundly once a second: what they use since the last
    /// time, in percent of one CPU.
    pub fn tick(&mut self, is_sound: bool, now_ms: u64) -> Option<f64> {
        let since_ms = self.tick_ms.map(|then_ms| now_ms.saturating_sub(then_ms));
        if is_sound && since_ms.is_some_and(|ms| ms < SOUND_TICK_MS) {
            return None;
        }
        let before = self.tick_ms.replace(now_ms).unwrap_or(now_ms);
        let usage = self.vcpus.as_mut()?.usage(now_ms);
        self.take(usage, before, now_ms)
    }

    /// Adds what was used from `before` until now; `None` if that could not be seen.
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

    /// What each of their threads has counted, if that was read at this turn of the loop: then
    /// the monitor need not ask the kernel for the same.
    pub fn just_read(&self, now_ms: u64) -> &[ThreadRan] {
        let read = self.vcpus.as_ref().and_then(Vcpus::read);
        read.filter(|(at_ms, _)| *at_ms == now_ms).map_or(&[], |(_, ran)| ran)
    }

    /// Takes what they used between two readings of a hypervisor's own counters; `None` where there
    /// was one only.
    pub fn counted(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        self.ran_elsewhere = Some(usage.cpu_percent > 0.0);
        self.recent_percent.rotate_left(1);
        self.recent_percent[ASLEEP_WINDOWS - 1] = Some(usage.cpu_percent);
        self.usage = Some(usage);
    }

    /// Whether they have run of late: in this window or in the last. `None` where that cannot be
    /// seen, or was not looked at for so long.
    pub fn runs(&self) -> Option<bool> {
        if self.ran_elsewhere.is_some() {
            return self.ran_elsewhere;
        }
        let usage = self.usage.filter(|_| self.is_watched)?;
        Some(usage.cpu_percent > 0.0 || self.window.ran_ms > 0.0)
    }

    /// Time that they have run in all, in nanoseconds, where it can be seen.
    pub fn ran_ns(&self) -> Option<u64> {
        self.vcpus.as_ref()?.run_ns()
    }

    /// They stand still because the guest is parked, or do no longer.
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

    /// Whether they stand still because the guest is parked.
    pub fn is_parked(&self) -> bool {
        self.parked.since_ms.is_some()
    }

    /// For how long they have, since the guest was found.
    pub fn parked_ms(&self, now_ms: u64) -> u64 {
        let since = |since_ms| now_ms.saturating_sub(since_ms);
        self.parked.before_ms + self.parked.since_ms.map_or(0, since)
    }

    /// The guest's memory is known again.
    pub fn sampled(&mut self) {
        self.ran_ms = 0.0;
    }

    /// Whether the guest is asleep: they have hardly run over the last seconds, as the host sees
    /// it. One that was not seen for so long is not known to sleep.
    pub fn is_asleep(&self) -> bool {
        let seen: Option<f64> = self.recent_percent.iter().copied().sum();
        seen.is_some_and(|sum| sum < (ASLEEP_PERCENT * ASLEEP_WINDOWS as u64) as f64)
    }

    /// Whether they have hardly run since the newest sample, which is so old.
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

    /// Looks four times a second for so many seconds at CPUs that run so much of the time, and says
    /// in which of them the guest was asleep at the end.
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
    fn a_guest_sleeps_that_has_hardly_run_for_five_seconds_whenever_it_was_asked() {
        let (mut cpu, mut now_ms) = (CpuWatch::default(), 0);
        let new = watch(&mut cpu, &mut now_ms, 5, 0.5);
        assert_eq!(new, [false, false, false, false, true], "what was not seen is not known");
        // It was asked a moment ago: nothing was used since, and the last second was all work.
        assert_eq!(watch(&mut cpu, &mut now_ms, 1, 105.0), [false]);
        cpu.sampled();
        assert!(cpu.was_idle_for(0), "its sample is new and holds");
        assert!(!cpu.is_asleep(), "it runs at {:?}", cpu.usage);
        let after = watch(&mut cpu, &mut now_ms, 6, 0.5);
        assert_eq!(after, [false, false, false, false, true, true]);
        assert!(!cpu.was_idle_for(100), "{} ms since its sample", cpu.ran_ms);
    }

    #[test]
    fn what_was_read_at_this_turn_is_handed_on_and_what_is_older_is_not() {
        let pid = std::process::id();
        let memory = counters::Bytes::mib(64);
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
    fn work_that_goes_on_and_rests_is_no_sleep_and_what_is_not_seen_neither() {
        let (mut cpu, mut now_ms) = (CpuWatch::default(), 0);
        assert_eq!(watch(&mut cpu, &mut now_ms, 5, 1.9).last(), Some(&true));
        assert_eq!(watch(&mut cpu, &mut now_ms, 5, 2.1).last(), Some(&false));
        assert_eq!(watch(&mut cpu, &mut now_ms, 5, 0.0).last(), Some(&true));
        // A fifth of a CPU for one second of five is two percent twice over.
        assert_eq!(watch(&mut cpu, &mut now_ms, 1, 20.0), [false]);
        watch(&mut cpu, &mut now_ms, 5, 0.0);
        cpu.take(None, now_ms, now_ms + 250);
        assert_eq!(cpu.usage.map(|usage| usage.cpu_percent), None);
        assert!(!cpu.is_asleep(), "its threads could not be read");
    }
}
