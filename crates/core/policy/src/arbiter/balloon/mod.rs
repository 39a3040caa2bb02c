//! One balloon. Each pass compares the balloon's size with the requested size.
//!
//! ```text
//!                  ask                          reached, stuck, moved by others
//!   Resting ────────────────► Moving { target } ────────────────────────────────► Resting
//!      ▲                          │ supersede: a newer target, or an order to stay
//!      └──────────────────────────┘
//! ```
//!
//! The balloon also waits after failed attempts ([`attempts`]) and after unrequested changes
//! ([`trust`]).

mod attempts;
mod motion;
mod trust;

pub(super) use trust::Trust;

use super::gain::{Holding, Yield};
use super::reason::{Clause, Fate, Left, Outcome};
use super::sample::{GuestSample, Key};
use super::stray::{Back, PROGRESS, Stray, TURNING_MS, distance, slack};
use attempts::{Attempts, Pace};
use base::Bytes;
use motion::{Motion, Target};

/// Time without movement after which a balloon counts as stuck.
pub const STUCK_MS: u64 = 5_000;
/// Time that a guest gets to report pressure after its balloon deflated by itself.
const TOLD_MS: u64 = 3_000;

/// Sizes that a balloon may still pass through after its target was replaced.
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
    motion: Motion,
    /// Present for a while after the target was replaced.
    turning: Option<Turning>,
    /// The guest's maximum at the last check. A new maximum explains a new size.
    max: Option<Bytes>,
    stray: Stray,
    trust: Trust,
    attempts: Attempts,
    /// Host memory gained per shrink, learned from past shrinks.
    pub(super) yields: Yield,
    pace: Pace,
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

/// A guest at the time of a check.
#[derive(Clone, Copy)]
struct Seen<'a> {
    sample: &'a GuestSample,
    actual: Bytes,
    strained: bool,
    now_ms: u64,
}

impl Seen<'_> {
    /// Returns true if the guest's kernel may deflate the balloon now.
    fn may_take_back(&self) -> bool {
        self.strained && self.sample.deflates_on_oom
    }

    fn outcome(&self, result: Fate, host_got: Option<Bytes>) -> Option<Outcome> {
        let (key, reached) = (self.sample.key, self.actual);
        Some(Outcome { key, result, reached, host_got, got_in_all: host_got })
    }

    /// Returns the check of a balloon that the guest's kernel deflated.
    fn taken_back(&self) -> BalloonCheck {
        BalloonCheck {
            outcome: self.outcome(Fate::TookBack, None),
            cap: Some(self.actual),
            guest_deflated: true,
            left: None,
        }
    }

    fn left(&self, rose: bool) -> Option<Left> {
        Some(Left { key: self.sample.key, at: self.actual, rose })
    }
}

impl BalloonTracker {
    /// Records a request for a new size.
    pub fn ask(&mut self, size: Bytes, from: Bytes, held: Holding, now_ms: u64) {
        self.stray.back = None;
        let mut target =
            Target { size, from, held, nearest: from, progress_ms: now_ms, is_released: false };
        // A further request in the same direction is no progress.
        if let Motion::Resting { cancelled: Some(before), .. } = self.motion
            && before.shrinks() == target.shrinks()
            && distance(before.nearest, from) < PROGRESS
        {
            target.progress_ms = before.progress_ms;
        }
        self.motion = Motion::Moving(target);
    }

    /// Records that the requested size is a release, which costs the host nothing until the guest
    /// uses the memory.
    pub fn release(&mut self) {
        if let Motion::Moving(target) = &mut self.motion {
            target.is_released = true;
        }
    }

    /// Returns the released memory that has not arrived.
    pub fn released(&self, actual: Bytes) -> Bytes {
        let released = self.motion.target().filter(|target| target.is_released);
        released.map_or(Bytes::ZERO, |target| target.size.less(actual))
    }

    /// Records the size that the hypervisor has as its target.
    pub fn told(&mut self, size: Bytes) {
        self.stray.told(size);
    }

