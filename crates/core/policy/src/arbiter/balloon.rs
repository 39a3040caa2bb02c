//! Progress of a balloon's last request, which may be reached, moving, stuck, or overridden by
//! another manager.

use super::gain::{Holding, Yield};
use super::reason::{Clause, Fate, Left, Outcome};
use super::sample::{GuestSample, Key};
use super::stray::{Back, PROGRESS, Stray, TURNING_MS, distance, slack};
use base::Bytes;

/// Time without movement after which a balloon counts as stuck.
pub const STUCK_MS: u64 = 5_000;
/// First wait before a stuck balloon is tried again. Each further wait is twice as long.
const RETRY_MS: u64 = 10_000;
/// Longest wait between two attempts to inflate a stuck balloon.
const TAKE_MS_MAX: u64 = 600_000;
/// Longest wait between two attempts to deflate a stuck balloon. It is shorter, because the guest
/// may be in need.
const GIVE_MS_MAX: u64 = 60_000;
/// Two unrequested changes of size within this time are attributed to another manager.
const FOREIGN_WINDOW_MS: u64 = 60_000;
/// Changes closer together than this count as one change.
const BREAK_MS: u64 = 3_000;
/// Time for which nothing is requested from a balloon that another manager moves.
const FOREIGN_MS: u64 = 600_000;
/// Time for which nothing is requested from a guest after one unexplained change.
const UNEXPLAINED_MS: u64 = 10_000;
/// Time that a guest has to report pressure after its balloon deflated by itself.
const TOLD_MS: u64 = 3_000;
/// Limit for granted memory that has not arrived: the amount that arrives within this time at the
/// measured speed. Otherwise a slow balloon could block memory for minutes that other guests could
/// use.
const REACH_MS: u64 = 8_000;
/// Smallest such limit, so that a slow balloon that has become faster is noticed.
const REACH_MIN: Bytes = Bytes::mib(128);
/// Shortest time over which a speed is measured.
const SPEED_MS: u64 = 400;

/// A requested size that has not been reached yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    size: Bytes,
    from: Bytes,
    /// The guest's resident memory at its size `from`.
    held: Holding,
    /// Size closest to the target so far.
    nearest: Bytes,
    progress_ms: u64,
}

impl Target {
    fn shrinks(&self) -> bool {
        self.size < self.from
    }
}

/// Sizes that a balloon may still pass after its target was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turning {
    low: Bytes,
    high: Bytes,
    until_ms: u64,
}

impl Turning {
    fn explains(&self, actual: Bytes, now_ms: u64) -> bool {
        let (low, high) = (self.low.less(slack(self.low)), self.high.plus(slack(self.high)));
        now_ms < self.until_ms && (low..=high).contains(&actual)
    }
}

/// The record of one balloon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalloonTracker {
    target: Option<Target>,
    /// Target that the current request replaced.
    before: Option<Target>,
    /// Target slightly below the size at rest, to which the balloon may still move.
    ahead: Option<Bytes>,
    /// The guest's maximum at the last check. A new maximum explains a new size.
    max: Option<Bytes>,
    /// Size at rest, to detect unrequested changes.
    rest: Option<Bytes>,
    /// Present for a while after the target was replaced.
    turning: Option<Turning>,
    stray: Stray,
    /// Consecutive failed attempts to inflate the balloon.
    not_given: u32,
    /// Consecutive failed attempts to deflate the balloon.
    not_taken: u32,
    /// End of the time in which nothing is requested, because the balloon does not move.
    stuck_until_ms: Option<u64>,
    /// End of the time in which the balloon is not inflated, because it did not inflate before. The
    /// guest may still grow.
    stingy_until_ms: Option<u64>,
    unexplained_ms: Option<u64>,
    foreign_until_ms: Option<u64>,
    /// Host memory gained per shrink, learned from past shrinks.
    pub(super) yields: Yield,
    pace: Pace,
}

