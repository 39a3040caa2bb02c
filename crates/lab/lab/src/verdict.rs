//! The verdicts of a result on claims.
//!
//! A claim is shown if the 95 % interval of the measured median lies on the claimed side of the
//! bound. It is refuted if the interval lies on the other side. Otherwise the rounds do not decide,
//! and the claim is not shown.

use crate::figure::figure;
use base::Spread;
use std::fmt::Write;

base::named! {
    /// The verdict on a claim.
    pub enum Verdict {
        /// The interval supports the claim.
        Shown = "shown",
        /// The interval includes the bound, or there are too few rounds.
        NotShown = "not shown",
        /// The interval excludes the claim.
        Refuted = "refuted",
        /// There is no figure.
        NotMeasured = "not measured",
    }
}

/// A claim and its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The claim.
    pub promise: String,
    /// The measured value, with its interval and the number of rounds.
    pub measured: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason if the claim is not shown.
    pub why: String,
}

impl Finding {
    /// Judges the claim that a figure has this maximum.
    pub fn at_most(promise: &str, measured: Option<Spread>, bound: f64, unit: &str) -> Finding {
        Finding::judged(promise, measured, unit, |value| value < bound, |value| value > bound)
    }

    /// Judges the claim that a figure has this minimum.
    pub fn at_least(promise: &str, measured: Option<Spread>, bound: f64, unit: &str) -> Finding {
        Finding::judged(promise, measured, unit, |value| value > bound, |value| value < bound)
    }

    /// Judges the claim that an event never happened. The events of all rounds are counted, so no
    /// interval is needed.
    pub fn never(promise: &str, counts: &[f64]) -> Finding {
        let sum: f64 = counts.iter().sum();
        let verdict = match (counts.is_empty(), sum > 0.0) {
            (true, _) => Verdict::NotMeasured,
            (_, true) => Verdict::Refuted,
            (_, false) => Verdict::Shown,
        };
        let measured = match verdict {
            Verdict::NotMeasured => Verdict::NotMeasured.name().to_owned(),
            _ => format!("{} in {} phases", figure(sum), counts.len()),
        };
        Finding { promise: promise.to_owned(), measured, verdict, why: String::new() }
    }

    fn judged(
        promise: &str,
        measured: Option<Spread>,
        unit: &str,
        is_held: impl Fn(f64) -> bool,
        is_broken: impl Fn(f64) -> bool,
    ) -> Finding {
        let promise = promise.to_owned();
        let Some(interval) = measured else {
            let measured = Verdict::NotMeasured.name().to_owned();
            let verdict = Verdict::NotMeasured;
            return Finding { promise, measured, verdict, why: String::new() };
        };
        let both = |is: &dyn Fn(f64) -> bool| is(interval.low) && is(interval.high);
        let (verdict, why) = if !interval.is_enough() {
            (Verdict::NotShown, few(interval.count))
        } else if both(&is_held) {
            (Verdict::Shown, String::new())
        } else if both(&is_broken) {
            (Verdict::Refuted, String::new())
        } else {
            (Verdict::NotShown, "its interval includes the bound".to_owned())
        };
        Finding { promise, measured: told(interval, unit), verdict, why }
    }
}

fn few(rounds: usize) -> String {
    let enough = Spread::ENOUGH;
    let s = if rounds == 1 { " is" } else { "s are" };
    format!("{rounds} round{s} too few: a 95 % interval of a median needs {enough}")
}

/// Formats an interval, such as "0.97 (0.95-1.01) x".
fn told(interval: Spread, unit: &str) -> String {
    let Spread { median, low, high, count } = interval;
    let ends = match count {
        1 => String::new(),
        _ => format!(" ({}-{})", figure(low), figure(high)),
    };
    let space = if unit.is_empty() { "" } else { " " };
    format!("{}{ends}{space}{unit}", figure(median))
}

/// Summarizes the findings and their reasons in one paragraph.
pub fn summary(findings: &[Finding]) -> String {
    let mut out = String::new();
    for &verdict in Verdict::ALL {
        let of_it: Vec<String> = findings
            .iter()
            .filter(|finding| finding.verdict == verdict)
            .map(|Finding { promise, measured, why, .. }| match (verdict, why.as_str()) {
                (Verdict::NotMeasured, _) => promise.clone(),
                (_, "") => format!("{promise}: {measured}"),
                (_, why) => format!("{promise}: {measured}, {why}"),
            })
            .collect();
        if of_it.is_empty() {
            continue;
        }
        let mut word = verdict.name().to_owned();
        if let Some(first) = word.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let space = if out.is_empty() { "" } else { " " };
        let _ = write!(out, "{space}{word}: {}.", of_it.join("; "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(values: &[f64]) -> Finding {
        Finding::at_most("it is small", Spread::interval(values.iter().copied()), 1.0, "x")
    }

    #[test]
    fn a_claim_is_shown_only_by_an_interval_that_excludes_its_bound() {
        let verdict = |values: &[f64]| finding(values).verdict;
        assert_eq!(verdict(&[0.5, 0.6, 0.5, 0.7, 0.6, 0.5]), Verdict::Shown);
        assert_eq!(verdict(&[0.5, 0.6, 1.2, 1.3, 0.6, 1.4]), Verdict::NotShown);
        assert_eq!(verdict(&[1.5, 1.6, 1.2, 1.3, 1.6, 1.4]), Verdict::Refuted);
        assert_eq!(verdict(&[1.0; 6]), Verdict::NotShown, "the bound itself is not excluded");
        assert_eq!(verdict(&[]), Verdict::NotMeasured);
        // Five rounds show nothing, whatever their values are.
        assert_eq!(verdict(&[0.1; 5]), Verdict::NotShown);
        assert_eq!(verdict(&[9.0; 5]), Verdict::NotShown);
        let high = Spread::interval([2.0; 6]);
        assert_eq!(Finding::at_least("much", high, 1.5, "").verdict, Verdict::Shown);
        assert_eq!(Finding::at_least("more", high, 2.5, "").verdict, Verdict::Refuted);
    }

    #[test]
    fn absent_events_are_counted() {
        let verdict = |counts: &[f64]| Finding::never("no request fails", counts).verdict;
        assert_eq!(verdict(&[0.0, 0.0]), Verdict::Shown);
        assert_eq!(verdict(&[0.0, 1.0]), Verdict::Refuted);
        assert_eq!(verdict(&[]), Verdict::NotMeasured);
    }

    #[test]
    fn the_paragraph_says_what_is_shown_what_is_not_and_why() {
        let all = [
            finding(&[0.5; 6]),
            finding(&[0.5, 1.5]),
            finding(&[2.0; 7]),
            finding(&[0.5, 1.5, 0.5, 1.5, 0.5, 1.5]),
            finding(&[]),
        ];
        assert_eq!(
            summary(&all),
            "Shown: it is small: 0.500 (0.500-0.500) x. \
             Not shown: it is small: 1.00 (0.500-1.50) x, 2 rounds are too few: a 95 % interval of \
             a median needs 6; it is small: 1.00 (0.500-1.50) x, its interval includes the bound. \
             Refuted: it is small: 2.00 (2.00-2.00) x. Not measured: it is small."
        );
        assert_eq!(summary(&[]), "");
    }
}
