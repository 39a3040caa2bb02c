//! The phases, carried out.

use super::farms::{hand_mib, text};
use super::{ALL, DYNAMIC, HAND, OURS, PAGE, SETS, STEAL, Set, cases, phase};
use crate::site::meter::{Reading, Usage};
use crate::site::{Manager, Settings, Site, jobs, wait};
use crate::{Bench, Error, Measures, bench};
use load::{Job, Pattern, Target};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Eight guests with Debian on two emulated cores.
const UP_MAX: Duration = Duration::from_secs(900);
/// A daemon is replaced in a guest.
const RULES_MAX: Duration = Duration::from_secs(60);
const BUILD_MAX: Duration = Duration::from_secs(600);
/// How often memory is looked at while a load is on.
const SAMPLE: Duration = Duration::from_secs(1);
/// Ports of a farm, and from where on; see the same of the wipe.
const PORTS_FROM: u32 = 10_000;
const PORTS_STEP: u32 = 32;

/// How long things take.
#[derive(Clone, Copy)]
struct Pace {
    warm: Duration,
    load: Duration,
    rest: Duration,
    units: u32,
    /// What the guests that are sized by hand have.
    hand_mib: u32,
}

/// Runs it.
pub fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    let only: &[&str] = if bench.asked.quick { &["comboa"] } else { &[] };
    let hand_mib = hand_mib(only);
    let seconds = Duration::from_secs;
    let pace = match bench.asked.quick {
        true => Pace { warm: seconds(2), load: seconds(4), rest: seconds(3), units: 4, hand_mib },
        false => {
            Pace { warm: seconds(5), load: seconds(12), rest: seconds(12), units: 40, hand_mib }
        }
    };
    let repetitions = bench.asked.repetitions.unwrap_or(if bench.asked.quick { 1 } else { 3 });
    let sets: Vec<Set> =
        SETS.iter().filter(|set| only.is_empty() || only.contains(&set.class)).copied().collect();
    bench.setting("load, s", pace.load.as_secs());
    bench.setting("hand-sized memory of all, MiB", pace.hand_mib);
    let first = PORTS_FROM + std::process::id() % 300 * PORTS_STEP;
    let hand = start(&mut bench.case(HAND, 1), &text("hand", false, first, only))?;
    let managed = start(&mut bench.case(ALL, 1), &text("managed", true, first + 16, only))?;
    let (Some(hand), Some(managed)) = (hand, managed) else { return Ok(()) };
    for repetition in 1..=repetitions {
        for (case, preset) in cases() {
            if !bench.wants(case) && case != HAND {
                continue;
            }
            let site = if case == HAND { &hand } else { &managed };
            one(&mut bench.case(case, repetition), case, preset, site, &sets, pace)?;
        }
        if bench.wants(DYNAMIC) {
            dynamic(&mut bench.case(DYNAMIC, repetition), &managed, &sets, pace)?;
        }
        if bench.wants(STEAL) {
            steal(&mut bench.case(STEAL, repetition), &managed, pace)?;
        }
    }
    Ok(())
}

fn start(run: &mut bench::Case<'_, '_>, farm: &str) -> Result<Option<Site>, Error> {
    run.start(farm, UP_MAX, |site, measures| Reading::of(site.guests(), false).note(measures))
}

/// A configuration: its rules, then the load.
fn one(
    run: &mut bench::Case<'_, '_>,
    case: &str,
    preset: Option<&str>,
    site: &Site,
    sets: &[Set],
    pace: Pace,
) -> Result<(), Error> {
    if case != HAND && !give_rules(run, site, preset)? {
        return Ok(());
    }
    let manager = match case {
        OURS => match manage(run, site, pace)? {
            Some(manager) => Some(manager),
            None => return Ok(()),
        },
        _ => None,
    };
    run.phase(phase::LOAD, |measures| {
        let targets = targets(site, sets);
        drive(&mut Measures::default(), &targets, pace.warm)?;
        measured_load(measures, site, manager.as_ref(), &targets, pace.load)
    })?;
    Ok(())
}

