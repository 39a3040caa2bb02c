//! Execution of the phases.

use super::full::{Full, Standing, full};
use super::{Count, counts, measure, phase};
use crate::clock::wait;
use crate::site::held::Held;
use crate::site::meter::{Reading, Usage};
use crate::site::{Site, Tools, jobs};
use crate::{Bench, Error, Measures, bench, clock};
use base::Rng;
use procfs::parse::value_of;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MEMORY_MIB: u64 = 96;
/// Maximum memory of a server that can be paged out. The size of compressed memory follows from
/// this maximum.
const PAGED_MIB: u64 = 40;
/// Host port of the first server, below the kernel's ephemeral ports.
const PORTS_FROM: u32 = 10_000;
const PORTS_STEP: u32 = 2_100;
/// Intervals of four actions: queries for the farm's servers, the same queries before the first
/// server exists, probes of one server, and progress messages.
const LOOK: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_millis(50);
const PROBE_S: f64 = 5.0;
const TELL_S: f64 = 10.0;
/// Time window from which the rate of new servers is computed.
const RATE_S: f64 = 30.0;
/// Number of the first servers and of the last servers. The times in which both groups came up are
/// compared.
const HUNDRED: usize = 100;
/// Time limit until all servers are parked, in addition to their idle time: a fixed part, and a
/// part for each server.
const PARK_MAX: Duration = Duration::from_secs(60);
const PARK_EACH: Duration = Duration::from_millis(200);
/// A host is at rest if its available memory changes by less than `REST_MIB` within `REST`. The
/// host is checked at most `REST_LOOKS` times.
const REST: Duration = Duration::from_secs(3);
const REST_MIB: f64 = 8.0;
const REST_LOOKS: u32 = 20;

/// Durations of the full or of the short form.
#[derive(Clone, Copy)]
struct Pace {
    park: Duration,
    idle: Duration,
}

pub fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    let seconds = Duration::from_secs;
    let pace = match bench.asked.quick {
        true => Pace { park: seconds(5), idle: seconds(3) },
        false => Pace { park: seconds(15), idle: seconds(60) },
    };
    let repetitions = bench.asked.repetitions.unwrap_or(1);
    bench.setting("memory of each, MiB", MEMORY_MIB)?;
    bench.setting("parked after, s", pace.park.as_secs())?;
    let counts = counts(bench.asked.guests);
    bench.setting("servers at most", counts.last().map_or(0, |count| count.servers))?;
    let all: Vec<&str> = counts.iter().map(|count| count.name.as_str()).collect();
    let chosen = bench.choose(&all, &all)?;
    let tools = bench.asked.tools.clone();
    let mut room_for = u32::MAX;
    bench.rounds(repetitions, &chosen, |run| {
        let Some(count) = counts.iter().find(|count| count.name == run.name()) else {
            return Ok(());
        };
        if count.servers > room_for {
            run.note("left out: the machine was full with fewer servers.".to_owned());
            return Ok(());
        }
        if !one(run, &tools, count, pace)? {
            room_for = count.servers;
        }
        Ok(())
    })
}

/// Runs a count. Returns false if the machine was full before the end of the count.
fn one(
    run: &mut bench::Case<'_, '_>,
    tools: &Tools,
    count: &Count,
    pace: Pace,
) -> Result<bool, Error> {
    let seed = run.seed();
    let before = Host::at_rest()?;
    let started = run.told_phase(phase::START, |measures, tell| {
        let mut site = Site::begin(tools, &farm(count.servers, pace))?;
        let climb = climb(&mut site, seed, &before, tell)?;
        climb.note(measures);
        Ok((site, climb))
    })?;
    let Some((mut site, climb)) = started else { return Ok(true) };
    if let Some(full) = climb.ended_by {
        run.note(format!("{} servers answer, then the machine is full: {full}.", climb.ready()));
        return Ok(false);
    }
    let parked = run.told_phase(phase::PARKED, |measures, tell| {
        all_parked(&mut site, pace, tell)?;
        before.note(measures);
        owners(&site, &before, measures);
        Ok(())
    })?;
    if parked.is_some() {
        idle(run, &site, pace)?;
    }
    for name in phase::WIPES {
        let wiped = run.phase(name, |measures| {
            let full = wipe(measures, &site)?;
            before.note(measures);
            Ok(full)
        })?;
        if let Some(Some(full)) = wiped {
            run.note(format!("{name}: stopped early, because the machine is full: {full}."));
            return Ok(false);
        }
    }
    run.phase(phase::END, |measures| {
        let began_s = clock::seconds();
        drop(site);
        measures.note("took", "s", clock::seconds() - began_s);
        Ok(())
    })?;
    Ok(true)
}

