//! Arbitration. One pass over the host and its guests decides which guests get memory and which
//! guests give it up.
//!
//! ```text
//!   samples ─► GuestHistory (rates, strain, headroom, health of the balloon) ─► Assessment
//!                 needs ─► granted from what is really free      ─┐
//!                 host below its set point, needs not met ─► give ├─► Pass { decisions,
//!                 host above it ─► wishes                        ─┘      outcomes, reserved }
//! ```
//!
//! A pass is pure. Time is an argument, and the same samples give the same pass. A grant only uses
//! memory that is free now, never memory that a shrink is expected to return. A guest that waits
//! for memory is not shrunk, however much the host lacks. If data is missing or stale, nothing
//! moves.

mod assess;
mod balloon;
mod benefit;
mod close;
mod donors;
mod evidence;
mod fall;
mod follow;
mod gain;
mod grants;
mod guest;
mod headroom;
mod movement;
mod need;
mod patience;
mod reason;
mod regime;
mod release;
mod releases;
mod reporting;
mod reserve;
mod returns;
mod sample;
mod sentence;
mod share;
mod spare;
mod state;
mod stray;
mod trace;
mod turns;
mod unmet;
mod view;

pub use balloon::STUCK_MS;
pub use reason::{Action, Bound, Clause, Decision, Fate, Inputs, Left, Outcome, Pass, Reserved};
pub use reserve::RESERVATIONS_MAX;
pub use sample::{
    Config, GuestSample, HostSample, Key, Limits, Memory, Mode, Process, RuleVerdicts, Usable,
};
pub use share::{Part, divide};
pub use trace::{PassHost, PassSample};
pub use turns::Direction;
pub use view::MemoryView;

use crate::rivals::Orders;
use base::Bytes;
use fall::Fall;
use guest::GuestHistory;
use patience::Patience;
use reserve::{Reservation, Reservations};
use state::{GuestState, HostBudget};
use std::collections::BTreeMap;

/// The arbiter, with its state between passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arbiter {
    /// Boxed, because each pass removes every entry and inserts it again.
    guests: BTreeMap<Key, Box<GuestHistory>>,
    reservations: Reservations,
    fall: Fall,
    /// Memory that the host lacks, from the time its free memory falls below the set point until
    /// the set point is reached again.
    lack: Bytes,
    patience: Patience,
}

impl Arbiter {
    /// Creates an arbiter without any history.
    pub fn new() -> Arbiter {
        Arbiter::default()
    }

    /// Records that a guest restarted in the same process, or is new, and must not be shrunk during
    /// its boot.
    pub fn rebooted(&mut self, key: Key) {
        self.guests.entry(key).or_default().forget();
    }

    /// Requests free memory for a guest that is about to start. A later pass reports the outcome.
    /// Returns false if too many reservations are open.
    #[must_use]
    pub fn reserve(&mut self, id: u64, size: Bytes, deadline_ms: u64, held_ms: u64) -> bool {
        let open = &mut self.reservations.0;
        let has_room = open.len() < RESERVATIONS_MAX;
        if has_room {
            open.push(Reservation { id, size, deadline_ms, held_ms, held: false });
        }
        has_room
    }

    /// Drops a reservation that was used, or is not needed any more.
    pub fn unreserve(&mut self, id: u64) {
        self.reservations.0.retain(|r| r.id != id);
    }

    /// Returns true if the host fell below its set point and has not reached it again.
    pub fn is_short(&self) -> bool {
        self.lack > Bytes::ZERO
    }

    /// Returns the memory missing to the host's set point, less the memory that balloons are
    /// returning. The result is zero if the host is not short of memory.
    pub fn lack(&self) -> Bytes {
        self.lack
    }

    /// Returns true while a reservation is open, satisfied or not.
    pub fn is_reserved(&self) -> bool {
        !self.reservations.0.is_empty()
    }

    /// Returns the memory of satisfied reservations.
    pub fn held(&self) -> Bytes {
        self.reservations.held()
    }

    /// Returns the number of recent reversals of a guest.
    pub fn reversals(&self, key: Key) -> u32 {
        self.guests.get(&key).map_or(0, |guest| guest.reversals())
    }

    /// Returns true if a guest waits for memory, by its last report. Such a guest must be sampled
    /// again soon, even if its virtual CPUs hardly run.
    pub fn is_strained(&self, key: Key) -> bool {
        self.guests.get(&key).is_some_and(|guest| guest.is_strained())
    }

