//! Everything of a host in one interval or over several: what the row of a host is made from.

use crate::Facts;
use crate::gather::{GuestId, Measured, Pattern, Taken, all_tiers, guests_of, together};
use model::{HostField, Interval, Over, ProcessField, TierField};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A guest is active if it uses more than this of a CPU, in hundredths: an idle Linux stays
/// below.
const ACTIVE_PERCENT: f64 = 1.0;

static NO_TIER: LazyLock<Over<TierField>> = LazyLock::new(Over::default);
static NO_PROCESS: LazyLock<Over<ProcessField>> = LazyLock::new(Over::default);

/// Sums over some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub host: Over<HostField>,
    pub guests: Measured<'static>,
    pub tiers: Over<TierField>,
    /// Guests there and active, each times the milliseconds.
    on: f64,
    active: f64,
    ms: f64,
}

impl Sums {
    /// Of one interval, with the guests in it.
    pub(crate) fn of(interval: &Interval, guests: &BTreeMap<GuestId, Measured<'_>>) -> Sums {
        let covered_ms = interval.host.covered_ms;
        let ms = covered_ms.max(u64::from(covered_ms == 0 && !guests.is_empty())) as f64;
        let is_active = |guest: &&Measured<'_>| {
            let facts = facts_of(&interval.host, guest);
            let share = facts.cpu_ns().and_then(|ns| facts.g_share(ns));
            share.is_some_and(|percent| percent > ACTIVE_PERCENT)
        };
        let active = guests.values().filter(is_active).count() as f64;
        Sums {
            host: interval.host.clone(),
            guests: together(guests.values(), covered_ms),
            tiers: all_tiers(interval, covered_ms),
            on: guests.len() as f64 * ms,
            active: active * ms,
            ms,
        }
    }

    /// Adds what was later.
    pub(crate) fn then(&mut self, later: &Sums) {
        self.host.add(&later.host);
        self.guests.then(&later.guests);
        self.tiers.add(&later.tiers);
        self.on += later.on;
        self.active += later.active;
        self.ms += later.ms;
    }

    /// For the row of the host.
    pub(crate) fn facts(&self) -> Facts<'_> {
        let mean = |sum: f64| (self.ms > 0.0).then(|| sum / self.ms);
        Facts {
            tier: &self.tiers,
            on: mean(self.on),
            active: mean(self.active),
            ..facts_of(&self.host, &self.guests)
        }
    }

    /// For the row of a tier.
    pub(crate) fn tier_facts<'a>(&'a self, tier: &'a Over<TierField>) -> Facts<'a> {
        Facts { tier, ..facts_of(&self.host, &self.guests) }
    }
}

/// For the row of a guest, or of several as one.
pub(crate) fn facts_of<'a>(host: &'a Over<HostField>, guest: &'a Measured<'_>) -> Facts<'a> {
    Facts {
        host,
        guest: &guest.over,
        tier: &NO_TIER,
        process: &NO_PROCESS,
        added: &guest.added,
        on: None,
        active: None,
        unlisted_ns: None,
    }
}

/// A host's time, interval by interval.
pub(crate) struct Timeline<'a> {
    /// Each interval with its guests and its sums.
    pub steps: Vec<Step<'a>>,
    /// Sums over the whole time.
    pub total: Sums,
}

/// One interval.
pub(crate) struct Step<'a> {
    pub interval: &'a Interval,
    pub guests: BTreeMap<GuestId, Measured<'a>>,
    pub sums: Sums,
}

impl<'a> Timeline<'a> {
    /// Of the guests that a pattern takes.
    pub(crate) fn of(intervals: &'a [Interval], pattern: Option<&Pattern>) -> Timeline<'a> {
        let mut steps = Vec::with_capacity(intervals.len());
        let mut total: Option<Sums> = None;
        let mut taken = Taken::new();
        for interval in intervals {
            let guests = guests_of(interval, pattern, &mut taken);
            let sums = Sums::of(interval, &guests);
            match &mut total {
                None => total = Some(sums.clone()),
                Some(total) => total.then(&sums),
            }
            steps.push(Step { interval, guests, sums });
        }
        Timeline { steps, total: total.unwrap_or_default() }
    }
}
