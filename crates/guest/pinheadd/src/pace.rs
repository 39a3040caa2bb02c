//! Times of the daemon's samples, which are called looks here. This module reads no clock: callers
//! pass the time.
//!
//! ```text
//!                 woken (host, pressure)            still
//!     settled ───────────────────────────► awake ──────────► settled
//!        │  sleeps: until woken (host),      looks every UPDATE
//!        │  or for longer and longer         seconds, faster while the
//!        └  (adaptive)                       history is being gathered
//! ```
//!
//! With the fixed pace there is one look every UPDATE seconds and nothing else. Times are
//! milliseconds of a monotonic clock.

use crate::args::Pace;

/// Number of looks without a change after which a guest counts as settled.
const CALM: u32 = 5;
/// Maximum sleep of a settled daemon without a host.
const BACK_OFF_MS: u64 = 16_000;
/// Maximum sleep with a host, so that a lost message cannot stop the daemon forever.
const HEARTBEAT_MS: u64 = 600_000;
/// Minimum time between two looks while the history is gathered. In less time, too few of the
/// kernel's ticks pass to measure the load.
const QUICK_MS: u64 = 200;
/// Maximum time by which a look is moved to a message of the host, so that the daemon wakes once
/// for both. The limit is a quarter of the rules' interval if that is less.
const LED_MS: u64 = 250;

/// Result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The history is not complete yet, so nothing was decided.
    Gathering,
    /// No change was needed.
    Still,
    /// Something was changed.
    Acted,
}

/// Event that woke the daemon early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The host saw the guest's CPUs run.
    Host,
    /// Tasks wait for CPU or memory.
    Pressure,
}

/// Handling of the history's rows that were read before a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// The rows stay valid.
    Keep,
    /// The rows are older than a long sleep, and must be dropped. A difference across the sleep
    /// would hide a load that has just begun.
    Forget,
}

/// Schedule of the looks.
#[derive(Clone, Debug)]
pub struct Pacer {
    pace: Pace,
    /// Set while a host is present that wakes the daemon.
    hosted: bool,
    update_ms: u64,
    quick_ms: u64,
    next_ms: u64,
    last_ms: Option<u64>,
    /// Time of the host's last message that wakes the daemon.
    led_ms: Option<u64>,
    /// Set while the rows include a row from before a long sleep.
    stale: bool,
    calm: u32,
    settled: bool,
}

impl Pacer {
    /// Creates a schedule with the first look due now.
    pub fn new(pace: Pace, update_s: u64, intervals: usize, now_ms: u64) -> Pacer {
        let update_ms = update_s.saturating_mul(1000).max(1);
        let rows = intervals as u64 + 1;
        Pacer {
            pace,
            hosted: false,
            update_ms,
            quick_ms: (update_ms / rows).clamp(QUICK_MS.min(update_ms), update_ms),
            next_ms: now_ms,
            last_ms: None,
            led_ms: None,
            stale: false,
            calm: 0,
            settled: false,
        }
    }

    /// Records whether a host is present that schedules the looks.
    pub fn set_hosted(&mut self, hosted: bool, now_ms: u64) {
        if self.hosted != hosted {
            self.hosted = hosted;
            self.calm = 0;
            self.settled = false;
            self.next_ms = self.next_ms.min(now_ms + self.update_ms);
        }
    }

    pub fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// Returns true if this guest's own counters no longer change.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Schedules the look after a wake-up, and returns the handling of the earlier rows.
    pub fn wake(&mut self, wake: Wake, now_ms: u64) -> Past {
        if self.pace == Pace::Fixed {
            return Past::Keep;
        }
        let last = self.last_ms.unwrap_or(now_ms);
        let slept = self.stale || self.is_long(last, now_ms);
        let due = last + self.update_ms;
        // A host may wake the daemon any number of times, but looks are hardly more frequent than
        // the rules' interval.
        let soonest = match wake {
            Wake::Host if !slept && now_ms + self.led_by_ms() >= due => now_ms,
            Wake::Host if !slept && self.settled => due,
            Wake::Host if !slept => self.next_ms,
            _ => now_ms.max(last + self.quick_ms),
        };
        if wake == Wake::Host {
            self.led_ms = Some(now_ms);
        }
        self.next_ms = self.next_ms.min(soonest.max(now_ms));
        if wake == Wake::Pressure || slept {
            self.settled = false;
            self.calm = 0;
        }
        if slept {
            self.stale = false;
            return Past::Forget;
        }
        Past::Keep
    }