/// The speed of a balloon, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pace {
    /// Size and time of the last measurement.
    seen: Option<(Bytes, u64)>,
    /// Bytes moved in a second, once a move was long enough to measure.
    speed: Option<Bytes>,
}

/// The result of a balloon check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalloonCheck {
    /// Outcome of an earlier target.
    pub outcome: Option<Outcome>,
    /// Size to request now: the current size of a balloon that stopped or was moved, or a trimmed
    /// target.
    pub cap: Option<Bytes>,
    /// True if the guest's kernel deflated the balloon because memory was short.
    pub guest_deflated: bool,
    /// An unrequested size.
    pub left: Option<Left>,
}

impl BalloonTracker {
    /// Records a request for a new size.
    pub fn ask(&mut self, size: Bytes, from: Bytes, held: Holding, now_ms: u64) {
        (self.rest, self.ahead, self.stray.back) = (None, None, None);
        let mut target = Target { size, from, held, nearest: from, progress_ms: now_ms };
        // A further request in the same direction is no progress.
        let before = self.before.take().filter(|b| b.shrinks() == target.shrinks());
        if let Some(before) = before
            && distance(before.nearest, from) < PROGRESS
        {
            target.progress_ms = before.progress_ms;
        }
        self.target = Some(target);
    }

    /// Records the size that the hypervisor has as its target.
    pub fn told(&mut self, size: Bytes) {
        self.stray.told(size);
    }

    /// Forgets the balloon after a restart, because it is empty, and its new driver is unknown. A
    /// move by another manager is remembered. Returns the size that QEMU still has as its target.
    pub fn forget(&mut self) -> Option<Bytes> {
        // The part of a grant that has not arrived is free again.
        let asked = self.target.map(|target| target.size.min(target.nearest)).or(self.rest);
        let mut yields = std::mem::take(&mut self.yields);
        yields.forget_loose();
        let foreign_until_ms = self.foreign_until_ms;
        *self = BalloonTracker { yields, foreign_until_ms, ..BalloonTracker::default() };
        asked
    }

    /// Accepts any size until `until_ms`, because the driver of a booting guest moves to QEMU's
    /// target by itself.
    pub fn boots(&mut self, until_ms: u64) {
        self.turning = Some(Turning { low: Bytes::ZERO, high: Bytes(u64::MAX), until_ms });
    }

    /// Returns the memory that the balloon has still to return to the host.
    pub fn coming(&self, actual: Bytes) -> Bytes {
        let Some(target) = self.target.filter(|t| t.shrinks()) else { return Bytes::ZERO };
        target.held.gain(target.size).less(target.held.gain(actual)).min(self.reach())
    }

    /// Returns the limit for granted memory that has not arrived.
    pub fn reach(&self) -> Bytes {
        let Some(speed) = self.pace.speed else { return Bytes(u64::MAX) };
        Bytes(speed.0.saturating_mul(REACH_MS / 1000)).max(REACH_MIN)
    }

    /// Measures the speed while the balloon moves.
    fn measure(&mut self, actual: Bytes, now_ms: u64) {
        let Some((before, at_ms)) = self.pace.seen else {
            self.pace.seen = Some((actual, now_ms));
            return;
        };
        let window_ms = now_ms.saturating_sub(at_ms);
        if window_ms >= SPEED_MS {
            self.pace.speed =
                Some(Bytes(distance(actual, before).0.saturating_mul(1000) / window_ms));
            self.pace.seen = Some((actual, now_ms));
        }
    }

    /// Returns the memory that was granted and has not arrived.
    pub fn going(&self, actual: Bytes) -> Bytes {
        self.target.filter(|t| !t.shrinks()).map_or(Bytes::ZERO, |t| t.size.less(actual))
    }

    /// Returns the same amount for a guest of possibly unknown size. A silent guest keeps its last
    /// size, and may use the rest of its grant when it wakes.
    pub fn owed(&self, actual: Option<Bytes>) -> Bytes {
        let had = self.target.map_or(Bytes::ZERO, |target| target.nearest);
        self.going(actual.unwrap_or(had))
    }

