//! One guest over time: its boots, its strain, and its moves.

use super::balloon::BalloonTracker;
use super::benefit::Benefit;
use super::evidence::Evidence;
use super::headroom;
use super::movement::Movement;
use super::reason::Clause;
use super::releases::Releases;
use super::reporting::Reporting;
use super::sample::{Config, GuestSample, Memory, Mode, Usable};
use super::turns::{Direction, Moves};
use super::unmet::Unmet;
use super::view::MemoryView;
use base::Bytes;

/// Cool-down after a move, in which a mere wish does not move the guest the other way. Each
/// reversal doubles the cool-down.
const COOL_MS: u64 = 30_000;
/// Two moves further apart than this are no reversal.
const REVERSAL_MS: u64 = 600_000;
/// Time for which an untouched grant counts as promised.
const PROMISE_MS: u64 = 10_000;

/// Granted memory that is not in use yet. It is not free, whatever the host reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Promise {
    size: Bytes,
    resident: Bytes,
    until_ms: u64,
}

/// Time that a restarted guest gets for its boot.
const BOOT_MS: u64 = 60_000;
/// Shortest time between two boots that get `BOOT_MS`, so that a guest gains nothing by repeated
/// restarts.
const BOOT_REST_MS: u64 = 600_000;

/// Boot phase of a restarted guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Boot {
    #[default]
    Over,
    /// Restarted, with the size before the restart, if known.
    Begins(Option<Bytes>),
    /// Booting since this time, with at least this size.
    Since(u64, Bytes),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Boots {
    now: Boot,
    /// Start of the last boot that got `BOOT_MS`.
    last_ms: Option<u64>,
}

/// State kept about a guest between passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestHistory {
    boots: Boots,
    pub(super) balloon: BalloonTracker,
    pub(super) memory: Option<Memory>,
    pub(super) view: Option<MemoryView>,
    /// Memory that was not free at the last report outside of a shrink. During a shrink, the
    /// balloon's size and the free memory belong to different moments.
    pub(super) kept: Option<Bytes>,
    pub(super) evidence: Evidence,
    pub(super) benefit: Benefit,
    pub(super) strained_ms: Option<u64>,
    pub(super) unmet: Unmet,
    pub(super) moves: Moves,
    pub(super) reporting: Reporting,
    promise: Option<Promise>,
    /// Clause reported last, and whether a bound applied.
    pub(super) reported: Option<(Clause, bool)>,
    pub(super) movement: Option<Movement>,
    /// Memory that the host gained since the last reported shrink, if known. The last step may end
    /// after the movement is over.
    got: Option<Bytes>,
}

