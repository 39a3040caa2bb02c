//! One guest over time: what it needs, what it could spare, and what stands against either.

use super::balloon::BalloonTracker;
use super::benefit::Benefit;
use super::evidence::Evidence;
use super::gain::Holding;
use super::headroom;
use super::movement::Movement;
use super::need::Need;
use super::reason::{Clause, Inputs};
use super::regime::Urgency;
use super::sample::{Config, GuestSample, HostSample, Memory, Mode, RuleVerdicts, Usable};
use super::turns::{Direction, Turns};
use super::unmet::Unmet;
use super::view::MemoryView;
use counters::Bytes;

/// A guest that was strained keeps what it has for this long.
const STRAIN_MS: u64 = 10_000;
/// What it waited for within this it waits for now.
const STRAIN_NOW_MS: u64 = 2_000;
/// A guest that was moved one way is not moved the other way by a mere wish for this long; each
/// reversal doubles it.
const COOL_MS: u64 = 30_000;
/// The same while another guest is in need.
const COOL_SHORTAGE_MS: u64 = 5_000;
/// At most that long while another guest is in need,
const COOL_NEED_MS_MAX: u64 = 60_000;
/// and while the host is half-way to its reserve.
const COOL_LOW_MS_MAX: u64 = 120_000;
/// Two moves further apart than this are no reversal.
const REVERSAL_MS: u64 = 600_000;
/// Pages a second that a guest reads again soon after it dropped them: more memory would do it
/// good.
const REFAULTS: u64 = 16;
/// How long a grant counts as promised while it is not touched.
const PROMISE_MS: u64 = 10_000;

/// Memory that was granted and is not in use yet: it is not free, whatever the host reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Promise {
    size: Bytes,
    resident: Bytes,
    until_ms: u64,
}

/// A guest that has started again is left to boot for so long,
const BOOT_MS: u64 = 60_000;
/// and so seldom: one that starts again and again gets nothing by it.
const BOOT_REST_MS: u64 = 600_000;

/// How far a guest is that has started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Boot {
    #[default]
    Over,
    /// It had this size before, as far as that is known.
    Begins(Option<Bytes>),
    /// It boots since then, with at least this size.
    Since(u64, Bytes),
}

/// The boots of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Boots {
    now: Boot,
    /// When it was left to boot last.
    last_ms: Option<u64>,
}

/// What is remembered of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestHistory {
    boots: Boots,
    pub(super) balloon: BalloonTracker,
    pub(super) memory: Option<Memory>,
    pub(super) view: Option<MemoryView>,
    /// What of it was not free when it was last asked while it did not shrink: on its way down its
    /// balloon and its free memory are not of the same moment.
    pub(super) kept: Option<Bytes>,
    evidence: Evidence,
    pub(super) benefit: Benefit,
    strained_ms: Option<u64>,
    pub(super) unmet: Unmet,
    moved: Option<(Direction, u64)>,
    turns: Turns,
    promise: Option<Promise>,
    /// What was reported last, and whether something bounded it.
    pub(super) reported: Option<(Clause, bool)>,
    pub(super) movement: Option<Movement>,
    /// What the host got since the last shrink that was reported, where that could be seen. A step
    /// may come to its end when the movement is over.
    got: Option<Bytes>,
}

/// What a guest is to this pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assessment {
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
    /// What the host would gain of it.
    pub holding: Holding,
    /// What it needs now.
    pub need: Need,
    /// Room that it is left to breathe.
    pub headroom: Bytes,
    /// What stands against taking from it, by how urgent that is.
    against: [Option<Clause>; 4],
    /// The same without a wait that is over.
    against_now: [Option<Clause>; 4],
    /// How much more it may get at the cost of others, by what the host sees it use.
    pub backed: Bytes,
    /// It says that it is in need, and the host sees otherwise.
    pub not_seen: bool,
    /// It needs more, and its control groups have no more.
    pub lacks_group: bool,
    /// A wish would do it good, and nothing stands against it.
    pub wishes: bool,
    /// It runs, reads again what it dropped, and more memory may help it.
    pub refaults: bool,
}

impl Assessment {
    /// What stands against taking from it.
    pub fn against(&self, urgency: Urgency) -> Option<Clause> {
        self.against[urgency as usize]
    }

    /// The same, where a wait that is over does not count.
    pub fn against_now(&self, urgency: Urgency) -> Option<Clause> {
        self.against_now[urgency as usize]
    }
}