    /// Returns the size that the balloon moves to.
    pub fn target(&self) -> Option<Bytes> {
        self.target.map(|t| t.size)
    }

    /// Returns true while the balloon shrinks the guest.
    pub fn is_shrinking(&self) -> bool {
        self.target.is_some_and(|t| t.shrinks())
    }

    /// Returns true if the guest may shrink further without a new request.
    pub fn may_shrink(&self) -> bool {
        self.is_shrinking() || self.ahead.is_some()
    }

    /// Returns the size to which the guest may grow at no cost for the host, with the clause. The
    /// host has that memory resident in any case.
    pub fn returned(&self, sample: &GuestSample) -> Option<(Bytes, Clause)> {
        let stays = sample.resident?.less(sample.doubtful);
        let before = self.yields.in_vain().filter(|_| !self.is_shrinking());
        let (size, clause) = match (sample.process.pinned, before) {
            (Some(_), _) => (sample.limits.max, Clause::Locked),
            (None, Some(before)) => (before, Clause::NoYield),
            (None, None) => return None,
        };
        let size = size.min(stays);
        sample.actual.is_some_and(|actual| actual < size).then_some((size, clause))
    }

    /// Returns true while nothing is requested from the guest because its balloon does not move.
    pub fn is_stuck(&self, now_ms: u64) -> bool {
        self.stuck_until_ms.is_some_and(|until| now_ms < until)
    }

    /// Returns true while the balloon is not inflated because the last request failed.
    pub fn is_stingy(&self, now_ms: u64) -> bool {
        self.stingy_until_ms.is_some_and(|until| now_ms < until)
    }

    /// Returns true while another manager controls the balloon.
    pub fn is_foreign(&self, now_ms: u64) -> bool {
        self.foreign_until_ms.is_some_and(|until| now_ms < until)
    }

    /// Returns true if another manager moves the balloon, or an unexplained change is recent.
    pub fn is_disturbed(&self, now_ms: u64) -> bool {
        self.is_foreign(now_ms)
            || self.unexplained_ms.is_some_and(|at| now_ms < at + UNEXPLAINED_MS)
    }

