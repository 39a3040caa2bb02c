//! How large guests should be: a size for each with its bounds, and what the rule is worth.
//!
//! ```text
//!   Past ─┬─► each guest: rule(all steps) ─► Sizing: memory, bounds, minimum, CPUs, shares
//!         ├─► each guest: rule(first two thirds) ──judged by the last third──► Proof, each rule
//!         └─► all guests, step by step ─► Together: peaks that do not come at one time
//! ```

use crate::past::{Guest, Past, Step};
use crate::rules::{Options, Rule, quantile, rounded};
use base::{Bytes, named};

/// What a guest needs in nearly every minute is its minimum: in so many of a thousand it needs no
/// more.
const MINIMUM_PERMILLE: u64 = 100;
/// The lower bound has no headroom, and is of this percentile.
const LOWER_PERMILLE: u64 = 950;
/// Minutes next to each other tell the same: so much time counts as one independent look.
const LOOK_MS: u64 = 15 * 60_000;
/// CPUs are as many as a guest used or waited for in so many of a thousand minutes.
const CPUS_PERMILLE: u64 = 990;
/// The weight of a guest of the middle size.
const SHARES: u64 = 100;
/// How far weights may differ from that, as a factor.
const SHARES_SPREAD: u64 = 16;
/// A rule is fitted on so many parts of three.
const FIT_PARTS: usize = 2;

named! {
    /// What a size says of what the guest has.
    pub enum Verdict {
        /// It has more than it can be expected to need.
        TooLarge = "too large",
        /// It has what it needs.
        Fits = "fits",
        /// It has less.
        TooSmall = "too small",
        /// It was not seen for long enough.
        TooLittleHistory = "not enough history",
    }
}

/// A number with the bounds between which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes<T> {
    /// The least that can be defended.
    pub lower: T,
    /// What is advised.
    pub size: T,
    /// The most.
    pub upper: T,
}

/// What a rule, fitted on the first part of the time, was worth in the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// The size that it gave.
    pub size: Bytes,
    /// In how many steps it was judged.
    pub steps: u64,
    /// What of the size was not needed, on average, in thousandths.
    pub slack_permille: u64,
    /// In how many steps the guest needed more.
    pub short_steps: u64,
    /// How much more, summed over these steps.
    pub short: Bytes,
}

/// A rule that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Which.
    pub rule: Rule,
    /// What it was worth; `None` where there was nothing to fit it on, or to judge it by.
    pub proof: Option<Proof>,
}

/// What is advised for a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its class, if any.
    pub class: String,
    /// For how long its needs are known.
    pub known_ms: u64,
    /// The memory that it was started with.
    pub has: Option<Bytes>,
    /// Its virtual CPUs.
    pub vcpus: Option<u64>,
    /// What to say of that.
    pub verdict: Verdict,
    /// The memory that it should have; `None` where its needs are not known.
    pub memory: Option<Sizes<Bytes>>,
    /// What it should never get less than.
    pub minimum: Option<Bytes>,
    /// How many virtual CPUs it should have.
    pub cpus: Option<Sizes<u64>>,
    /// Its weight against others.
    pub shares: Option<u32>,
    /// In how many steps it was short of memory.
    pub short_steps: u64,
    /// Processes killed in it because memory ran out.
    pub kills: u64,
    /// What each rule is worth for it, ours first.
    pub tried: Vec<Tried>,
}

/// All guests at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// Their sizes, added up.
    pub sizes: Bytes,
    /// The most that they needed at one time, with the headroom of each.
    pub at_once: Bytes,
    /// In which step.
    pub step: usize,
}

/// Sizes for all guests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Each guest.
    pub guests: Vec<Sizing>,
    /// All of those with a size.
    pub together: Together,
    /// What each rule is worth for all of them: sizes, steps and shortages added up.
    pub tried: Vec<Tried>,
}

