//! Sizes of guests with their bounds, and the quality of each rule.
//!
//! ```text
//!   Past ─┬─► each guest: rule(all steps) ─► Sizing: memory, bounds, minimum, CPUs, shares
//!         ├─► each guest: rule(first two thirds) ──judged by the last third──► Proof, each rule
//!         └─► all guests, step by step ─► Together: peaks that do not come at one time
//! ```

use crate::past::{Guest, Past, Step};
use crate::rules::{Options, Rule, quantile, rounded};
use base::{Bytes, counted, duration, named};

/// Percentile of the needs that a guest's minimum covers, in thousandths.
const MINIMUM_PERMILLE: u64 = 100;
/// Percentile of the lower bound, in thousandths. The lower bound has no headroom.
const LOWER_PERMILLE: u64 = 950;
/// Time that counts as one independent sample. Adjacent minutes are too similar.
const LOOK_MS: u64 = 15 * 60_000;
/// Percentile, in thousandths, of the CPUs that a guest used or waited for. The number of vCPUs
/// follows from this percentile.
const CPUS_PERMILLE: u64 = 990;
/// Weight of a guest of median size.
const SHARES: u64 = 100;
/// Maximum factor between a weight and the weight of the median.
const SHARES_SPREAD: u64 = 16;
/// Number of thirds of the time on which a rule is fitted.
const FIT_PARTS: usize = 2;

named! {
    /// Relation of the advised size to the guest's memory.
    pub enum Verdict {
        /// The guest has more memory than it is likely to need.
        TooLarge = "too large",
        /// The guest's memory fits its needs.
        Fits = "fits",
        /// The guest has less memory than it needs.
        TooSmall = "too small",
        /// The history is too short.
        TooLittleHistory = "not enough history",
    }
}

/// An advised number with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes<T> {
    /// Lower bound.
    pub lower: T,
    /// Advised number.
    pub size: T,
    /// Upper bound.
    pub upper: T,
}

/// Result of a rule that was fitted on the first part of the time and judged by the last part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Size that the rule gave.
    pub size: Bytes,
    /// Number of steps that judge the rule.
    pub steps: u64,
    /// Unneeded part of the size, on average, in thousandths.
    pub slack_permille: u64,
    /// Number of steps in which the guest needed more than the size.
    pub short_steps: u64,
    /// Missing memory, summed over the steps in `short_steps`.
    pub short: Bytes,
}

/// A rule with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The rule.
    pub rule: Rule,
    /// Measured quality; `None` if there are no steps to fit or to judge the rule.
    pub proof: Option<Proof>,
}

/// Advice for a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// Name of the guest.
    pub name: String,
    /// UUID of the guest.
    pub uuid: String,
    /// Class of the guest, if any.
    pub class: String,
    /// Time for which the needs are known.
    pub known_ms: u64,
    /// Memory that the guest was started with.
    pub has: Option<Bytes>,
    /// Number of vCPUs.
    pub vcpus: Option<u64>,
    /// Relation of the advised memory to the guest's present memory.
    pub verdict: Verdict,
    /// Advised memory; `None` if the needs are unknown.
    pub memory: Option<Sizes<Bytes>>,
    /// Advised minimum of the memory.
    pub minimum: Option<Bytes>,
    /// Advised number of vCPUs.
    pub cpus: Option<Sizes<u64>>,
    /// Advised weight against other guests.
    pub shares: Option<u32>,
    /// Number of steps in which the guest was short of memory.
    pub short_steps: u64,
    /// Processes that were killed because memory ran out.
    pub kills: u64,
    /// Result of each rule for the guest, pinhead's rule first.
    pub tried: Vec<Tried>,
}

impl Sizing {
    /// Returns true if the history is long enough for advice.
    pub fn has_enough(&self) -> bool {
        self.verdict != Verdict::TooLittleHistory
    }
}

/// All guests together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// Sum of the sizes.
    pub sizes: Bytes,
    /// Highest sum of the guests' needs at one time, each need with headroom.
    pub at_once: Bytes,
    /// Step of the highest sum.
    pub step: usize,
}

/// Advice for all guests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Advice for each guest.
    pub guests: Vec<Sizing>,
    /// Sums over all guests with a size.
    pub together: Together,
    /// Results of each rule for all guests: sizes, steps and shortages are sums.
    pub tried: Vec<Tried>,
}