/// Requests every server's page once. Stops if the machine is full, because each server that wakes
/// takes memory.
fn wipe(measures: &mut Measures, site: &Site) -> Result<Option<Full>, Error> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let found = full(&Standing::of(&Host::now()));
                if found.is_some() {
                    is_over.store(true, Ordering::Relaxed);
                    return found;
                }
                wait(LOOK);
            }
            None
        });
        let wiped = jobs::wipe_until(measures, site.targets("web", 80, "/"), &is_over);
        is_over.store(true, Ordering::Relaxed);
        let found = watch.join().unwrap_or_default();
        wiped.map(|()| found)
    })
}

/// Start times of the servers.
#[derive(Debug, Default)]
struct Climb {
    /// Time from the command until the image and the template were made and the first server
    /// started, in seconds.
    begun_s: f64,
    /// Times of the first responses, in order.
    answered_s: Vec<f64>,
    probes_s: Vec<f64>,
    ended_by: Option<Full>,
}

impl Climb {
    fn ready(&self) -> usize {
        self.answered_s.len()
    }

    fn note(&self, measures: &mut Measures) {
        measures.note(measure::ANSWER, "", self.ready() as f64);
        measures.note("image and template made after", "s", self.begun_s);
        if self.ended_by.is_none() {
            measures.note(measure::READY, "s", self.answered_s.last().copied());
        }
        let at = |n: usize| n.checked_sub(1).and_then(|at| self.answered_s.get(at)).copied();
        if self.ready() >= 2 * HUNDRED {
            measures.note("the first hundred took", "s", at(HUNDRED).map(|to| to - self.begun_s));
            let last = at(self.ready()).zip(at(self.ready() - HUNDRED));
            measures.note("the last hundred took", "s", last.map(|(to, from)| to - from));
        }
        let answered = self.probes_s.iter().copied().filter(|s| s.is_finite());
        measures.note("probes meanwhile, longest", "s", answered.reduce(f64::max));
        let lost = self.probes_s.iter().filter(|s| s.is_infinite()).count();
        measures.note("probes meanwhile without an answer", "", lost as f64);
    }

    /// Returns a progress message during the start.
    fn line(&self, now_s: f64, all: usize, before: &Host) -> String {
        let ready = self.ready();
        let lately = self.answered_s.iter().rev().take_while(|at| now_s - **at < RATE_S).count();
        let left = match lately {
            0 => "unknown time left".to_owned(),
            _ => {
                let left_s = (all - ready) as f64 * now_s.min(RATE_S) / lately as f64;
                format!("about {left_s:.0} s left")
            }
        };
        let Used { all_mib, compressed_mib, tables_mib } = before.used();
        format!(
            "{ready} of {all} servers answer after {now_s:.0} s, {left}; used memory: {all_mib:.0} \
             MiB = compressed {compressed_mib:.0} + page tables {tables_mib:.0} + QEMUs and \
             guests {:.0}",
            (all_mib - compressed_mib - tables_mib).max(0.0)
        )
    }
}

/// Waits until all servers respond, or the machine is full.
fn climb(
    site: &mut Site,
    seed: u64,
    before: &Host,
    tell: &mut dyn FnMut(&str),
) -> Result<Climb, Error> {
    let began_s = clock::seconds();
    let mut rng = Rng::new(seed);
    let mut climb = Climb::default();
    let (mut probed_s, mut told_s) = (0.0, 0.0);
    while site.guests().is_empty() {
        crate::stop::check_stop()?;
        site.look()?;
        climb.begun_s = clock::seconds() - began_s;
        wait(SOON);
    }
    loop {
        crate::stop::check_stop()?;
        let is_all = site.look()?;
        let now_s = clock::seconds() - began_s;
        let ready: Vec<usize> = indices(site.guests(), |guest| guest.ready);
        climb.answered_s.resize(ready.len().max(climb.answered_s.len()), now_s);
        if is_all {
            return Ok(climb);
        }
        if now_s - probed_s >= PROBE_S && !ready.is_empty() {
            let chosen = ready.get(rng.within(0, ready.len() as u64 - 1) as usize);
            let page = chosen.and_then(|at| site.target(site.guests().get(*at)?, 80, "/"));
            if let Some(page) = page {
                climb.probes_s.push(jobs::probe(&page)?);
            }
            probed_s = clock::seconds() - began_s;
        }
        if now_s - told_s >= TELL_S {
            tell(&climb.line(now_s, site.guests().len(), before));
            told_s = now_s;
        }
        climb.ended_by = full(&Standing {
            probes_s: climb.probes_s.clone(),
            since_last_s: now_s - climb.answered_s.last().copied().unwrap_or(climb.begun_s),
            ..Standing::of(&Host::now())
        });
        if climb.ended_by.is_some() {
            return Ok(climb);
        }
        wait(LOOK);
    }
}

