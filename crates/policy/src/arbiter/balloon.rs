//! What became of what was asked of a balloon: arrived, on its way, stuck, or moved by others.

use super::gain::{Holding, Yield};
use super::reason::{Arrival, Clause, Left, Outcome};
use super::sample::{GuestSample, Key};
use super::stray::{Back, PROGRESS, Stray, TURNING_MS, distance, slack};
use counters::Bytes;

/// A balloon that has not moved for so long is stuck.
pub const STUCK_MS: u64 = 5_000;
/// A stuck balloon is tried again after this, and after twice as long each time.
const RETRY_MS: u64 = 10_000;
/// The longest time between two tries to take from it,
const TAKE_MS_MAX: u64 = 600_000;
/// and to give it memory: while nothing is tried, a guest in need waits.
const GIVE_MS_MAX: u64 = 60_000;
/// Two changes that nobody here asked for within this time have another author.
const FOREIGN_WINDOW_MS: u64 = 60_000;
/// Changes with no more between them than this are one.
const BREAK_MS: u64 = 3_000;
/// For how long a balloon that another manager moves is left to it.
const FOREIGN_MS: u64 = 600_000;
/// After one unexplained change a guest is left alone for this long.
const UNEXPLAINED_MS: u64 = 10_000;
/// A guest that has taken memory back by itself says within this what for.
const TOLD_MS: u64 = 3_000;
/// No more is under way at once than arrives within this, as fast as the balloon was seen to be:
/// a slow one must not keep for minutes what others could use.
const REACH_MS: u64 = 8_000;
/// But so much in any case, to see whether it has become faster.
const REACH_MIN: Bytes = Bytes::mib(128);
/// A speed is taken over no less time than this.
const SPEED_MS: u64 = 400;

/// A size that was asked for and has not been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    size: Bytes,
    from: Bytes,
    /// What of `from` was in the host's memory.
    held: Holding,
    /// How far it came.
    nearest: Bytes,
    progress_ms: u64,
}

impl Target {
    fn shrinks(&self) -> bool {
        self.size < self.from
    }
}

/// Sizes that a balloon may still have passed on the way that it was told to leave.
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

/// One balloon's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalloonTracker {
    target: Option<Target>,
    /// What it was on its way to before it was asked again.
    before: Option<Target>,
    /// It came to rest a little above this size, and may go on to it yet.
    ahead: Option<Bytes>,
    /// What it may have at most: another size is of another machine.
    max: Option<Bytes>,
    /// The size at rest, to notice changes that nobody here asked for.
    rest: Option<Bytes>,
    /// It was told to leave its way a moment ago.
    turning: Option<Turning>,
    stray: Stray,
    /// How often in a row it has not given what it was asked for,
    not_given: u32,
    /// and has not taken what it was given.
    not_taken: u32,
    /// It does not take what it is given, and nothing is asked of it until then.
    stuck_until_ms: Option<u64>,
    /// It does not give what it is asked for. What it has too little of it still gets.
    stingy_until_ms: Option<u64>,
    unexplained_ms: Option<u64>,
    foreign_until_ms: Option<u64>,
    /// What the host gets of what it takes.
    pub(super) yields: Yield,
    pace: Pace,
}

/// Its speed, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pace {
    /// Where it was when its speed was looked at.
    seen: Option<(Bytes, u64)>,
    /// What it moves in a second, if it ever had more to do than it did at once.
    speed: Option<Bytes>,
}

/// What a look at a balloon came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalloonCheck {
    /// How an earlier target came out.
    pub outcome: Option<Outcome>,
    /// It is stuck since now: it is to be asked for what it has.
    pub cap: Option<Bytes>,
    /// Its kernel took memory back: it has too little.
    pub guest_deflated: bool,
    /// The size that nobody here asked for.
    pub left: Option<Left>,
}

impl BalloonTracker {
    /// Something was asked of it.
    pub fn ask(&mut self, size: Bytes, from: Bytes, held: Holding, now_ms: u64) {
        (self.rest, self.ahead, self.stray.back) = (None, None, None);
        let mut target = Target { size, from, held, nearest: from, progress_ms: now_ms };
        // One that is asked for more of the same has not made progress by that.
        let before = self.before.take().filter(|b| b.shrinks() == target.shrinks());
        if let Some(before) = before
            && distance(before.nearest, from) < PROGRESS
        {
            target.progress_ms = before.progress_ms;
        }
        self.target = Some(target);
    }

