//! One guest over time: what it needs, what it could spare, and what stands against either.

use super::reason::{Clause, Inputs};
use super::sample::{Config, GuestSample, HostSample, Memory, Mode, Usable, Words};
use super::track::Track;
use super::view::View;
use counters::Bytes;

/// A guest that was strained keeps what it has for this long.
const STRAIN_MS: u64 = 10_000;
/// A guest that was moved one way is not moved the other way by a mere wish for this long; each
/// reversal doubles it.
const COOL_MS: u64 = 30_000;
/// The same while another guest is in need.
const COOL_SHORTAGE_MS: u64 = 5_000;
/// At most that long while another guest is in need,
const COOL_NEED_MS_MAX: u64 = 60_000;
/// and while the host is half-way to its reserve.
const COOL_LOW_MS_MAX: u64 = 120_000;
/// No cooling is longer than an hour.
const COOL_DOUBLINGS_MAX: u32 = 7;
/// Two moves further apart than this are no reversal.
const REVERSAL_MS: u64 = 600_000;
/// A reversal, or a lesson about comfort, is half forgotten after this.
const FORGET_MS: u64 = 1_800_000;
/// The room that a guest is left to breathe, at least.
const COMFORT_MIN: Bytes = Bytes::mib(32);
/// And at most, as long as it has not shown that it needs more.
const COMFORT_MAX: Bytes = Bytes::mib(1024);
/// How long a grant counts as promised while it is not touched.
const PROMISE_MS: u64 = 10_000;
/// The least that a guest in need is given at once.
const NEED_MIN: Bytes = Bytes::mib(16);

/// Memory that was granted and is not in use yet: it is not free, whatever the host says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Promise {
    size: Bytes,
    resident: Bytes,
    until_ms: u64,
}

/// Which way it was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It got memory.
    Up,
    /// It gave memory.
    Down,
}

/// What is remembered of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    pub(super) track: Track,
    memory: Option<Memory>,
    pub(super) view: Option<View>,
    strained_ms: Option<u64>,
    need_passes: u32,
    moved: Option<(Way, u64)>,
    reversals: u32,
    reversed_ms: u64,
    /// How often its room to breathe turned out too small; each time doubles it.
    lessons: u32,
    promise: Option<Promise>,
    pub(super) said: Option<Clause>,
}

/// What a guest is to this pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Nothing is decided about it, and why.
    pub held: Option<(Clause, &'static str)>,
    /// What it has.
    pub actual: Bytes,
    /// What it may have at most.
    pub ceiling: Bytes,
    /// What it keeps in any case.
    pub min: Bytes,
    /// What of it is in the host's memory.
    pub touched: Bytes,
    /// What it needs now, and why.
    pub need: Bytes,
    /// The part of the policy that says so.
    pub why: Option<Clause>,
    /// Room that it is left to breathe.
    pub comfort: Bytes,
    /// What stands against taking from it, in an ordinary shortage of the host's.
    pub against: Option<Clause>,
    /// The same while the host is half-way from there to its reserve.
    pub against_low: Option<Clause>,
    /// The same while another guest is in need.
    pub against_need: Option<Clause>,
    /// The same while the host is below its reserve.
    pub against_emergency: Option<Clause>,
    /// A wish would do it good, and nothing stands against it.
    pub wishes: bool,
}

impl Guest {
    /// Takes what is new about it.
    pub fn observe(&mut self, sample: &GuestSample, now_ms: u64) {
        if let Some(memory) = sample.memory {
            let is_new = self.memory.is_none_or(|m| m.at_ms != memory.at_ms);
            if is_new {
                self.view = View::of(self.memory.as_ref(), &memory, sample.urgent);
                self.memory = Some(memory);
            }
        }
        if let Some(view) = self.view.as_mut() {
            view.waits |= sample.urgent;
            // Who waits for cold cache to be dropped, as any balloon that grows makes it, soon
            // goes on: that alone is no lack.
            let is_cold = view.cold() >= Bytes(Guest::plain_comfort(view, sample).0 * 2);
            view.strained |= view.waits && !is_cold;
        }
        if self.is_strained() {
            self.strained_ms = Some(now_ms);
        }
        if now_ms.saturating_sub(self.reversed_ms) >= FORGET_MS {
            self.reversals /= 2;
            self.lessons /= 2;
            self.reversed_ms = now_ms;
        }
        let promise = self.promise.filter(|p| now_ms < p.until_ms);
        self.promise = promise.filter(|p| Some(p.resident.plus(p.size)) > sample.resident);
    }