    /// Returns the maximum time by which a look is moved to a message of the host.
    fn led_by_ms(&self) -> u64 {
        LED_MS.min(self.update_ms / 4)
    }

    /// Returns true if more than two of the rules' intervals lie between these times.
    fn is_long(&self, from_ms: u64, to_ms: u64) -> bool {
        to_ms.saturating_sub(from_ms) > 2 * self.update_ms
    }

    /// Records that a look was taken.
    pub fn looked(&mut self, outcome: Outcome, now_ms: u64) {
        let last = self.last_ms.replace(now_ms).unwrap_or(now_ms);
        if self.pace == Pace::Fixed {
            // Looks follow a fixed grid: a late look does not delay later looks. Missed looks are
            // not repeated.
            self.next_ms += self.update_ms;
            if self.next_ms <= now_ms {
                self.next_ms = now_ms + self.update_ms;
            }
            return;
        }
        if outcome == Outcome::Gathering {
            self.next_ms = now_ms + self.quick_ms;
            return;
        }
        self.stale |= self.is_long(last, now_ms);
        self.calm = match outcome {
            Outcome::Still => self.calm.saturating_add(1),
            _ => 0,
        };
        self.settled = self.calm >= CALM;
        self.next_ms = now_ms + self.sleep_ms(now_ms);
    }

