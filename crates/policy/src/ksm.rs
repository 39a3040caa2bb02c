//! How hard the host's kernel is to look for equal pages (KSM): one pure step.
//!
//! ```text
//!   guests, free memory, KSM's counters ─► Ksm::step ─► Option<Settings>, Phase
//! ```
//!
//! Equal pages of guests are kept once; to find them costs CPU time of the thread `ksmd`. So it
//! looks hard while there is much to find (a guest came, the host is short), at a steady pace
//! while that pays, slowly where it pays little, and not at all where there is nothing to gain.
//! It is never made to separate what it has joined: that would take the memory back at once.
//!
//! The kernel shares pages of all processes that have asked for it, whoever's they are, and how
//! long a write takes tells a guest whether another has the same page. So it looks only while all
//! guests are one user's.

use base::named;
use counters::{Bytes, KsmCounters};

/// The part of one core that may be spent while there is much to find, in thousandths.
pub const HARD_PERMILLE: u64 = 500;
/// The part of one core that may be spent in the long run, in thousandths.
pub const STEADY_PERMILLE: u64 = 100;
/// The part of one core that is spent while little is found, in thousandths.
pub const SLOW_PERMILLE: u64 = 20;

/// Full scans after which what there was to find is found: the first takes the pages' sums, the
/// second joins those that have not changed since.
const SCANS: u64 = 2;
/// A hard search ends after this time, however large the host is.
const HARD_MS: u64 = 10 * 60_000;
/// Gain and cost are judged after so much time at the latest.
const JUDGED_MS: u64 = 60_000;
/// Fewer pages gained for a second of CPU time are worth nothing: 10 MiB.
const GAIN_MIN: u64 = 2560;
/// More pages gained for a second of CPU time are worth the steady pace: 100 MiB.
const GAIN_FAIR: u64 = 25_600;
/// Where there was nothing to find, it is tried again after this time.
const REST_MS: u64 = 10 * 60_000;

/// A scan of `pages_to_scan` pages is followed by a sleep of this time.
const SLEEP_MS: u64 = 20;
/// The kernel's own pace, to begin with.
const PAGES_START: u64 = 100;
/// Fewer pages than this a turn are all waking and no scanning.
const PAGES_MIN: u64 = 16;
/// More pages a turn would keep a core to itself for longer than a guest should wait.
const PAGES_MAX: u64 = 20_000;
/// The pace is changed at most as often.
const PACE_MS: u64 = 2000;
/// The pace rises at most by this factor at once.
const RISE: u64 = 4;
/// CPU time in a shorter span is too coarse to go by, where it is counted in ticks.
const CPU_MIN_US: u64 = 10_000;

/// The kernel's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether it scans. What is joined stays joined either way.
    pub runs: bool,
    /// Pages a turn.
    pub pages_to_scan: u64,
    /// Sleep between turns.
    pub sleep_ms: u64,
}

/// The host at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Guests that are there.
    pub guests: usize,
    /// Users whose guests they are.
    pub owners: usize,
    /// Guests that have ever come: it grows when one is new.
    pub arrivals: u64,
    /// Free memory of the host, within the budget if there is one.
    pub available: Bytes,
    /// The free memory that the host is to have.
    pub set_point: Bytes,
    /// How far it may be missed.
    pub hysteresis: Bytes,
    /// KSM.
    pub counters: KsmCounters,
}

named! {
    /// How hard it looks, and why.
    #[derive(Default)]
    pub enum Phase {
        /// Not at all: there are fewer than two guests, or memory enough.
        #[default]
        Off = "off",
        /// Not at all: there are guests of several users, which share no pages with each other.
        Apart = "apart",
        /// Hard: a guest is new, or the host has become short of memory.
        Hard = "hard",
        /// As long as it pays.
        Steady = "steady",
        /// It pays little.
        Slow = "slow",
        /// It found nothing worth its CPU time; it is tried again later.
        Rest = "rest",
    }
}

impl Phase {
    fn permille(self) -> u64 {
        match self {
            Phase::Off | Phase::Apart | Phase::Rest => 0,
            Phase::Hard => HARD_PERMILLE,
            Phase::Steady => STEADY_PERMILLE,
            Phase::Slow => SLOW_PERMILLE,
        }
    }
}

/// A span over which gain and cost are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    at_ms: u64,
    counters: KsmCounters,
}

/// What is remembered from step to step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ksm {
    phase: Phase,
    /// Where the phase, or the last judgement in it, began.
    since: Option<Mark>,
    /// Where the pace was last looked at.
    paced: Option<Mark>,
    pages_to_scan: Option<u64>,
    last_written: Option<Settings>,
    arrivals: u64,
    short: bool,
    /// The last known cost, in thousandths of a core.
    cost_permille: Option<u64>,
}

impl Ksm {
    /// Before the first step.
    pub fn new() -> Ksm {
        Ksm::default()
    }

    /// How hard it looks now.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What it costs, in thousandths of a core, if that is known.
    pub fn cost_permille(&self) -> Option<u64> {
        self.cost_permille
    }

    /// The settings to write, if they differ from the last.
    pub fn step(&mut self, sample: &Sample, now_ms: u64) -> Option<Settings> {
        let mark = Mark { at_ms: now_ms, counters: sample.counters };
        let is_new = sample.arrivals > self.arrivals;
        self.arrivals = sample.arrivals;
        let was_short = self.short;
        self.short = sample.available < sample.set_point;
        let phase = self.next_phase(sample, &mark, is_new || (self.short && !was_short));
        if phase != self.phase || is_new {
            self.phase = phase;
            self.since = Some(mark);
        }
        let settings = self.pace(mark);
        let is_news = self.last_written.is_none_or(|last| differs(last, settings));
        is_news.then(|| {
            self.last_written = Some(settings);
            settings
        })
    }

