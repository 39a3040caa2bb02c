//! The spare memory of a guest, and the host's gain from it.

use super::gain::Holding;
use super::guest::{Assessment, GuestHistory};
use super::headroom::HEADROOM_MIN;
use super::sample::GuestSample;
use super::state::MOVE_MIN;
use counters::Bytes;

/// Memory that a guest may lose for each byte of the host's gain and still give with the others.
const THIN: u64 = 4;

/// The kinds of memory that a guest gives up, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Free memory alone: it costs the guest nothing.
    Free,
    /// Free memory and cold cache, of guests that do not refault. To a kernel that refaults, all
    /// its cache looks cold.
    ColdCache,
    /// Free memory and cold cache, of guests that refault as well.
    ThrashedCache,
    /// Cache that is in use, of guests beyond their share.
    HotCache,
    /// Cache that is in use, of guests within their share as well.
    AnyHotCache,
    /// Memory of processes, to the guest's swap.
    ProcessMemory,
}

impl GuestHistory {
    /// Returns the guest's holding. Memory given since the last report is taken off its free
    /// memory.
    pub fn holding(&self, sample: &GuestSample, actual: Bytes, now_ms: u64) -> Holding {
        let free = self.kept.map(|kept| actual.less(kept));
        let resident = (sample.resident, sample.doubtful);
        Holding::of(actual, free, resident, &self.balloon.yields, now_ms)
            .in_process(sample.process.private)
    }

    /// Returns true if the guest has spare memory, but the host would get none of it by the
    /// lessons.
    pub fn gives_nothing(&self, assessment: &Assessment) -> bool {
        let keep = self.keep(assessment, Reclaim::ThrashedCache);
        let holding = &assessment.holding;
        holding.hoped_gain(keep) >= MOVE_MIN && holding.gain(keep) < MOVE_MIN
    }

    /// Returns the host's largest gain if the guest gives this kind of memory.
    pub fn spare(&self, assessment: &Assessment, kind: Reclaim) -> Bytes {
        assessment.holding.gain(self.keep(assessment, kind))
    }

    /// Returns true if the guest would lose more than [`THIN`] times the host's gain by giving this
    /// kind: a balloon would mostly take memory that the host does not have.
    pub fn is_thin(&self, assessment: &Assessment, kind: Reclaim) -> bool {
        let lost = assessment.actual.less(self.keep(assessment, kind));
        lost.0 > self.spare(assessment, kind).0.saturating_mul(THIN)
    }

    /// Returns the least size that the guest is left.
    fn keep(&self, assessment: &Assessment, kind: Reclaim) -> Bytes {
        let Some(view) = self.view else { return assessment.actual };
        let breath = view.used.plus(assessment.headroom);
        let keep = match kind {
            Reclaim::ColdCache if !assessment.refaults => breath.plus(view.hot),
            Reclaim::Free | Reclaim::ColdCache => {
                // Memory that a kernel holds back is free, but not available.
                let kept = self.kept.unwrap_or(assessment.actual);
                kept.plus(assessment.headroom).max(breath)
            }
            Reclaim::ThrashedCache => breath.plus(view.hot),
            Reclaim::HotCache | Reclaim::AnyHotCache => breath,
            Reclaim::ProcessMemory => {
                let swap = view.swap_free.unwrap_or(Bytes::ZERO);
                // Without room in swap, processes would be killed.
                match swap < HEADROOM_MIN {
                    true => breath,
                    false => view.used.less(Bytes(view.used.0 / 16).min(Bytes(swap.0 / 2))),
                }
            }
        };
        keep.max(assessment.min)
    }
}
