//! Timing of parking and of timed wake-ups.

use vm::Accel;
use vm::images::Arch;

/// Idle time after which a guest with a park rule is parked while the host is short of memory.
const SHORT_MS: u64 = 2_000;
/// Wait before the next attempt to park a guest that cannot be parked now.
const RETRY_MS: u64 = 10_000;
/// Wait after a failed save. The guest is stopped during each attempt.
const RESAVE_MS: u64 = 600_000;
/// Interval between two checks of clients that were silent, but not for long enough.
const LOOK_MS: u64 = 1_000;
/// CPU time, in milliseconds, that the daemon may use for a response and that does not count as
/// work. The daemon reads all processes. In an emulated guest on a busy host, the response takes
/// some tenths of a second.
const PARDON_MS: f64 = 500.0;
/// CPU time, in milliseconds, that an idle guest may use in a burst beyond its share. One sample by
/// the daemon costs an emulated guest some hundredths of a second.
const BURST_MS: f64 = 50.0;
/// Time that a connected but silent client keeps a guest awake.
pub(super) const SILENT_MS: u32 = 10_000;

/// Rule by which an idle guest is parked without a request of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkRule {
    /// Idle time after which the guest is parked; `None` means never.
    pub after_ms: Option<u64>,
    /// Time after which a parked guest is woken in any case.
    pub at_most_ms: Option<u64>,
    /// True if the guest is parked also while clients are connected. Data from a client wakes the
    /// guest.
    pub with_connections: bool,
}

/// Action that is due for a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkWish {
    Nothing,
    /// The guest was idle long enough. The guest is parked, if that is possible now.
    Park,
    /// A client woke the guest a while ago. The guest is parked again if no client has sent
    /// anything since the wake-up.
    ParkIfSilent,
}

/// A reading of the CPU time of a guest's vCPUs since their start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) at_ms: u64,
    pub(super) ran_ms: f64,
}

/// Start of a guest's sleep, and the CPU time used beyond the guest's share since the start.
#[derive(Clone, Copy, Debug)]
struct Since {
    at_ms: u64,
    last: Ran,
    debt_ms: f64,
    /// CPU time that does not count, because the guest responds to our own request.
    pardoned_ms: f64,
}

impl Since {
    /// Takes a reading. Returns true if the guest still sleeps. Usage above the share can be
    /// balanced by low usage in later seconds, but not in earlier seconds. Work after a long sleep
    /// therefore ends the sleep immediately.
    fn sleeps_on(&mut self, now: Ran, asleep_percent: u8) -> bool {
        let passed_ms = now.at_ms.saturating_sub(self.last.at_ms);
        if passed_ms == 0 {
            return true;
        }
        let ran_ms = now.ran_ms - self.last.ran_ms;
        let free_ms = self.pardoned_ms.min(ran_ms.max(0.0));
        self.pardoned_ms -= free_ms;
        let share_ms = passed_ms as f64 * f64::from(asleep_percent) / 100.0;
        self.debt_ms = (self.debt_ms + ran_ms - free_ms - share_ms).max(0.0);
        self.last = now;
        self.debt_ms <= BURST_MS
    }
}

/// Idle time of a guest, and the reason for its last wake-up.
#[derive(Debug, Default)]
pub(super) struct ParkClock {
    asleep_since: Option<Since>,
    /// True if the guest was used since the last tick.
    pub(super) is_used: bool,
    /// Time at which a client, perhaps still silent, woke the guest.
    woken_for_client_ms: Option<u64>,
    /// Earliest time of the next attempt to park.
    retry_ms: u64,
}

impl ParkClock {
    /// Records that the guest runs again. `for_client_ms` is the time of a wake-up for a client,
    /// and `None` after any other wake-up.
    pub(super) fn wakes(&mut self, for_client_ms: Option<u64>) {
        self.asleep_since = None;
        self.woken_for_client_ms = for_client_ms;
        // Usage before the guest was parked is no reason to keep it awake.
        self.is_used &= for_client_ms.is_none();
    }

    /// Records that a client or user wants the guest. The guest is then parked only after the
    /// normal idle time.
    pub(super) fn was_wanted(&mut self) {
        self.woken_for_client_ms = None;
    }

    pub(super) fn was_refused(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + RETRY_MS;
    }

    pub(super) fn cannot_be_saved(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + RESAVE_MS;
    }

    /// Records a request to the daemon before parking. CPU time for the daemon's answer does not
    /// count as work.
    pub(super) fn is_asked(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + LOOK_MS;
        if let Some(since) = &mut self.asleep_since {
            since.pardoned_ms = PARDON_MS;
        }
    }

    /// Delays the next attempt to park the guest by `LOOK_MS`.
    pub(super) fn looks_again(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + LOOK_MS;
    }

