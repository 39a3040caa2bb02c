//! For how long a guest's need has not been met, counted by its reports.
//!
//! Passes come as often as anything happens, and know no more of the guest than its last report.

use super::sample::Memory;
use counters::Bytes;

/// Reports in a row by which a guest was in need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unmet {
    reports: u32,
    /// When the newest of them was made.
    at_ms: Option<u64>,
}

impl Unmet {
    /// By this report it needs so much. Each report by which it is in need still makes the next
    /// answer larger.
    pub(super) fn judged(&mut self, report: Option<&Memory>, need: Bytes) {
        let at_ms = report.map(|memory| memory.at_ms);
        match need {
            _ if self.at_ms == at_ms => {}
            Bytes::ZERO => self.reports = 0,
            _ => (self.reports, self.at_ms) = (self.reports + 1, at_ms),
        }
    }

    /// How many there were before this one.
    pub(super) fn before(&self, report: Option<&Memory>) -> u32 {
        let is_counted = self.at_ms == report.map(|memory| memory.at_ms);
        self.reports.saturating_sub(u32::from(is_counted))
    }
}