/// Sizes for the guests of a past.
pub fn size(past: &Past, options: &Options) -> Advice {
    let mut guests: Vec<Sizing> =
        past.guests().map(|guest| size_guest(guest, past, options)).collect();
    weigh(&mut guests);
    let together = together(past, &guests, options);
    let tried = Rule::ALL.iter().map(|rule| total(*rule, &guests)).collect();
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

/// How many independent looks there were, at least one.
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
    // With n looks the next one is above all of them once in n + 1 times.
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

/// Weights in proportion to the sizes, so that each guest's share is its size.
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

/// The rule on the first part, judged by the rest. The time is parted and not the guest's steps:
/// who came late has nothing in the first part.
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

/// A rule over all guests for which it can be judged; the slack of a large guest weighs more.
fn total(rule: Rule, guests: &[Sizing]) -> Tried {
    let of_rule = |guest: &Sizing| guest.tried.iter().find(|one| one.rule == rule)?.proof;
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

/// What all of them needed at one time, each no more than its size.
fn together(past: &Past, guests: &[Sizing], options: &Options) -> Together {
    let mut needs = vec![Bytes::ZERO; past.steps];
    let mut sizes = Bytes::ZERO;
    for (guest, sizing) in past.guests().zip(guests) {
        let Some(memory) = sizing.memory else { continue };
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
    use crate::testing::past;

    fn mib(size: Bytes) -> u64 {
        size.0 >> 20
    }

    fn usual(enough_ms: u64) -> Options {
        Options { enough_ms, ..Options::USUAL }
    }

    #[test]
    fn a_guest_gets_what_it_needs_with_headroom_and_bounds_that_narrow() {
        let short = size(&past(&[("web", &[200; 60])]), &usual(0));
        let long = size(&past(&[("web", &[200; 1440])]), &usual(0));
        let of = |advice: &Advice| {
            let memory = advice.guests[0].memory.unwrap();
            [memory.lower, memory.size, memory.upper].map(mib)
        };
        assert_eq!(of(&short), [160, 220, 276], "four looks: a fifth less, a fourth more");
        assert_eq!(of(&long), [200, 220, 224], "96 looks");
        let guest = &long.guests[0];
        assert_eq!((guest.verdict, guest.minimum.map(mib)), (Verdict::TooLarge, Some(200)));
        assert_eq!((guest.shares, guest.known_ms), (Some(100), 86_400_000));
    }

    #[test]
    fn too_little_history_is_said_and_a_guest_that_is_too_small_too() {
        let past = past(&[("web", &[990; 60])]);
        assert_eq!(size(&past, &Options::USUAL).guests[0].verdict, Verdict::TooLittleHistory);
        let advice = size(&past, &usual(3_600_000));
        let memory = advice.guests[0].memory.unwrap();
        assert_eq!((advice.guests[0].verdict, mib(memory.size)), (Verdict::Fits, 1092));
    }

    #[test]
    fn peaks_that_do_not_come_together_need_less_than_their_sum() {
        let (early, late) = ([[400; 30], [100; 30]].concat(), [[100; 30], [400; 30]].concat());
        let advice = size(&past(&[("a", &early), ("b", &late)]), &usual(0));
        // b has grown to four times of what it was: half as much again is the most.
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
    fn a_rule_is_judged_by_time_that_it_has_not_seen() {
        // 100 in the first two thirds, 130 in a part of the last one.
        let needs = [vec![100; 66], vec![130; 11], vec![100; 22]].concat();
        let advice = size(&past(&[("web", &needs)]), &usual(0));
        let proof = |rule: Rule| {
            let tried = advice.tried.iter().find(|tried| tried.rule == rule).unwrap();
            tried.proof.unwrap()
        };
        let ours = proof(Rule::Pinhead);
        assert_eq!((mib(ours.size), ours.steps, ours.short_steps), (112, 33, 11));
        assert_eq!(mib(ours.short), 11 * 18);
        // 12 of 112 are idle in two thirds of the steps.
        assert_eq!(ours.slack_permille, 71);
        let krr = proof(Rule::Krr);
        assert_eq!((mib(krr.size), mib(krr.short)), (116, 11 * 14));
        assert_eq!(proof(Rule::AsItWas).short_steps, 0);
    }

    #[test]
    fn who_came_too_late_to_be_judged_by_is_not_judged() {
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
    fn cpus_are_whole_and_one_at_least() {
        // 1,000 MiB stand for one CPU in these guests.
        let cpus = |need| size(&past(&[("web", &[need; 60])]), &usual(0)).guests[0].cpus.unwrap();
        assert_eq!(cpus(100), Sizes { lower: 1, size: 1, upper: 1 });
        assert_eq!(cpus(950), Sizes { lower: 1, size: 2, upper: 2 });
        assert_eq!(cpus(1900), Sizes { lower: 2, size: 3, upper: 3 });
    }
}