impl Advice {
    /// Describes the guests without enough history for advice; `None` if there are no such guests.
    pub fn too_little(&self, enough_ms: u64) -> Option<String> {
        let short = self.guests.iter().filter(|guest| !guest.has_enough());
        let short: Vec<u64> = short.map(|guest| guest.known_ms).collect();
        let show = |ms: u64| duration::show(i64::try_from(ms).unwrap_or(i64::MAX));
        let (all, enough) = (counted(self.guests.len() as u64, "guest"), show(enough_ms));
        let silent = short.iter().filter(|ms| **ms == 0).count();
        Some(match (short.iter().max()?, short.len() - silent, silent) {
            (0, _, _) => {
                format!("{silent} of {all} reported nothing; at least {enough} is needed")
            }
            (most, some, 0) => {
                format!(
                    "{some} of {all} reported for {} at most; at least {enough} is needed",
                    show(*most)
                )
            }
            (most, some, _) => format!(
                "{some} of {all} reported for {} at most, {silent} reported nothing; at least \
                 {enough} is needed",
                show(*most)
            ),
        })
    }
}

/// Returns the advice for the guests of a past.
pub fn size(past: &Past, options: &Options) -> Advice {
    let mut guests: Vec<Sizing> =
        past.guests().map(|guest| size_guest(guest, past, options)).collect();
    weigh(&mut guests);
    let together = together(past, &guests, options);
    // A guest without enough history cannot judge a rule.
    let judged: Vec<&Sizing> = guests.iter().filter(|guest| guest.has_enough()).collect();
    let tried = Rule::ALL.iter().map(|rule| total(*rule, &judged)).collect();
    Advice { guests, together, tried }
}

fn size_guest(guest: &Guest, past: &Past, options: &Options) -> Sizing {
    let step_ms = past.step_ms;
    let known: Vec<Step> =
        guest.steps.iter().filter(|step| step.needed.is_some()).copied().collect();
    let known_ms = guest.known_ms;
    let memory = memory(&known, guest.memory, step_ms, options);
    let needs: Vec<Bytes> = known.iter().filter_map(|step| step.needed).collect();
    let minimum = quantile(&needs, MINIMUM_PERMILLE).map(rounded);
    let verdict = match (memory, guest.memory) {
        _ if known_ms < options.enough_ms => Verdict::TooLittleHistory,
        (Some(memory), Some(has)) if has > memory.upper => Verdict::TooLarge,
        (Some(memory), Some(has)) if has < memory.lower => Verdict::TooSmall,
        (Some(_), Some(_)) => Verdict::Fits,
        _ => Verdict::TooLittleHistory,
    };
    let tried = Rule::ALL.iter().map(|rule| Tried {
        rule: *rule,
        proof: prove(*rule, &known, guest.memory, past, options),
    });
    Sizing {
        name: guest.name.clone(),
        uuid: guest.uuid.clone(),
        class: guest.class.clone(),
        known_ms,
        has: guest.memory,
        vcpus: guest.vcpus,
        verdict,
        memory,
        minimum: minimum.zip(memory).map(|(minimum, memory)| minimum.min(memory.size)),
        cpus: cpus(&guest.steps, step_ms, options),
        shares: None,
        short_steps: known.iter().filter(|step| step.needed > step.used).count() as u64,
        kills: guest.steps.iter().fold(0, |sum, step| sum.saturating_add(step.kills)),
        tried: tried.collect(),
    }
}

/// Returns the number of independent samples, at least one.
fn looks(steps: usize, step_ms: u64) -> u64 {
    ((steps as u64).saturating_mul(step_ms) / LOOK_MS).max(1)
}

fn memory(
    known: &[Step],
    has: Option<Bytes>,
    step_ms: u64,
    options: &Options,
) -> Option<Sizes<Bytes>> {
    let size = Rule::Pinhead.size(known, has, step_ms, options)?;
    let needs: Vec<Bytes> = known.iter().filter_map(|step| step.needed).collect();
    let looks = looks(known.len(), step_ms);
    // With n samples, the next sample exceeds all of them in 1 of n + 1 cases.
    let lower = quantile(&needs, LOWER_PERMILLE)?.permille(1000 * looks / (looks + 1));
    let upper = size.permille(1000 + 1000 / looks);
    Some(Sizes { lower: rounded(lower).min(size), size, upper: rounded(upper) })
}

fn cpus(steps: &[Step], step_ms: u64, options: &Options) -> Option<Sizes<u64>> {
    let used: Vec<u64> = steps.iter().filter_map(|step| step.cpus_permille).collect();
    let looks = looks(used.len(), step_ms);
    let whole = |permille: u64| permille.div_ceil(1000).max(1);
    let more = |permille: u64, by: u64| permille.saturating_mul(1000 + by) / 1000;
    let size = more(quantile(&used, CPUS_PERMILLE)?, options.headroom_permille);
    let lower = quantile(&used, LOWER_PERMILLE)?.saturating_mul(looks) / (looks + 1);
    Some(Sizes {
        lower: whole(lower).min(whole(size)),
        size: whole(size),
        upper: whole(more(size, 1000 / looks)),
    })
}

