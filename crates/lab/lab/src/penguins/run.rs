//! Execution of the phases.

use super::{CASES, Case, Limit, USUAL, phase};
use crate::clock::wait;
use crate::promotion::Promotion;
use crate::site::held::Held;
use crate::site::meter::{Reading, Settle, Usage};
use crate::site::{Manager, NO_PAGE_OUT, Settings, Site, has_page_out, jobs};
use crate::{Bench, Error, bench, clock};
use policy::rivals::Kind;
use std::time::Duration;

/// Time limit for the start. The promise is half a minute for a hundred servers, but a slower start
/// is measured, too.
const UP_MAX: Duration = Duration::from_secs(600);
/// Time limit for a reboot, which takes some seconds under emulation, and much longer on a full
/// machine.
const REBOOT_MAX: Duration = Duration::from_secs(180);
/// Assumed memory of a server without sharing, if this memory was not measured, in MiB.
const GUESS_MIB: f64 = 72.0;
const MEMORY_MIB: u64 = 96;
/// Host port of the first server, below the kernel's ephemeral ports.
const PORTS_FROM: u32 = 10_000;
const PORTS_STEP: u32 = 1_100;

/// Sizes and durations of the full or of the short form.
#[derive(Clone, Copy)]
struct Pace {
    guests: u32,
    idle: Duration,
    settle: Settle,
    /// Time after which a guest counts as asleep and is paged out, and the wait after page-out.
    /// During this wait the working set of an idle server becomes resident again.
    asleep_after: Duration,
    paged: Duration,
    hits: usize,
}

pub fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    let seconds = Duration::from_secs;
    let pace = match bench.asked.quick {
        true => Pace {
            guests: 4,
            idle: seconds(3),
            settle: Settle { step: seconds(2), most: seconds(6) },
            asleep_after: seconds(5),
            paged: seconds(12),
            hits: 25,
        },
        false => Pace {
            guests: 100,
            idle: seconds(30),
            settle: Settle { step: seconds(5), most: seconds(90) },
            asleep_after: seconds(10),
            paged: seconds(60),
            hits: 250,
        },
    };
    let guests = bench.asked.guests.unwrap_or(pace.guests);
    let repetitions = bench.asked.repetitions.unwrap_or(if bench.asked.quick { 1 } else { 6 });
    bench.setting("guests", guests)?;
    bench.setting("memory of each, MiB", MEMORY_MIB)?;
    let all: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    let cases = bench.choose(&all, USUAL)?;
    let pages_out = |name: &str| CASES.iter().any(|case| case.name == name && case.pages_out);
    let is_impossible = |name: &str| pages_out(name) && !has_page_out();
    let cases = bench.leave_out(cases, is_impossible, NO_PAGE_OUT);
    bench.rounds(repetitions, &cases, |run| {
        let Some(case) = CASES.iter().find(|case| case.name == run.name()) else { return Ok(()) };
        // A case with a maximum that does not reduce the number of guests would repeat another
        // case.
        if case.guests_max < u32::MAX && guests <= case.guests_max {
            return Ok(());
        }
        let resident = run.outcome().values(super::FREE, phase::WIPES[2], "resident a guest");
        let round = run.round();
        let unshared = resident.iter().find(|(found, _)| *found == round);
        let unshared_mib = unshared.map_or(GUESS_MIB, |(_, mib)| *mib);
        one(run, case, guests.min(case.guests_max), pace, unshared_mib)
    })
}

/// Runs a case. `unshared_mib` is the memory of one server without page sharing, measured at the
/// end of the third wipe of the first case.
fn one(
    run: &mut bench::Case<'_, '_>,
    case: &Case,
    count: u32,
    pace: Pace,
    unshared_mib: f64,
) -> Result<(), Error> {
    let quarter_mib = (f64::from(count) * unshared_mib / 4.0) as u64;
    let limit_mib = match case.limit {
        Some(Limit::EachMib(mib)) => u64::from(mib * count),
        Some(Limit::Quarter) | None => quarter_mib,
    };
    let started = run.start(&farm(case, count, limit_mib), UP_MAX, |site, measures| {
        measures.note("servers", "", site.guests().len() as f64);
        let reading = Reading::of(site.guests(), true);
        measures.note("CPU to start one", "s", reading.cpu_s / f64::from(count));
        reading.note(measures);
        if case.limit.is_some() {
            measures.note("limit", "MiB", limit_mib as f64);
        }
    })?;
    let Some(site) = started else { return Ok(()) };
    let mut manager = None;
    if let Some(rules) = case.rules {
        let settings = settings(case, rules, count, limit_mib, pace);
        manager = run.manage(phase::SETTLE, &site, &settings, |manager, measures| {
            if case.pages_out {
                wait(pace.paged);
            }
            settled(&site, pace).note(measures);
            measures.note("left by the balloon, a guest", "MiB", manager.left_mib()?);
            Ok(())
        })?;
        // Without its manager, the figures would not belong to this case.
        if manager.is_none() {
            return Ok(());
        }
    } else if case.ksm {
        run.phase(phase::SETTLE, |measures| {
            settled(&site, pace).note(measures);
            Ok(())
        })?;
    }
    idle(run, &site, manager.as_ref(), pace, phase::IDLE)?;
    for name in phase::WIPES {
        run.phase(name, |measures| {
            let from = Reading::of(site.guests(), false);
            jobs::wipe(measures, site.targets("web", 80, "/"))?;
            let to = Reading::of(site.guests(), true);
            Usage { from: &from, to: &to }.note(measures);
            Ok(())
        })?;
    }
    idle(run, &site, manager.as_ref(), pace, phase::AFTER)?;
    if case.single {
        single(run, &site, pace)?;
    }
    drop(manager);
    run.phase(phase::END, |measures| {
        let began_s = clock::seconds();
        drop(site);
        measures.note("took", "s", clock::seconds() - began_s);
        Ok(())
    })?;
    Ok(())
}

