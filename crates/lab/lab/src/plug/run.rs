//! Execution of the phases.

use super::farms::{large, text};
use super::load::{HELD, Shape, calibrate, measured, note_usage, order, size_mib};
use super::sizes::{self, Search, search};
use super::{
    CALIBRATION, DYNAMIC, FARMS, HAND, SETS, SIZES, STEAL, Set, USUAL, cases, phase, rules_of,
};
use crate::clock::wait;
use crate::load::Job;
use crate::site::meter::Reading;
use crate::site::{ASLEEP_AFTER, Manager, Settings, Site, jobs};
use crate::{Bench, Error, bench};
use policy::rivals::Kind;
use std::time::Duration;

/// Time limit for the start of eight guests with Debian on two emulated cores.
const UP_MAX: Duration = Duration::from_secs(900);
/// Maximum time to replace a guest's daemon.
const RULES_MAX: Duration = Duration::from_secs(60);
const BUILD_MAX: Duration = Duration::from_secs(600);
/// First host port, and the number of host ports for one process of this program. The process id
/// selects the ports, as in the experiment `penguins`.
const PORTS_FROM: u32 = 10_000;
const PORTS_STEP: u32 = 32;

#[derive(Clone, Copy)]
struct Pace {
    shape: Shape,
    search: Search,
    rest: Duration,
    unplug: Duration,
    units: u32,
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const QUICK: Shape =
    Shape { requests: 30, warm: seconds(2), sample: seconds(1), step: seconds(3), steps_max: 3 };

/// The number of requests makes the 95th percentile of a round steady. Each case first has the same
/// load for a minute, in which a new manager moves most memory. The manager of a real server has
/// run for days.
const FULL: Shape = Shape {
    requests: 2000,
    warm: seconds(60),
    sample: seconds(10),
    step: seconds(10),
    steps_max: 8,
};

/// Time in which rules unplug idle CPUs, after twenty samples. At first all CPUs are online,
/// because the earlier daemon put them online when it ended. A real server is past this phase.
const UNPLUG: Duration = seconds(25);

const QUICK_SEARCH: Search = Search {
    settle: seconds(1),
    switch: seconds(1),
    look: seconds(2),
    grid_mib: 128,
    turns: 1,
    turn: seconds(2),
};

const FULL_SEARCH: Search = Search {
    settle: seconds(25),
    switch: seconds(60),
    look: seconds(15),
    grid_mib: 8,
    turns: 2,
    turn: seconds(25),
};

pub fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    let quick = bench.asked.quick;
    let only: &[&str] = if quick { &["comboa"] } else { &[] };
    let pace = match quick {
        true => Pace {
            shape: QUICK,
            search: QUICK_SEARCH,
            rest: seconds(3),
            unplug: seconds(1),
            units: 4,
        },
        false => {
            Pace { shape: FULL, search: FULL_SEARCH, rest: seconds(12), unplug: UNPLUG, units: 40 }
        }
    };
    let requests = bench.asked.requests.unwrap_or(pace.shape.requests);
    let pace = Pace { shape: Shape { requests, ..pace.shape }, ..pace };
    let repetitions = bench.asked.repetitions.unwrap_or(if quick { 1 } else { 6 });
    let sets: Vec<Set> =
        SETS.iter().filter(|set| only.is_empty() || only.contains(&set.class)).copied().collect();
    let chosen = chosen(bench)?;
    bench.setting("requests", pace.shape.requests)?;
    if bench.is_done(repetitions, &chosen) {
        return Ok(());
    }
    let first = PORTS_FROM + std::process::id() % 300 * PORTS_STEP;
    bench.discard_open_rounds(repetitions, &chosen);
    bench.discard(FARMS, 1);
    let large = large(only);
    if let Some(path) = bench.asked.sizes.clone() {
        let (search, other) = sizes::of_another(&path, &bench.outcome().machine, &large)?;
        bench.take_over(search, &other);
    }
    let managed = start(&mut bench.case(FARMS, 1), &text("managed", &large, true, first + 16))?;
    let Some(managed) = managed else { return Ok(()) };
    bench.rounds(1, &[SIZES], |run| match give_rules(run, &managed, None)? {
        true => search(run, &managed, &sets, pace.shape, pace.search),
        false => Ok(()),
    })?;
    let Some(sizes) = sizes::found(bench.outcome(), &large) else { return Ok(()) };
    let hand_mib: u32 = sizes.iter().map(|size| size.memory_mib).sum();
    bench.setting("hand-sized memory of all, MiB", hand_mib)?;
    let hand = start(&mut bench.case(FARMS, 1), &text("hand", &sizes, false, first))?;
    let Some(hand) = hand else { return Ok(()) };
    sizes::take_off(&hand, &sizes)?;
    let cpus = bench.outcome().machine.cpus.min(sizes.iter().map(|size| size.cpus).sum());
    bench.rounds(1, &[CALIBRATION], |run| calibrate(run, &hand, &sets, cpus, pace.shape))?;
    let found = |measure| {
        let values = bench.outcome().values(CALIBRATION, phase::FOUND, measure);
        values.last().map(|(_, value)| *value)
    };
    let (Some(rate), Some(held_mib)) = (found("rate"), found(HELD)) else { return Ok(()) };
    let driven = |site| Driven { site, rate, held_mib };
    let (hand, managed) = (driven(&hand), driven(&managed));
    bench.rounds(repetitions, &chosen, |run| match run.name() {
        HAND => one(run, None, hand, &sets, pace),
        DYNAMIC => dynamic(run, managed, &sets, pace),
        STEAL => steal(run, managed.site, pace),
        name => {
            let preset = cases().iter().find(|(case, _)| *case == name).and_then(|(_, p)| *p);
            one(run, preset, managed, &sets, pace)
        }
    })
}

