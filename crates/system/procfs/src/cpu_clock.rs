//! The CPU times of all CPUs as one clock that does not jump when a CPU is plugged.
//!
//! # The error in the kernel's own sum
//!
//! The line `cpu` of /proc/stat is summed over every CPU that can ever be online. The busy fields
//! are plain counters that keep their value while a CPU is offline. `idle` and `iowait` are
//! different. For an online CPU they come from the record that its tick device keeps of its idle
//! time. For an offline CPU they come from a counter that only ticks increment. The two sources
//! differ by the time that the CPU was idle without ticks. Kernels before 6.8 (or a stable release
//! with the same fix) also lose the record when the CPU goes offline. At each plug and unplug the
//! sum therefore jumps, forward or back, by up to all the idle time since boot. A rule on `idle` or
//! on `total_ticks` then gets a meaningless value in the interval after the daemon has acted. The
//! daemon acts again because of this value.
//!
//! # The correction
//!
//! - *The set of `cpuN` lines is the same as at the last reading*: the total advances by the raw
//!   difference of the line `cpu`, even if negative. A run without plugs shows exactly the kernel's
//!   numbers.
//! - *The set has changed*: the total advances by the work of each CPU that is in both readings.
//!   The line of one such CPU has the same origin in both readings, so it cannot jump. Each field's
//!   step is still limited to the range from 0 to the elapsed time.
//!   - A CPU that is *gone* adds nothing in this interval. The line of that CPU is kept, so its
//!     work between the last reading and its end is not lost.
//!   - A CPU that is *new* adds the growth of its busy fields since it was last seen, because these
//!     fields continue from their old values. Its idle time has another origin now and counts as 0.
//!     A CPU that was never seen before adds nothing, because its counts may be from long before
//!     the first reading.
//! - *The interval after a change* is raw again. Both of its readings take each CPU's idle time
//!   from the same source, so the interval does not contain the jump, with one exception. The
//!   kernel computes the line `cpu` first, and the lines of the online CPUs after that. If another
//!   program plugs a CPU between these two steps, that CPU is in the lines one reading before it is
//!   in the sum. In the interval after a change the sum must therefore agree with the lines. If
//!   they differ, the set counts as changed in this interval too.
//! - *A CPU that went and came back between two readings* leaves the set unchanged. It is detected
//!   by a field that falls by more than [`MAX_FALL_TICKS`] or leaps by more than
//!   [`MAX_LEAP_TICKS`]. Small steps back are usual for the kernel (its idle time is not monotonic)
//!   and stay raw.
//!
//! # Seen
//!
//! `tests/recorded` has readings of real guests (6.1 kernels under emulation). On x86-64 the sum's
//! idle time falls by 16 ticks when a CPU comes back, in a guest 20 seconds old. The idle time of
//! every single CPU grows meanwhile. On s390x each CPU that comes online has 407,125,408,511 more
//! ticks of `system` and 43,234,554,231 more of `steal` than when it went offline. Even the busy
//! fields are therefore not reliable across a plug.

use crate::parse::stat::{FIELDS, IDLE, IOWAIT, Stat, Ticks};

/// Ticks a second in /proc/stat. The kernel shows 100 to user space on every architecture that
/// pinhead runs on, independent of the kernel's own tick rate.
pub const USER_HZ: f64 = 100.0;

/// Maximum fall of a field in one interval that counts as the kernel's usual inexactness: ten
/// seconds.
pub const MAX_FALL_TICKS: i64 = 1000;

/// Maximum leap of a CPU's field beyond the elapsed time while the set of CPUs stays the same:
/// nearly three hours of the CPU. Recordings made by hand run faster than their clock, but by much
/// less. A timer without a start value leaps by far more.
pub const MAX_LEAP_TICKS: i64 = 1_000_000;

/// Rounding error: each field is rounded down to a tick by itself, in both readings.
const SLACK_TICKS: i64 = 2;

/// The accumulated CPU times.
#[derive(Clone, Debug, Default)]
pub struct CpuClock {
    started: bool,
    total: Ticks,
    /// The last reading, raw.
    last: Stat,
    last_secs: f64,
    /// True if the set of CPUs had changed at the last reading.
    changed: bool,
    /// The last line of each CPU that is gone, in ascending order.
    gone: Vec<(u32, Ticks)>,
}

