//! Assessment of a guest in one pass: its need, what it can spare, and the obstacles to a move.

use super::gain::Holding;
use super::guest::GuestHistory;
use super::headroom;
use super::need::Need;
use super::reason::{Clause, Inputs};
use super::regime::Urgency;
use super::sample::{Config, GuestSample, HostSample, Mode, RuleVerdicts};
use super::turns::Direction;
use super::view::MemoryView;
use base::Bytes;

/// Time for which a guest keeps its memory after it was strained.
const STRAIN_MS: u64 = 10_000;
/// Strain within this time counts as current.
const STRAIN_NOW_MS: u64 = 2_000;
/// First cool-down while another guest is in need.
const COOL_SHORTAGE_MS: u64 = 5_000;
/// Longest cool-down while another guest is in need.
const COOL_NEED_MS_MAX: u64 = 60_000;
/// Longest cool-down while the host is half-way to its reserve.
const COOL_LOW_MS_MAX: u64 = 120_000;
/// Refault rate, in pages a second, from which more memory would help a guest.
const REFAULTS: u64 = 16;

/// Assessment of a guest in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assessment {
    /// Reason for which nothing is decided about the guest.
    pub held: Option<(Clause, &'static str)>,
    /// Current size.
    pub actual: Bytes,
    /// Maximum memory that the guest may have now.
    pub ceiling: Bytes,
    /// Memory that the guest keeps in any case.
    pub min: Bytes,
    /// Memory resident on the host, at most `actual`.
    pub touched: Bytes,
    /// Memory that the host would gain from a shrink.
    pub holding: Holding,
    pub need: Need,
    pub headroom: Bytes,
    /// Obstacles to a shrink of the guest, by urgency.
    against: [Option<Clause>; 4],
    /// Obstacles to a shrink of the guest, by urgency, without waits that are over.
    against_now: [Option<Clause>; 4],
    /// Maximum further memory for the guest, by the host's evidence of the guest's use.
    pub backed: Bytes,
    /// True if the guest claims a need that the host cannot confirm.
    pub not_seen: bool,
    /// True if the guest needs more than its control groups allow.
    pub lacks_group: bool,
    /// True if more memory would help the guest and nothing prevents a grant.
    pub wishes: bool,
    /// True if the guest runs and refaults, and more memory may help the guest.
    pub refaults: bool,
}

impl Assessment {
    /// Returns the obstacle to a shrink of the guest, if any.
    pub fn against(&self, urgency: Urgency) -> Option<Clause> {
        self.against[urgency as usize]
    }

    /// Returns the obstacle to a shrink of the guest, ignoring a wait that is over.
    pub fn against_now(&self, urgency: Urgency) -> Option<Clause> {
        self.against_now[urgency as usize]
    }
}

impl GuestHistory {
    /// Assesses the guest for this pass.
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
        let strained = self.was_strained(STRAIN_MS, now_ms);
        if strained {
            // The size that the guest's own rules requested was too small.
            assessment.ceiling = most;
        }
        let plain = headroom::plain(&view, sample);
        assessment.headroom = headroom::learnt(plain, view.used, self.moves.turns.lessons);
        let warm = !sample.idle_since_sample && view.refaults >= Some(REFAULTS);
        // Refaults are no lack of memory while enough memory is free. A guest that is strained, or
        // was strained a moment ago, gets memory for its need instead.
        let has_room = view.free.is_some_and(|free| free >= plain);
        assessment.refaults = warm && !has_room && !strained && self.benefit.is_likely(now_ms);
        self.assess_need(&mut assessment, &view, sample, verdicts);
        self.assess_obstacles(&mut assessment, sample, verdicts, now_ms);
        let come = self.come_since_report(actual);
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

    /// Returns memory that arrived after the last report.
    fn come_since_report(&self, actual: Bytes) -> Bytes {
        self.memory.map_or(Bytes::ZERO, |memory| actual.less(memory.actual))
    }

