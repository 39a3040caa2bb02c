//! The load of a case, and the guests' resource use during it. Requests come at a fixed rate, and
//! in the same order in all cases of a round.
//!
//! ```text
//!   calibrate: the hand-sized farm ─► rate at which it uses 55 % of the CPU, and its memory
//!   measured:  order(seed) ─► open loop at the rate ─► p50, p95, failures ─┐
//!              memory in three views, so often ────────────────────────────┴─► Measures
//! ```

use super::{PAGE, Set, phase};
use crate::clock::wait;
use crate::load::{Pattern, Target};
use crate::promotion::Promotion;
use crate::site::held::Held;
use crate::site::inside::Inside;
use crate::site::meter::{Reading, Usage};
use crate::site::{Manager, Site, jobs};
use crate::{Error, Measures, bench};
use base::Rng;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Name of the measure for the farm's host memory at the rate that the search found.
pub(super) const HELD: &str = "held";
/// Name of the measure for the number of online CPUs of the farm: the mean of the numbers before
/// and after a load.
pub(super) const CPUS_ON: &str = "CPUs on";
/// Part of the CPU time that a farm should use at the rate that the search finds. This part is
/// below saturation, so the farm can serve the rate, and latencies are meaningful. The long loads
/// of 2026-11-26 used 48 to 55 %.
const GOAL: f64 = 0.55;
/// The search ends if the next rate differs from the previous rate by at most this part.
const NEAR: f64 = 0.05;
/// First rate of the search, and the bounds of the change in each step.
const FIRST_RATE: f64 = 8.0;
const CHANGE: std::ops::RangeInclusive<f64> = 0.4..=3.0;
/// Maximum number of requests in flight. Further requests are queued, and their queueing time
/// counts.
const IN_FLIGHT_MAX: usize = 256;
/// Number of times that all clients' requests repeat, in a new order each time.
const TURNS: usize = 20;

/// Length of a load, of its sampling interval, and of a calibration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Requests of a measured load.
    pub requests: u32,
    /// Time of the load before the measurement.
    pub warm: Duration,
    /// Interval of the memory samples.
    pub sample: Duration,
    /// Duration of a calibration step, and the maximum number of steps.
    pub step: Duration,
    pub steps_max: u32,
}

/// Returns the pages of the sets in the order of the requests. Each page occurs as often as its set
/// has clients. The order is shuffled, so that no two sets run in step.
pub(super) fn order(site: &Site, sets: &[Set], seed: u64) -> Vec<Target> {
    let pages = |set: &Set| site.targets(set.class, 80, PAGE);
    let turn: Vec<Target> = sets
        .iter()
        .flat_map(|set| pages(set).into_iter().cycle().take(set.clients).collect::<Vec<_>>())
        .collect();
    shuffled(&turn, seed)
}

fn shuffled<T: Clone>(turn: &[T], seed: u64) -> Vec<T> {
    let mut rng = Rng::new(seed);
    let mut all = Vec::with_capacity(turn.len() * TURNS);
    for _ in 0..TURNS {
        let mut rest = turn.to_vec();
        while !rest.is_empty() {
            let at = rng.within(0, rest.len() as u64 - 1) as usize;
            all.push(rest.swap_remove(at));
        }
    }
    all
}

/// Searches for the rate at which a farm uses [`GOAL`] of this many CPUs, and notes each step.
pub(super) fn calibrate(
    run: &mut bench::Case<'_, '_>,
    site: &Site,
    sets: &[Set],
    cpus: u32,
    shape: Shape,
) -> Result<(), Error> {
    let targets = order(site, sets, run.seed());
    let mut rate = FIRST_RATE;
    for _ in 0..shape.steps_max {
        let cost = run.phase(phase::STEP, |measures| {
            let from = Reading::of(site.guests(), false);
            measures.note("rate", "1/s", rate);
            let driven = jobs::load(measures, targets.clone(), open(rate), shape.step)?;
            let to = Reading::of(site.guests(), false);
            note_usage(measures, &from, &to);
            let answered = driven.all.answered as f64;
            let cost_s = (answered > 0.0).then(|| (to.cpu_s - from.cpu_s) / answered);
            measures.note("CPU a request", "ms", cost_s.map(|s| s * 1000.0));
            cost_s.ok_or_else(|| Error::Failed("No request was answered".into()))
        })?;
        let Some(cost_s) = cost else { return Ok(()) };
        let next = next_rate(rate, cost_s, cpus);
        let is_near = (next / rate - 1.0).abs() <= NEAR;
        rate = next;
        if is_near {
            break;
        }
    }
    run.phase(phase::FOUND, |measures| {
        measures.note("rate", "1/s", rate);
        let held = Held::of(site.guests(), &Reading::of(site.guests(), false));
        measures.note(HELD, "MiB", held.map(|held| held.all_mib()));
        Ok(())
    })?;
    Ok(())
}