impl CpuClock {
    /// Takes the next reading, made at `now_secs`, and returns the total: the raw sum of the first
    /// reading plus all time since.
    pub fn advance(&mut self, stat: &Stat, now_secs: f64) -> &Ticks {
        let limit = passed_ticks(self.last_secs, now_secs);
        if !self.started {
            self.started = true;
            self.total = stat.all;
        } else if self.is_other_origin(stat, limit) {
            self.changed = true;
            self.advance_by_lines(stat, limit);
        } else {
            self.changed = false;
            for field in 0..FIELDS {
                self.add(field, stat.all[field].saturating_sub(self.last.all[field]));
            }
        }
        self.last.all = stat.all;
        self.last.cpus.clone_from(&stat.cpus);
        self.last_secs = now_secs;
        &self.total
    }

    fn add(&mut self, field: usize, ticks: i64) {
        self.total[field] = self.total[field].saturating_add(ticks);
    }

    /// Returns true if the line `cpu` may have another origin than at the last reading.
    fn is_other_origin(&self, stat: &Stat, limit: i64) -> bool {
        let most = limit.saturating_add(MAX_LEAP_TICKS);
        let fell =
            |before: &Ticks, after: &Ticks| steps(before, after).any(|s| s < -MAX_FALL_TICKS);
        let leapt = |before: &Ticks, after: &Ticks| steps(before, after).any(|s| s > most);
        if self.last.cpus.len() != stat.cpus.len() || fell(&self.last.all, &stat.all) {
            return true;
        }
        let mut pairs = self.last.cpus.iter().zip(&stat.cpus);
        pairs.any(|((old, before), (new, after))| {
            old != new || fell(before, after) || leapt(before, after)
        }) || (self.changed && self.sum_disagrees(stat))
    }

    fn sum_disagrees(&self, stat: &Stat) -> bool {
        let step = |before: &Ticks, after: &Ticks, field: usize| {
            i128::from(after[field]) - i128::from(before[field])
        };
        // Each line is rounded by itself.
        let tolerance = i128::from(MAX_FALL_TICKS) + stat.cpus.len() as i128;
        (0..FIELDS).any(|field| {
            let pairs = self.last.cpus.iter().zip(&stat.cpus);
            let lines: i128 = pairs.map(|(a, b)| step(&a.1, &b.1, field)).sum();
            (step(&self.last.all, &stat.all, field) - lines).abs() > tolerance
        })
    }

    fn advance_by_lines(&mut self, stat: &Stat, limit: i64) {
        for (id, now) in &stat.cpus {
            let (before, is_new) = match line_of(&self.last.cpus, *id) {
                Some(before) => (before, false),
                None => (line_of(&self.gone, *id).unwrap_or(*now), true),
            };
            for (field, step) in steps(&before, now).enumerate() {
                let other_origin = is_new && (field == IDLE || field == IOWAIT);
                // A step slightly beyond the elapsed time is reduced to that time, because the
                // reading was late. A step far beyond the elapsed time is not work at all.
                let leapt = step > limit.saturating_add(MAX_FALL_TICKS);
                if !other_origin && !leapt {
                    self.add(field, step.clamp(0, limit));
                }
            }
        }
        for (id, before) in &self.last.cpus {
            if line_of(&stat.cpus, *id).is_some() {
                continue;
            }
            match self.gone.binary_search_by_key(id, |line| line.0) {
                Ok(at) => self.gone[at].1 = *before,
                Err(at) => self.gone.insert(at, (*id, *before)),
            }
        }
    }
}

fn line_of(cpus: &[(u32, Ticks)], id: u32) -> Option<Ticks> {
    cpus.binary_search_by_key(&id, |line| line.0).ok().map(|at| cpus[at].1)
}

fn steps(before: &Ticks, after: &Ticks) -> impl Iterator<Item = i64> {
    before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before))
}

/// Returns the most ticks that one CPU can have used in that time. If the wall clock was set back,
/// only the slack is returned: losing an interval is better than inventing one.
fn passed_ticks(from_secs: f64, to_secs: f64) -> i64 {
    let passed = ((to_secs - from_secs) * USER_HZ).ceil();
    // The cast saturates, and turns NaN into 0.
    (passed.max(0.0) as i64).saturating_add(SLACK_TICKS)
}

#[cfg(test)]
mod tests;