impl GuestHistory {
    /// Updates the history from a sample.
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
            // Waiting alone shows no lack of memory, because any growing balloon makes a guest wait
            // until cold cache is dropped. Strain begins when cold memory falls below a limit. The
            // limit is lower if the guest's balloon explains the wait, because the balloon moves or
            // has just moved.
            let headroom = headroom::plain(view, sample);
            let is_its_balloons = is_moved || view.moves || view.moved;
            let enough = if is_its_balloons { headroom } else { Bytes(headroom.0 * 2) };
            view.strained |= view.waits && view.cold() < enough;
        }
        self.evidence = Evidence::of(sample, self.memory.as_ref());
        if !shrinks {
            self.reporting.see(sample, self.kept, now_ms);
        }
        if self.is_strained() {
            self.strained_ms = Some(now_ms);
        }
        self.moves.turns.fade(now_ms);
        let promise = self.promise.filter(|p| now_ms < p.until_ms);
        self.promise = promise.filter(|p| Some(p.resident.plus(p.size)) > sample.resident);
    }

    /// Begins a shrink that does not continue the last movement.
    pub fn begin_movement(&mut self) {
        self.got = Some(Bytes::ZERO);
    }

    /// Records the end of a move. Returns the host's gain from all steps of the movement so far.
    pub fn add_up(&mut self, got: Option<Bytes>, now_ms: u64) -> Option<Bytes> {
        if let Some(movement) = &mut self.movement {
            movement.see(now_ms);
        }
        self.got = self.got.zip(got).map(|(all, one)| all.plus(one));
        self.got
    }

    /// Forgets the guest's inner state after a restart.
    pub fn forget(&mut self) {
        (self.memory, self.view, self.kept, self.strained_ms) = (None, None, None, None);
        (self.promise, self.movement) = (None, None);
        (self.moves.last, self.moves.releases) = (None, Releases::default());
        (self.benefit, self.reporting) = (Benefit::default(), Reporting::default());
        let had = self.balloon.forget();
        self.boots.now = Boot::Begins(match self.boots.now {
            // A second restart came before the boot began. The size before the first restart stays,
            // because the balloon does not know a newer size.
            Boot::Begins(before) => before,
            Boot::Since(_, before) => Some(before),
            Boot::Over => had,
        });
    }

    /// Returns the least size of a booting guest, and whether the boot begins in this pass.
    pub(super) fn boots(&self, now_ms: u64) -> Option<(Bytes, bool)> {
        match self.boots.now {
            Boot::Since(at_ms, had) => Some((had, at_ms == now_ms)),
            Boot::Begins(_) | Boot::Over => None,
        }
    }

    /// Records that the guest's kernel deflated the balloon because memory was short.
    pub fn guest_deflated(&mut self, now_ms: u64) {
        self.strained_ms = Some(now_ms);
        self.moves.turns.turned(true, now_ms);
    }

    /// Returns the number of recent reversals.
    pub fn reversals(&self) -> u32 {
        self.moves.turns.reversals
    }

    pub(super) fn is_strained(&self) -> bool {
        !self.evidence.contradicts && self.view.is_some_and(|view| view.strained)
    }

    /// Returns the granted memory that is not in use.
    pub fn promised(&self, resident: Option<Bytes>) -> Bytes {
        self.promise.map_or(Bytes::ZERO, |p| {
            resident.map_or(p.size, |now| p.size.less(now.less(p.resident)))
        })
    }

    /// Returns the part of the host's free memory that belongs to the guest: granted memory that is
    /// not in use or has not arrived.
    pub(super) fn claim(&self, sample: &GuestSample) -> Bytes {
        let returned = self.balloon.returned(sample).map_or(Bytes::ZERO, |(size, _)| size);
        let costs_nothing = returned.less(sample.actual.unwrap_or(Bytes::ZERO));
        self.promised(sample.resident).max(self.balloon.owed(sample.actual).less(costs_nothing))
    }

    /// Reduces the promise after a part of a grant was cancelled before it arrived.
    pub(super) fn trimmed(&mut self, actual: Bytes) {
        let going = self.balloon.going(actual);
        self.promise = self.promise.map(|p| Promise { size: p.size.min(going), ..p });
    }

    pub fn moved(&mut self, way: Direction, by: Bytes, sample: &GuestSample, now_ms: u64) {
        if let Some((before, at_ms)) = self.moves.last
            && before != way
            && now_ms.saturating_sub(at_ms) < REVERSAL_MS
        {
            // The guest was in need soon after a shrink, so it needs more headroom.
            self.moves.turns.turned(way == Direction::Up && self.is_strained(), now_ms);
        }
        self.moves.last = Some((way, now_ms));
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
                    // The use of this memory cannot be measured, so the promise lasts its full
                    // time.
                    self.promise = self.promise.map(|p| Promise { resident: Bytes(u64::MAX), ..p });
                }
            }
        }
    }

    pub(super) fn cools(&self, way: Direction, base_ms: u64, now_ms: u64) -> bool {
        self.moves
            .last
            .is_some_and(|(before, at_ms)| before != way && now_ms.saturating_sub(at_ms) < base_ms)
    }

    pub(super) fn cool_ms(&self) -> u64 {
        (COOL_MS << self.moves.turns.reversals).min(3_600_000)
    }

    fn is_fresh(&self, sample: &GuestSample, config: &Config, now_ms: u64) -> bool {
        self.memory.is_some_and(|m| {
            sample.idle_since_sample || now_ms.saturating_sub(m.at_ms) <= config.stale_ms
        }) && self.view.is_some()
    }

    pub(super) fn held(
        &self,
        sample: &GuestSample,
        config: &Config,
        now_ms: u64,
    ) -> Option<(Clause, &'static str)> {
        if let Usable::No(why) = sample.usable {
            return Some((Clause::Unusable, why));
        }
        if sample.actual.is_none() {
            return Some((Clause::Stale, "the guest's current memory is not known"));
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
            return Some((Clause::Stale, "the guest has reported nothing yet"));
        }
        if managed && !self.is_fresh(sample, config, now_ms) {
            return Some((Clause::Stale, "the guest's last report is too old"));
        }
        None
    }

    /// Records the need found for the guest.
    pub fn needed(&mut self, need: Bytes) {
        self.unmet.judged(self.memory.as_ref(), need);
    }
}