fn idle(
    run: &mut bench::Case<'_, '_>,
    site: &Site,
    manager: Option<&Manager>,
    pace: Pace,
    name: &str,
) -> Result<(), Error> {
    run.phase(name, |measures| {
        let before = Promotion::of(manager)?;
        let (from, own_s) = (Reading::of(site.guests(), false), site.own_cpu_s());
        wait(pace.idle);
        let own_s = site.own_cpu_s() - own_s;
        let to = Reading::of(site.guests(), true);
        let usage = Usage { from: &from, to: &to };
        usage.note(measures);
        Promotion::note(before, manager, usage.seconds(), measures)?;
        if let Some(held) = Held::of(site.guests(), &to) {
            let private_mib = held.private_mib / to.guests as f64;
            let compressed_mib = held.compressed_mib / to.guests as f64;
            measures.note(super::PRIVATE, "MiB", private_mib);
            measures.note(super::BOTH, "MiB", private_mib + compressed_mib);
        }
        let own_percent = own_s / usage.seconds() / to.guests as f64 * 100.0;
        measures.note("CPU of pinhead up, a guest", "% of a core", own_percent);
        Ok(())
    })?;
    Ok(())
}

fn single(run: &mut bench::Case<'_, '_>, site: &Site, pace: Pace) -> Result<(), Error> {
    let (Some(last), Some(page)) = (site.guests().last(), site.targets("web", 80, "/").pop())
    else {
        return Ok(());
    };
    let of_last = std::slice::from_ref(last);
    run.phase(phase::HITS, |measures| {
        let from = Reading::of(of_last, false);
        let targets = vec![page.clone(); pace.hits];
        jobs::load(measures, targets, jobs::ONE_BY_ONE, jobs::WIPE_MAX)?;
        let to = Reading::of(of_last, false);
        measures.note("CPU a hit", "s", (to.cpu_s - from.cpu_s) / pace.hits as f64);
        Ok(())
    })?;
    run.phase(phase::REBOOT, |measures| {
        let from = Reading::of(of_last, false);
        measures.note("resident before", "MiB", from.resident_mib);
        site.restart(&last.name, &page, REBOOT_MAX)?;
        let to = Reading::of(of_last, false);
        measures.note("resident after", "MiB", to.resident_mib);
        measures.note("CPU", "s", to.cpu_s - from.cpu_s);
        measures.note("took", "s", to.at_s - from.at_s);
        Ok(())
    })?;
    Ok(())
}

/// Returns the guests' memory after it has settled.
fn settled(site: &Site, pace: Pace) -> Reading {
    pace.settle.wait(site.guests());
    Reading::of(site.guests(), true)
}

fn settings(case: &Case, rules: Kind, count: u32, limit_mib: u64, pace: Pace) -> Settings {
    // Without a limit there is room for all guests and their QEMUs.
    let budget_mib = match case.limit {
        Some(_) => limit_mib.max(64),
        None => u64::from(count) * (MEMORY_MIB + 64),
    };
    Settings {
        rules,
        budget_mib,
        set_point_mib: (budget_mib / 5).max(16),
        leaves_ksm: case.ksm,
        page_out_after: case.pages_out.then_some(pace.asleep_after),
    }
}

fn farm(case: &Case, count: u32, limit_mib: u64) -> String {
    let mut limits = String::new();
    let zram = (u64::from(count) * MEMORY_MIB).max(64);
    if case.limit.is_some() {
        limits.push_str(&format!("memory = \"{} MiB\"\n", limit_mib.max(64)));
        limits.push_str(&format!("swap = \"{zram} MiB\"\n"));
    }
    if case.limit.is_some() || case.pages_out {
        limits.push_str(&format!("zram = \"{zram} MiB\"\n"));
    }
    if case.ksm {
        limits.push_str("ksm = true\n");
    }
    let copy = if case.ksm { "" } else { "copy = true\n" };
    let swap = if case.guest_swap { "swap = \"zram:48 MiB\"\n" } else { "" };
    // The process id selects the ports, so another experiment on this machine is unlikely to use
    // the same ports.
    let port = PORTS_FROM + std::process::id() % 20 * PORTS_STEP;
    format!(
        "name = \"penguins\"\n[limits]\n{limits}[[class]]\nname = \"web\"\ncount = {count}\n\
         image = \"web\"\ntemplate = true\nmemory = \"{MEMORY_MIB} MiB\"\n{copy}{swap}\
         ports = [{{ guest = 80, host = {port} }}]\n"
    )
}
