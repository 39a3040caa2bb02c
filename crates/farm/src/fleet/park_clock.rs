//! When a guest is parked, and when it is woken without being asked.

use images::Arch;

/// On a host that is short of memory a guest that may be parked is after so long.
const SHORT_MS: u64 = 2_000;
/// A guest that cannot be parked now is looked at again after so long.
const RETRY_MS: u64 = 10_000;
/// One that cannot be saved is tried again after so long: each time it stands still for a while.
const RESAVE_MS: u64 = 600_000;
/// A guest whose clients have not been silent for so long is looked at again after so long.
const LOOK_MS: u64 = 1_000;
/// A guest may run for so long for an answer, as far as the last second is looked back on.
const PARDON_MS: u64 = 3_000;
/// Clients who have come and said nothing keep a guest awake for so long.
pub(super) const SILENT_MS: u32 = 10_000;

/// When a guest is parked without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkRule {
    /// It has slept for so long; `None`: never.
    pub after_ms: Option<u64>,
    /// It is woken after so long, whatever comes.
    pub at_most_ms: Option<u64>,
    /// Also while clients have connections to its ports. What they send wakes it.
    pub with_connections: bool,
    /// A guest whose virtual CPUs use less, in percent of one of the host's CPUs, is asleep.
    pub asleep_percent: u8,
}

/// What is to be done with a guest, by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkWish {
    Nothing,
    /// It has slept for long: it is parked, if that can be now.
    Park,
    /// A client woke it a while ago: it is parked again if none has said anything since.
    ParkIfSilent,
}

/// How long a guest has slept, and for whom it was woken.
#[derive(Debug, Default)]
pub(super) struct ParkClock {
    asleep_since_ms: Option<u64>,
    /// Somebody has used it since the last tick.
    pub(super) is_used: bool,
    /// When a client came who may not have said anything yet, and woke it.
    woken_for_client_ms: Option<u64>,
    /// It is not tried before.
    retry_ms: u64,
    /// What it does until then may be for us.
    pardoned_ms: u64,
}

impl ParkClock {
    /// It runs again; at this time for a client.
    pub(super) fn wakes(&mut self, for_client_ms: Option<u64>) {
        self.asleep_since_ms = None;
        self.woken_for_client_ms = for_client_ms;
        // Who used it before it was parked is no reason to keep it awake.
        self.is_used &= for_client_ms.is_none();
    }

    /// Somebody wanted it: it is parked when it has slept.
    pub(super) fn was_wanted(&mut self) {
        self.woken_for_client_ms = None;
    }

    /// It could not be parked.
    pub(super) fn was_refused(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + RETRY_MS;
    }

    /// It could not be written to its file.
    pub(super) fn cannot_be_saved(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + RESAVE_MS;
    }

    /// Its daemon is asked something before it is parked. That it runs for it is no reason to stay.
    pub(super) fn is_asked(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + LOOK_MS;
        self.pardoned_ms = now_ms + PARDON_MS;
    }

    /// Its clients have said nothing until now, and not all of them for long enough.
    pub(super) fn looks_again(&mut self, now_ms: u64) {
        self.retry_ms = now_ms + LOOK_MS;
    }

    /// What is to be done with a guest that runs, and uses so much of a CPU, if that is known.
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
    /// What an idle guest of an architecture keeps below. Debian's kernel for IBM Z is built to
    /// tick 250 times a second whether there is work or not, and IBM Z is always emulated here:
    /// that alone takes 2 to 12 percent, by how fast the host's CPUs are and what else they do.
    pub fn asleep_percent(arch: Arch) -> u8 {
        match arch {
            Arch::X86_64 => 2,
            Arch::S390x => 25,
        }
    }

    /// The rule while the host is short of memory: others wait for it.
    pub(super) fn on_a_short_host(self) -> ParkRule {
        let after_ms = self.after_ms.map(|after_ms| after_ms.min(SHORT_MS));
        ParkRule { after_ms, ..self }
    }

    /// Whether a guest that has been parked for so long is to be woken.
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
    fn who_sleeps_long_enough_is_parked_and_a_load_begins_anew() {
        let mut clock = ParkClock::default();
        let mut wishes =
            |percent, now_ms| clock.awake(percent, RULE, true, now_ms) == ParkWish::Park;
        assert!(!wishes(Some(0.1), 1_000));
        assert!(!wishes(Some(0.1), 5_999));
        assert!(wishes(Some(0.1), 6_000));
        assert!(!wishes(Some(0.1), 15_999), "it was refused, and is tried later");
        assert!(wishes(Some(0.1), 16_000));
        assert!(!wishes(Some(2.0), 30_000));
        assert!(!wishes(Some(0.1), 31_000), "counted from here");
        assert!(!wishes(None, 36_000), "what is not known is not sleep");
        assert!(!wishes(Some(0.1), 37_000));
        let waits = clock.awake(Some(0.1), RULE, false, 42_000);
        assert_eq!(waits, ParkWish::Nothing, "others are before it");
        assert_eq!(clock.awake(Some(0.1), RULE, true, 42_000), ParkWish::Park);
        clock.is_used = true;
        let used = clock.awake(Some(0.1), RULE, true, 60_000);
        assert_eq!(used, ParkWish::Nothing, "a command runs");
        assert_eq!(clock.awake(Some(0.1), RULE, true, 61_000), ParkWish::Nothing);
        assert_eq!(clock.awake(Some(0.1), RULE, true, 66_000), ParkWish::Park);
        assert_eq!(clock.awake(Some(0.0), NEVER, true, u64::MAX), ParkWish::Nothing);
    }

    #[test]
    fn who_runs_for_an_answer_to_us_sleeps_all_the_same() {
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
    fn who_was_woken_for_a_client_is_parked_sooner_until_somebody_wants_it() {
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
    fn on_a_host_that_is_short_of_memory_who_may_be_parked_is_sooner() {
        let mut clock = ParkClock::default();
        let short = RULE.on_a_short_host();
        assert_eq!(clock.awake(Some(0.1), short, true, 1_000), ParkWish::Nothing);
        assert_eq!(clock.awake(Some(0.1), short, true, 3_000), ParkWish::Park);
        assert_eq!(NEVER.on_a_short_host(), NEVER, "it never may");
    }

    #[test]
    fn who_is_parked_is_woken_when_it_was_long_enough() {
        let rule = ParkRule { at_most_ms: Some(5_000), ..RULE };
        assert!(!rule.is_over(4_999) && rule.is_over(5_000));
        assert!(!RULE.is_over(u64::MAX));
    }
}