    /// Compares the current size with the target, or with the size at rest.
    pub fn check(&mut self, sample: &GuestSample, strained: bool, now_ms: u64) -> BalloonCheck {
        if let Some(resident) = sample.resident {
            self.yields.see(resident);
        }
        let Some(actual) = sample.actual else { return BalloonCheck::default() };
        if self.max.replace(sample.limits.max).is_some_and(|max| max != sample.limits.max) {
            self.rest = None;
        }
        if let Some(target) = self.target.as_mut().filter(|target| !target.shrinks()) {
            // Memory unplugged since the request is no longer expected.
            target.size = target.size.min(sample.limits.max.max(target.from));
        }
        let Some(mut target) = self.target else {
            return self.check_at_rest(sample, actual, strained, now_ms);
        };
        let outcome = |result, host_got| {
            Some(Outcome {
                key: sample.key,
                result,
                reached: actual,
                host_got,
                got_in_all: host_got,
            })
        };
        let left = distance(actual, target.size);
        if left <= slack(target.size) {
            let host_got = self.yielded(&target, actual, sample, now_ms);
            self.settle(actual);
            self.ahead = Some(target.size).filter(|size| size.plus(PROGRESS) <= actual);
            match target.shrinks() {
                true => self.not_given = 0,
                false => self.not_taken = 0,
            }
            // The balloon reached its target, so it may be faster than measured.
            self.pace.speed = self.pace.speed.map(|speed| Bytes(speed.0.saturating_mul(2)));
            return BalloonCheck {
                outcome: outcome(Fate::Reached, host_got),
                ..BalloonCheck::default()
            };
        }
        // The size exceeds the grant, so the guest's kernel deflated the balloon further by itself.
        if !target.shrinks() && actual > target.size && strained && sample.deflates_on_oom {
            self.settle(actual);
            self.not_taken = 0;
            let cap = Some(actual);
            return BalloonCheck {
                outcome: outcome(Fate::TookBack, None),
                cap,
                guest_deflated: true,
                left: None,
            };
        }
        // The balloon moved away from its target. If memory was short, the guest's kernel moved it,
        // and otherwise another manager.
        let wrong = match target.shrinks() {
            true => actual > target.nearest.plus(slack(target.nearest)),
            false => target.nearest > actual.plus(slack(actual)),
        };
        let guest_deflated = target.shrinks() && strained && sample.deflates_on_oom;
        if wrong && (guest_deflated || !self.is_turning(actual, now_ms)) {
            self.settle(actual);
            if !guest_deflated {
                self.unexplained(now_ms);
            }
            let result = if guest_deflated { Fate::TookBack } else { Fate::Foreign };
            // A change by another manager is not reverted.
            let cap = guest_deflated.then_some(actual);
            let left = Left { key: sample.key, at: actual, rose: target.shrinks() };
            let left = (!guest_deflated).then_some(left);
            return BalloonCheck { outcome: outcome(result, None), cap, guest_deflated, left };
        }
        self.measure(actual, now_ms);
        let moves = distance(actual, target.nearest) >= PROGRESS;
        if moves {
            target.nearest = actual;
            target.progress_ms = now_ms;
            self.target = Some(target);
        }
        if moves || now_ms.saturating_sub(target.progress_ms) < STUCK_MS {
            return BalloonCheck { cap: self.trim(actual), ..BalloonCheck::default() };
        }
        let (tries, most_ms, until) = match target.shrinks() {
            true => (&mut self.not_given, TAKE_MS_MAX, &mut self.stingy_until_ms),
            false => (&mut self.not_taken, GIVE_MS_MAX, &mut self.stuck_until_ms),
        };
        *until = Some(now_ms + (RETRY_MS << (*tries).min(10)).min(most_ms));
        *tries += 1;
        let host_got = self.yielded(&target, actual, sample, now_ms);
        self.settle(actual);
        self.turn(&target, actual, now_ms);
        let cap = (!self.is_disturbed(now_ms)).then_some(actual);
        let outcome = outcome(Fate::Stuck, host_got);
        BalloonCheck { outcome, cap, ..BalloonCheck::default() }
    }

    /// Reduces a grant to the part that arrives soon. Returns the new target.
    fn trim(&mut self, actual: Bytes) -> Option<Bytes> {
        let reach = self.reach();
        let target = self.target.as_mut().filter(|t| !t.shrinks())?;
        // A small excess is not worth another command.
        if target.size.less(actual) <= reach.plus(Bytes(reach.0 / 4)) {
            return None;
        }
        target.size = actual.plus(reach);
        Some(target.size)
    }

    /// Ends an unreached target that is replaced by a newer target or by an order to stay. Returns
    /// its outcome.
    pub fn supersede(&mut self, key: Key, actual: Bytes, now_ms: u64) -> Option<Outcome> {
        (self.before, self.ahead) = (self.target.take(), None);
        self.turn(&self.before?, actual, now_ms);
        let result = Fate::Superseded;
        Some(Outcome { key, result, reached: actual, host_got: None, got_in_all: None })
    }

    fn settle(&mut self, actual: Bytes) {
        (self.target, self.before, self.ahead) = (None, None, None);
        (self.turning, self.pace.seen) = (None, None);
        self.rest = Some(actual);
    }

    /// Returns true if a replaced target explains this size.
    fn is_turning(&self, actual: Bytes, now_ms: u64) -> bool {
        self.turning.is_some_and(|turning| turning.explains(actual, now_ms))
    }

    /// Records that the target was replaced while the balloon was at `actual`.
    fn turn(&mut self, target: &Target, actual: Bytes, now_ms: u64) {
        let (mut low, mut high) = (actual.min(target.size), actual.max(target.size));
        if let Some(before) = self.turning.filter(|before| now_ms < before.until_ms) {
            (low, high) = (low.min(before.low), high.max(before.high));
        }
        self.turning = Some(Turning { low, high, until_ms: now_ms + TURNING_MS });
    }