    /// Its hypervisor has this size for it from now on.
    pub fn told(&mut self, size: Bytes) {
        self.stray.told(size);
    }

    /// It started again: its balloon is empty, and another driver moves it, of which nothing is
    /// known. Another manager stays its manager. Gives the size that QEMU still has for it.
    pub fn forget(&mut self) -> Option<Bytes> {
        // What was still on its way up is free again.
        let asked = self.target.map(|target| target.size.min(target.nearest)).or(self.rest);
        let mut yields = std::mem::take(&mut self.yields);
        yields.forget_loose();
        let foreign_until_ms = self.foreign_until_ms;
        *self = BalloonTracker { yields, foreign_until_ms, ..BalloonTracker::default() };
        asked
    }

    /// The driver of a guest that boots goes to the size that QEMU has for it, by itself.
    pub fn boots(&mut self, until_ms: u64) {
        self.turning = Some(Turning { low: Bytes::ZERO, high: Bytes(u64::MAX), until_ms });
    }

    /// What is still to come from it to the host.
    pub fn coming(&self, actual: Bytes) -> Bytes {
        let Some(target) = self.target.filter(|t| t.shrinks()) else { return Bytes::ZERO };
        target.held.gain(target.size).less(target.held.gain(actual)).min(self.reach())
    }

    /// What may be under way at once.
    pub fn reach(&self) -> Bytes {
        let Some(speed) = self.pace.speed else { return Bytes(u64::MAX) };
        Bytes(speed.0.saturating_mul(REACH_MS / 1000)).max(REACH_MIN)
    }

    /// Takes its speed while it has more to do.
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

    /// What was given to it and has not arrived.
    pub fn going(&self, actual: Bytes) -> Bytes {
        self.target.filter(|t| !t.shrinks()).map_or(Bytes::ZERO, |t| t.size.less(actual))
    }

    /// The same for a guest of which may be known what it has: one that has fallen silent still
    /// has what it had, and may take the rest when it wakes.
    pub fn owed(&self, actual: Option<Bytes>) -> Bytes {
        let had = self.target.map_or(Bytes::ZERO, |target| target.nearest);
        self.going(actual.unwrap_or(had))
    }

    /// The size that it is on its way to.
    pub fn target(&self) -> Option<Bytes> {
        self.target.map(|t| t.size)
    }

    /// Whether it is on its way down.
    pub fn is_shrinking(&self) -> bool {
        self.target.is_some_and(|t| t.shrinks())
    }

    /// Whether it may give more without being asked again.
    pub fn may_shrink(&self) -> bool {
        self.is_shrinking() || self.ahead.is_some()
    }

    /// The size of its guest that costs the host nothing, and why: it has that much all the same.
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

    /// Whether it is left out because it does not move.
    pub fn is_stuck(&self, now_ms: u64) -> bool {
        self.stuck_until_ms.is_some_and(|until| now_ms < until)
    }

    /// Whether nothing is asked of it because it gave nothing when it was.
    pub fn is_stingy(&self, now_ms: u64) -> bool {
        self.stingy_until_ms.is_some_and(|until| now_ms < until)
    }

    /// Whether another manager moves it, and it is left to that one.
    pub fn is_foreign(&self, now_ms: u64) -> bool {
        self.foreign_until_ms.is_some_and(|until| now_ms < until)
    }

    /// Whether another manager moves it, or moved it a moment ago.
    pub fn is_disturbed(&self, now_ms: u64) -> bool {
        self.is_foreign(now_ms)
            || self.unexplained_ms.is_some_and(|at| now_ms < at + UNEXPLAINED_MS)
    }