    /// Returns the action for a running guest, from the last reading of its CPU time. `ran` is
    /// `None` if this CPU time is unknown.
    pub(super) fn awake(
        &mut self,
        ran: Option<Ran>,
        (rule, asleep_percent): (ParkRule, u8),
        may_park: bool,
        now_ms: u64,
    ) -> ParkWish {
        let Some(ran) = ran else {
            self.asleep_since = None;
            return ParkWish::Nothing;
        };
        if std::mem::take(&mut self.is_used) {
            self.was_wanted();
            self.asleep_since = None;
            return ParkWish::Nothing;
        }
        let begin = Since { at_ms: now_ms, last: ran, debt_ms: 0.0, pardoned_ms: 0.0 };
        let since = self.asleep_since.get_or_insert(begin);
        if !since.sleeps_on(ran, asleep_percent) {
            *since = begin;
            return ParkWish::Nothing;
        }
        let since_ms = since.at_ms;
        let has_slept = |after_ms| now_ms.saturating_sub(since_ms) >= after_ms;
        let was_silent = |came_ms| now_ms.saturating_sub(came_ms) >= u64::from(SILENT_MS);
        let wish = if rule.after_ms.is_some_and(has_slept) {
            ParkWish::Park
        } else if self.woken_for_client_ms.is_some_and(was_silent) {
            ParkWish::ParkIfSilent
        } else {
            return ParkWish::Nothing;
        };
        if now_ms < self.retry_ms || !may_park {
            return ParkWish::Nothing;
        }
        self.was_refused(now_ms);
        wish
    }
}

/// Returns the share of one host CPU that an idle guest stays below, in percent. Under emulation a
/// kernel and a daemon use ten times as much CPU time, and on a busy host twenty times. Debian's
/// kernel for IBM Z ticks 250 times a second even when idle. The ticks alone use 2 to 12 percent,
/// depending on the host's CPUs and their other load.
pub(super) fn asleep_percent(arch: Arch, accel: Accel) -> u8 {
    match (arch, accel) {
        (Arch::X86_64, Accel::Kvm) => 2,
        (Arch::X86_64, Accel::Emulation(_)) => 4,
        (Arch::S390x, _) => 25,
    }
}

impl ParkRule {
    /// Returns the rule for a host short of memory. Guests are parked sooner there, because other
    /// guests wait for the memory.
    pub(super) fn on_a_short_host(self) -> ParkRule {
        let after_ms = self.after_ms.map(|after_ms| after_ms.min(SHORT_MS));
        ParkRule { after_ms, ..self }
    }