    /// It started anew: nothing that was known of its inside holds.
    pub fn forget(&mut self) {
        (self.memory, self.view, self.strained_ms) = (None, None, None);
        (self.promise, self.moved) = (None, None);
        self.track.forget();
    }

    /// Its kernel took memory back: it had too little, and is in want.
    pub fn took_back(&mut self, now_ms: u64) {
        self.strained_ms = Some(now_ms);
        self.lessons = (self.lessons + 1).min(COOL_DOUBLINGS_MAX);
        self.reversals = (self.reversals + 1).min(COOL_DOUBLINGS_MAX);
        self.reversed_ms = now_ms;
    }

    /// How often it was moved back and forth, lately.
    pub fn reversals(&self) -> u32 {
        self.reversals
    }

    pub(super) fn is_strained(&self) -> bool {
        self.view.is_some_and(|view| view.strained)
    }

    /// What was granted to it and is not in use.
    pub fn promised(&self, resident: Option<Bytes>) -> Bytes {
        self.promise.map_or(Bytes::ZERO, |p| {
            resident.map_or(p.size, |now| p.size.less(now.less(p.resident)))
        })
    }

    /// Some of what was granted was taken back on its way.
    pub(super) fn trimmed(&mut self, actual: Bytes) {
        let going = self.track.going(actual);
        self.promise = self.promise.map(|p| Promise { size: p.size.min(going), ..p });
    }

    /// Remembers a move.
    pub fn moved(&mut self, way: Way, by: Bytes, sample: &GuestSample, now_ms: u64) {
        if let Some((before, at_ms)) = self.moved
            && before != way
            && now_ms.saturating_sub(at_ms) < REVERSAL_MS
        {
            self.reversals = (self.reversals + 1).min(COOL_DOUBLINGS_MAX);
            self.reversed_ms = now_ms;
            // It was shrunk, and soon was in want: it needs more room than it was left.
            if way == Way::Up && self.is_strained() {
                self.lessons = (self.lessons + 1).min(COOL_DOUBLINGS_MAX);
            }
        }
        self.moved = Some((way, now_ms));
        match way {
            Way::Down => self.promise = None,
            Way::Up => {
                let owed = self.promised(sample.resident);
                self.promise = Some(Promise {
                    size: owed.plus(by),
                    resident: sample.resident.unwrap_or(Bytes::ZERO),
                    until_ms: now_ms + PROMISE_MS,
                });
                if sample.resident.is_none() {
                    // Nobody can see it being used: it counts for its whole time.
                    self.promise = self.promise.map(|p| Promise { resident: Bytes(u64::MAX), ..p });
                }
            }
        }
    }

    fn cools(&self, way: Way, base_ms: u64, now_ms: u64) -> bool {
        self.moved
            .is_some_and(|(before, at_ms)| before != way && now_ms.saturating_sub(at_ms) < base_ms)
    }

    fn cool_ms(&self) -> u64 {
        (COOL_MS << self.reversals).min(3_600_000)
    }

    /// Room to breathe for any guest of its kind.
    fn plain_comfort(view: &View, sample: &GuestSample) -> Bytes {
        // A guest whose kernel kills before it takes memory back is left more.
        let share = if sample.deflates_on_oom { 8 } else { 4 };
        Bytes(view.used.0 / share).clamp(COMFORT_MIN, COMFORT_MAX)
    }

    /// And what this one has shown to need.
    fn comfort(&self, view: &View, sample: &GuestSample) -> Bytes {
        let plain = Guest::plain_comfort(view, sample);
        Bytes(plain.0 << self.lessons).min(plain.max(Bytes(view.used.0 / 2)))
    }

    /// Whether what is known of it may decide anything.
    fn is_fresh(&self, sample: &GuestSample, config: &Config, now_ms: u64) -> bool {
        self.memory
            .is_some_and(|m| sample.asleep || now_ms.saturating_sub(m.at_ms) <= config.stale_ms)
            && self.view.is_some()
    }

