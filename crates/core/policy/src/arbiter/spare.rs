//! The spare memory of a guest, and the gain for the host.

use super::assess::Assessment;
use super::gain::Holding;
use super::guest::GuestHistory;
use super::headroom::HEADROOM_MIN;
use super::sample::GuestSample;
use super::state::MOVE_MIN;
use base::Bytes;

/// Largest ratio of a guest's loss to the host's gain at which the guest shrinks together with the
/// other guests.
const THIN: u64 = 4;

/// The kinds of memory that a guest gives up, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Free memory only, which costs the guest nothing.
    Free,
    /// Free memory and cold cache, of guests that do not refault. A kernel that refaults reports
    /// all of its cache as cold.
    ColdCache,
    /// Free memory and cold cache, also of guests that refault.
    ThrashedCache,
    /// Cache in use, of guests above their share.
    HotCache,
    /// Cache in use, also of guests within their share.
    AnyHotCache,
    /// Memory of processes, which the guest swaps out.
    ProcessMemory,
}

impl GuestHistory {
    /// Returns the guest's holding. Memory given up since the last report is subtracted from its
    /// free memory.
    pub fn holding(&self, sample: &GuestSample, actual: Bytes, now_ms: u64) -> Holding {
        let free = self.kept.map(|kept| actual.less(kept));
        let resident = (sample.resident, sample.doubtful);
        let holding = Holding::of(actual, free, resident, &self.balloon.yields, now_ms)
            .in_process(sample.process.private);
        match self.reporting.coming() {
            Bytes::ZERO => holding,
            _ => holding.without_free(),
        }
    }

    /// Returns true if the guest has spare memory, but the lessons predict no gain for the host.
    pub fn gives_nothing(&self, assessment: &Assessment) -> bool {
        let keep = self.keep(assessment, Reclaim::ThrashedCache);
        let holding = &assessment.holding;
        holding.hoped_gain(keep) >= MOVE_MIN && holding.gain(keep) < MOVE_MIN
    }

    /// Returns the host's largest gain if the guest gives up this kind of memory.
    pub fn spare(&self, assessment: &Assessment, kind: Reclaim) -> Bytes {
        assessment.holding.gain(self.keep(assessment, kind))
    }

    /// Returns true if giving up this kind costs the guest more than [`THIN`] times the host's
    /// gain. The balloon would mostly inflate into memory that is not resident.
    pub fn is_thin(&self, assessment: &Assessment, kind: Reclaim) -> bool {
        let lost = assessment.actual.less(self.keep(assessment, kind));
        lost.0 > self.spare(assessment, kind).0.saturating_mul(THIN)
    }

    /// Returns the smallest size to which the guest may shrink.
    fn keep(&self, assessment: &Assessment, kind: Reclaim) -> Bytes {
        let Some(view) = self.view else { return assessment.actual };
        let breath = view.used.plus(assessment.headroom);
        let keep = match kind {
            Reclaim::ColdCache if !assessment.refaults => breath.plus(view.hot),
            Reclaim::Free | Reclaim::ColdCache => {
                // Memory that a kernel reserves is free, but not available.
                let kept = self.kept.unwrap_or(assessment.actual);
                kept.plus(assessment.headroom).max(breath)
            }
            Reclaim::ThrashedCache => breath.plus(view.hot),
            Reclaim::HotCache | Reclaim::AnyHotCache => breath,
            Reclaim::ProcessMemory => {
                let swap = view.swap_free.unwrap_or(Bytes::ZERO);
                // If the guest's swap is full, the kernel would kill processes.
                match swap < HEADROOM_MIN {
                    true => breath,
                    false => view.used.less(Bytes(view.used.0 / 16).min(Bytes(swap.0 / 2))),
                }
            }
        };
        keep.max(assessment.min)
    }
}
