//! Rules that derive a size from a guest's needs: pinhead's, and others for comparison.

use crate::past::Step;
use base::{Bytes, named};

/// Granularity of sizes.
const GRAIN: Bytes = Bytes::mib(4);
/// Upper bound of the headroom for growth, in thousandths. More headroom would be useless.
const GROWTH_PERMILLE_MAX: u64 = 500;
/// Milliseconds of a day, the period of peaks in Kubernetes' autoscaler.
const DAY_MS: u64 = 86_400_000;
/// Width of the first bucket of the autoscaler's histogram, and divisor for the growth: each bucket
/// is wider than the previous bucket by a twentieth.
const BUCKET_BYTES: u64 = 10_000_000;
const BUCKET_PART: u64 = 20;

named! {
    /// A rule.
    pub enum Rule {
        /// pinhead's rule: a percentile with headroom. The headroom is at least the growth of the
        /// guest's peak during the time.
        Pinhead = "pinhead",
        /// Kubernetes' vertical pod autoscaler: the 90th percentile of the daily peaks plus 15 %,
        /// with more weight for newer peaks. The autoscaler's floor of 250 MB is left out, because
        /// the floor is meant for larger hosts.
        Vpa = "vpa",
        /// KRR of Robusta: the maximum plus 15 %.
        Krr = "krr",
        /// AWS Compute Optimizer with its default settings: percentile 99.5 plus 20 %.
        P995 = "p99.5+20%",
        /// Memory that the guest had.
        AsItWas = "as it was",
    }
}

/// Minimum history for advice about sizes, changes and further guests.
pub const ENOUGH_MS: u64 = 3_600_000;

/// Options that decide how safe a size is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Percentile of the needs that the size covers, in thousandths.
    pub percentile_permille: u64,
    /// Headroom above the percentile, in thousandths.
    pub headroom_permille: u64,
    /// Shortest history that is enough for advice.
    pub enough_ms: u64,
}

impl Options {
    /// Usual options.
    pub const USUAL: Options =
        Options { percentile_permille: 999, headroom_permille: 100, enough_ms: ENOUGH_MS };
}

impl Rule {
    /// Returns the rule's size for a guest with these needs and this `memory`; `None` if no need is
    /// known.
    pub fn size(
        self,
        steps: &[Step],
        memory: Option<Bytes>,
        step_ms: u64,
        options: &Options,
    ) -> Option<Bytes> {
        let needs: Vec<Bytes> = steps.iter().filter_map(|step| step.needed).collect();
        let most = needs.iter().copied().max()?;
        let size = match self {
            Rule::Pinhead => {
                let base = quantile(&needs, options.percentile_permille)?;
                let headroom = options.headroom_permille.max(growth_permille(&needs));
                // A need that ended in a kill always counts, even beyond the percentile.
                let killed = steps.iter().filter(|step| step.kills > 0);
                let killed = killed.filter_map(|step| step.needed).max().unwrap_or(Bytes::ZERO);
                base.permille(1000 + headroom).max(killed)
            }
            Rule::Vpa => vpa(steps, step_ms)?,
            Rule::Krr => most.permille(1_150),
            Rule::P995 => quantile(&needs, 995)?.permille(1_200),
            Rule::AsItWas => return memory,
        };
        Some(rounded(size))
    }
}

/// Rounds up to a multiple of the grain.
pub(crate) fn rounded(size: Bytes) -> Bytes {
    Bytes(size.0.div_ceil(GRAIN.0).saturating_mul(GRAIN.0))
}

/// Returns a quantile by nearest rank: the smallest value that at least `permille` thousandths of
/// the values do not exceed.
pub(crate) fn quantile<T: Copy + Ord>(values: &[T], permille: u64) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() as u64 * permille.min(1000)).div_ceil(1000).max(1);
    sorted.get(usize::try_from(rank).ok()? - 1).copied()
}

/// Returns the growth from the peak of the first half to the peak of the second half, in
/// thousandths.
fn growth_permille(needs: &[Bytes]) -> u64 {
    let (first, second) = needs.split_at(needs.len() / 2);
    let peaks = first.iter().max().zip(second.iter().max());
    let Some((before, after)) = peaks.filter(|(before, _)| before.0 > 0) else { return 0 };
    let grown = u128::from(after.less(*before).0) * 1000 / u128::from(before.0);
    u64::try_from(grown).unwrap_or(GROWTH_PERMILLE_MAX).min(GROWTH_PERMILLE_MAX)
}