    fn held(
        &self,
        sample: &GuestSample,
        config: &Config,
        now_ms: u64,
    ) -> Option<(Clause, &'static str)> {
        if let Usable::No(why) = sample.usable {
            return Some((Clause::Unusable, why));
        }
        if sample.actual.is_none() {
            return Some((Clause::Stale, "what it has is not known"));
        }
        if self.track.is_foreign(now_ms) {
            return Some((Clause::Foreign, ""));
        }
        if self.track.is_stuck(now_ms) {
            return Some((Clause::Stuck, ""));
        }
        let managed = sample.limits.mode == Mode::Managed;
        if managed && self.memory.is_none() {
            return Some((Clause::Stale, "it has told nothing yet"));
        }
        if managed && !self.is_fresh(sample, config, now_ms) {
            return Some((Clause::Stale, "what it told is too old"));
        }
        None
    }

    /// Judges it for this pass.
    pub fn stand(
        &mut self,
        sample: &GuestSample,
        words: &Words,
        config: &Config,
        now_ms: u64,
    ) -> Standing {
        let limits = sample.limits;
        let actual = sample.actual.unwrap_or(Bytes::ZERO);
        let wanted = match sample.request {
            Some(request) => request.max(limits.min).min(limits.max),
            None => limits.max,
        };
        let mut standing = Standing {
            held: self.held(sample, config, now_ms),
            actual,
            ceiling: wanted,
            min: limits.min.min(limits.max),
            touched: sample.resident.unwrap_or(actual).min(actual),
            ..Standing::default()
        };
        let (Some(view), None) = (self.view, standing.held) else {
            self.need_passes = 0;
            standing.against = standing.held.map(|(clause, _)| clause);
            let against = standing.against;
            (standing.against_low, standing.against_need) = (against, against);
            standing.against_emergency = against;
            return standing;
        };
        let strained = self.strained_ms.is_some_and(|at| now_ms.saturating_sub(at) < STRAIN_MS);
        if strained {
            // What its own rules were content with was too little.
            standing.ceiling = limits.max;
        }
        standing.comfort = self.comfort(&view, sample);
        let (need, why) = match limits.mode {
            Mode::Managed => self.need(&view, &standing, sample, words),
            Mode::Pinned(_) | Mode::Released => (Bytes::ZERO, None),
        };
        let reachable = standing.ceiling.min(actual.plus(self.track.reach()));
        let going = self.track.going(actual);
        let mut room = reachable.less(actual.plus(going));
        if going > Bytes::ZERO && reachable < standing.ceiling && room < Bytes(going.0 / 2) {
            // It takes what it can: more is asked of its balloon when that has arrived.
            room = Bytes::ZERO;
        }
        // What is on its way to it is a part of the answer, however soon it asks again.
        standing.need = need.less(going).min(room);
        standing.why = why;
        // Each pass in which the need is not met makes the next answer larger.
        self.need_passes = if standing.need > Bytes::ZERO { self.need_passes + 1 } else { 0 };
        let always = if strained || standing.need > Bytes::ZERO {
            Some(Clause::Strained)
        } else if self.track.is_barren(now_ms) {
            Some(Clause::NoYield)
        } else if words.may_shrink == Some(false) || words.shrink == Some(false) {
            Some(Clause::Rule)
        } else if self.track.target().is_some() {
            Some(Clause::Moving)
        } else {
            None
        };
        let cooled = |base_ms| self.cools(Way::Down, base_ms, now_ms).then_some(Clause::Cooling);
        standing.against = always.or_else(|| cooled(self.cool_ms()));
        let (low_ms, need_ms) = (COOL_LOW_MS_MAX, COOL_NEED_MS_MAX);
        let shortage_ms = COOL_SHORTAGE_MS << self.reversals;
        standing.against_low = always.or_else(|| cooled(self.cool_ms().min(low_ms)));
        standing.against_need = always.or_else(|| cooled(shortage_ms.min(need_ms)));
        standing.against_emergency = always.or_else(|| cooled(COOL_SHORTAGE_MS));
        let short = view.available < Bytes(standing.comfort.0 * 2);
        let warm = view.refaults.is_some_and(|rate| rate >= 16);
        standing.wishes = !sample.asleep
            && (short || warm)
            && words.may_grow != Some(false)
            && words.grow != Some(false)
            && self.track.target().is_none()
            && !self.cools(Way::Up, self.cool_ms(), now_ms);
        standing
    }