fn indices<T>(all: &[T], is_it: impl Fn(&T) -> bool) -> Vec<usize> {
    all.iter().enumerate().filter(|(_, one)| is_it(one)).map(|(at, _)| at).collect()
}

fn all_parked(site: &mut Site, pace: Pace, tell: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let longest = pace.park + PARK_MAX + PARK_EACH * site.guests().len() as u32;
    let began_s = clock::seconds();
    let mut told_s = 0.0;
    loop {
        crate::stop::check_stop()?;
        site.look()?;
        let awake = indices(site.guests(), |guest| guest.state != "parked").len();
        let now_s = clock::seconds() - began_s;
        if awake == 0 {
            return Ok(());
        }
        if now_s > longest.as_secs_f64() {
            let all = site.guests().len();
            return Err(Error::Failed(format!(
                "{awake} of {all} are not parked after {now_s:.0} s"
            )));
        }
        if now_s - told_s >= TELL_S {
            tell(&format!("{awake} are awake"));
            told_s = now_s;
        }
        wait(LOOK);
    }
}

/// Measures the CPU time of all servers while no requests come.
fn idle(run: &mut bench::Case<'_, '_>, site: &Site, pace: Pace) -> Result<(), Error> {
    run.phase(phase::IDLE, |measures| {
        let (from, own_s) = (Reading::of(site.guests(), false), site.own_cpu_s());
        wait(pace.idle);
        let own_s = site.own_cpu_s() - own_s;
        let to = Reading::of(site.guests(), false);
        let usage = Usage { from: &from, to: &to };
        let used_s = to.cpu_s - from.cpu_s + own_s;
        measures.note(measure::CPU, "% of a core", used_s / usage.seconds() * 100.0);
        measures.note("CPU of the farm's own", "% of a core", own_s / usage.seconds() * 100.0);
        let dispatches = usage.rate(|reading| reading.vcpu_dispatches * 60.0);
        measures.note(measure::DISPATCHES, "1/min", dispatches);
        measures.note("host busy", "%", usage.host_busy_percent());
        Ok(())
    })?;
    Ok(())
}

/// Notes the host's memory by owner. The rest is kernel memory for the servers, such as processes,
/// sockets and descriptors. Shared memory consists of file pages, which count as available, because
/// the host can reclaim file pages.
fn owners(site: &Site, before: &Host, measures: &mut Measures) {
    let Some(held) = Held::of(site.guests(), &Reading::of(site.guests(), false)) else { return };
    let Used { all_mib, compressed_mib, tables_mib } = before.used();
    let servers = site.guests().len() as f64;
    measures.note(measure::PRIVATE, "MiB a server", held.private_mib / servers);
    measures.note(measure::COMPRESSED, "MiB a server", compressed_mib / servers);
    measures.note(measure::TABLES, "MiB a server", tables_mib / servers);
    measures.note(measure::SHARED, "MiB", held.shared_mib);
    let known_mib = held.private_mib + compressed_mib + tables_mib;
    measures.note(measure::REST, "MiB a server", (all_mib - known_mib) / servers);
}

#[derive(Clone, Copy, Debug, Default)]
struct Host {
    available_mib: f64,
    swap_mib: f64,
    swap_free_mib: f64,
    compressed_mib: f64,
    tables_mib: f64,
}