    /// Finds the guest's need, less granted memory, and limits the need by the host's evidence.
    fn assess_need(
        &self,
        assessment: &mut Assessment,
        view: &MemoryView,
        sample: &GuestSample,
        verdicts: &RuleVerdicts,
    ) {
        let (limits, most, actual) = (sample.limits, sample.most(), assessment.actual);
        let going = self.balloon.going(actual);
        let need = match limits.mode {
            Mode::Managed => {
                let below = assessment.min.less(actual.plus(going));
                // The size at the time of the report, without memory that has arrived since.
                let had = self.memory.map_or(actual, |memory| memory.actual);
                let unmet = self.unmet.before(self.memory.as_ref());
                Need::of_report(view, sample, verdicts, below, had, unmet)
            }
            Mode::Pinned(_) | Mode::Released => Need::default(),
        };
        let reachable = assessment.ceiling.min(actual.plus(self.balloon.reach()));
        let mut room = reachable.less(actual.plus(going));
        if going > Bytes::ZERO && reachable < assessment.ceiling && room < Bytes(going.0 / 2) {
            // The limit for granted memory that has not arrived is nearly reached. More memory is
            // granted after a part of that memory has arrived.
            room = Bytes::ZERO;
        }
        // Granted memory that has not arrived, or that arrived after the report, is subtracted from
        // the need. The need of a guest below its minimum does not come from a report, and already
        // excludes that memory.
        let is_reported = need.why != Some(Clause::Limits);
        let come = self.come_since_report(actual);
        let answered = if is_reported { going.plus(come) } else { Bytes::ZERO };
        assessment.backed = self.evidence.backs(actual.plus(going));
        let is_ordered = need.why == Some(Clause::Limits) && limits.ordered;
        let believed = if is_ordered { Bytes(u64::MAX) } else { assessment.backed };
        assessment.need = need.left(answered, room.min(believed));
        // The limit of a slow balloon is left out here, because a slow balloon does not mean that
        // the control group is full.
        let most_room = assessment.ceiling.less(actual.plus(going)).min(believed);
        let lacks = need.left(answered, believed).size > need.left(answered, most_room).size;
        assessment.lacks_group = lacks && assessment.ceiling == most && most < limits.max;
        assessment.not_seen = self.evidence.contradicts && need.why == Some(Clause::Need);
    }

    fn assess_obstacles(
        &self,
        assessment: &mut Assessment,
        sample: &GuestSample,
        verdicts: &RuleVerdicts,
        now_ms: u64,
    ) {
        let besides = if sample.process.pinned.is_some() {
            Some(Clause::Locked)
        } else if self.balloon.is_stingy(now_ms) {
            Some(Clause::Stuck)
        } else if self.gives_nothing(assessment) {
            Some(Clause::NoYield)
        } else if verdicts.may_shrink == Some(false) || verdicts.shrink == Some(false) {
            Some(Clause::Rule)
        } else if self.balloon.is_on_its_way() || self.balloon.is_astray() {
            Some(Clause::Moving)
        } else {
            None
        };
        let cooled =
            |base_ms| self.cools(Direction::Down, base_ms, now_ms).then_some(Clause::Cooling);
        let low_ms = self.cool_ms().min(COOL_LOW_MS_MAX);
        let need_ms = (COOL_SHORTAGE_MS << self.moves.turns.reversals).min(COOL_NEED_MS_MAX);
        // The cool-downs are ordered by urgency, the lowest urgency first.
        let cool_ms = [self.cool_ms(), low_ms, need_ms, COOL_SHORTAGE_MS];
        let is_needy = assessment.need.size > Bytes::ZERO;
        let against = |waits: bool| {
            let waits = (waits || is_needy).then_some(Clause::Strained);
            cool_ms.map(|ms| waits.or(besides).or_else(|| cooled(ms)))
        };
        assessment.against = against(self.was_strained(STRAIN_MS, now_ms));
        assessment.against_now = against(self.was_strained(STRAIN_NOW_MS, now_ms));
    }

    /// Returns the numbers behind a decision about the guest.
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
            asleep: sample.idle_since_sample,
            strained: self.is_strained(),
            host_available: host.map(|h| h.available),
            host_set_point: Some(config.set_point),
            host_reserve: Some(config.reserve),
            ..Inputs::default()
        }
    }

    fn was_strained(&self, within_ms: u64, now_ms: u64) -> bool {
        self.strained_ms.is_some_and(|at| now_ms.saturating_sub(at) < within_ms)
    }
}
