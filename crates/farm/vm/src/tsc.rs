//! Measurement of the host's time stamp counter rate.
//!
//! ```text
//!   (ticks, time) ── a wait ── (ticks, time) ── a wait ── (ticks, time)
//!          └── first rate ──────────┘└────── second rate ──────┘ ─► Rate, if they agree
//! ```
//!
//! QEMU's translator passes the host's counter on to a guest. The guest's kernel would measure the
//! rate against an emulated timer. If a busy host delays QEMU during that measurement, the guest's
//! clock stays several times too fast or too slow. The host therefore measures the rate and
//! passes it to the guest.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::sys;

/// Smallest and largest rate of a processor's counter. A measured rate outside this range is wrong.
const MHZ_MIN: u64 = 500;
const MHZ_MAX: u64 = 10_000;
/// Duration of one measurement. Each reading is accurate to a microsecond, which is a
/// twenty-thousandth of this time.
const WAIT: Duration = Duration::from_millis(20);
/// Two measurements agree if they differ by at most the smaller one divided by this number.
const AGREEMENT: u128 = 1000;
/// Number of attempts at one reading. The fastest attempt counts, because the others may have been
/// interrupted between reading the counter and reading the clock.
const TRIES: usize = 16;

/// A counter's rate, in whole megahertz. A step of one megahertz is small compared with a clock's
/// error, and large compared with the difference between two measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rate {
    mhz: u64,
}

impl Rate {
    pub(crate) fn from_mhz(mhz: u64) -> Option<Rate> {
        (MHZ_MIN..=MHZ_MAX).contains(&mhz).then_some(Rate { mhz })
    }

    pub(crate) fn khz(self) -> u64 {
        self.mhz * 1000
    }

    /// Returns this rate and its two neighbours. Another measurement of the same counter might
    /// return a neighbour, because a rate halfway between two steps is rounded up or down.
    pub(crate) fn alike(self) -> impl Iterator<Item = Rate> {
        [self.mhz, self.mhz - 1, self.mhz + 1].into_iter().filter_map(Rate::from_mhz)
    }
}

/// Readings of the counter and the clock at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) ticks: u64,
    /// Time of a clock that is neither set nor slewed, in nanoseconds.
    pub(crate) ns: u64,
    /// Ticks that passed while the clock was read.
    pub(crate) took_ticks: u64,
}

/// Returns the rate of this host's counter, measured once in the life of this process. `None`
/// without such a counter, or if two measurements disagree.
pub(crate) fn host_rate() -> Option<Rate> {
    static RATE: OnceLock<Option<Rate>> = OnceLock::new();
    *RATE.get_or_init(measure)
}

fn measure() -> Option<Rate> {
    let moments = [moment()?, after_a_wait()?, after_a_wait()?];
    rate(&moments)
}

fn after_a_wait() -> Option<Moment> {
    let wait = Timespec::try_from(WAIT).ok()?;
    // A signal may end the wait early. The shorter measurement must still agree with the other one.
    let _ = poll(&mut [], Some(&wait));
    moment()
}

fn moment() -> Option<Moment> {
    let tries = (0..TRIES).filter_map(|_| {
        let before = sys::ticks()?;
        let time = clock_gettime(ClockId::MonotonicRaw);
        let took_ticks = sys::ticks()?.checked_sub(before)?;
        let ns = u64::try_from(Duration::try_from(time).ok()?.as_nanos()).ok()?;
        Some(Moment { ticks: before.checked_add(took_ticks / 2)?, ns, took_ticks })
    });
    tries.min_by_key(|moment| moment.took_ticks)
}

/// Returns the rate over the whole time, if the rates of both halves agree.
fn rate([start, middle, end]: &[Moment; 3]) -> Option<Rate> {
    let ticks_a_ms = |from: &Moment, to: &Moment| {
        let ticks = u128::from(to.ticks.checked_sub(from.ticks)?);
        let ns = u128::from(to.ns.checked_sub(from.ns)?);
        (ticks * 1_000_000).checked_div(ns)
    };
    let (first, second) = (ticks_a_ms(start, middle)?, ticks_a_ms(middle, end)?);
    if first.abs_diff(second) > first.min(second) / AGREEMENT {
        return None;
    }
    let khz = ticks_a_ms(start, end)?;
    Rate::from_mhz(u64::try_from((khz + 500) / 1000).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64, ticks: u64) -> Moment {
        Moment { ticks, ns: 7 + ms * 1_000_000, took_ticks: 100 }
    }

    #[test]
    fn a_rate_is_what_two_measures_agree_on() {
        let mhz = |moments| rate(&moments).map(|rate| rate.mhz);
        let even = [at(0, 5), at(20, 5 + 51_920_000), at(45, 5 + 116_820_000)];
        assert_eq!(mhz(even), Some(2596));
        // A difference of a tenth of a percent is accepted, and one percent is not.
        assert_eq!(mhz([at(0, 0), at(20, 52_000_000), at(40, 104_040_000)]), Some(2601));
        assert_eq!(mhz([at(0, 0), at(20, 52_000_000), at(40, 104_520_000)]), None);
    }

    #[test]
    fn implausible_rates_are_rejected() {
        let none = |moments| assert_eq!(rate(&moments), None);
        none([at(0, 0), at(0, 1), at(0, 2)]);
        none([at(0, 9_000_000), at(20, 1), at(40, 2)]);
        none([at(5, 0), at(3, 9_000_000), at(1, 18_000_000)]);
        none([at(0, 0), at(20, 0), at(40, 0)]);
        none([at(0, 0), at(20, 8_000_000), at(40, 16_000_000)]);
        none([at(0, 0), at(20, u64::MAX / 2), at(40, u64::MAX - 1)]);
    }

    #[test]
    fn rates_alike_are_one_step_off() {
        let alike = |mhz| Rate::from_mhz(mhz).unwrap().alike().map(Rate::khz).collect::<Vec<_>>();
        assert_eq!(alike(2596), [2_596_000, 2_595_000, 2_597_000]);
        assert_eq!(alike(MHZ_MIN), [500_000, 501_000]);
    }

    /// On a busy machine a measurement may fail. All successful measurements agree.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn this_hosts_rate_is_found_and_found_again() {
        let found: Vec<Rate> = (0..20).filter_map(|_| measure()).take(2).collect();
        let [first, second] = found[..] else { panic!("{found:?}") };
        assert!(first.alike().any(|rate| rate == second), "{first:?} {second:?}");
        assert_eq!(host_rate(), host_rate());
    }
}