    /// Looks at what it has now.
    pub fn check(&mut self, sample: &GuestSample, strained: bool, now_ms: u64) -> BalloonCheck {
        if let Some(resident) = sample.resident {
            self.yields.see(resident);
        }
        let Some(actual) = sample.actual else { return BalloonCheck::default() };
        if self.max.replace(sample.limits.max).is_some_and(|max| max != sample.limits.max) {
            self.rest = None;
        }
        if let Some(target) = self.target.as_mut().filter(|target| !target.shrinks()) {
            // What was unplugged meanwhile is not to come any more.
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
            // It did all that it was asked for: perhaps it could have done more.
            self.pace.speed = self.pace.speed.map(|speed| Bytes(speed.0.saturating_mul(2)));
            return BalloonCheck {
                outcome: outcome(Arrival::Reached, host_got),
                ..BalloonCheck::default()
            };
        }
        // More than was granted: its kernel took the rest by itself.
        if !target.shrinks() && actual > target.size && strained && sample.deflates_on_oom {
            self.settle(actual);
            self.not_taken = 0;
            let cap = Some(actual);
            return BalloonCheck {
                outcome: outcome(Arrival::TookBack, None),
                cap,
                guest_deflated: true,
                left: None,
            };
        }
        // The wrong way: by the guest's kernel if it had too little, else by another manager.
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
            let result = if guest_deflated { Arrival::TookBack } else { Arrival::Foreign };
            // What another manager does is not undone.
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
        let outcome = outcome(Arrival::Stuck, host_got);
        BalloonCheck { outcome, cap, ..BalloonCheck::default() }
    }

    /// Takes back what was granted and does not arrive soon. Gives the size that is left to reach.
    fn trim(&mut self, actual: Bytes) -> Option<Bytes> {
        let reach = self.reach();
        let target = self.target.as_mut().filter(|t| !t.shrinks())?;
        // A little more than that is not worth another command.
        if target.size.less(actual) <= reach.plus(Bytes(reach.0 / 4)) {
            return None;
        }
        target.size = actual.plus(reach);
        Some(target.size)
    }

    /// The newest target, or the word to stay, takes the place of one that was not reached.
    pub fn supersede(&mut self, key: Key, actual: Bytes, now_ms: u64) -> Option<Outcome> {
        (self.before, self.ahead) = (self.target.take(), None);
        self.turn(&self.before?, actual, now_ms);
        let result = Arrival::Superseded;
        Some(Outcome { key, result, reached: actual, host_got: None, got_in_all: None })
    }

    fn settle(&mut self, actual: Bytes) {
        (self.target, self.before, self.ahead) = (None, None, None);
        (self.turning, self.pace.seen) = (None, None);
        self.rest = Some(actual);
    }

    /// Whether it may have this size because it has not turned yet.
    fn is_turning(&self, actual: Bytes, now_ms: u64) -> bool {
        self.turning.is_some_and(|turning| turning.explains(actual, now_ms))
    }

    /// It is told to leave its way to a target, where it was seen last.
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
        // Small steps add up against where it came to rest.
        let rest = *self.rest.get_or_insert(actual);
        if distance(rest, actual) <= slack(rest) {
            (self.stray.rose_ms, self.stray.back) = (None, None);
            return BalloonCheck::default();
        }
        if actual > rest && sample.deflates_on_oom && !strained {
            // A kernel that takes memory back does so before its daemon says that it waits.
            let since_ms = *self.stray.rose_ms.get_or_insert(now_ms);
            let is_told = sample.memory.is_some_and(|memory| memory.at_ms > since_ms);
            if !is_told && now_ms.saturating_sub(since_ms) < TOLD_MS {
                return BalloonCheck::default();
            }
        }
        self.stray.rose_ms = None;
        // Without its driver a guest has all of its memory. Another manager gives less than that.
        let was_away = self.max.is_some_and(|max| rest.plus(slack(rest)) >= max);
        match self.stray.goes_back(rest, actual, was_away, now_ms) {
            Back::No => self.stray.before = None,
            // It counts as somebody else's until it is there.
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
                result: Arrival::TookBack,
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

    /// Returns whether it has another size than at rest for a reason that is not known yet.
    pub fn is_astray(&self) -> bool {
        self.stray.is_open()
    }

    fn unexplained(&mut self, now_ms: u64) {
        let before = self.unexplained_ms.replace(now_ms);
        // What goes on without a break is one change.
        let since_ms = before.map(|at| now_ms.saturating_sub(at));
        if since_ms.is_some_and(|ms| (BREAK_MS..=FOREIGN_WINDOW_MS).contains(&ms)) {
            self.foreign_until_ms = Some(now_ms + FOREIGN_MS);
        }
    }

    /// Judges what the host got of what the guest gave.
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
        // A balloon that stood still has given nothing that could have got lost.
        let reached = reached.max(target.size);
        let came = (target.held.got(sample)?, sample.resident?);
        let in_vain = target.held.is_in_vain(reached, sample).then_some(target.from);
        self.yields.learn(&target.held, reached, came, in_vain, now_ms);
        Some(before.less(now))
    }
}