    /// Forgets the balloon's state after a restart of the guest: the balloon is empty, and its new
    /// driver is unknown. A move by another manager is remembered. Returns the target that QEMU
    /// still has.
    pub fn forget(&mut self) -> Option<Bytes> {
        // The part of a grant that has not arrived is free again.
        let asked = self.motion.target().map(|target| target.size.min(target.nearest));
        let asked = asked.or(self.motion.rest());
        let mut yields = std::mem::take(&mut self.yields);
        yields.forget_loose();
        let trust = self.trust.after_restart();
        *self = BalloonTracker { yields, trust, ..BalloonTracker::default() };
        asked
    }

    /// Accepts any size until `until_ms`, because the driver of a booting guest moves to QEMU's
    /// target by itself.
    pub fn boots(&mut self, until_ms: u64) {
        self.turning = Some(Turning { low: Bytes::ZERO, high: Bytes(u64::MAX), until_ms });
    }

    /// Returns the memory that the balloon must still return to the host.
    pub fn coming(&self, actual: Bytes) -> Bytes {
        let Some(target) = self.motion.target().filter(|t| t.shrinks()) else {
            return Bytes::ZERO;
        };
        target.held.gain(target.size).less(target.held.gain(actual)).min(self.reach())
    }

    /// Returns the limit for granted memory that has not arrived.
    pub fn reach(&self) -> Bytes {
        self.pace.reach()
    }

    /// Returns the memory that was granted and has not arrived.
    pub fn going(&self, actual: Bytes) -> Bytes {
        let target = self.motion.target().filter(|t| !t.shrinks());
        target.map_or(Bytes::ZERO, |t| t.size.less(actual))
    }

    /// Returns the memory that was granted and has not arrived, without releases. If the guest's
    /// size is unknown, its size nearest to the target so far is used. A silent guest may still use
    /// the rest of its grant when it wakes.
    pub fn owed(&self, actual: Option<Bytes>) -> Bytes {
        if self.motion.target().is_some_and(|target| target.is_released) {
            return Bytes::ZERO;
        }
        let had = self.motion.target().map_or(Bytes::ZERO, |target| target.nearest);
        self.going(actual.unwrap_or(had))
    }

    /// Returns the size that the balloon moves to.
    pub fn target(&self) -> Option<Bytes> {
        self.motion.target().map(|t| t.size)
    }

    /// Returns true while the balloon moves to a requested size that is not a release. A release
    /// can be cancelled at any time.
    pub fn is_on_its_way(&self) -> bool {
        self.motion.target().is_some_and(|target| !target.is_released)
    }

    /// Returns true while the balloon shrinks the guest.
    pub fn is_shrinking(&self) -> bool {
        self.motion.target().is_some_and(Target::shrinks)
    }

    /// Returns true if the guest may shrink further without a new request.
    pub fn may_shrink(&self) -> bool {
        match self.motion {
            Motion::Moving(target) => target.shrinks(),
            Motion::Resting { ahead, .. } => ahead.is_some(),
        }
    }

