//! Sums of a host over one or more intervals, from which the host's row is derived.

use crate::Facts;
use crate::gather::{GuestId, Measured, Taken, all_tiers, guests_of, in_turn, together};
use crate::pattern::Pattern;
use crate::states::both;
use crate::successors::{Successors, joined, successors};
use model::{GuestIdentity, HostField, Interval, Over, TierField};
use std::collections::BTreeMap;

/// CPU use in percent above which a guest is active; an idle Linux stays below.
const ACTIVE_PERCENT: f64 = 1.0;

/// Sums over some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub host: Over<HostField>,
    pub guests: Measured<'static>,
    pub tiers: Over<TierField>,
    /// Guests present and active, each multiplied by milliseconds.
    on: f64,
    active: f64,
    ms: f64,
    /// Wake-ups of guests that were not active.
    idle_wakes: Option<f64>,
}

impl Sums {
    /// Returns the sums of one interval with its guests.
    pub(crate) fn of(interval: &Interval, guests: &BTreeMap<GuestId, Measured<'_>>) -> Sums {
        let covered_ms = interval.host.covered_ms;
        let ms = covered_ms.max(u64::from(covered_ms == 0 && !guests.is_empty())) as f64;
        let is_active = |guest: &&Measured<'_>| {
            let facts = facts_of(&interval.host, guest);
            let share = facts.cpu_ns().and_then(|ns| facts.g_share(ns));
            share.is_some_and(|percent| percent > ACTIVE_PERCENT)
        };
        let active = guests.values().filter(is_active).count() as f64;
        let idle = guests.values().filter(|guest| !is_active(guest));
        let idle_wakes = idle.filter_map(|guest| guest.added.wakes).map(|wakes| wakes as f64);
        Sums {
            host: interval.host.clone(),
            guests: together(in_turn(guests, covered_ms).iter().map(|guest| &**guest)),
            tiers: all_tiers(interval, covered_ms),
            on: guests.len() as f64 * ms,
            active: active * ms,
            ms,
            idle_wakes: (!guests.is_empty()).then(|| idle_wakes.sum()),
        }
    }

    /// Adds the sums of a later time.
    pub(crate) fn then(&mut self, later: &Sums) {
        self.host.add(&later.host);
        self.guests.then(&later.guests);
        self.tiers.add(&later.tiers);
        self.on += later.on;
        self.active += later.active;
        self.ms += later.ms;
        self.idle_wakes = both(self.idle_wakes, later.idle_wakes, |a, b| a + b);
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        let mean = |sum: f64| (self.ms > 0.0).then(|| sum / self.ms);
        Facts {
            tier: &self.tiers,
            on: mean(self.on),
            active: mean(self.active),
            idle_wakes: self.idle_wakes,
            ..facts_of(&self.host, &self.guests)
        }
    }

    pub(crate) fn tier_facts<'a>(&'a self, tier: &'a Over<TierField>) -> Facts<'a> {
        Facts { tier, ..facts_of(&self.host, &self.guests) }
    }
}

/// Returns the facts of a guest's row, or of several guests as one.
pub(crate) fn facts_of<'a>(host: &'a Over<HostField>, guest: &'a Measured<'_>) -> Facts<'a> {
    Facts { host, guest: &guest.over, added: &guest.added, ..Facts::default() }
}

/// Intervals of a host in order.
pub(crate) struct Timeline<'a> {
    /// Intervals with their guests and sums.
    pub steps: Vec<Step<'a>>,
    /// Sums over the whole time.
    pub total: Sums,
    /// Guests that were started again.
    successors: Successors,
}

pub(crate) struct Step<'a> {
    pub interval: &'a Interval,
    pub guests: BTreeMap<GuestId, Measured<'a>>,
    pub sums: Sums,
}

impl<'a> Timeline<'a> {
    /// Builds the timeline of the guests that match the pattern.
    pub(crate) fn of(intervals: &'a [Interval], pattern: Option<&Pattern>) -> Timeline<'a> {
        let mut taken = Taken::new();
        let found: Vec<BTreeMap<GuestId, Measured<'a>>> =
            intervals.iter().map(|interval| guests_of(interval, pattern, &mut taken)).collect();
        let covered = intervals.iter().map(|interval| interval.host.covered_ms);
        let successors = successors(&found.iter().zip(covered).collect::<Vec<_>>());
        let mut steps = Vec::with_capacity(intervals.len());
        let mut total: Option<Sums> = None;
        for (interval, guests) in intervals.iter().zip(found) {
            let guests = joined(guests, &successors);
            let sums = Sums::of(interval, &guests);
            match &mut total {
                None => total = Some(sums.clone()),
                Some(total) => total.then(&sums),
            }
            steps.push(Step { interval, guests, sums });
        }
        Timeline { steps, total: total.unwrap_or_default(), successors }
    }

    /// Returns the identity that counts all runs of a guest.
    pub(crate) fn id_of(&self, who: &GuestIdentity) -> GuestId {
        let id = GuestId::of(who);
        self.successors.get(&id).cloned().unwrap_or(id)
    }

    /// Sums the selected guests of all steps. Returns `None` if no step has such a guest.
    pub(crate) fn sum_of(
        &self,
        is_selected: impl Fn(&GuestId, &Measured<'_>) -> bool,
    ) -> Option<Measured<'static>> {
        let mut sum: Option<Measured<'static>> = None;
        for step in &self.steps {
            let guests = step.guests.iter().filter(|(id, guest)| is_selected(id, guest));
            let mut guests = guests.map(|(_, guest)| guest).peekable();
            if guests.peek().is_none() {
                continue;
            }
            let here = together(guests);
            match &mut sum {
                None => sum = Some(here),
                Some(sum) => sum.then(&here),
            }
        }
        sum
    }
}