/// Returns the cases to run. The baseline is always included.
fn chosen(bench: &Bench<'_>) -> Result<Vec<&'static str>, Error> {
    let mut all: Vec<&'static str> = cases().into_iter().map(|(case, _)| case).collect();
    all.extend([DYNAMIC, STEAL]);
    let mut chosen = bench.choose(&all, USUAL)?;
    if !chosen.contains(&HAND) {
        chosen.insert(0, HAND);
    }
    Ok(chosen)
}

/// A farm, its rate in requests per second, and the host memory of the hand-sized guests at that
/// rate.
#[derive(Clone, Copy)]
struct Driven<'a> {
    site: &'a Site,
    rate: f64,
    held_mib: f64,
}

fn start(run: &mut bench::Case<'_, '_>, farm: &str) -> Result<Option<Site>, Error> {
    run.start(farm, UP_MAX, |site, measures| Reading::of(site.guests(), false).note(measures))
}

fn one(
    run: &mut bench::Case<'_, '_>,
    preset: Option<&str>,
    driven: Driven<'_>,
    sets: &[Set],
    pace: Pace,
) -> Result<(), Error> {
    let Driven { site, rate, .. } = driven;
    if run.name() != HAND {
        if !give_rules(run, site, preset)? {
            return Ok(());
        }
        // The wait precedes the manager's start, because the manager would page out idle guests
        // during the wait.
        wait(pace.unplug);
    }
    let manager = match rules_of(run.name()) {
        Some(rules) => match manage(run, driven, rules, pace)? {
            Some(manager) => Some(manager),
            None => return Ok(()),
        },
        None => {
            // The load begins after the same pause as in a case with a manager.
            wait(pace.rest);
            None
        }
    };
    let targets = order(site, sets, run.seed());
    run.phase(phase::LOAD, |measures| {
        measured(measures, site, manager.as_ref(), &targets, rate, pace.shape)
    })?;
    Ok(())
}

/// Installs a preset's rules in all guests of a site. `None` means rules that never act. Guests
/// that already have these rules keep their daemon, because a daemon that ends puts all CPUs
/// online. Each CPU that comes or goes slows an emulated guest for minutes. A real server has had
/// its rules for days. Returns false if the phase failed.
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
        "rules=$(printf '%s\\n' {}); \
         [ \"$rules\" = \"$(cat /etc/pinhead.conf)\" ] && pidof pinheadd > /dev/null && exit 0; \
         printf '%s\\n' \"$rules\" > /etc/pinhead.conf && \
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
    Driven { site, held_mib, .. }: Driven<'_>,
    rules: Kind,
    pace: Pace,
) -> Result<Option<Manager>, Error> {
    // The guests' budget equals the use of the hand-sized guests, including each QEMU's own memory.
    // With a larger budget the manager would reclaim nothing. The set point is memory that the
    // manager keeps free, so it is added to the budget.
    let set_point_mib = held_mib as u64 / 10;
    let settings = Settings {
        rules,
        budget_mib: held_mib as u64 + set_point_mib,
        set_point_mib,
        leaves_ksm: true,
        page_out_after: (rules == Kind::Pinhead).then_some(ASLEEP_AFTER),
    };
    run.manage(phase::START, site, &settings, |_, _| {
        // In every case, the load begins after this pause.
        wait(pace.rest);
        Ok(())
    })
}

/// Runs a load on one half of the guests, then on the other half, and then on the first half again.
/// There are pauses between the loads. Each half gets its share of the whole load.
fn dynamic(
    run: &mut bench::Case<'_, '_>,
    driven: Driven<'_>,
    sets: &[Set],
    pace: Pace,
) -> Result<(), Error> {
    let Driven { site, rate, .. } = driven;
    if !give_rules(run, site, Some("cpu-loadavg"))? {
        return Ok(());
    }
    let Some(manager) = manage(run, driven, Kind::Pinhead, pace)? else { return Ok(()) };
    let seed = run.seed();
    let (one, other) = sets.split_at(sets.len().div_ceil(2));
    let clients = |sets: &[Set]| sets.iter().map(|set| set.clients).sum::<usize>() as f64;
    for (at, name) in phase::DYNAMIC.iter().enumerate() {
        let half = if at == 2 && !other.is_empty() { other } else { one };
        run.phase(name, |measures| match at {
            1 | 3 => {
                wait(pace.rest);
                let reading = Reading::of(site.guests(), false);
                measures.note("size, Linux view", "MiB", size_mib(site, Some(&manager)));
                measures.note("size, hypervisor view", "MiB", reading.resident_mib);
                Ok(())
            }
            _ => {
                let part = clients(half) / clients(sets);
                let rate = rate * part;
                // The load takes a seventh of the time of a whole case's load.
                let requests = (f64::from(pace.shape.requests) * part / 7.0).max(10.0) as u32;
                let shape = Shape { requests, warm: Duration::ZERO, ..pace.shape };
                let targets = order(site, half, seed);
                measured(measures, site, Some(&manager), &targets, rate, shape)
            }
        })?;
    }
    Ok(())
}

/// Runs a build in one guest while the guest's pool grows, and measures the time for which the
/// guest's CPUs wait.
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