    fn sleep_ms(&self, now_ms: u64) -> u64 {
        if !self.settled {
            // The host's next message comes at about the time of the next look, and leads to it.
            let is_led = self.led_ms.is_some_and(|led_ms| !self.is_long(led_ms, now_ms));
            return self.update_ms + if is_led { self.led_by_ms() } else { 0 };
        }
        if self.pace == Pace::Host && self.hosted {
            return HEARTBEAT_MS.max(self.update_ms);
        }
        let doublings = (self.calm - CALM + 1).min(10);
        (self.update_ms << doublings).min(BACK_OFF_MS.max(self.update_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(pacer: &mut Pacer) -> u64 {
        let mut looks = 0;
        while !pacer.is_settled() {
            let now = pacer.next_ms();
            pacer.looked(Outcome::Still, now);
            looks += 1;
        }
        looks
    }

    #[test]
    fn the_fixed_pace_is_a_grid() {
        let mut pacer = Pacer::new(Pace::Fixed, 1, 3, 50);
        assert_eq!(pacer.next_ms(), 50);
        pacer.looked(Outcome::Gathering, 53);
        assert_eq!(pacer.next_ms(), 1050);
        assert_eq!(pacer.wake(Wake::Host, 500), Past::Keep);
        assert_eq!(pacer.next_ms(), 1050);
        pacer.looked(Outcome::Still, 5000);
        assert_eq!(pacer.next_ms(), 6000, "missed samples are not taken later");
    }

    #[test]
    fn a_settled_guest_under_a_host_sleeps_until_the_host_asks() {
        let mut pacer = Pacer::new(Pace::Host, 1, 3, 0);
        pacer.set_hosted(true, 0);
        assert_eq!(settle(&mut pacer), u64::from(CALM));
        let now = pacer.next_ms() - HEARTBEAT_MS;
        const { assert!(HEARTBEAT_MS >= 60_000, "at most one sample a minute") };

        let woken = now + 30_000;
        assert_eq!(pacer.wake(Wake::Host, woken), Past::Forget);
        assert_eq!(pacer.next_ms(), woken);
        let mut at = woken;
        for _ in 0..3 {
            pacer.looked(Outcome::Gathering, at);
            at = pacer.next_ms();
        }
        assert!(at - woken <= 1000, "the first decision comes within a second: {}", at - woken);
    }

    /// The longest sleep ends with a look between two loads. The second load must be detected
    /// before the rows of that look have left the history.
    #[test]
    fn a_load_that_starts_after_a_heartbeat_is_answered_as_fast() {
        let mut pacer = Pacer::new(Pace::Host, 1, 3, 0);
        pacer.set_hosted(true, 0);
        settle(&mut pacer);
        let heartbeat = pacer.next_ms();
        pacer.looked(Outcome::Still, heartbeat);
        assert_eq!(pacer.wake(Wake::Host, heartbeat + 300), Past::Forget);
        assert_eq!(pacer.next_ms(), heartbeat + 300);
        assert_eq!(pacer.wake(Wake::Host, heartbeat + 310), Past::Keep, "once is enough");
    }

    #[test]
    fn busy_guests_looks_are_no_more_frequent_than_its_rules_say() {
        let mut pacer = Pacer::new(Pace::Host, 1, 3, 0);
        pacer.set_hosted(true, 0);
        settle(&mut pacer);
        let last = pacer.last_ms.expect("it has looked");
        assert_eq!(pacer.wake(Wake::Host, last + 250), Past::Keep);
        assert_eq!(pacer.next_ms(), last + 1000);
        pacer.looked(Outcome::Still, last + 1000);
        assert!(pacer.is_settled(), "a sample without a change leaves the guest settled");
    }

    /// Returns the times of looks from 10 s to 20 s, and the number of looks that needed a wake-up
    /// of their own. The host asks every second, a little earlier or later each time.
    fn looks_of_asked_guest(outcome: Outcome, first_ms: u64) -> (Vec<u64>, usize) {
        let mut pacer = Pacer::new(Pace::Host, 1, 3, 0);
        pacer.set_hosted(true, 0);
        let (mut looks, mut alone) = (Vec::new(), 0);
        for second in 0..20 {
            let ask_ms = first_ms + second * 1000 + second * 37 % 90;
            while pacer.next_ms() < ask_ms {
                let now = pacer.next_ms();
                pacer.looked(outcome, now);
                looks.push(now);
                alone += usize::from(now > 10_000);
            }
            pacer.wake(Wake::Host, ask_ms);
            if pacer.next_ms() <= ask_ms {
                pacer.looked(outcome, ask_ms);
                looks.push(ask_ms);
            }
        }
        looks.retain(|at| (10_000..20_000).contains(at));
        (looks, alone)
    }

    #[test]
    fn busy_guest_wakes_once_for_the_host_and_its_rules() {
        for first_ms in [0, 130, 400, 650, 900] {
            for outcome in [Outcome::Acted, Outcome::Still] {
                let (looks, alone) = looks_of_asked_guest(outcome, first_ms);
                assert_eq!(alone, 0, "{outcome:?} from {first_ms} ms on: {looks:?}");
                assert!((9..=11).contains(&looks.len()), "{outcome:?}: {looks:?}");
            }
        }
    }

    #[test]
    fn alone_it_backs_off_and_pressure_wakes_it() {
        let mut pacer = Pacer::new(Pace::Adaptive, 1, 3, 0);
        settle(&mut pacer);
        let mut gaps = Vec::new();
        for _ in 0..6 {
            let now = pacer.next_ms();
            pacer.looked(Outcome::Still, now);
            gaps.push(pacer.next_ms() - now);
        }
        assert_eq!(gaps, [4000, 8000, 16_000, 16_000, 16_000, 16_000]);
        let now = pacer.next_ms() - 4000;
        assert_eq!(pacer.wake(Wake::Pressure, now), Past::Forget);
        assert_eq!(pacer.next_ms(), now);
        assert!(!pacer.is_settled());
    }

    #[test]
    fn without_its_host_it_goes_on_alone() {
        let mut pacer = Pacer::new(Pace::Host, 1, 3, 0);
        pacer.set_hosted(true, 0);
        settle(&mut pacer);
        let now = pacer.next_ms() - HEARTBEAT_MS;
        pacer.set_hosted(false, now);
        assert_eq!(pacer.next_ms(), now + 1000);
    }
}