impl GuestHistory {
    /// Takes what is new about it.
    pub fn observe(&mut self, sample: &GuestSample, now_ms: u64) {
        match self.boots.now {
            Boot::Begins(had) => {
                let had = had.or(sample.actual).unwrap_or(Bytes::ZERO);
                self.balloon.boots(now_ms + BOOT_MS);
                let last_ms = self.boots.last_ms.filter(|at_ms| now_ms < at_ms + BOOT_REST_MS);
                self.boots.last_ms = last_ms.or(Some(now_ms));
                self.boots.now = match last_ms {
                    None => Boot::Since(now_ms, had),
                    Some(at_ms) if now_ms < at_ms + BOOT_MS => Boot::Since(at_ms, had),
                    Some(_) => Boot::Over,
                };
            }
            Boot::Since(at_ms, _) if now_ms.saturating_sub(at_ms) >= BOOT_MS => {
                self.boots.now = Boot::Over;
            }
            Boot::Since(..) | Boot::Over => {}
        }
        let shrinks = self.balloon.is_shrinking();
        let is_moved = self.balloon.target().is_some();
        if let Some(memory) = sample.memory {
            let is_new = self.memory.is_none_or(|m| m.at_ms != memory.at_ms);
            if is_new {
                let moved = self.view.is_some_and(|view| view.moves);
                let moves = is_moved || self.memory.is_some_and(|m| m.actual != memory.actual);
                self.view = MemoryView::of(self.memory.as_ref(), &memory, sample.urgent)
                    .map(|view| MemoryView { moves, moved, ..view });
                self.memory = Some(memory);
                if let Some(rate) = self.view.and_then(|view| view.refaults).filter(|_| !moves) {
                    self.benefit.see(rate, now_ms);
                }
                if self.kept.is_none() || !shrinks {
                    self.kept = memory.free.map(|free| memory.actual.less(free));
                }
            }
        }
        if let Some(view) = self.view.as_mut() {
            view.waits |= sample.urgent;
            // Who waits for cold cache to be dropped, as any balloon that grows makes it, soon
            // goes on: that alone is no lack, down to what it is left in any case. Who has just
            // been given memory waited for it, and does no more.
            let headroom = headroom::plain(view, sample);
            let is_its_balloons = is_moved || view.moves || view.moved;
            let enough = if is_its_balloons { headroom } else { Bytes(headroom.0 * 2) };
            view.strained |= view.waits && view.cold() < enough;
        }
        self.evidence = Evidence::of(sample, self.memory.as_ref());
        if self.is_strained() {
            self.strained_ms = Some(now_ms);
        }
        self.turns.fade(now_ms);
        let promise = self.promise.filter(|p| now_ms < p.until_ms);
        self.promise = promise.filter(|p| Some(p.resident.plus(p.size)) > sample.resident);
    }

    /// A shrink that is no step of the last one begins.
    pub fn begin_movement(&mut self) {
        self.got = Some(Bytes::ZERO);
    }

    /// A move came to its end. Gives what the host got of all steps so far.
    pub fn add_up(&mut self, got: Option<Bytes>, now_ms: u64) -> Option<Bytes> {
        if let Some(movement) = &mut self.movement {
            movement.see(now_ms);
        }
        self.got = self.got.zip(got).map(|(all, one)| all.plus(one));
        self.got
    }

    /// It started again: nothing that was known of its inside holds.
    pub fn forget(&mut self) {
        (self.memory, self.view, self.kept, self.strained_ms) = (None, None, None, None);
        (self.promise, self.moved, self.movement) = (None, None, None);
        self.benefit = Benefit::default();
        let had = self.balloon.forget();
        self.boots.now = Boot::Begins(match self.boots.now {
            // What its device had in between is neither its own nor QEMU's target.
            Boot::Begins(before) => before,
            Boot::Since(_, before) => Some(before),
            Boot::Over => had,
        });
    }

    /// The least that a guest has while it boots, and whether that begins in this pass.
    pub(super) fn boots(&self, now_ms: u64) -> Option<(Bytes, bool)> {
        match self.boots.now {
            Boot::Since(at_ms, had) => Some((had, at_ms == now_ms)),
            Boot::Begins(_) | Boot::Over => None,
        }
    }

    /// Its kernel took memory back: it had too little, and is in want.
    pub fn guest_deflated(&mut self, now_ms: u64) {
        self.strained_ms = Some(now_ms);
        self.turns.turned(true, now_ms);
    }

    /// How often it was moved back and forth, lately.
    pub fn reversals(&self) -> u32 {
        self.turns.reversals
    }