    /// Returns true if a guest that was parked for this time is due to be woken.
    pub(super) fn is_over(&self, parked_ms: u64) -> bool {
        self.at_most_ms.is_some_and(|most_ms| parked_ms >= most_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: ParkRule =
        ParkRule { after_ms: Some(5_000), at_most_ms: None, with_connections: false };
    const NEVER: ParkRule = ParkRule { after_ms: None, ..RULE };

    /// A guest with a given CPU usage up to each sample.
    #[derive(Default)]
    struct Guest {
        clock: ParkClock,
        ran_ms: f64,
        seen_ms: u64,
    }

    impl Guest {
        fn looks(&mut self, percent: f64, rule: ParkRule, now_ms: u64) -> ParkWish {
            self.ran_ms += (now_ms - self.seen_ms) as f64 * percent / 100.0;
            self.seen_ms = now_ms;
            self.clock.awake(self.ran(), (rule, 2), true, now_ms)
        }

        fn ran(&self) -> Option<Ran> {
            Some(Ran { at_ms: self.seen_ms, ran_ms: self.ran_ms })
        }

        fn parks(&mut self, percent: f64, now_ms: u64) -> bool {
            self.looks(percent, RULE, now_ms) == ParkWish::Park
        }
    }

    #[test]
    fn long_sleep_parks_guest_and_load_restarts_the_count() {
        let mut guest = Guest::default();
        assert!(!guest.parks(0.1, 1_000));
        assert!(!guest.parks(0.1, 5_999));
        assert!(guest.parks(0.1, 6_000));
        assert!(!guest.parks(0.1, 15_999), "refused, and retried later");
        assert!(guest.parks(0.1, 16_000));
        assert!(!guest.parks(9.0, 30_000));
        assert!(!guest.parks(0.1, 34_999), "counted from here");
        assert_eq!(guest.clock.awake(None, (RULE, 2), true, 35_000), ParkWish::Nothing);
        assert!(!guest.parks(0.1, 39_999), "unknown CPU time is not sleep");
        let waits = guest.clock.awake(guest.ran(), (RULE, 2), false, 45_000);
        assert_eq!(waits, ParkWish::Nothing, "other guests come first");
        assert!(guest.parks(0.1, 45_000));
        guest.clock.is_used = true;
        assert!(!guest.parks(0.1, 60_000), "a command runs");
        assert!(!guest.parks(0.1, 61_000));
        assert!(guest.parks(0.1, 66_000));
        assert_eq!(guest.looks(0.0, NEVER, 1_000_000), ParkWish::Nothing);
    }

    /// CPU usage of an emulated guest that ran at the same time as seven tests. An earlier rule, by
    /// which no second could exceed 2 percent, never parked this guest.
    #[test]
    fn idle_guest_is_parked_despite_single_busy_seconds() {
        let mut guest = Guest::default();
        let seconds = [0.9, 0.0, 4.8, 0.3, 0.0, 1.1, 0.9, 2.4];
        let at = |second: usize| (second as u64 + 1) * 1_000;
        let parks = |guest: &mut Guest| {
            seconds.iter().enumerate().any(|(at_s, percent)| guest.parks(*percent, at(at_s)))
        };
        assert!(parks(&mut guest));
        let mut works = Guest::default();
        assert!(!(1..60).any(|second| works.parks(6.0, second * 1_000)), "it works a little");
    }

    #[test]
    fn response_to_our_request_counts_as_sleep_and_work_does_not() {
        let mut guest = Guest::default();
        assert!(!guest.parks(0.1, 1_000));
        assert!(guest.parks(0.1, 6_000));
        guest.clock.is_asked(6_000);
        assert!(guest.parks(40.0, 7_000), "the response");
        guest.clock.is_asked(7_000);
        assert!(!guest.parks(90.0, 8_000), "a job has begun");
        assert!(!guest.parks(90.0, 9_000) && !guest.parks(90.0, 20_000));
    }

    #[test]
    fn waiting_for_the_response_pardons_no_more_work() {
        let mut guest = Guest::default();
        assert!(!guest.parks(0.1, 1_000));
        assert!(guest.parks(0.1, 6_000));
        guest.clock.is_asked(6_000);
        assert!(guest.parks(40.0, 7_000));
        guest.clock.looks_again(7_000);
        assert!(!guest.parks(40.0, 8_000) && !guest.parks(40.0, 9_000));
    }

    #[test]
    fn long_sleep_gives_no_credit_for_work_after_it() {
        let rule = ParkRule { after_ms: Some(300_000), ..RULE };
        let mut guest = Guest::default();
        assert!((1..=295).all(|s| guest.looks(0.1, rule, s * 1_000) == ParkWish::Nothing));
        assert!((296..=400).all(|s| guest.looks(90.0, rule, s * 1_000) == ParkWish::Nothing));
    }

    #[test]
    fn guest_woken_for_silent_client_is_parked_sooner_until_used() {
        let mut guest = Guest::default();
        guest.clock.wakes(Some(1_000));
        let wish = |guest: &mut Guest, percent, now_ms| guest.looks(percent, NEVER, now_ms);
        assert_eq!(wish(&mut guest, 0.1, 10_999), ParkWish::Nothing);
        assert_eq!(wish(&mut guest, 9.0, 12_000), ParkWish::Nothing, "it works");
        assert_eq!(wish(&mut guest, 0.1, 12_250), ParkWish::ParkIfSilent);
        assert_eq!(wish(&mut guest, 0.1, 22_000), ParkWish::Nothing, "tried");
        assert_eq!(wish(&mut guest, 0.1, 22_250), ParkWish::ParkIfSilent);
        guest.clock.looks_again(22_250);
        assert_eq!(wish(&mut guest, 0.1, 23_249), ParkWish::Nothing);
        assert_eq!(wish(&mut guest, 0.1, 23_250), ParkWish::ParkIfSilent);
        guest.clock.was_wanted();
        assert_eq!(wish(&mut guest, 0.1, 60_000), ParkWish::Nothing);
        guest.clock.is_used = true;
        guest.clock.wakes(Some(60_000));
        assert_eq!(wish(&mut guest, 0.1, 70_000), ParkWish::ParkIfSilent, "before");
        guest.clock.wakes(Some(60_000));
        guest.clock.is_used = true;
        assert_eq!(wish(&mut guest, 0.1, 80_000), ParkWish::Nothing, "a command");
        assert_eq!(wish(&mut guest, 0.1, 90_000), ParkWish::Nothing);
        guest.clock.wakes(None);
        assert_eq!(wish(&mut guest, 0.1, 190_000), ParkWish::Nothing, "its owner");
    }

    #[test]
    fn short_host_parks_guests_sooner() {
        let mut guest = Guest::default();
        let short = RULE.on_a_short_host();
        assert_eq!(guest.looks(0.1, short, 1_000), ParkWish::Nothing);
        assert_eq!(guest.looks(0.1, short, 3_000), ParkWish::Park);
        assert_eq!(NEVER.on_a_short_host(), NEVER, "parking is off");
    }

    #[test]
    fn parked_guest_is_woken_after_its_longest_time() {
        let rule = ParkRule { at_most_ms: Some(5_000), ..RULE };
        assert!(!rule.is_over(4_999) && rule.is_over(5_000));
        assert!(!RULE.is_over(u64::MAX));
    }
}