    fn need(
        &self,
        view: &View,
        at: &Standing,
        sample: &GuestSample,
        words: &Words,
    ) -> (Bytes, Option<Clause>) {
        let below = at.min.less(at.actual.plus(self.track.going(at.actual)));
        if below > Bytes::ZERO {
            return (below, Some(Clause::Limits));
        }
        if words.may_grow == Some(false) || words.grow == Some(false) {
            return (Bytes::ZERO, None);
        }
        if words.grow == Some(true) {
            let size = words.grow_size.unwrap_or(Bytes(at.actual.0 / 8));
            return (size, Some(Clause::Rule));
        }
        // What it has learnt to keep is no reason to ask: nobody waits for it.
        let comfort = Guest::plain_comfort(view, sample);
        let lack = comfort.less(view.available);
        // More memory does not help who has it and waits all the same, behind a limit of its own.
        let has_room = view.free.unwrap_or(view.available) >= comfort;
        if view.strained && !has_room {
            let hard = view.psi_permille.is_some_and(|psi| psi > 0)
                || view.swap_in.is_some_and(|rate| rate > 0)
                || view.stalls.is_some_and(|rate| rate > 0)
                || view.psi_permille.is_none();
            let guess = match hard {
                true => Bytes((at.actual.0 / 4) << self.need_passes.min(2)).min(at.actual),
                false => Bytes(at.actual.0 / 16),
            };
            let ahead = Bytes(view.growth.0.saturating_mul(2));
            let thrash = Bytes(view.thrash().0.saturating_mul(2));
            let need = lack.max(ahead).max(thrash).max(guess).max(NEED_MIN);
            return (need, Some(Clause::Need));
        }
        if view.available < Bytes(comfort.0 / 2) {
            let ahead = Bytes(view.growth.0.saturating_mul(2));
            return (lack.max(ahead).max(NEED_MIN), Some(Clause::Need));
        }
        (Bytes::ZERO, None)
    }

    /// What it could give at most, if `hot` memory counts as in use, and if memory in use may
    /// be pushed to swap.
    pub fn spare(&self, at: &Standing, tier: Tier) -> Bytes {
        let Some(view) = self.view else { return Bytes::ZERO };
        let breath = view.used.plus(at.comfort);
        let keep = match tier {
            Tier::Cold => breath.plus(view.hot),
            Tier::Hot => breath,
            Tier::Used => {
                let swap = view.swap_free.unwrap_or(Bytes::ZERO);
                if swap < COMFORT_MIN {
                    // What cannot be swapped is killed.
                    return at.touched.less(breath.max(at.min));
                }
                view.used.less(Bytes(view.used.0 / 16).min(Bytes(swap.0 / 2)))
            }
        };
        at.touched.less(keep.max(at.min))
    }

    /// The numbers behind a decision about it.
    pub fn inputs(
        &self,
        sample: &GuestSample,
        at: &Standing,
        config: &Config,
        host: Option<&HostSample>,
        now_ms: u64,
    ) -> Inputs {
        let view = self.view;
        Inputs {
            actual: sample.actual,
            resident: sample.resident,
            used: view.map(|v| v.used),
            available: view.map(|v| v.available),
            free: view.and_then(|v| v.free),
            hot: view.map(|v| v.hot),
            cold: view.map(|v| v.cold()),
            comfort: view.map(|_| at.comfort),
            need: view.map(|_| at.need),
            request: sample.request,
            psi_permille: view.and_then(|v| v.psi_permille),
            swap_in_pages_s: view.and_then(|v| v.swap_in),
            swap_out_pages_s: view.and_then(|v| v.swap_out),
            refault_pages_s: view.and_then(|v| v.refaults),
            stalls_s: view.and_then(|v| v.stalls),
            sample_age_ms: self.memory.map(|m| now_ms.saturating_sub(m.at_ms)),
            strained: self.is_strained(),
            host_available: host.map(|h| h.available),
            host_set_point: Some(config.set_point),
            host_reserve: Some(config.reserve),
            ..Inputs::default()
        }
    }
}

/// What gives way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Free memory and cache that nobody used again.
    Cold,
    /// Cache that is in use.
    Hot,
    /// Memory of processes, to the guest's swap.
    Used,
}