    fn check_at_rest(
        &mut self,
        sample: &GuestSample,
        actual: Bytes,
        strained: bool,
        now_ms: u64,
    ) -> BalloonCheck {
        // Small steps are compared with the size at rest, so that they add up.
        let rest = *self.rest.get_or_insert(actual);
        if distance(rest, actual) <= slack(rest) {
            (self.stray.rose_ms, self.stray.back) = (None, None);
            return BalloonCheck::default();
        }
        if actual > rest && sample.deflates_on_oom && !strained {
            // A kernel deflates the balloon before its daemon reports pressure.
            let since_ms = *self.stray.rose_ms.get_or_insert(now_ms);
            let is_told = sample.memory.is_some_and(|memory| memory.at_ms > since_ms);
            if !is_told && now_ms.saturating_sub(since_ms) < TOLD_MS {
                return BalloonCheck::default();
            }
        }
        self.stray.rose_ms = None;
        // A guest without its balloon driver has all of its memory. Another manager would leave it
        // less.
        let was_away = self.max.is_some_and(|max| rest.plus(slack(rest)) >= max);
        match self.stray.goes_back(rest, actual, was_away, now_ms) {
            Back::No => self.stray.before = None,
            // The change is attributed to another manager until the balloon has returned to its
            // target.
            Back::OnItsWay => {
                self.stray.before.get_or_insert((self.unexplained_ms, self.foreign_until_ms));
                self.unexplained(now_ms);
                return BalloonCheck::default();
            }
            Back::There => {
                if let Some(before) = self.stray.before.take() {
                    (self.unexplained_ms, self.foreign_until_ms) = before;
                }
                self.rest = Some(actual);
                return BalloonCheck::default();
            }
        }
        self.rest = Some(actual);
        if actual > rest && strained && sample.deflates_on_oom {
            let outcome = Outcome {
                key: sample.key,
                result: Fate::TookBack,
                reached: actual,
                host_got: None,
                got_in_all: None,
            };
            return BalloonCheck {
                outcome: Some(outcome),
                cap: Some(actual),
                guest_deflated: true,
                left: None,
            };
        }
        if self.is_turning(actual, now_ms) {
            return BalloonCheck::default();
        }
        self.unexplained(now_ms);
        let left = Left { key: sample.key, at: actual, rose: actual > rest };
        BalloonCheck { left: Some(left), ..BalloonCheck::default() }
    }

    /// Returns true if the size differs from the size at rest for a reason that is still unknown.
    pub fn is_astray(&self) -> bool {
        self.stray.is_open()
    }

    fn unexplained(&mut self, now_ms: u64) {
        let before = self.unexplained_ms.replace(now_ms);
        // Changes without a pause between them count as one change.
        let since_ms = before.map(|at| now_ms.saturating_sub(at));
        if since_ms.is_some_and(|ms| (BREAK_MS..=FOREIGN_WINDOW_MS).contains(&ms)) {
            self.foreign_until_ms = Some(now_ms + FOREIGN_MS);
        }
    }

    /// Learns from a shrink how much memory the host gained. Returns that amount.
    fn yielded(
        &mut self,
        target: &Target,
        reached: Bytes,
        sample: &GuestSample,
        now_ms: u64,
    ) -> Option<Bytes> {
        if !target.shrinks() {
            return None;
        }
        let (before, now) = target.held.change(sample)?;
        // The reached size counts, because a balloon that did not move returned nothing that the
        // host could lose.
        let reached = reached.max(target.size);
        let came = (target.held.got(sample)?, sample.resident?);
        let in_vain = target.held.is_in_vain(reached, sample).then_some(target.from);
        self.yields.learn(&target.held, reached, came, in_vain, now_ms);
        Some(before.less(now))
    }
}
