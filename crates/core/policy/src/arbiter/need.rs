//! The need of a guest, by its last report.

use super::headroom;
use super::reason::Clause;
use super::sample::{GuestSample, RuleVerdicts};
use super::view::MemoryView;
use base::Bytes;

/// Smallest amount granted at once to a guest in need.
const NEED_MIN: Bytes = Bytes::mib(16);

/// The current need of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Needed memory, for which other guests shrink.
    pub size: Bytes,
    /// Maximum memory to grant from a surplus of the host. A guest that waits may be at the
    /// beginning of a burst of any size.
    pub most: Bytes,
    /// Part of the policy that decided.
    pub why: Option<Clause>,
}

impl Need {
    fn of(why: Clause, size: Bytes) -> Need {
        Need { size, most: size, why: Some(why) }
    }

    /// Returns the need of a guest. `below` is the amount that the guest lacks to its minimum,
    /// `had` its size at the report, and `unmet` the number of its earlier needs that were not met.
    /// Granted memory that has not arrived is not subtracted.
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
        // Learned headroom is no reason for a request, because the guest does not wait for it.
        let headroom = headroom::plain(view, sample);
        let lack = headroom.less(view.available);
        // More memory does not help a guest that waits although it has free memory, because one of
        // its own limits causes the wait.
        if view.strained && !view.has_free(headroom) {
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
            let most = if hard { Bytes(u64::MAX) } else { need };
            return Need { most, ..Need::of(Clause::Need, need) };
        }
        if view.available < Bytes(headroom.0 / 2) {
            let ahead = Bytes(view.growth.0.saturating_mul(2));
            return Need::of(Clause::Need, lack.max(ahead).max(NEED_MIN));
        }
        Need::default()
    }

    /// Returns the need that remains after `answered` was granted, at most `room`.
    pub fn left(self, answered: Bytes, room: Bytes) -> Need {
        let left = |size: Bytes| size.less(answered).min(room);
        Need { size: left(self.size), most: left(self.most), ..self }
    }
}