/// Returns the size by Kubernetes' rule. The peak of each day weighs half as much as the peak of
/// the next day.
fn vpa(steps: &[Step], step_ms: u64) -> Option<Bytes> {
    let day = |step: &Step| (step.at as u64).saturating_mul(step_ms) / DAY_MS;
    let mut peaks: Vec<(u64, Bytes)> = Vec::new();
    for (day, needed) in steps.iter().filter_map(|step| Some((day(step), step.needed?))) {
        match peaks.last_mut() {
            Some((last, peak)) if *last == day => *peak = needed.max(*peak),
            _ => peaks.push((day, needed)),
        }
    }
    let newest = peaks.last()?.0;
    peaks.sort_by_key(|(_, peak)| *peak);
    // Eight days are kept. The oldest day weighs 1, so that weights are whole numbers.
    let weight = |day: u64| 1u64 << 7u64.saturating_sub(newest - day);
    peaks.retain(|(day, _)| newest - day < 8);
    let all: u64 = peaks.iter().map(|(day, _)| weight(*day)).sum();
    let mut sum = 0;
    let at = peaks.iter().find(|(day, _)| {
        sum += weight(*day);
        sum * 1000 >= all * 900
    });
    Some(bucket_end(at?.1).permille(1_150))
}

/// Returns the end of the histogram's bucket that contains a size.
fn bucket_end(size: Bytes) -> Bytes {
    let (mut end, mut width) = (BUCKET_BYTES, BUCKET_BYTES);
    while end <= size.0 && end < u64::MAX / 2 {
        width = width.saturating_add(width / BUCKET_PART);
        end = end.saturating_add(width);
    }
    Bytes(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(needs: &[u64]) -> Vec<Step> {
        let step = |(at, mib): (usize, &u64)| Step {
            at,
            needed: Some(Bytes::mib(*mib)),
            ..Step::default()
        };
        needs.iter().enumerate().map(step).collect()
    }

    fn size(rule: Rule, needs: &[u64]) -> u64 {
        let size = rule.size(&steps(needs), Some(Bytes::mib(512)), 60_000, &Options::USUAL);
        size.unwrap().0 >> 20
    }

    #[test]
    fn each_rule_matches_its_original() {
        let needs: Vec<u64> = (1..=1000).collect();
        assert_eq!(size(Rule::Krr, &needs), 1152, "1000 and 15 %, in parts of 4");
        assert_eq!(size(Rule::P995, &needs), 1196, "995 and 20 %");
        assert_eq!(size(Rule::AsItWas, &needs), 512);
        // The peak of the only day, 1,049 MB, lies in the 38th bucket, which ends at
        // 10 MB * (1.05^38 - 1) / 0.05.
        assert_eq!(bucket_end(Bytes::mib(1000)).0 / 1_000_000, 1_077);
        assert_eq!(size(Rule::Vpa, &needs), 1184);
        // The 99.9th percentile is 999 MiB. The peak of the second half is twice the peak of the
        // first half, so the headroom is 50 %.
        assert_eq!(size(Rule::Pinhead, &needs), 1500);
    }

    #[test]
    fn steady_need_gets_usual_headroom_without_single_peak() {
        let mut needs = vec![100; 2000];
        assert_eq!(size(Rule::Pinhead, &needs), 112);
        needs[100] = 400;
        assert_eq!(size(Rule::Pinhead, &needs), 112);
        assert_eq!(size(Rule::Krr, &needs), 460);
    }

    #[test]
    fn a_need_that_ended_in_a_kill_always_counts() {
        let mut all = steps(&[100; 2000]);
        (all[7].kills, all[7].needed) = (1, Some(Bytes::mib(220)));
        let size = Rule::Pinhead.size(&all, None, 60_000, &Options::USUAL).unwrap();
        assert_eq!(size, Bytes::mib(220));
    }

    #[test]
    fn newer_days_count_more_and_the_ninth_is_forgotten() {
        let day = 1440;
        let mut needs = vec![100; 9 * day];
        needs[10] = 4000;
        let eight_days = size(Rule::Vpa, &needs);
        assert!((115..=128).contains(&eight_days), "{eight_days}");
        needs[9 * day - 1] = 1000;
        assert_eq!(size(Rule::Vpa, &needs), 1184, "the newest day weighs half of all");
    }

    #[test]
    fn unknown_needs_give_no_size() {
        let unknown = [Step::default()];
        for rule in Rule::ALL {
            assert_eq!(rule.size(&unknown, Some(GRAIN), 60_000, &Options::USUAL), None);
        }
    }

    #[test]
    fn a_quantile_is_the_nearest_rank() {
        assert_eq!(quantile(&[3, 1, 2], 500), Some(2));
        assert_eq!(quantile(&[3, 1, 2], 1000), Some(3));
        assert_eq!(quantile(&[3, 1, 2], 0), Some(1));
        assert_eq!(quantile::<u64>(&[], 500), None);
    }
}