/// Returns the next rate, from the CPU seconds of a request at this rate. The CPU seconds include
/// the guests' idle CPU time, so the CPU seconds fall as the rate grows. The measured CPU use of
/// the farm is not used, because other processes reduce it at any rate.
fn next_rate(rate: f64, cost_s: f64, cpus: u32) -> f64 {
    let goal = if cost_s > 0.0 { GOAL * f64::from(cpus.max(1)) / cost_s } else { f64::INFINITY };
    let next = goal.clamp(rate * *CHANGE.start(), rate * *CHANGE.end());
    (next * 10.0).round().max(1.0) / 10.0
}

pub(super) fn open(rate: f64) -> Pattern {
    Pattern::Open { rate, in_flight_max: IN_FLIGHT_MAX }
}

/// In MiB.
#[derive(Clone, Copy, Debug, Default)]
struct Views {
    /// Memory that the balloons leave the guests.
    size: Option<f64>,
    resident: f64,
    held: Option<Held>,
}

/// Runs a load at a rate, and notes CPU time and memory during it.
pub(super) fn measured(
    measures: &mut Measures,
    site: &Site,
    manager: Option<&Manager>,
    targets: &[Target],
    rate: f64,
    shape: Shape,
) -> Result<(), Error> {
    // Only the guests can report their free memory. A query starts five processes in a guest. Under
    // emulation this takes long, and would distort the measurement if it happened during the load.
    let told_before = Told::of(site, manager);
    jobs::load(&mut Measures::default(), targets.to_vec(), open(rate), shape.warm)?;
    let duration = Duration::from_secs_f64(f64::from(shape.requests) / rate);
    // The cost of a request includes the CPU time of the guests and of the manager.
    let reading = || -> Result<Reading, Error> {
        let mut reading = Reading::of(site.guests(), false);
        reading.cpu_s += manager.map_or(Ok(0.0), Manager::cpu_s)?;
        Ok(reading)
    };
    let before = Promotion::of(manager)?;
    let from = reading()?;
    let is_over = AtomicBool::new(false);
    let (driven, to, told_after, samples) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut samples = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                samples.push(views(site, manager));
                wait(shape.sample);
            }
            samples
        });
        let driven = jobs::load(measures, targets.to_vec(), open(rate), duration);
        // The reading is taken before the sampler's pause ends, because guests are idle in that
        // pause.
        let to = reading();
        is_over.store(true, Ordering::Relaxed);
        let told_after = Told::of(site, manager);
        (driven, to, told_after, sampler.join().unwrap_or_default())
    });
    let to = to?;
    note_usage(measures, &from, &to);
    Promotion::note(before, manager, to.at_s - from.at_s, measures)?;
    let answered = driven?.all.answered as f64;
    let cpu_ms = (to.cpu_s - from.cpu_s) * 1000.0;
    measures.note("CPU a request", "ms", (answered > 0.0).then(|| cpu_ms / answered));
    let mean = |of: &dyn Fn(&Told) -> f64| {
        let (before, after) = (told_before.as_ref()?, told_after.as_ref()?);
        Some((of(before) + of(after)) / 2.0)
    };
    measures.note(CPUS_ON, "", mean(&|told| told.cpus));
    let own = mean(&|told| told.mib);
    // Memory is multiplied by time, so a farm that takes longer for the same requests has a higher
    // value.
    let seconds = to.at_s - from.at_s;
    measures.note(super::VIEWS[0], "GiB s", own.map(|mib| mib / 1024.0 * seconds));
    note_memory(measures, &samples, seconds);
    Ok(())
}

pub(super) fn note_usage(measures: &mut Measures, from: &Reading, to: &Reading) {
    let usage = Usage { from, to };
    measures.note("CPU", "% of a core", usage.rate(|reading| reading.cpu_s * 100.0));
    let steal = usage.ratio(|reading| reading.steal_s, |reading| reading.vcpu_s + reading.steal_s);
    measures.note("steal", "%", steal.map(|part| part * 100.0));
    // The host's busy time includes other processes, so it shows disturbances to the reader.
    measures.note("host busy", "%", usage.host_busy_percent());
}

