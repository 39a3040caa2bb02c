//! Next timer of a guest, such as a cron job or a systemd timer. Before parking, the timer is
//! requested from the guest's daemon. A parked guest is woken before its timer is due.
//!
//! ```text
//!   it has slept for long ─► AskAlarm ─► Alarm ─► soon: it stays awake
//!                               │           └───► later, or never: it is parked
//!                               └─► no answer in time: it is parked
//! ```

use procfs::Work;

/// Timeout for the daemon's answer. Only time in which the guest's QEMU could run counts. After the
/// timeout the guest is parked, and may miss its timers.
const PATIENCE_MS: u64 = 5_000;
/// Age after which an answer, or an unanswered request, is outdated and the daemon is asked again.
const FRESH_MS: u64 = 60_000;
/// Minimum time to the next timer for which parking is worthwhile.
const SOON_MS: u64 = 10_000;
/// Time by which a wake-up precedes its timer, because waking takes time.
const AHEAD_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// Time of the request to the daemon, and the work of the guest's QEMU at that time.
    asked: Option<(u64, Option<Work>)>,
    told_ms: Option<u64>,
    due_ms: Option<u64>,
    /// Time at which a parked guest is woken in any case.
    latest_ms: Option<u64>,
}

/// Decision about a guest that could be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// The daemon must be asked first.
    Ask,
    /// The daemon was asked, and may still answer.
    Wait,
    /// The guest stays awake, because its next timer is due soon.
    Stay,
    /// The guest may be parked.
    Go,
}