    /// Returns true while another manager controls a guest's balloon. A single unrequested change
    /// is not enough for that.
    pub fn is_foreign(&self, key: Key, now_ms: u64) -> bool {
        self.guests.get(&key).is_some_and(|guest| guest.balloon.is_foreign(now_ms))
    }

    /// Returns the size that a guest's balloon moves to.
    pub fn target(&self, key: Key) -> Option<Bytes> {
        self.guests.get(&key)?.balloon.target()
    }

    /// Runs one pass. `verdicts_of` evaluates the operator's rules for a guest with these inputs.
    pub fn pass(
        &mut self,
        config: &Config,
        host: Option<&HostSample>,
        samples: &[GuestSample],
        verdicts_of: &mut dyn FnMut(Key, &Inputs) -> RuleVerdicts,
        now_ms: u64,
    ) -> Pass {
        self.pass_by(None, config, host, samples, verdicts_of, now_ms)
    }

    /// Runs one pass in which `orders` decide about managed guests. Sizes fixed by the operator
    /// stay unchanged. Guests that are unusable, or moved by another manager, get no request.
    pub fn follow(
        &mut self,
        orders: &Orders,
        config: &Config,
        host: Option<&HostSample>,
        samples: &[GuestSample],
        now_ms: u64,
    ) -> Pass {
        let mut verdicts = |_, _: &_| RuleVerdicts::default();
        self.pass_by(Some(orders), config, host, samples, &mut verdicts, now_ms)
    }

    /// Runs a pass: by `orders` of other rules if there are any, or else by the arbiter's own
    /// rules.
    fn pass_by(
        &mut self,
        orders: Option<&Orders>,
        config: &Config,
        host: Option<&HostSample>,
        samples: &[GuestSample],
        verdicts_of: &mut dyn FnMut(Key, &Inputs) -> RuleVerdicts,
        now_ms: u64,
    ) -> Pass {
        let fresh = host.filter(|h| now_ms.saturating_sub(h.at_ms) <= 2 * config.stale_ms);
        let mut pass = Pass::default();
        pass.inputs.reserve(samples.len());
        let mut states: Vec<GuestState<'_>> = samples
            .iter()
            .map(|s| self.assess_guest(s, config, host, verdicts_of, now_ms, &mut pass))
            .collect();
        let mut budget = None;
        if let Some(host) = fresh {
            let mut open = self.host_budget(config, host, &states, now_ms, &mut pass);
            let refused = match orders {
                Some(orders) => follow::obey(&mut states, &mut open, orders),
                None => decide(&mut states, &mut open, config, host.strained, now_ms),
            };
            for one in pass.reserved.iter_mut() {
                if let Err(who) = &mut one.outcome {
                    who.clone_from(&refused);
                }
            }
            budget = Some(open);
        }
        let mut guests = BTreeMap::new();
        for state in states {
            let (key, sample) = (state.sample.key, state.sample);
            let mut inputs = state.history.inputs(sample, &state.assessment, config, host, now_ms);
            if let Some(budget) = &budget {
                budget.note(self.fall.a_second(), &mut inputs);
            }
            if let Some(orders) = orders {
                follow::note(orders, key, &mut inputs);
            }
            pass.inputs.push((key, inputs));
            let guest = close::close(state, inputs, budget.is_some(), now_ms, &mut pass);
            guests.insert(key, guest);
        }
        // A guest without a sample has ended, and its history is dropped.
        self.guests = guests;
        if let Some(host) = fresh {
            let claim = |s: &GuestSample| self.guests.get(&s.key).map(|guest| guest.claim(s));
            let promised = samples.iter().filter_map(claim).sum();
            self.fall.pass_over(host.available, promised);
        }
        pass
    }