fn note_memory(measures: &mut Measures, samples: &[Views], seconds: f64) {
    let mut note = |name: &str, of: &dyn Fn(&Views) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(of).collect();
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        match name.strip_suffix(TIMES) {
            Some(_) => measures.note(name, "GiB s", mean.map(|mib| mib / 1024.0 * seconds)),
            None => measures.note(name, "MiB", mean),
        }
    };
    note("size, Linux view", &|views| views.size);
    note("size, hypervisor view", &|views| Some(views.resident));
    note(super::VIEWS[1], &|views| Some(views.held?.private_mib));
    note(super::VIEWS[2], &|views| {
        let held = views.held?;
        Some(held.private_mib + held.compressed_mib)
    });
}

/// Suffix of measures of memory multiplied by time.
const TIMES: &str = " x time";

fn views(site: &Site, manager: Option<&Manager>) -> Views {
    let reading = Reading::of(site.guests(), false);
    let held = Held::of(site.guests(), &reading);
    Views { size: size_mib(site, manager), resident: reading.resident_mib, held }
}

/// Sums over all guests of values that only guests can report.
struct Told {
    /// Memory of the guests, minus the free memory of their kernels.
    mib: f64,
    cpus: f64,
}

impl Told {
    fn of(site: &Site, manager: Option<&Manager>) -> Option<Told> {
        let mut told = Told { mib: size_mib(site, manager)?, cpus: 0.0 };
        for guest in site.guests() {
            let inside = Inside::read(site, &guest.name).ok()?;
            told.mib -= inside.free_mib?;
            told.cpus += inside.cpus?;
        }
        Some(told)
    }
}

/// Returns the guests' own memory: their size minus their balloons.
pub(super) fn size_mib(site: &Site, manager: Option<&Manager>) -> Option<f64> {
    match manager {
        // A running manager owns the monitors.
        Some(manager) => Some(manager.left_mib().ok()? * site.guests().len() as f64),
        None => site.guests().iter().map(|guest| site.balloon_mib(guest)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates the search on a farm with this idle cost and this cost per request. Other
    /// processes leave the farm only a part of two CPUs. Returns the found rate.
    fn found(idle: f64, each: f64, left: f64) -> f64 {
        let mut rate = FIRST_RATE;
        for _ in 0..12 {
            let served = rate.min((2.0 * left - idle) / each);
            let next = next_rate(rate, idle / served + each, 2);
            if (next / rate - 1.0).abs() <= NEAR {
                return next;
            }
            rate = next;
        }
        panic!("{idle}, {each}, {left}: no end at {rate}");
    }

    #[test]
    fn rate_is_found_for_idle_saturated_and_shared_farms() {
        for (idle, each) in [(0.04, 0.024), (0.2, 0.08), (0.0, 0.8), (0.05, 0.001)] {
            let right = (GOAL * 2.0 - idle) / each;
            for left in [1.0, 0.3] {
                let rate = found(idle, each, left);
                // Other processes on the host change only the weight of the idle cost.
                assert!(rate <= right * 1.1 && rate >= right * 0.6, "{idle} {each}: {rate}");
            }
        }
        assert_eq!(next_rate(8.0, 0.0, 2), 24.0);
        assert_eq!(next_rate(0.1, 1000.0, 1), 0.1, "the rate stays above zero");
    }

    #[test]
    fn order_of_requests_follows_the_seed_and_is_complete() {
        let turn = ["a", "a", "a", "b", "b", "c"];
        let (one, other) = (shuffled(&turn, 1), shuffled(&turn, 2));
        assert_eq!(one, shuffled(&turn, 1));
        assert_ne!(one, other);
        for part in one.chunks(turn.len()) {
            let mut part = part.to_vec();
            part.sort_unstable();
            assert_eq!(part, turn);
        }
    }

    #[test]
    fn memory_is_reported_as_mean_and_as_product_with_time() {
        let held =
            Held { private_mib: 512.0, swapped_mib: 64.0, compressed_mib: 16.0, ..Held::default() };
        let one = Views { size: Some(100.0), resident: 10.0, held: Some(held) };
        let other = Views { size: Some(300.0), held: None, ..one };
        let mut measures = Measures::default();
        note_memory(&mut measures, &[one, other], 60.0);
        let found: Vec<(&str, f64)> =
            measures.0.iter().map(|one| (one.name.as_str(), one.value)).collect();
        let expected = [
            ("size, Linux view", 200.0),
            ("size, hypervisor view", 10.0),
            (crate::plug::VIEWS[1], 30.0),
            (crate::plug::VIEWS[2], 528.0 / 1024.0 * 60.0),
        ];
        assert_eq!(found, expected, "what is not known is no 0");
    }
}
