//! What a guest could do without, and what of that the host would gain.

use super::gain::Holding;
use super::guest::{Assessment, GuestHistory};
use super::headroom::HEADROOM_MIN;
use super::sample::GuestSample;
use super::state::MOVE_MIN;
use counters::Bytes;

/// What a guest gives up, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Free memory alone: it costs the guest nothing.
    Free,
    /// Free memory and cache that nobody used again, of guests that do not read again what they
    /// dropped: to the kernel of one that does, all its cache looks as if nobody used it.
    ColdCache,
    /// The same of those as well.
    ThrashedCache,
    /// Cache that is in use, of guests beyond their share.
    HotCache,
    /// The same of guests within their share as well.
    AnyHotCache,
    /// Memory of processes, to the guest's swap.
    ProcessMemory,
}

impl GuestHistory {
    /// What of it is in the host's memory. What it had free is less by what it gave since then.
    pub fn holding(&self, sample: &GuestSample, actual: Bytes, now_ms: u64) -> Holding {
        let free = self.kept.map(|kept| actual.less(kept));
        let resident = (sample.resident, sample.doubtful);
        Holding::of(actual, free, resident, &self.balloon.yields, now_ms)
            .in_process(sample.process.private)
    }

    /// It has something to spare, and by what was learnt of it the host would get none of that.
    pub fn gives_nothing(&self, assessment: &Assessment) -> bool {
        let keep = self.keep(assessment, Reclaim::ThrashedCache);
        let holding = &assessment.holding;
        holding.hoped_gain(keep) >= MOVE_MIN && holding.gain(keep) < MOVE_MIN
    }

    /// What the host would gain of it at most, if `hot` memory counts as in use, and if memory in
    /// use may be pushed to swap.
    pub fn spare(&self, assessment: &Assessment, kind: Reclaim) -> Bytes {
        assessment.holding.gain(self.keep(assessment, kind))
    }

    /// What it is left at least.
    fn keep(&self, assessment: &Assessment, kind: Reclaim) -> Bytes {
        let Some(view) = self.view else { return assessment.actual };
        let breath = view.used.plus(assessment.headroom);
        let keep = match kind {
            Reclaim::ColdCache if !assessment.refaults => breath.plus(view.hot),
            Reclaim::Free | Reclaim::ColdCache => {
                // What its kernel does not hand out is free, and not available.
                let kept = self.kept.unwrap_or(assessment.actual);
                kept.plus(assessment.headroom).max(breath)
            }
            Reclaim::ThrashedCache => breath.plus(view.hot),
            Reclaim::HotCache | Reclaim::AnyHotCache => breath,
            Reclaim::ProcessMemory => {
                let swap = view.swap_free.unwrap_or(Bytes::ZERO);
                // What cannot be swapped is killed.
                match swap < HEADROOM_MIN {
                    true => breath,
                    false => view.used.less(Bytes(view.used.0 / 16).min(Bytes(swap.0 / 2))),
                }
            }
        };
        keep.max(assessment.min)
    }
}
