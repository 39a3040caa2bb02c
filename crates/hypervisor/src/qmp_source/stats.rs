//! One set of balloon statistics, asked for with one wake-up of the guest.
//!
//! ```text
//!   the interval? the statistics before? ─► interval := LONELY ─► the statistics since?, …
//!                                                    └─► the interval as it was
//! ```
//!
//! QEMU asks the guest at once when the interval becomes something else than 0, and again when
//! it has passed since the guest's answer. An interval of about a day therefore asks once; and if
//! this process dies before it has put the interval back, the guest is left alone all the same.

use counters::Bytes;
use qmp::{Command, Failure, Reply, Value};

use super::link::{Link, Purpose};
use crate::BalloonStats;

/// The interval that asks once, in seconds. It is an odd one, so that another manager's is not
/// taken for what a predecessor of ours has left behind.
const LONELY_S: u32 = 86_399;
/// A guest that has not answered by then does not answer: its driver is gone, or it hangs.
const PATIENCE_MS: u64 = 2_000;
/// When the guest is asked once more. Statistics tell the second in which they came, so that an
/// answer in the same second as the one before, and equal to it, cannot be told from none.
const AGAIN_MS: u64 = 1_000;
/// How soon after the guest was asked its answer is looked for, and how late at most. It comes
/// within a millisecond or two from a guest that runs, and each look doubles the wait.
const FIRST_LOOK_MS: u64 = 4;
const LOOK_MAX_MS: u64 = 250;

/// A question that is under way.
#[derive(Debug)]
pub(super) struct StatsAsk {
    device: String,
    began_ms: u64,
    /// What was there before; `None` until QEMU has said it.
    before: Option<Value>,
    /// The interval to put back; `None` as long as it was not changed.
    restore_s: Option<u32>,
    asked_again: bool,
    next_look_ms: u64,
    wait_ms: u64,
}

/// What has become of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    Answered(Box<BalloonStats>),
    /// The guest does not answer, or QEMU has none to give.
    Failed,
}

impl StatsAsk {
    /// Begins, unless an older question of this kind still waits for QEMU.
    pub(super) fn begin(device: &str, link: &mut Link, now_ms: u64) -> Option<StatsAsk> {
        let is_ours = |purpose: &Purpose| {
            use Purpose::{StatsBefore, StatsInterval, StatsOn, StatsSince};
            matches!(purpose, StatsBefore | StatsInterval | StatsOn | StatsSince)
        };
        if link.waits_for(is_ours) {
            return None;
        }
        let ask = StatsAsk {
            device: device.to_owned(),
            began_ms: now_ms,
            before: None,
            restore_s: None,
            asked_again: false,
            next_look_ms: u64::MAX,
            wait_ms: FIRST_LOOK_MS,
        };
        ask.get(Purpose::StatsBefore, "guest-stats", link, now_ms);
        ask.get(Purpose::StatsInterval, "guest-stats-polling-interval", link, now_ms);
        Some(ask)
    }

    fn get(&self, purpose: Purpose, property: &'static str, link: &mut Link, now_ms: u64) {
        link.ask(purpose, Command::QomGet { path: self.device.clone(), property }, now_ms);
    }

    fn set(&self, purpose: Purpose, interval_seconds: u32, link: &mut Link, now_ms: u64) {
        let device_path = self.device.clone();
        link.ask(purpose, Command::SetStatsInterval { device_path, interval_seconds }, now_ms);
    }

    /// Takes an answer that is for it.
    pub(super) fn answer(
        &mut self,
        purpose: Purpose,
        outcome: Result<Reply, Failure>,
        link: &mut Link,
        now_ms: u64,
    ) -> Progress {
        match (purpose, outcome) {
            (Purpose::StatsBefore, Ok(Reply::Value(value))) => self.before = Some(value),
            // An older QEMU has none to show before the guest has said some.
            (Purpose::StatsBefore, _) => self.before = Some(Value::Null),
            (Purpose::StatsInterval, Ok(Reply::Value(value))) => {
                let found = value.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
                let Some(found_s) = found else { return Progress::Failed };
                self.restore_s = Some(if found_s == LONELY_S { 0 } else { found_s });
                if found_s != 0 {
                    self.set(Purpose::StatsOff, 0, link, now_ms);
                }
                self.set(Purpose::StatsOn, LONELY_S, link, now_ms);
            }
            (Purpose::StatsOn, Ok(_)) => self.next_look_ms = now_ms + self.wait_ms,
            (Purpose::StatsSince, Ok(Reply::Value(value))) => {
                self.wait_ms = (self.wait_ms * 2).min(LOOK_MAX_MS);
                self.next_look_ms = now_ms + self.wait_ms;
                if self.is_news(&value)
                    && let Some(stats) = parse(&value)
                {
                    return Progress::Answered(Box::new(stats));
                }
            }
            (Purpose::StatsInterval | Purpose::StatsOn, _) => return Progress::Failed,
            _ => {}
        }
        Progress::Waits
    }

    /// What has come is either later than what was there, or something else.
    fn is_news(&self, value: &Value) -> bool {
        self.before.as_ref().is_some_and(|before| before != value)
    }

    /// Looks for the answer when it is time to.
    pub(super) fn tick(&mut self, link: &mut Link, now_ms: u64) -> Progress {
        if now_ms >= self.began_ms + PATIENCE_MS {
            return Progress::Failed;
        }
        if now_ms >= self.next_look_ms {
            self.next_look_ms = u64::MAX;
            if now_ms >= self.began_ms + AGAIN_MS && !self.asked_again {
                self.asked_again = true;
                self.wait_ms = FIRST_LOOK_MS;
                self.set(Purpose::StatsOff, 0, link, now_ms);
                self.set(Purpose::StatsOn, LONELY_S, link, now_ms);
            } else {
                self.get(Purpose::StatsSince, "guest-stats", link, now_ms);
            }
        }
        Progress::Waits
    }

    pub(super) fn next_ms(&self) -> u64 {
        self.next_look_ms.min(self.began_ms + PATIENCE_MS)
    }

    /// Puts the interval back, if it was changed.
    pub(super) fn end(self, link: &mut Link, now_ms: u64) {
        if let Some(interval_s) = self.restore_s {
            self.set(Purpose::StatsOff, interval_s, link, now_ms);
        }
    }
}

/// Reads a balloon's `guest-stats`. QEMU shows a statistic that the guest did not give as the
/// largest number; one that is no number is missing as well. A guest that has never answered has
/// no statistics.
pub(super) fn parse(value: &Value) -> Option<BalloonStats> {
    let updated_s = value.get("last-update")?.as_u64().filter(|seconds| *seconds > 0)?;
    let stats = value.get("stats")?.as_object()?;
    let number = |name: &str| stats.get(name)?.as_u64().filter(|number| *number != u64::MAX);
    let bytes = |name: &str| number(name).map(Bytes);
    Some(BalloonStats {
        updated_s,
        total: bytes("stat-total-memory"),
        free: bytes("stat-free-memory"),
        available: bytes("stat-available-memory"),
        caches: bytes("stat-disk-caches"),
        swap_in: bytes("stat-swap-in"),
        swap_out: bytes("stat-swap-out"),
        major_faults: number("stat-major-faults"),
    })
}
