//! The pace of the host's search for equal pages (KSM), as a pure step.
//!
//! ```text
//!   guests, free memory, KSM's counters ─► Ksm::step ─► Option<Settings>, Phase
//! ```
//!
//! Equal pages of guests are kept once, but the search costs CPU time of the thread `ksmd`. The
//! search is hard while there is much to find, after the arrival of a guest or in a shortage of
//! memory. It is steady while the gain is worth its cost. It is slow while the gain is small, and
//! off if there is nothing to gain. Merged pages are never separated on purpose, because that would
//! use the saved memory at once.
//!
//! The kernel merges pages of all processes that requested merging, across users. The duration of a
//! write shows a guest whether another guest has the same page. The search therefore runs only
//! while all guests belong to one user.

use base::{Bytes, named};
use model::counters::KsmCounters;

/// Part of one core that may be spent while there is much to find, in thousandths.
pub const HARD_PERMILLE: u64 = 500;
/// Part of one core that may be spent in the long run, in thousandths.
pub const STEADY_PERMILLE: u64 = 100;
/// Part of one core that is spent while little is found, in thousandths.
pub const SLOW_PERMILLE: u64 = 20;

/// Number of full scans that find all equal pages. The first scan computes the pages' checksums,
/// and the second merges pages that have not changed since.
const SCANS: u64 = 2;
/// Longest time of a hard search, on a host of any size.
const HARD_MS: u64 = 10 * 60_000;
/// Time after which gain and cost are judged.
const JUDGED_MS: u64 = 60_000;
/// Pages gained in a second of CPU time below which the search is not worth its cost: 10 MiB.
const GAIN_MIN: u64 = 2560;
/// Pages gained in a second of CPU time that are worth the steady pace: 100 MiB.
const GAIN_FAIR: u64 = 25_600;
/// Time after which a search that found nothing is tried again.
const REST_MS: u64 = 10 * 60_000;

/// Sleep after a scan of `pages_to_scan` pages.
const SLEEP_MS: u64 = 20;
/// Pages per turn at the start: the kernel's default.
const PAGES_START: u64 = 100;
/// Fewest pages per turn. With fewer pages, the thread would mostly wake and hardly scan.
const PAGES_MIN: u64 = 16;
/// Maximum number of pages per turn. More pages would occupy a core for longer than a guest should
/// wait.
const PAGES_MAX: u64 = 20_000;
/// Least time between two changes of the pace.
const PACE_MS: u64 = 2000;
/// Largest factor by which the pace rises at once.
const RISE: u64 = 4;
/// CPU time below which a measurement is too coarse, if the kernel counts CPU time in ticks.
const CPU_MIN_US: u64 = 10_000;

/// The kernel's settings of KSM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// True if KSM scans. Merged pages stay merged in both cases.
    pub runs: bool,
    /// Pages per turn.
    pub pages_to_scan: u64,
    /// Sleep between turns.
    pub sleep_ms: u64,
}

/// A sample of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of guests.
    pub guests: usize,
    /// Number of users with guests.
    pub owners: usize,
    /// Number of guests that have ever arrived, which grows with each new guest.
    pub arrivals: u64,
    /// Free memory of the host, within the budget if there is one.
    pub available: Bytes,
    /// Free memory to keep on the host.
    pub set_point: Bytes,
    /// Deviation from `set_point` that is tolerated.
    pub hysteresis: Bytes,
    /// Counters of KSM.
    pub counters: KsmCounters,
}

named! {
    /// The phase of the search.
    #[derive(Default)]
    pub enum Phase {
        /// Off, because there are fewer than two guests, or enough memory.
        #[default]
        Off = "off",
        /// Off, because the guests belong to several users, which must not share pages.
        Apart = "apart",
        /// Hard, because a guest is new, or the host has become short of memory.
        Hard = "hard",
        /// Steady, while the gain is worth its cost.
        Steady = "steady",
        /// Slow, because the gain is small.
        Slow = "slow",
        /// Paused, because the gain was not worth its CPU time. The search is tried again later.
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

/// The start of a span over which gain and cost are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    at_ms: u64,
    counters: KsmCounters,
}

/// State kept from step to step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ksm {
    phase: Phase,
    /// Start of the phase, or time of the last judgement in the phase.
    since: Option<Mark>,
    /// Last check of the pace.
    paced: Option<Mark>,
    pages_to_scan: Option<u64>,
    last_written: Option<Settings>,
    arrivals: u64,
    short: bool,
    /// Last known cost, in thousandths of a core.
    cost_permille: Option<u64>,
}

impl Ksm {
    /// Creates the state before the first step.
    pub fn new() -> Ksm {
        Ksm::default()
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the cost in thousandths of a core, if known.
    pub fn cost_permille(&self) -> Option<u64> {
        self.cost_permille
    }

    /// Returns the settings to write, if they differ from the last ones.
    pub fn step(&mut self, sample: &Sample, now_ms: u64) -> Option<Settings> {
        let mark = Mark { at_ms: now_ms, counters: sample.counters };
        let is_new = sample.arrivals > self.arrivals;
        self.arrivals = sample.arrivals;
        let was_short = self.short;
        // The arbiter keeps free memory close to the set point, above or below it. A small
        // deviation is therefore no shortage.
        self.short = if was_short {
            sample.available < sample.set_point.plus(sample.hysteresis)
        } else {
            sample.available < sample.set_point.less(sample.hysteresis)
        };
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
            // The reason to be off is gone, so a hard search begins.
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

    /// Adjusts the pages per turn towards the phase's share of a core.
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
                // Without a measurement, the pace is at most the pace of the start.
                None => pages.min(PAGES_START),
                Some(_) if !was_on => pages,
                Some(us) if us < CPU_MIN_US => pages.saturating_mul(RISE),
                Some(us) => for_share(pages, us / passed_ms, target).min(pages * RISE),
            };
        }
        // A new, slower phase takes effect at once.
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

/// Returns the phase that a span's gain justifies; `None` if unknown. Before two full scans, a
/// search without results may only have begun, so it gets ten times the usual time.
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

/// Returns true if over an eighth of the pages shared at the start of the pause are no longer
/// shared.
fn has_lost(since: &Mark, now: &Mark) -> bool {
    let pages = |mark: &Mark| mark.counters.pages_sharing.map(|pages| pages.0);
    let (Some(before), Some(now)) = (pages(since), pages(now)) else { return false };
    before >= GAIN_MIN && now < before - before / 8
}

/// Returns the number of pages per turn that uses the share `target` of a core, if `pages` use the
/// share `cost`. Both shares are in thousandths. The time of a turn is proportional to its pages.
/// The sleep after a turn does not change.
fn for_share(pages: u64, cost: u64, target: u64) -> u64 {
    let cost = cost.clamp(1, 999);
    pages.saturating_mul(target * (1000 - cost)) / (cost * (1000 - target.min(999)))
}

/// Returns the growth of a counter. A decreased counter was reset, and the result is `None`.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

/// Returns true if the search starts or stops, or its pace changes by more than a tenth.
fn differs(last: Settings, settings: Settings) -> bool {
    let gap = last.pages_to_scan.abs_diff(settings.pages_to_scan);
    last.runs != settings.runs || (settings.runs && gap * 10 > last.pages_to_scan)
}

#[cfg(test)]
mod tests;