/// Sets weights in proportion to the sizes.
fn weigh(guests: &mut [Sizing]) {
    let sizes: Vec<Bytes> = guests.iter().filter_map(|one| Some(one.memory?.size)).collect();
    let Some(middle) = quantile(&sizes, 500).filter(|middle| middle.0 > 0) else { return };
    for guest in guests {
        guest.shares = guest.memory.map(|memory| {
            let shares = u128::from(memory.size.0) * u128::from(SHARES) / u128::from(middle.0);
            let most = u128::from(SHARES * SHARES_SPREAD);
            let least = u128::from(SHARES / SHARES_SPREAD);
            u32::try_from(shares.clamp(least, most)).unwrap_or(u32::MAX)
        });
    }
}

/// Fits the rule on the first part of the time, and judges it by the rest. All guests have the same
/// split, so a guest that started late may have no step in the first part.
fn prove(
    rule: Rule,
    known: &[Step],
    has: Option<Bytes>,
    past: &Past,
    options: &Options,
) -> Option<Proof> {
    let border = past.steps * FIT_PARTS / 3;
    let (fit, judge) = known.split_at(known.partition_point(|step| step.at < border));
    let size = rule.size(fit, has, past.step_ms, options)?;
    if judge.is_empty() || size.0 == 0 {
        return None;
    }
    let mut proof = Proof { size, steps: judge.len() as u64, ..Proof::default() };
    let mut slack = 0u128;
    for needed in judge.iter().filter_map(|step| step.needed) {
        let short = needed.less(size);
        proof.short = proof.short.plus(short);
        proof.short_steps += u64::from(short.0 > 0);
        slack += u128::from(size.less(needed).0) * 1000 / u128::from(size.0);
    }
    proof.slack_permille = u64::try_from(slack / judge.len() as u128).unwrap_or(1000);
    Some(proof)
}

/// Sums a rule's results over all guests with enough steps to judge the rule. A large guest weighs
/// more.
fn total(rule: Rule, guests: &[&Sizing]) -> Tried {
    let of_rule = |guest: &&Sizing| guest.tried.iter().find(|one| one.rule == rule)?.proof;
    let mut sum: Option<Proof> = None;
    let (mut idle, mut all) = (0u128, 0u128);
    for proof in guests.iter().filter_map(of_rule) {
        let sum = sum.get_or_insert_default();
        sum.size = sum.size.plus(proof.size);
        sum.steps += proof.steps;
        sum.short_steps += proof.short_steps;
        sum.short = sum.short.plus(proof.short);
        let weight = u128::from(proof.size.0) * u128::from(proof.steps);
        idle += weight * u128::from(proof.slack_permille);
        all += weight;
    }
    if let Some(sum) = sum.as_mut().filter(|_| all > 0) {
        sum.slack_permille = u64::try_from(idle / all).unwrap_or(1000);
    }
    Tried { rule, proof: sum }
}