    /// Returns the size to which the guest may grow at no cost for the host, and the clause for
    /// that. Memory up to this size is resident on the host in any case.
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
        self.attempts.deflate.waits(now_ms)
    }

    /// Returns true while the balloon is not inflated because the last request failed.
    pub fn is_stingy(&self, now_ms: u64) -> bool {
        self.attempts.inflate.waits(now_ms)
    }

    /// Returns true while another manager controls the balloon.
    pub fn is_foreign(&self, now_ms: u64) -> bool {
        self.trust.is_foreign(now_ms)
    }

    /// Returns true if another manager moves the balloon, or an unexplained change is recent.
    pub fn is_disturbed(&self, now_ms: u64) -> bool {
        self.trust.is_disturbed(now_ms)
    }

    /// Returns true if the size differs from the size at rest for a reason that is still unknown.
    pub fn is_astray(&self) -> bool {
        self.stray.is_open()
    }

    /// Compares the current size with the target, or with the size at rest.
    pub fn check(&mut self, sample: &GuestSample, strained: bool, now_ms: u64) -> BalloonCheck {
        if let Some(resident) = sample.resident {
            self.yields.see(resident);
        }
        let Some(actual) = sample.actual else { return BalloonCheck::default() };
        if self.max.replace(sample.limits.max).is_some_and(|max| max != sample.limits.max) {
            self.motion.set_rest(None);
        }
        let seen = Seen { sample, actual, strained, now_ms };
        let Motion::Moving(target) = &mut self.motion else { return self.check_at_rest(seen) };
        if !target.shrinks() {
            // Memory unplugged since the request is no longer expected.
            target.size = target.size.min(sample.limits.max.max(target.from));
        }
        let target = *target;
        if distance(actual, target.size) <= slack(target.size) {
            return self.arrived(&target, seen);
        }
        // The size exceeds the grant, so the guest's kernel deflated the balloon further by itself.
        if !target.shrinks() && actual > target.size && seen.may_take_back() {
            self.settle(actual);
            self.attempts.deflate.succeeds();
            return seen.taken_back();
        }
        self.check_direction(&target, seen).unwrap_or_else(|| self.check_progress(target, seen))
    }

    /// Ends a request that the balloon has reached.
    fn arrived(&mut self, target: &Target, seen: Seen<'_>) -> BalloonCheck {
        let host_got = self.yielded(target, seen);
        self.settle(seen.actual);
        if let Motion::Resting { ahead, .. } = &mut self.motion {
            *ahead = Some(target.size).filter(|size| size.plus(PROGRESS) <= seen.actual);
        }
        self.attempts.of(target.shrinks()).succeeds();
        self.pace.arrived();
        let outcome = seen.outcome(Fate::Reached, host_got);
        BalloonCheck { outcome, ..BalloonCheck::default() }
    }

    /// Ends a request if the balloon moved away from its target. If memory was short, the guest's
    /// kernel moved the balloon. Otherwise another manager did.
    fn check_direction(&mut self, target: &Target, seen: Seen<'_>) -> Option<BalloonCheck> {
        let Seen { actual, now_ms, .. } = seen;
        let is_away = match target.shrinks() {
            true => actual > target.nearest.plus(slack(target.nearest)),
            false => target.nearest > actual.plus(slack(actual)),
        };
        let is_taken_back = target.shrinks() && seen.may_take_back();
        if !is_away || (!is_taken_back && self.is_turning(actual, now_ms)) {
            return None;
        }
        self.settle(actual);
        if is_taken_back {
            return Some(seen.taken_back());
        }
        self.trust.unexplained(now_ms);
        // A change by another manager is not reverted.
        let (outcome, left) = (seen.outcome(Fate::Foreign, None), seen.left(target.shrinks()));
        Some(BalloonCheck { outcome, left, ..BalloonCheck::default() })
    }

    /// Measures a moving balloon. Ends the request if the balloon does not move for [`STUCK_MS`].
    fn check_progress(&mut self, mut target: Target, seen: Seen<'_>) -> BalloonCheck {
        let Seen { actual, now_ms, .. } = seen;
        self.pace.measure(actual, now_ms);
        let moves = distance(actual, target.nearest) >= PROGRESS;
        if moves {
            (target.nearest, target.progress_ms) = (actual, now_ms);
            self.motion = Motion::Moving(target);
        }
        if moves || now_ms.saturating_sub(target.progress_ms) < STUCK_MS {
            return BalloonCheck { cap: self.trim(actual), ..BalloonCheck::default() };
        }
        self.attempts.fails(target.shrinks(), now_ms);
        let host_got = self.yielded(&target, seen);
        self.settle(actual);
        self.turn(&target, actual, now_ms);
        let cap = (!self.is_disturbed(now_ms)).then_some(actual);
        let outcome = seen.outcome(Fate::Stuck, host_got);
        BalloonCheck { outcome, cap, ..BalloonCheck::default() }
    }

    /// Reduces a grant to the part that arrives soon. Returns the new target.
    fn trim(&mut self, actual: Bytes) -> Option<Bytes> {
        let reach = self.reach();
        let Motion::Moving(target) = &mut self.motion else { return None };
        // A small excess is not worth another command.
        let enough = reach.plus(Bytes(reach.0 / 4));
        if target.shrinks() || target.size.less(actual) <= enough {
            return None;
        }
        target.size = actual.plus(reach);
        Some(target.size)
    }

    /// Ends an unreached target that is replaced by a newer target or by an order to stay. Returns
    /// the outcome of the ended target.
    pub fn supersede(&mut self, key: Key, actual: Bytes, now_ms: u64) -> Option<Outcome> {
        let target = self.motion.cancel()?;
        self.turn(&target, actual, now_ms);
        let result = Fate::Superseded;
        Some(Outcome { key, result, reached: actual, host_got: None, got_in_all: None })
    }

    fn settle(&mut self, actual: Bytes) {
        self.motion = Motion::resting(actual);
        self.turning = None;
        self.pace.rests();
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

    fn check_at_rest(&mut self, seen: Seen<'_>) -> BalloonCheck {
        let Seen { actual, now_ms, .. } = seen;
        // Each size is compared with the size at rest, so that small steps add up.
        let rest = self.motion.rest().unwrap_or(actual);
        self.motion.set_rest(Some(rest));
        if distance(rest, actual) <= slack(rest) {
            (self.stray.rose_ms, self.stray.back) = (None, None);
            return BalloonCheck::default();
        }
        if self.waits_for_report(rest, seen) {
            return BalloonCheck::default();
        }
        self.stray.rose_ms = None;
        // A guest without its balloon driver has all of its memory. Another manager would leave the
        // guest less memory.
        let was_away = self.max.is_some_and(|max| rest.plus(slack(rest)) >= max);
        match self.stray.goes_back(rest, actual, was_away, now_ms) {
            Back::No => self.stray.before = None,
            // The change is attributed to another manager until the balloon has returned to its
            // target.
            Back::OnItsWay => {
                self.stray.before.get_or_insert(self.trust);
                self.trust.unexplained(now_ms);
                return BalloonCheck::default();
            }
            Back::There => {
                self.trust = self.stray.before.take().unwrap_or(self.trust);
                self.motion.set_rest(Some(actual));
                return BalloonCheck::default();
            }
        }
        self.motion.set_rest(Some(actual));
        if actual > rest && seen.may_take_back() {
            return seen.taken_back();
        }
        if self.is_turning(actual, now_ms) {
            return BalloonCheck::default();
        }
        self.trust.unexplained(now_ms);
        BalloonCheck { left: seen.left(actual > rest), ..BalloonCheck::default() }
    }

    /// Returns true while a guest that grew by itself may still report pressure. The guest's kernel
    /// deflates the balloon before the guest's daemon can report.
    fn waits_for_report(&mut self, rest: Bytes, seen: Seen<'_>) -> bool {
        let Seen { sample, actual, strained, now_ms } = seen;
        if actual <= rest || !sample.deflates_on_oom || strained {
            return false;
        }
        let since_ms = *self.stray.rose_ms.get_or_insert(now_ms);
        let is_told = sample.memory.is_some_and(|memory| memory.at_ms > since_ms);
        !is_told && now_ms.saturating_sub(since_ms) < TOLD_MS
    }

    /// Learns from a shrink how much memory the host gained. Returns that amount.
    fn yielded(&mut self, target: &Target, seen: Seen<'_>) -> Option<Bytes> {
        if !target.shrinks() {
            return None;
        }
        let sample = seen.sample;
        let (before, now) = target.held.change(sample)?;
        // The gain is compared with the size that was reached, because a balloon that did not move
        // could not gain memory for the host.
        let reached = seen.actual.max(target.size);
        let came = (target.held.got(sample)?, sample.resident?);
        let in_vain = target.held.is_in_vain(reached, sample).then_some(target.from);
        self.yields.learn(&target.held, reached, came, in_vain, seen.now_ms);
        Some(before.less(now))
    }
}