impl Standing {
    fn of(host: &Host) -> Standing {
        let Host { available_mib, swap_mib, swap_free_mib, .. } = *host;
        Standing { available_mib, swap_mib, swap_free_mib, ..Standing::default() }
    }
}

/// Growth of the host's used memory since the start of a count.
struct Used {
    all_mib: f64,
    compressed_mib: f64,
    tables_mib: f64,
}

impl Host {
    fn now() -> Host {
        let text = fs::read("/proc/meminfo").unwrap_or_default();
        let mib = |name| value_of(&text, name).unwrap_or(0) as f64 / 1024.0;
        Host {
            available_mib: mib("MemAvailable"),
            swap_mib: mib("SwapTotal"),
            swap_free_mib: mib("SwapFree"),
            compressed_mib: Reading::of(&[], false).zram_mib,
            tables_mib: mib("PageTables"),
        }
    }

    /// Waits until the host is at rest. The kernel frees the memory of ended processes with a
    /// delay.
    fn at_rest() -> Result<Host, Error> {
        let mut last = Host::now();
        for _ in 0..REST_LOOKS {
            crate::stop::check_stop()?;
            wait(REST);
            let now = Host::now();
            if (now.available_mib - last.available_mib).abs() < REST_MIB {
                return Ok(now);
            }
            last = now;
        }
        Ok(last)
    }

    fn used(&self) -> Used {
        let now = Host::now();
        Used {
            all_mib: self.available_mib - now.available_mib,
            compressed_mib: now.compressed_mib - self.compressed_mib,
            tables_mib: now.tables_mib - self.tables_mib,
        }
    }

    fn note(&self, measures: &mut Measures) {
        measures.note(measure::USED, "MiB", self.used().all_mib);
    }
}

fn farm(servers: u32, pace: Pace) -> String {
    // The process id selects the ports, so another experiment on this machine is unlikely to use
    // the same ports.
    let port = PORTS_FROM + std::process::id() % 10 * PORTS_STEP;
    format!(
        "name = \"count\"\n[limits]\nzram = \"{} MiB\"\n[[class]]\nname = \"web\"\n\
         count = {servers}\nimage = \"web\"\ntemplate = true\nmemory = \"{MEMORY_MIB} MiB\"\n\
         park = \"{}s\"\nports = [{{ guest = 80, host = {port} }}]\n",
        u64::from(servers) * PAGED_MIB,
        pace.park.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_reports_the_times_of_its_first_and_last_hundred() {
        let climb = Climb {
            begun_s: 2.0,
            answered_s: (1..=1000).map(|n| 2.0 + f64::from(n) / 5.0).collect(),
            probes_s: vec![0.2, f64::INFINITY, 0.4],
            ended_by: None,
        };
        let mut measures = Measures::default();
        climb.note(&mut measures);
        let value = |name: &str| {
            let found = measures.0.iter().find(|one| one.name == name);
            found.map(|one| (one.value * 10.0).round() / 10.0)
        };
        assert_eq!(value(measure::READY), Some(202.0));
        assert_eq!(value("the first hundred took"), Some(20.0));
        assert_eq!(value("the last hundred took"), Some(20.0));
        assert_eq!(value("probes meanwhile, longest"), Some(0.4));
        assert_eq!(value("probes meanwhile without an answer"), Some(1.0));
        let full = Climb { ended_by: Some(Full::Cpu { since_last_s: 61.0 }), ..climb };
        let mut measures = Measures::default();
        full.note(&mut measures);
        assert!(measures.0.iter().all(|one| one.name != measure::READY), "not all answer");
    }

    #[test]
    fn the_time_left_follows_from_the_last_half_minute() {
        let climb = Climb {
            answered_s: (1..=300).map(|n| 40.0 + f64::from(n) / 10.0).collect(),
            ..Climb::default()
        };
        let line = climb.line(70.0, 1000, &Host::now());
        assert!(
            line.starts_with("300 of 1000 servers answer after 70 s, about 70 s left"),
            "{line}"
        );
        let still = Climb::default().line(5.0, 10, &Host::now());
        assert!(still.contains("unknown time left"), "{still}");
    }

    #[test]
    fn the_file_of_the_farm_is_valid() {
        let pace = Pace { park: Duration::from_secs(15), idle: Duration::ZERO };
        let farm = farm::config::parse(&farm(2000, pace), "count").unwrap();
        assert_eq!(farm.guests(), 2000);
    }
}
