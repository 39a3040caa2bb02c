//! Timing of parking, and of waking by the clock.

use images::Arch;

/// Sleep after which a guest with a park rule is parked while the host is short of memory.
const SHORT_MS: u64 = 2_000;
/// Wait before the next attempt to park a guest that cannot be parked now.
const RETRY_MS: u64 = 10_000;
/// Wait after a failed save. The guest stands still during each attempt.
const RESAVE_MS: u64 = 600_000;
/// Wait until clients are checked again that have not been silent for long enough.
const LOOK_MS: u64 = 1_000;
/// Time that a guest may run for an answer to us. CPU usage looks back over the last second.
const PARDON_MS: u64 = 3_000;
/// Time that a connected but silent client keeps a guest awake.
pub(super) const SILENT_MS: u32 = 10_000;

/// Rule for parking a guest without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkRule {
    /// Sleep after which the guest is parked; `None` means never.
    pub after_ms: Option<u64>,
    /// Time after which a parked guest is woken in any case.
    pub at_most_ms: Option<u64>,
    /// True if the guest is parked also while clients are connected. Data from a client wakes it.
    pub with_connections: bool,
    /// CPU usage below which a guest counts as asleep, in percent of one host CPU.
    pub asleep_percent: u8,
}

/// Action for a guest that the clock asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkWish {
    Nothing,
    /// The guest has slept long enough and is parked, if that is possible now.
    Park,
    /// A client woke the guest a while ago. The guest is parked again if no client has sent
    /// anything since.
    ParkIfSilent,
}

/// Sleep of a guest, and the reason for its last wake-up.
#[derive(Debug, Default)]
pub(super) struct ParkClock {
    asleep_since_ms: Option<u64>,
    /// True if the guest was used since the last tick.
    pub(super) is_used: bool,
    /// Time at which a client, perhaps still silent, woke the guest.
    woken_for_client_ms: Option<u64>,
    /// Earliest time of the next attempt to park.
    retry_ms: u64,
    /// End of the time in which CPU usage may come from our own request.
    pardoned_ms: u64,
}

impl ParkClock {
    /// Records that the guest runs again. The time is set if a client woke it.
    pub(super) fn wakes(&mut self, for_client_ms: Option<u64>) {
        self.asleep_since_ms = None;
        self.woken_for_client_ms = for_client_ms;
        // Usage before the guest was parked is no reason to keep it awake.
        self.is_used &= for_client_ms.is_none();
    }

    /// Records that the guest is wanted: only its normal sleep parks it.
    pub(super) fn was_wanted(&mut self) {
        self.woken_for_client_ms = None;
    }

    /// Records that the guest could not be parked.
    pub(super) fn was_refused(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + RETRY_MS;
    }

    /// Records that the guest could not be saved to its file.
    pub(super) fn cannot_be_saved(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + RESAVE_MS;
    }

    /// Records a request to the daemon before parking. CPU usage for its answer does not count.
    pub(super) fn is_asked(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + LOOK_MS;
        self.pardoned_ms = now_ms + PARDON_MS;
    }

    /// Records that all clients were silent until now, but not all for long enough.
    pub(super) fn looks_again(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + LOOK_MS;
    }

