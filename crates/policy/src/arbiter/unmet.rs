//! How often a guest was in need again though it had got something, counted by its reports.
//!
//! Passes come as often as anything happens, and know no more of the guest than its last report.

use super::sample::Memory;
use counters::Bytes;

/// Reports in a row by which a guest was in need: the first, and each by which it has more than by
/// the one that was counted before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unmet {
    reports: u32,
    /// When the newest was made.
    at_ms: Option<u64>,
    /// What it had by the newest that was counted, or less if it was shrunk since.
    had: Bytes,
}

impl Unmet {
    /// By this report it needs so much. Each report by which what it was given was not enough
    /// makes the next answer larger; while nothing has come, a report says nothing new.
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

    /// How many were counted before this one.
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
    fn only_what_was_given_and_was_not_enough_makes_an_answer_larger() {
        let mut unmet = Unmet::default();
        let mut answers = Vec::new();
        for (at_ms, has_mib) in [(1, 128), (2, 128), (3, 128), (4, 160), (5, 160), (6, 224)] {
            let report = Memory { at_ms, actual: Bytes::mib(has_mib), ..Memory::default() };
            answers.push(unmet.before(Some(&report)));
            // Passes come several times a report.
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