/// Returns the highest sum of the guests' needs at one time. Each need is bounded by the guest's
/// size.
fn together(past: &Past, guests: &[Sizing], options: &Options) -> Together {
    let mut needs = vec![Bytes::ZERO; past.steps];
    let mut sizes = Bytes::ZERO;
    for (guest, sizing) in past.guests().zip(guests) {
        let Some(memory) = sizing.memory.filter(|_| sizing.has_enough()) else { continue };
        sizes = sizes.plus(memory.size);
        for step in &guest.steps {
            if let (Some(needed), Some(sum)) = (step.needed, needs.get_mut(step.at)) {
                let with_headroom = needed.permille(1000 + options.headroom_permille);
                *sum = sum.plus(with_headroom.min(memory.size));
            }
        }
    }
    let most = needs.iter().enumerate().max_by_key(|(at, sum)| (**sum, std::cmp::Reverse(*at)));
    let (step, at_once) = most.map_or((0, Bytes::ZERO), |(step, sum)| (step, *sum));
    Together { sizes, at_once: rounded(at_once), step }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::ENOUGH_MS;
    use crate::testing::past;

    fn mib(size: Bytes) -> u64 {
        size.0 >> 20
    }

    fn usual(enough_ms: u64) -> Options {
        Options { enough_ms, ..Options::USUAL }
    }

    #[test]
    fn guest_gets_need_with_headroom_and_narrowing_bounds() {
        let short = size(&past(&[("web", &[200; 60])]), &usual(0));
        let long = size(&past(&[("web", &[200; 1440])]), &usual(0));
        let of = |advice: &Advice| {
            let memory = advice.guests[0].memory.unwrap();
            [memory.lower, memory.size, memory.upper].map(mib)
        };
        assert_eq!(of(&short), [160, 220, 276], "four samples: a fifth less, a fourth more");
        assert_eq!(of(&long), [200, 220, 224], "96 samples");
        let guest = &long.guests[0];
        assert_eq!((guest.verdict, guest.minimum.map(mib)), (Verdict::TooLarge, Some(200)));
        assert_eq!((guest.shares, guest.known_ms), (Some(100), 86_400_000));
    }

    #[test]
    fn short_histories_and_too_small_guests_are_reported() {
        let few = size(&past(&[("web", &[990; 59]), ("db", &[990; 59])]), &Options::USUAL);
        assert_eq!(few.guests[0].verdict, Verdict::TooLittleHistory);
        let words = few.too_little(ENOUGH_MS).unwrap();
        assert_eq!(words, "2 of 2 guests reported for 59 min at most; at least 1 h is needed");
        let past = past(&[("web", &[990; 60])]);
        let advice = size(&past, &usual(3_600_000));
        assert_eq!(advice.too_little(ENOUGH_MS), None);
        let memory = advice.guests[0].memory.unwrap();
        assert_eq!((advice.guests[0].verdict, mib(memory.size)), (Verdict::Fits, 1092));
    }

    #[test]
    fn peaks_at_different_times_need_less_than_their_sum() {
        let (early, late) = ([[400; 30], [100; 30]].concat(), [[100; 30], [400; 30]].concat());
        let advice = size(&past(&[("a", &early), ("b", &late)]), &usual(0));
        // The needs of b grew fourfold: the headroom for growth is at most half of the need.
        let sizes: Vec<u64> =
            advice.guests.iter().map(|one| mib(one.memory.unwrap().size)).collect();
        assert_eq!(sizes, [440, 600]);
        assert_eq!((mib(advice.together.sizes), mib(advice.together.at_once)), (1040, 552));
        assert_eq!(
            advice.guests.iter().map(|one| one.shares.unwrap()).collect::<Vec<_>>(),
            [100, 136]
        );
    }

    #[test]
    fn a_rule_is_judged_by_the_time_after_its_fit() {
        // The need is 100 MiB in the first two thirds, and 130 MiB in a part of the last third.
        let needs = [vec![100; 66], vec![130; 11], vec![100; 22]].concat();
        let advice = size(&past(&[("web", &needs)]), &usual(0));
        let proof = |rule: Rule| {
            let tried = advice.tried.iter().find(|tried| tried.rule == rule).unwrap();
            tried.proof.unwrap()
        };
        let ours = proof(Rule::Pinhead);
        assert_eq!((mib(ours.size), ours.steps, ours.short_steps), (112, 33, 11));
        assert_eq!(mib(ours.short), 11 * 18);
        // 12 of 112 MiB are unneeded in two thirds of the steps.
        assert_eq!(ours.slack_permille, 71);
        let krr = proof(Rule::Krr);
        assert_eq!((mib(krr.size), mib(krr.short)), (116, 11 * 14));
        assert_eq!(proof(Rule::AsItWas).short_steps, 0);
    }

    #[test]
    fn guest_without_judging_steps_has_no_proof() {
        let advice = size(&past(&[("web", &[100; 2])]), &usual(0));
        assert!(advice.guests[0].tried[0].proof.is_some(), "one step is fitted, one judges");
        let advice = size(&past(&[("web", &[100])]), &usual(0));
        assert_eq!(advice.guests[0].tried[0].proof, None);
        assert_eq!(size(&Past::new(60_000), &usual(0)), {
            let tried = Rule::ALL.iter().map(|rule| Tried { rule: *rule, proof: None });
            Advice { tried: tried.collect(), ..Advice::default() }
        });
    }

    #[test]
    fn advised_cpus_are_whole_and_at_least_one() {
        // Guests of the tests use one CPU for each 1,000 MiB.
        let cpus = |need| size(&past(&[("web", &[need; 60])]), &usual(0)).guests[0].cpus.unwrap();
        assert_eq!(cpus(100), Sizes { lower: 1, size: 1, upper: 1 });
        assert_eq!(cpus(950), Sizes { lower: 1, size: 2, upper: 2 });
        assert_eq!(cpus(1900), Sizes { lower: 2, size: 3, upper: 3 });
    }
}