/// Puts a preset's rules into all guests of a site; none are rules that never act.
fn give_rules(
    run: &mut bench::Case<'_, '_>,
    site: &Site,
    preset: Option<&str>,
) -> Result<bool, Error> {
    let rules = match preset {
        Some(name) => rules::preset(name)
            .map(rules::Preset::text)
            .ok_or_else(|| Error::Failed(format!("There is no preset {name:?}")))?,
        None => "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"0\"\nHOTUNPLUG=\"0\"\n\
                 CMM_MIN=\"0\"\nCMM_MAX=\"0\"\nCMM_INC=\"0\"\nMEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\n"
            .to_owned(),
    };
    let lines: Vec<String> = rules.lines().map(base::shell_word).collect();
    let line = format!(
        "printf '%s\\n' {} > /etc/pinhead.conf && \
         for p in $(pidof pinheadd); do kill $p; done; \
         n=0; while pidof pinheadd > /dev/null && [ $n -lt 300 ]; do usleep 100000; \
         n=$((n + 1)); done; start-pinheadd < /dev/null > /dev/console 2>&1 & sleep 1; \
         pidof pinheadd > /dev/null",
        lines.join(" ")
    );
    let done = run.phase(phase::RULES, |_| {
        site.guests().iter().try_for_each(|guest| {
            site.sh(&guest.name, &line, RULES_MAX)?;
            Ok(())
        })
    })?;
    Ok(done.is_some())
}

fn manage(
    run: &mut bench::Case<'_, '_>,
    site: &Site,
    pace: Pace,
) -> Result<Option<Manager>, Error> {
    // As much as sizing by hand takes, with what each QEMU has of its own.
    let budget_mib = u64::from(pace.hand_mib) + 64 * site.guests().len() as u64;
    let settings = Settings { budget_mib, set_point_mib: budget_mib / 10, leaves_ksm: true };
    run.manage(phase::START, site, &settings, |_, _| {
        // Rules have had as long, from their daemon's start to the load.
        wait(pace.rest);
        Ok(())
    })
}

fn targets(site: &Site, sets: &[Set]) -> Vec<(usize, Vec<Target>)> {
    sets.iter().map(|set| (set.clients, site.targets(set.class, 80, PAGE))).collect()
}

/// All clients at once, for so long. Notes how many answers there were a second.
fn drive(
    measures: &mut Measures,
    sets: &[(usize, Vec<Target>)],
    duration: Duration,
) -> Result<(), Error> {
    let results: Vec<_> = std::thread::scope(|scope| {
        let run = |(clients, targets): &(usize, Vec<Target>)| {
            let pattern = Pattern::Closed { clients: *clients, expected_interval: None };
            let targets = targets.clone();
            scope.spawn(move || jobs::load(&mut Measures::default(), targets, pattern, duration))
        };
        let threads: Vec<_> = sets.iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let (mut rate, mut failed, mut worst) = (0.0, 0, 0.0_f64);
    for result in results {
        let outcome = result.map_err(|_| Error::Failed("A load has ended in a panic".into()))??;
        rate += outcome.requests_per_s(&outcome.all).unwrap_or_default();
        failed += outcome.all.failed_all();
        let p99 = outcome.all.latency_us().map_or(0.0, |latency| latency.p99_us as f64 / 1e6);
        worst = worst.max(p99);
    }
    measures.note("throughput", "1/s", rate);
    measures.note("failed", "", failed as f64);
    measures.note("p99, the worst set", "s", worst);
    Ok(())
}

/// A load, with CPU time and both views of memory while it is on.
fn measured_load(
    measures: &mut Measures,
    site: &Site,
    manager: Option<&Manager>,
    sets: &[(usize, Vec<Target>)],
    duration: Duration,
) -> Result<(), Error> {
    let from = Reading::of(site.guests(), false);
    let is_over = AtomicBool::new(false);
    let (driven, samples) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut samples = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                wait(SAMPLE);
                let reading = Reading::of(site.guests(), false);
                samples.push((linux_mib(site, manager), reading.resident_mib));
            }
            samples
        });
        let driven = drive(measures, sets, duration);
        is_over.store(true, Ordering::Relaxed);
        (driven, sampler.join().unwrap_or_default())
    });
    let to = Reading::of(site.guests(), false);
    note_usage(measures, &from, &to);
    let linux: Vec<f64> = samples.iter().filter_map(|(linux, _)| *linux).collect();
    let resident: Vec<f64> = samples.iter().map(|(_, resident)| *resident).collect();
    measures.note("size, Linux view", "MiB", mean(&linux));
    measures.note("size, hypervisor view", "MiB", mean(&resident));
    driven
}