    fn assess_guest<'a>(
        &mut self,
        sample: &'a GuestSample,
        config: &Config,
        host: Option<&HostSample>,
        verdicts_of: &mut dyn FnMut(Key, &Inputs) -> RuleVerdicts,
        now_ms: u64,
        pass: &mut Pass,
    ) -> GuestState<'a> {
        let mut history = self.guests.remove(&sample.key).unwrap_or_default();
        history.observe(sample, now_ms);
        let strained = history.is_strained();
        let check = history.balloon.check(sample, strained, now_ms);
        pass.left.extend(check.left);
        if check.guest_deflated {
            history.guest_deflated(now_ms);
        }
        if let (Some(_), Some(actual)) = (check.cap, sample.actual) {
            history.trimmed(actual);
        }
        let bare = history.assess(sample, &RuleVerdicts::default(), config, now_ms);
        let verdicts =
            verdicts_of(sample.key, &history.inputs(sample, &bare, config, host, now_ms));
        let mut assessment = match verdicts == RuleVerdicts::default() {
            true => bare,
            false => history.assess(sample, &verdicts, config, now_ms),
        };
        if host.is_some_and(|host| host.strained) {
            let holding = assessment.holding;
            assessment.holding = holding.on_a_host_that_pages(sample.swapped);
        }
        history.needed(assessment.need.size);
        GuestState {
            sample,
            history,
            assessment,
            verdicts,
            to: None,
            share: Bytes(u64::MAX),
            bounds: if assessment.lacks_group { vec![Bound::Group] } else { Vec::new() },
            cap: check.cap,
            outcome: check.outcome,
        }
    }

    /// Computes the memory that the host can grant, and the memory that it lacks.
    fn host_budget(
        &mut self,
        config: &Config,
        host: &HostSample,
        states: &[GuestState<'_>],
        now_ms: u64,
        pass: &mut Pass,
    ) -> HostBudget {
        let promised: Bytes = states.iter().map(|s| s.history.claim(s.sample)).sum();
        self.fall.see(host.available, promised, host.at_ms);
        let fall = self.fall.a_second();
        let returns = |s: &GuestState<'_>| {
            s.history.balloon.coming(s.assessment.actual).plus(s.history.reporting.coming())
        };
        let coming: Bytes = states.iter().map(returns).sum();
        let free = host.available.less(promised);
        let spendable = free.less(config.reserve).less(self.reservations.held());
        let (held, failed) = self.reservations.settle(spendable, now_ms);
        pass.reserved.extend(held.into_iter().map(|id| Reserved { id, outcome: Ok(()) }));
        let failures = failed.into_iter().map(|id| Reserved { id, outcome: Err(Vec::new()) });
        pass.reserved.extend(failures);
        let held = self.reservations.held();
        let pending = self.reservations.pending();
        // The wanted free memory is the set point, or the reserve with all satisfied reservations
        // if that is more.
        let wanted = config.set_point.max(config.reserve.plus(held));
        // A grant that has arrived still counts as the host's free memory until it is used.
        let going: Bytes = states.iter().map(|s| s.history.balloon.owed(s.sample.actual)).sum();
        let after = host.available.less(going).plus(coming);
        let soon = after.less(fall);
        let falls_short = soon < wanted.less(config.hysteresis);
        let stays_short = self.is_short() && after < wanted;
        let is_short = falls_short || stays_short;
        let lack = if is_short { wanted.plus(fall).less(after) } else { Bytes::ZERO };
        self.lack = lack;
        // A host that waits for memory has too little, whatever it reports as available.
        let relief = if host.strained { config.hysteresis.less(coming) } else { Bytes::ZERO };
        let page_out = if host.strained { Bytes::ZERO } else { host.page_out };
        let kept = wanted.plus(pending);
        HostBudget {
            free: free.less(config.reserve).less(held),
            divisible: host.available.less(wanted).less(pending),
            coming,
            page_out: self.patience.wait_for(page_out, lack, now_ms),
            promised,
            unmet: Bytes::ZERO,
            relieves: relief > lack,
            lack: lack.max(relief),
            reserve_lack: pending.plus(config.reserve).plus(held).less(after).min(pending),
            low: after < Bytes(wanted.0 / 2 + config.reserve.0 / 2),
            deficit: config.reserve.plus(config.hysteresis).less(host.available.plus(coming)),
            emergency: host.available.plus(coming) < config.reserve,
            beyond: if host.strained { Bytes::ZERO } else { free.less(kept) },
            to_beyond: kept.less(free),
            refaults: Bytes::ZERO,
        }
    }
}

/// Decides by the arbiter's own rules. Returns the guests that could not shrink, with their
/// clauses.
fn decide(
    states: &mut [GuestState<'_>],
    open: &mut HostBudget,
    config: &Config,
    is_strained: bool,
    now_ms: u64,
) -> Vec<(Key, Clause)> {
    let is_short = open.lack.max(open.reserve_lack) > Bytes::ZERO;
    share::entitle(states, open);
    returns::returns(states);
    grants::needs(states, open, config);
    grants::boots(states, open, now_ms);
    if !is_strained {
        grants::count_refaults(states, open, config);
    }
    let refused = donors::take(states, open, config);
    grants::refaults(states, open, config);
    grants::wishes(states, open, config);
    let is_asked = open.unmet.max(open.refaults) > Bytes::ZERO;
    if !(is_short || is_asked || is_strained) {
        release::release(states, open, config, now_ms);
    }
    refused
}