    pub(super) fn is_strained(&self) -> bool {
        !self.evidence.contradicts && self.view.is_some_and(|view| view.strained)
    }

    /// What was granted to it and is not in use.
    pub fn promised(&self, resident: Option<Bytes>) -> Bytes {
        self.promise.map_or(Bytes::ZERO, |p| {
            resident.map_or(p.size, |now| p.size.less(now.less(p.resident)))
        })
    }

    /// What of the host's free memory is its own: granted and not in use, or on its way.
    pub(super) fn claim(&self, sample: &GuestSample) -> Bytes {
        let returned = self.balloon.returned(sample).map_or(Bytes::ZERO, |(size, _)| size);
        let costs_nothing = returned.less(sample.actual.unwrap_or(Bytes::ZERO));
        self.promised(sample.resident).max(self.balloon.owed(sample.actual).less(costs_nothing))
    }

    /// Some of what was granted was taken back on its way.
    pub(super) fn trimmed(&mut self, actual: Bytes) {
        let going = self.balloon.going(actual);
        self.promise = self.promise.map(|p| Promise { size: p.size.min(going), ..p });
    }

    /// Remembers a move.
    pub fn moved(&mut self, way: Direction, by: Bytes, sample: &GuestSample, now_ms: u64) {
        if let Some((before, at_ms)) = self.moved
            && before != way
            && now_ms.saturating_sub(at_ms) < REVERSAL_MS
        {
            // It was shrunk, and soon was in want: it needs more room than it was left.
            self.turns.turned(way == Direction::Up && self.is_strained(), now_ms);
        }
        self.moved = Some((way, now_ms));
        match way {
            Direction::Down => self.promise = None,
            Direction::Up => {
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

    fn cools(&self, way: Direction, base_ms: u64, now_ms: u64) -> bool {
        self.moved
            .is_some_and(|(before, at_ms)| before != way && now_ms.saturating_sub(at_ms) < base_ms)
    }

    fn cool_ms(&self) -> u64 {
        (COOL_MS << self.turns.reversals).min(3_600_000)
    }

    /// Whether what is known of it may decide anything.
    fn is_fresh(&self, sample: &GuestSample, config: &Config, now_ms: u64) -> bool {
        self.memory.is_some_and(|m| {
            sample.idle_since_sample || now_ms.saturating_sub(m.at_ms) <= config.stale_ms
        }) && self.view.is_some()
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
        let boots = matches!(self.boots.now, Boot::Since(..)) && !self.balloon.is_foreign(now_ms);
        if boots && sample.limits.mode == Mode::Managed {
            return Some((Clause::Boot, ""));
        }
        if self.balloon.is_disturbed(now_ms) {
            return Some((Clause::Foreign, ""));
        }
        if self.balloon.is_stuck(now_ms) {
            return Some((Clause::Stuck, ""));
        }
        let managed = sample.limits.mode == Mode::Managed;
        if managed && self.memory.is_none() {
            return Some((Clause::Stale, "it has reported nothing yet"));
        }
        if managed && !self.is_fresh(sample, config, now_ms) {
            return Some((Clause::Stale, "its last report is too old"));
        }
        None
    }

    /// Judges it for this pass.
    pub fn assess(
        &self,
        sample: &GuestSample,
        verdicts: &RuleVerdicts,
        config: &Config,
        now_ms: u64,
    ) -> Assessment {
        let limits = sample.limits;
        let actual = sample.actual.unwrap_or(Bytes::ZERO);
        let most = sample.most();
        let wanted = match sample.request {
            Some(request) => request.max(limits.min).min(most),
            None => most,
        };
        let mut assessment = Assessment {
            held: self.held(sample, config, now_ms),
            actual,
            ceiling: wanted,
            min: limits.min.min(limits.max),
            touched: sample.resident.unwrap_or(actual).min(actual),
            holding: self.holding(sample, actual, now_ms),
            ..Assessment::default()
        };
        let (Some(view), None) = (self.view, assessment.held) else {
            let stingy = self.balloon.is_stingy(now_ms).then_some(Clause::Stuck);
            assessment.against = [assessment.held.map(|(clause, _)| clause).or(stingy); 4];
            assessment.against_now = assessment.against;
            return assessment;
        };
        let strained_within =
            |ms| self.strained_ms.is_some_and(|at| now_ms.saturating_sub(at) < ms);
        let strained = strained_within(STRAIN_MS);
        if strained {
            // What its own rules were content with was too little.
            assessment.ceiling = most;
        }
        assessment.headroom =
            headroom::learnt(headroom::plain(&view, sample), view.used, self.turns.lessons);
        let warm = !sample.idle_since_sample && view.refaults >= Some(REFAULTS);
        // What comes back once there is room again is no lack, and who is in need, or was a moment
        // ago, gets by that what it needs.
        let has_room = view.free.is_some_and(|free| free >= headroom::plain(&view, sample));
        assessment.refaults = warm && !has_room && !strained && self.benefit.is_likely(now_ms);
        let going = self.balloon.going(actual);
        let need = match limits.mode {
            Mode::Managed => {
                let below = assessment.min.less(actual.plus(going));
                // What it had when it said so, however much of the answer has come.
                let had = self.memory.map_or(actual, |memory| memory.actual);
                let unmet = self.unmet.before(self.memory.as_ref());
                Need::of_report(&view, sample, verdicts, below, had, unmet)
            }
            Mode::Pinned(_) | Mode::Released => Need::default(),
        };
        let reachable = assessment.ceiling.min(actual.plus(self.balloon.reach()));
        let mut room = reachable.less(actual.plus(going));
        if going > Bytes::ZERO && reachable < assessment.ceiling && room < Bytes(going.0 / 2) {
            // It takes what it can: more is asked of its balloon when that has arrived.
            room = Bytes::ZERO;
        }
        // What is on its way to it, and what has come since its report, are a part of the answer,
        // however soon it asks again. What it lacks of its minimum is known without a report.
        let come = self.memory.map_or(Bytes::ZERO, |memory| actual.less(memory.actual));
        let is_reported = need.why != Some(Clause::Limits);
        let answered = if is_reported { going.plus(come) } else { Bytes::ZERO };
        assessment.backed = self.evidence.backs(actual.plus(going));
        let is_ordered = need.why == Some(Clause::Limits) && limits.ordered;
        let believed = if is_ordered { Bytes(u64::MAX) } else { assessment.backed };
        assessment.need = need.left(answered, room.min(believed));
        // A slow balloon is not the group's doing.
        let most_room = assessment.ceiling.less(actual.plus(going)).min(believed);
        let lacks = need.left(answered, believed).size > need.left(answered, most_room).size;
        assessment.lacks_group = lacks && assessment.ceiling == most && most < limits.max;
        assessment.not_seen = self.evidence.contradicts && need.why == Some(Clause::Need);
        let besides = if sample.process.pinned.is_some() {
            Some(Clause::Locked)
        } else if self.balloon.is_stingy(now_ms) {
            Some(Clause::Stuck)
        } else if self.gives_nothing(&assessment) {
            Some(Clause::NoYield)
        } else if verdicts.may_shrink == Some(false) || verdicts.shrink == Some(false) {
            Some(Clause::Rule)
        } else if self.balloon.target().is_some() || self.balloon.is_astray() {
            Some(Clause::Moving)
        } else {
            None
        };
        let cooled =
            |base_ms| self.cools(Direction::Down, base_ms, now_ms).then_some(Clause::Cooling);
        let low_ms = self.cool_ms().min(COOL_LOW_MS_MAX);
        let need_ms = (COOL_SHORTAGE_MS << self.turns.reversals).min(COOL_NEED_MS_MAX);
        // In the order of how urgent it is.
        let cool_ms = [self.cool_ms(), low_ms, need_ms, COOL_SHORTAGE_MS];
        let against = |waits: bool| {
            let waits = (waits || assessment.need.size > Bytes::ZERO).then_some(Clause::Strained);
            cool_ms.map(|ms| waits.or(besides).or_else(|| cooled(ms)))
        };
        assessment.against = against(strained);
        assessment.against_now = against(strained_within(STRAIN_NOW_MS));
        let short = view.available.plus(come) < Bytes(assessment.headroom.0 * 2);
        assessment.wishes = !sample.idle_since_sample
            && (short || warm)
            && verdicts.may_grow != Some(false)
            && verdicts.grow != Some(false)
            && self.balloon.target().is_none()
            && assessment.backed > Bytes::ZERO
            && !self.cools(Direction::Up, self.cool_ms(), now_ms);
        assessment
    }

    /// It was judged to need this much.
    pub fn needed(&mut self, need: Bytes) {
        self.unmet.judged(self.memory.as_ref(), need);
    }

    /// The numbers behind a decision about it.
    pub fn inputs(
        &self,
        sample: &GuestSample,
        assessment: &Assessment,
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
            headroom: view.map(|_| assessment.headroom),
            need: view.map(|_| assessment.need.size),
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