fn note_usage(measures: &mut Measures, from: &Reading, to: &Reading) {
    let usage = Usage { from, to };
    measures.note("CPU", "% of a core", usage.rate(|reading| reading.cpu_s * 100.0));
    let steal = usage.ratio(|reading| reading.steal_s, |reading| reading.vcpu_s + reading.steal_s);
    measures.note("steal", "%", steal.unwrap_or(0.0) * 100.0);
}

/// What the guests see as theirs: their memory less what they have given up.
fn linux_mib(site: &Site, manager: Option<&Manager>) -> Option<f64> {
    match manager {
        // While there is a manager the monitors are its own.
        Some(manager) => Some(manager.left_mib().ok()? * site.guests().len() as f64),
        None => site.guests().iter().map(|guest| site.balloon_mib(guest)).sum(),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Load on one half, rest, load on the other, rest, load on the first again.
fn dynamic(
    run: &mut bench::Case<'_, '_>,
    site: &Site,
    sets: &[Set],
    pace: Pace,
) -> Result<(), Error> {
    if !give_rules(run, site, Some("cpu-loadavg"))? {
        return Ok(());
    }
    let Some(manager) = manage(run, site, pace)? else { return Ok(()) };
    let half = sets.len().div_ceil(2);
    let (one, other) = (targets(site, &sets[..half]), targets(site, &sets[half..]));
    for (at, name) in phase::DYNAMIC.iter().enumerate() {
        run.phase(name, |measures| match at {
            1 | 3 => {
                wait(pace.rest);
                let reading = Reading::of(site.guests(), false);
                measures.note("size, Linux view", "MiB", linux_mib(site, Some(&manager)));
                measures.note("size, hypervisor view", "MiB", reading.resident_mib);
                Ok(())
            }
            2 if !other.is_empty() => {
                measured_load(measures, site, Some(&manager), &other, pace.load)
            }
            _ => measured_load(measures, site, Some(&manager), &one, pace.load),
        })?;
    }
    Ok(())
}

/// A build in one guest while its pool grows: what it is kept waiting for.
fn steal(run: &mut bench::Case<'_, '_>, site: &Site, pace: Pace) -> Result<(), Error> {
    if !give_rules(run, site, Some("memory-7"))? {
        return Ok(());
    }
    let Some(guest) = site.guests().last() else { return Ok(()) };
    run.phase(phase::BUILD, |measures| {
        let of_it = std::slice::from_ref(guest);
        let before_mib = site.balloon_mib(guest);
        let from = Reading::of(of_it, false);
        let job = Job::Build { units: pace.units, parallel: 2, rounds: 1 };
        let times = jobs::inside(site, of_it, &job, "/tmp", BUILD_MAX)?;
        let to = Reading::of(of_it, false);
        note_usage(measures, &from, &to);
        measures.note("build", "s", times.iter().flatten().sum::<f64>());
        if let (Some(before_mib), Some(after_mib)) = (before_mib, site.balloon_mib(guest)) {
            measures.note("pool grew by", "MiB", before_mib - after_mib);
        }
        Ok(())
    })?;
    Ok(())
}