impl Alarm {
    /// Decides if the guest may be parked now. `work` returns the work of the guest's QEMU until
    /// now.
    pub(super) fn leave(&self, now_ms: u64, work: impl FnOnce() -> Option<Work>) -> Leave {
        let is_within = |since_ms: Option<u64>, ms| {
            since_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) < ms)
        };
        let is_over = self.due_ms.is_some_and(|due_ms| due_ms <= now_ms);
        if is_over && is_within(self.told_ms, SOON_MS) {
            // Some guests have a timer due each minute. A further request right after each timer
            // would keep such a guest busy.
            return Leave::Stay;
        }
        if is_within(self.told_ms, FRESH_MS) && !is_over {
            let is_soon = self.due_ms.is_some_and(|due_ms| due_ms < now_ms + SOON_MS);
            return if is_soon { Leave::Stay } else { Leave::Go };
        }
        let Some((asked_ms, before)) = self.asked.filter(|_| self.told_ms.is_none()) else {
            return Leave::Ask;
        };
        let passed_ms = now_ms.saturating_sub(asked_ms);
        if passed_ms >= FRESH_MS {
            return Leave::Ask;
        }
        let had_ms = work().map_or(passed_ms, |work| work.had_ms(before, passed_ms));
        if had_ms < PATIENCE_MS { Leave::Wait } else { Leave::Go }
    }

    pub(super) fn was_asked(&mut self, now_ms: u64, work: Option<Work>) {
        *self = Alarm { asked: Some((now_ms, work)), ..Alarm::default() };
    }

    /// Records the daemon's answer. `None` means that the daemon found no timer. An answer to a
    /// request from before the guest was parked is ignored, because the answer's time is outdated.
    pub(super) fn was_told(&mut self, in_ms: Option<u64>, now_ms: u64) {
        if self.asked.is_none() {
            return;
        }
        self.told_ms = Some(now_ms);
        self.due_ms = in_ms.map(|in_ms| now_ms.saturating_add(in_ms));
    }

    /// Records that the guest is parked, and the maximum time until it is woken.
    pub(super) fn was_parked(&mut self, at_most_ms: Option<u64>, now_ms: u64) {
        self.latest_ms = at_most_ms.map(|most_ms| now_ms.saturating_add(most_ms));
    }

    /// Returns true if a parked guest is due to be woken.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due_ms| now_ms.saturating_add(AHEAD_MS) >= due_ms)
            || self.latest_ms.is_some_and(|latest_ms| now_ms >= latest_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls [`Alarm::leave`] as if the work of QEMU were unknown.
    fn leave(alarm: &Alarm, now_ms: u64) -> Leave {
        alarm.leave(now_ms, || None)
    }

    #[test]
    fn a_guest_is_queried_before_parking_and_woken_in_time() {
        let mut alarm = Alarm::default();
        assert_eq!(leave(&alarm, 5_000), Leave::Ask);
        alarm.was_asked(5_000, None);
        assert_eq!(leave(&alarm, 9_999), Leave::Wait);
        alarm.was_told(Some(30_000), 6_000);
        assert_eq!(leave(&alarm, 6_000), Leave::Go);
        assert!(!alarm.is_due(34_999) && alarm.is_due(35_000), "it takes time to be woken");
    }

    #[test]
    fn guest_with_timer_due_soon_stays_and_is_asked_again() {
        let mut alarm = Alarm::default();
        alarm.was_asked(0, None);
        alarm.was_told(Some(9_000), 0);
        assert_eq!((leave(&alarm, 0), leave(&alarm, 8_999)), (Leave::Stay, Leave::Stay));
        assert_eq!((leave(&alarm, 9_000), leave(&alarm, 10_000)), (Leave::Stay, Leave::Ask));
        alarm.was_asked(10_000, None);
        alarm.was_told(Some(0), 10_100);
        assert_eq!((leave(&alarm, 10_100), leave(&alarm, 20_099)), (Leave::Stay, Leave::Stay));
        assert_eq!(leave(&alarm, 20_100), Leave::Ask, "not each second");
        alarm.was_asked(20_100, None);
        alarm.was_told(None, 20_200);
        assert_eq!((leave(&alarm, 20_200), leave(&alarm, 80_199)), (Leave::Go, Leave::Go));
        assert_eq!(leave(&alarm, 80_200), Leave::Ask, "another line may be there");
        assert!(!alarm.is_due(u64::MAX));
    }

    #[test]
    fn answer_after_a_wake_is_ignored() {
        let mut alarm = Alarm::default();
        alarm.was_asked(0, None);
        alarm = Alarm::default();
        alarm.was_told(Some(60_000), 50_000);
        assert_eq!(leave(&alarm, 50_000), Leave::Ask);
        assert!(!alarm.is_due(u64::MAX));
    }

    #[test]
    fn missing_daemon_delays_parking_only_until_timeout() {
        let mut alarm = Alarm::default();
        alarm.was_asked(0, None);
        assert_eq!((leave(&alarm, 4_999), leave(&alarm, 5_000)), (Leave::Wait, Leave::Go));
        assert_eq!(leave(&alarm, 60_000), Leave::Ask);
    }

    #[test]
    fn time_counts_only_while_the_guests_qemu_could_run() {
        let mut alarm = Alarm::default();
        alarm.was_asked(0, Some(Work::default()));
        let short = Work { run_ns: 1_000_000_000, delay_ns: 9_000_000_000, ..Work::default() };
        assert_eq!(alarm.leave(10_000, || Some(short)), Leave::Wait, "it had a second");
        assert_eq!(alarm.leave(14_000, || Some(short)), Leave::Go, "and four more");
        let disk = Work { waits_for_disk: true, ..Work::default() };
        assert_eq!(alarm.leave(40_000, || Some(disk)), Leave::Wait);
        assert_eq!(alarm.leave(50_000, || Some(disk)), Leave::Go, "not forever");
    }

    #[test]
    fn parked_guest_is_woken_by_its_limit_too() {
        let mut alarm = Alarm::default();
        alarm.was_asked(0, None);
        alarm.was_told(Some(60_000), 0);
        alarm.was_parked(Some(20_000), 1_000);
        assert!(!alarm.is_due(20_999) && alarm.is_due(21_000));
        alarm.was_parked(None, 1_000);
        assert!(!alarm.is_due(58_999) && alarm.is_due(59_000));
    }
}