    fn next_phase(&mut self, sample: &Sample, mark: &Mark, much_to_find: bool) -> Phase {
        if sample.owners > 1 {
            return Phase::Apart;
        }
        let shares = sample.counters.pages_sharing.is_some_and(|pages| pages.0 > 0);
        let has_plenty = sample.available >= sample.set_point.plus(sample.hysteresis);
        if sample.guests < 2 || (has_plenty && !shares) {
            return Phase::Off;
        }
        if much_to_find {
            return Phase::Hard;
        }
        let Some(since) = self.since else { return Phase::Steady };
        let passed_ms = mark.at_ms.saturating_sub(since.at_ms);
        let scans = grown(since.counters.full_scans, mark.counters.full_scans);
        let is_through = scans.is_some_and(|scans| scans >= SCANS);
        match self.phase {
            // It is off because there was no need: the need is there now.
            Phase::Off | Phase::Apart => Phase::Hard,
            Phase::Hard if is_through || passed_ms >= HARD_MS => Phase::Steady,
            Phase::Rest if passed_ms >= REST_MS || has_lost(&since, mark) => Phase::Steady,
            Phase::Steady | Phase::Slow if passed_ms >= JUDGED_MS => {
                let verdict = judge(&since, mark, is_through);
                if verdict.is_some() {
                    self.since = Some(*mark);
                }
                verdict.unwrap_or(self.phase)
            }
            phase => phase,
        }
    }

    /// Moves the number of pages to where the phase's share of a core is used.
    fn pace(&mut self, mark: Mark) -> Settings {
        let pages = self.pages_to_scan.unwrap_or(PAGES_START);
        let target = self.phase.permille();
        let before = *self.paced.get_or_insert(mark);
        let passed_ms = mark.at_ms.saturating_sub(before.at_ms);
        let mut next = pages;
        if passed_ms >= PACE_MS {
            self.paced = Some(mark);
            let cpu_us = grown(before.counters.cpu_us, mark.counters.cpu_us);
            self.cost_permille = cpu_us.map(|us| us / passed_ms);
            let was_on = self.last_written.is_some_and(|last| last.runs);
            next = match cpu_us {
                // What cannot be measured is not made larger.
                None => pages.min(PAGES_START),
                Some(_) if !was_on => pages,
                Some(us) if us < CPU_MIN_US => pages.saturating_mul(RISE),
                Some(us) => for_share(pages, us / passed_ms, target).min(pages * RISE),
            };
        }
        // A new phase is a new pace at once, where it is a slower one.
        if self.last_written.is_some_and(|last| last.runs) && target > 0 && target < HARD_PERMILLE {
            let begun = self.since.is_some_and(|since| since.at_ms == mark.at_ms);
            let cost = self.cost_permille.unwrap_or(0);
            if begun && cost > target {
                next = next.min(for_share(pages, cost, target));
            }
        }
        if target > 0 {
            self.pages_to_scan = Some(next.clamp(PAGES_MIN, PAGES_MAX));
        }
        let pages_to_scan = self.pages_to_scan.unwrap_or(PAGES_START);
        Settings { runs: target > 0, pages_to_scan, sleep_ms: SLEEP_MS }
    }
}

/// What the span was worth; `None` while that is unknown. Without two full scans a search
/// that found nothing may only have begun, so it has ten times as long.
fn judge(since: &Mark, now: &Mark, is_through: bool) -> Option<Phase> {
    let passed_ms = now.at_ms.saturating_sub(since.at_ms);
    let cpu_us = grown(since.counters.cpu_us, now.counters.cpu_us)?;
    let before = since.counters.pages_sharing?.0;
    let gained = now.counters.pages_sharing?.0.saturating_sub(before);
    let a_second = u128::from(gained) * 1_000_000 / u128::from(cpu_us.max(1));
    let costs_more = now.counters.general_profit_bytes.is_some_and(|bytes| bytes < 0);
    if a_second >= u128::from(GAIN_FAIR) && !costs_more {
        return Some(Phase::Steady);
    }
    if !is_through && passed_ms < 10 * JUDGED_MS {
        return None;
    }
    let is_worth_it = a_second >= u128::from(GAIN_MIN) && !costs_more;
    Some(if is_worth_it { Phase::Slow } else { Phase::Rest })
}

/// An eighth of what was shared when it came to rest has been written to, and is no longer.
fn has_lost(since: &Mark, now: &Mark) -> bool {
    let pages = |mark: &Mark| mark.counters.pages_sharing.map(|pages| pages.0);
    let (Some(before), Some(now)) = (pages(since), pages(now)) else { return false };
    before >= GAIN_MIN && now < before - before / 8
}

/// Pages a turn that take `target` of a core where `pages` took `cost`, in thousandths. A turn
/// takes time in proportion to its pages, and the sleep after it does not change.
fn for_share(pages: u64, cost: u64, target: u64) -> u64 {
    let cost = cost.clamp(1, 999);
    pages.saturating_mul(target * (1000 - cost)) / (cost * (1000 - target.min(999)))
}

/// How far a counter has come. One that went back was set again.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

/// A tenth more or less is not worth a write.
fn differs(last: Settings, settings: Settings) -> bool {
    let gap = last.pages_to_scan.abs_diff(settings.pages_to_scan);
    last.runs != settings.runs || (settings.runs && gap * 10 > last.pages_to_scan)
}

#[cfg(test)]
mod tests;
