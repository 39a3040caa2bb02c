//! Count of needs that grants did not satisfy, by the guest's reports.
//!
//! Many passes may use the same report, so reports are counted and not passes.

use super::sample::Memory;
use base::Bytes;

/// Consecutive reports of need: the first report, and each report with more memory than the last
/// counted report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unmet {
    reports: u32,
    /// Time of the newest report.
    at_ms: Option<u64>,
    /// Size at the newest counted report, or less if the guest was shrunk since.
    had: Bytes,
}

impl Unmet {
    /// Records the need in a report. Each report after an insufficient grant makes the next grant
    /// larger. A report before the grant has arrived contains nothing new.
    pub(super) fn judged(&mut self, report: Option<&Memory>, need: Bytes) {
        let Some(report) = report.filter(|report| self.at_ms != Some(report.at_ms)) else { return };
        if need == Bytes::ZERO {
            self.reports = 0;
            return;
        }
        if self.counts(report) {
            self.reports += 1;
            self.had = report.actual;
        }
        self.had = self.had.min(report.actual);
        self.at_ms = Some(report.at_ms);
    }

    /// Returns the number of reports counted before this one.
    pub(super) fn before(&self, report: Option<&Memory>) -> u32 {
        let is_new =
            report.is_some_and(|report| self.at_ms != Some(report.at_ms) && self.counts(report));
        self.reports.saturating_sub(u32::from(!is_new))
    }

    fn counts(&self, report: &Memory) -> bool {
        self.reports == 0 || report.actual > self.had
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insufficient_grant_makes_the_next_answer_larger() {
        let mut unmet = Unmet::default();
        let mut answers = Vec::new();
        for (at_ms, has_mib) in [(1, 128), (2, 128), (3, 128), (4, 160), (5, 160), (6, 224)] {
            let report = Memory { at_ms, actual: Bytes::mib(has_mib), ..Memory::default() };
            answers.push(unmet.before(Some(&report)));
            // Several passes follow each report.
            for _ in 0..3 {
                unmet.judged(Some(&report), Bytes::mib(32));
                assert_eq!(Some(&unmet.before(Some(&report))), answers.last());
            }
        }
        assert_eq!(answers, [0, 0, 0, 1, 1, 2]);
        let content = Memory { at_ms: 7, actual: Bytes::mib(300), ..Memory::default() };
        unmet.judged(Some(&content), Bytes::ZERO);
        let again = Memory { at_ms: 8, actual: Bytes::mib(300), ..Memory::default() };
        assert_eq!(unmet.before(Some(&again)), 0);
    }
}
