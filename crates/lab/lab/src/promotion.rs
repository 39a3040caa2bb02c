//! Promotion: paged-out pages that guests needed again after they had settled.
//!
//! The manager samples once a minute, so a shorter phase shows little. The manager counts alarms of
//! its page-out immediately.

use crate::site::Manager;
use crate::{Error, Finding, Measures, Outcome};
use base::Spread;
use policy::pageout::PROMOTION_PERMILLE;

const PROMOTION: &str = "promotion";
const ALARMS: &str = "thrash alarms";

/// A manager's counts up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promotion {
    promoted_bytes: u64,
    /// Sum of all guests' working sets, as measured by page-out.
    working_set_bytes: u64,
    alarms: u64,
}

impl Promotion {
    /// Queries a manager. Returns `None` without a manager, or if page-out is off.
    pub(crate) fn of(manager: Option<&Manager>) -> Result<Option<Promotion>, Error> {
        let Some(manager) = manager else { return Ok(None) };
        let levers = manager.levers()?;
        let row = levers.levers.iter().find(|lever| lever.name == "page-out");
        let row = row.filter(|lever| lever.state != "off");
        Ok(row.map(|row| Promotion {
            promoted_bytes: row.promoted_bytes.unwrap_or(0),
            working_set_bytes: levers.guests.iter().filter_map(|g| g.working_set_bytes).sum(),
            alarms: row.alarms.unwrap_or(0),
        }))
    }

    /// Queries the manager again, and notes the growth since an earlier query. Without earlier
    /// counts, nothing is noted.
    pub(crate) fn note(
        earlier: Option<Promotion>,
        manager: Option<&Manager>,
        seconds: f64,
        measures: &mut Measures,
    ) -> Result<(), Error> {
        if let Some((earlier, now)) = earlier.zip(Promotion::of(manager)?) {
            now.note_since(earlier, seconds, measures);
        }
        Ok(())
    }

    fn note_since(self, earlier: Promotion, seconds: f64, measures: &mut Measures) {
        let promoted = self.promoted_bytes.saturating_sub(earlier.promoted_bytes) as f64;
        let all = self.working_set_bytes as f64 * seconds / 60.0;
        let percent = match promoted > 0.0 {
            true => (all > 0.0).then(|| promoted * 100.0 / all),
            false => Some(0.0),
        };
        measures.note(PROMOTION, "% of the working sets a minute", percent);
        measures.note(ALARMS, "", self.alarms.saturating_sub(earlier.alarms) as f64);
    }
}

/// Returns the findings for these cases and phases. The list is empty for results without these
/// measures.
pub(crate) fn findings(outcome: &Outcome, all: &[(&str, &str)]) -> Vec<Finding> {
    let worse = |a: Spread, b: Spread| if b.high > a.high { b } else { a };
    let worst = all.iter().filter_map(|(case, phase)| outcome.interval(case, phase, PROMOTION));
    let alarms: Vec<f64> = all
        .iter()
        .flat_map(|(case, phase)| outcome.values(case, phase, ALARMS))
        .map(|(_, count)| count)
        .collect();
    let Some(worst) = worst.reduce(worse) else { return Vec::new() };
    let bound = PROMOTION_PERMILLE as f64 / 10.0;
    vec![
        Finding::at_most(
            &format!("promotion by page-out, % of the working sets a minute (<= {bound})"),
            Some(worst),
            bound,
            "%",
        ),
        Finding::never("no thrash alarm: the host's waits never pause page-out", &alarms),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Phase, Run};
    use crate::verdict::Verdict;

    const MIB: u64 = 1 << 20;

    fn noted(earlier: Promotion, later: Promotion) -> Vec<f64> {
        let mut measures = Measures::default();
        later.note_since(earlier, 30.0, &mut measures);
        measures.0.iter().map(|one| one.value).collect()
    }

    #[test]
    fn promotion_is_a_percentage_of_working_sets_per_minute() {
        let earlier = Promotion { promoted_bytes: 2 * MIB, alarms: 1, ..Promotion::default() };
        let later = Promotion { promoted_bytes: 3 * MIB, working_set_bytes: 500 * MIB, alarms: 3 };
        assert_eq!(noted(earlier, later), [0.4, 2.0]);
        let still = Promotion { working_set_bytes: 500 * MIB, ..earlier };
        assert_eq!(noted(earlier, still), [0.0, 0.0]);
        // Without a measured working set the ratio is unknown.
        let unknown = Promotion { working_set_bytes: 0, ..later };
        assert_eq!(noted(earlier, unknown), [2.0]);
    }

    #[test]
    fn findings_judge_the_worst_phase_and_need_figures() {
        let mut outcome = Outcome::default();
        let cases = [("a", "load"), ("b", "load")];
        assert_eq!(findings(&outcome, &cases), []);
        for round in 1..=6 {
            for (case, percent) in [("a", 0.1), ("b", 0.3)] {
                let mut measures = Measures::default();
                measures.note(PROMOTION, "", percent);
                measures.note(ALARMS, "", 0.0);
                let phase =
                    Phase { name: "load".into(), seconds: 1.0, failed: None, measures: measures.0 };
                outcome.runs.push(Run {
                    case: case.into(),
                    repetition: round,
                    seed: None,
                    finished: true,
                    phases: vec![phase],
                });
            }
        }
        let verdicts = |cases| {
            let found = findings(&outcome, cases);
            found.iter().map(|finding| finding.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&cases[..1]), [Verdict::Shown, Verdict::Shown]);
        assert_eq!(verdicts(&cases), [Verdict::Refuted, Verdict::Shown]);
    }
}
