//! What a guest needs, by its last report.

use super::headroom;
use super::reason::Clause;
use super::sample::{GuestSample, RuleVerdicts};
use super::view::MemoryView;
use counters::Bytes;

/// The least that a guest in need is given at once.
const NEED_MIN: Bytes = Bytes::mib(16);

/// What a guest needs now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// At least: others give up memory for that.
    pub size: Bytes,
    /// Where the host has more than it wants: a guest that waits for memory may be at the beginning
    /// of a burst, and is given as much again as it has.
    pub most: Bytes,
    /// The part of the policy that decided that.
    pub why: Option<Clause>,
}

impl Need {
    fn of(why: Clause, size: Bytes) -> Need {
        Need { size, most: size, why: Some(why) }
    }

    /// The need of a guest that lacks `below` of its minimum and had `had` when it reported, before
    /// what is on its way to it. `unmet` counts its needs of before that were not met.
    pub(super) fn of_report(
        view: &MemoryView,
        sample: &GuestSample,
        verdicts: &RuleVerdicts,
        below: Bytes,
        had: Bytes,
        unmet: u32,
    ) -> Need {
        if below > Bytes::ZERO {
            return Need::of(Clause::Limits, below);
        }
        if verdicts.may_grow == Some(false) || verdicts.grow == Some(false) {
            return Need::default();
        }
        if verdicts.grow == Some(true) {
            let size = verdicts.grow_size.unwrap_or(Bytes(had.0 / 8));
            return Need::of(Clause::Rule, size);
        }
        // What it has learnt to keep is no reason to ask: nobody waits for it.
        let headroom = headroom::plain(view, sample);
        let lack = headroom.less(view.available);
        // More memory does not help a guest that has it and waits all the same, behind a limit of
        // its own.
        let has_room = view.free.unwrap_or(view.available) >= headroom;
        if view.strained && !has_room {
            let hard = view.psi_permille.is_some_and(|psi| psi > 0)
                || view.swap_in.is_some_and(|rate| rate > 0)
                || view.stalls.is_some_and(|rate| rate > 0)
                || view.psi_permille.is_none();
            let guess = match hard {
                true => Bytes((had.0 / 4) << unmet.min(2)).min(had),
                false => Bytes(had.0 / 16),
            };
            let ahead = Bytes(view.growth.0.saturating_mul(2));
            let thrash = Bytes(view.thrash().0.saturating_mul(2));
            let need = lack.max(ahead).max(thrash).max(guess).max(NEED_MIN);
            let most = if hard { need.max(had) } else { need };
            return Need { most, ..Need::of(Clause::Need, need) };
        }
        if view.available < Bytes(headroom.0 / 2) {
            let ahead = Bytes(view.growth.0.saturating_mul(2));
            return Need::of(Clause::Need, lack.max(ahead).max(NEED_MIN));
        }
        Need::default()
    }

    /// The rest of it when so much is on its way, and no more than there is room for.
    pub fn left(self, answered: Bytes, room: Bytes) -> Need {
        let left = |size: Bytes| size.less(answered).min(room);
        Need { size: left(self.size), most: left(self.most), ..self }
    }
}