    /// Returns the action for a running guest. `None` for the CPU usage means that it is unknown.
    pub(super) fn awake(
        &mut self,
        cpu_percent: Option<f64>,
        rule: ParkRule,
        may_park: bool,
        now_ms: u64,
    ) -> ParkWish {
        let is_asleep = cpu_percent.is_some_and(|percent| percent < f64::from(rule.asleep_percent));
        if std::mem::take(&mut self.is_used) {
            self.was_wanted();
            self.asleep_since_ms = None;
            return ParkWish::Nothing;
        }
        if !is_asleep {
            if now_ms >= self.pardoned_ms {
                self.asleep_since_ms = None;
            }
            return ParkWish::Nothing;
        }
        let since_ms = *self.asleep_since_ms.get_or_insert(now_ms);
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

impl Default for ParkRule {
    fn default() -> ParkRule {
        let asleep_percent = ParkRule::asleep_percent(Arch::X86_64);
        ParkRule { after_ms: None, at_most_ms: None, with_connections: false, asleep_percent }
    }
}

impl ParkRule {
    /// Returns the threshold below which an idle guest of an architecture stays. Debian's kernel
    /// for IBM Z ticks 250 times a second even when idle, and IBM Z is always emulated here. The
    /// ticks alone use 2 to 12 percent, depending on the host's CPUs and their other load.
    pub fn asleep_percent(arch: Arch) -> u8 {
        match arch {
            Arch::X86_64 => 2,
            Arch::S390x => 25,
        }
    }

    /// Returns the rule for a host short of memory, on which other guests wait for the memory.
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

    const RULE: ParkRule = ParkRule {
        after_ms: Some(5_000),
        at_most_ms: None,
        with_connections: false,
        asleep_percent: 2,
    };
    const NEVER: ParkRule = ParkRule { after_ms: None, ..RULE };

    #[test]
    fn long_sleep_parks_guest_and_load_restarts_the_count() {
        let mut clock = ParkClock::default();
        let mut wishes =
            |percent, now_ms| clock.awake(percent, RULE, true, now_ms) == ParkWish::Park;
        assert!(!wishes(Some(0.1), 1_000));
        assert!(!wishes(Some(0.1), 5_999));
        assert!(wishes(Some(0.1), 6_000));
        assert!(!wishes(Some(0.1), 15_999), "refused, and retried later");
        assert!(wishes(Some(0.1), 16_000));
        assert!(!wishes(Some(2.0), 30_000));
        assert!(!wishes(Some(0.1), 31_000), "counted from here");
        assert!(!wishes(None, 36_000), "unknown usage is not sleep");
        assert!(!wishes(Some(0.1), 37_000));
        let waits = clock.awake(Some(0.1), RULE, false, 42_000);
        assert_eq!(waits, ParkWish::Nothing, "other guests come first");
        assert_eq!(clock.awake(Some(0.1), RULE, true, 42_000), ParkWish::Park);
        clock.is_used = true;
        let used = clock.awake(Some(0.1), RULE, true, 60_000);
        assert_eq!(used, ParkWish::Nothing, "a command runs");
        assert_eq!(clock.awake(Some(0.1), RULE, true, 61_000), ParkWish::Nothing);
        assert_eq!(clock.awake(Some(0.1), RULE, true, 66_000), ParkWish::Park);
        assert_eq!(clock.awake(Some(0.0), NEVER, true, u64::MAX), ParkWish::Nothing);
    }

    #[test]
    fn guest_that_runs_for_our_request_counts_as_asleep() {
        let mut clock = ParkClock::default();
        assert_eq!(clock.awake(Some(0.1), RULE, true, 1_000), ParkWish::Nothing);
        assert_eq!(clock.awake(Some(0.1), RULE, true, 6_000), ParkWish::Park);
        clock.is_asked(6_000);
        assert_eq!(clock.awake(Some(9.0), RULE, true, 7_000), ParkWish::Nothing);
        assert_eq!(clock.awake(Some(0.1), RULE, true, 8_000), ParkWish::Park);
        assert_eq!(clock.awake(Some(9.0), RULE, true, 9_000), ParkWish::Nothing);
        assert_eq!(clock.awake(Some(0.1), RULE, true, 13_999), ParkWish::Nothing, "it has worked");
    }

    #[test]
    fn guest_woken_for_silent_client_is_parked_sooner_until_used() {
        let mut clock = ParkClock::default();
        clock.wakes(Some(1_000));
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 10_999), ParkWish::Nothing);
        assert_eq!(clock.awake(Some(50.0), NEVER, true, 11_000), ParkWish::Nothing, "it works");
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 11_250), ParkWish::ParkIfSilent);
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 21_000), ParkWish::Nothing, "tried");
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 21_250), ParkWish::ParkIfSilent);
        clock.looks_again(21_250);
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 22_249), ParkWish::Nothing);
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 22_250), ParkWish::ParkIfSilent);
        clock.was_wanted();
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 60_000), ParkWish::Nothing);
        clock.is_used = true;
        clock.wakes(Some(60_000));
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 70_000), ParkWish::ParkIfSilent, "before");
        clock.wakes(Some(60_000));
        clock.is_used = true;
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 70_000), ParkWish::Nothing, "a command");
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 90_000), ParkWish::Nothing);
        clock.wakes(None);
        assert_eq!(clock.awake(Some(0.1), NEVER, true, 190_000), ParkWish::Nothing, "its owner");
    }

    #[test]
    fn short_host_parks_guests_sooner() {
        let mut clock = ParkClock::default();
        let short = RULE.on_a_short_host();
        assert_eq!(clock.awake(Some(0.1), short, true, 1_000), ParkWish::Nothing);
        assert_eq!(clock.awake(Some(0.1), short, true, 3_000), ParkWish::Park);
        assert_eq!(NEVER.on_a_short_host(), NEVER, "parking is off");
    }

    #[test]
    fn parked_guest_is_woken_after_its_longest_time() {
        let rule = ParkRule { at_most_ms: Some(5_000), ..RULE };
        assert!(!rule.is_over(4_999) && rule.is_over(5_000));
        assert!(!RULE.is_over(u64::MAX));
    }
}
