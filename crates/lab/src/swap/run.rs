//! The phases, carried out.

use super::{CASES, Case, phase};
use crate::site::inside::Inside;
use crate::site::meter::{Reading, Usage};
use crate::site::{Guest, Site, jobs};
use crate::{Bench, Error, Measures, bench};
use load::{Job, Pattern, Target};
use std::time::Duration;

const UP_MAX: Duration = Duration::from_secs(300);
const TAR_MAX: Duration = Duration::from_secs(900);
/// A response within this is a trivial one, as the study counts.
const TRIVIAL_US: u64 = 200_000;
/// Hits a second on all of the others together.
const PATTERN: Pattern = Pattern::Open { rate: 5.0, in_flight_max: 1000 };
/// Memory of each of the others, and how much of the host all guests have together: what the
/// others need and a quarter of the large guest's, QEMUs' own included.
const OTHER_MIB: u32 = 96;
const OTHER_USES_MIB: u32 = 36;
const LIMIT_MIB: u32 = 150;
/// See the same of the wipe.
const PORTS_FROM: u32 = 10_000;
const PORTS_STEP: u32 = 32;

/// Runs it.
pub fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    let quick = bench.asked.quick;
    let others = bench.asked.guests.unwrap_or(if quick { 1 } else { 6 });
    let (files, rounds) = if quick { (10, 1) } else { (160, 3) };
    let seconds = Duration::from_secs(if quick { 2 } else { 20 });
    let repetitions = bench.asked.repetitions.unwrap_or(if quick { 1 } else { 6 });
    bench.setting("other guests", others)?;
    bench.setting("tar, files of 256 KiB", files)?;
    bench.setting("rounds", rounds)?;
    let job = Job::Tar { files, kib: 256, rounds };
    let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    let names = bench.choose(&names, &names)?;
    bench.rounds(repetitions, &names, |run| {
        let case = CASES.iter().find(|case| case.name == run.name());
        case.map_or(Ok(()), |case| one(run, case, others, &job, seconds))
    })
}

fn one(
    run: &mut bench::Case<'_, '_>,
    case: &Case,
    others: u32,
    job: &Job,
    seconds: Duration,
) -> Result<(), Error> {
    let Some(site) = run.start(&farm(case, others), UP_MAX, |_, _| {})? else { return Ok(()) };
    let targets = site.targets("web", 80, "/");
    run.phase(phase::ALONE, |measures| respond(measures, &targets, seconds))?;
    run.phase(phase::TAR, |measures| tar(measures, &site, &targets, job, seconds))?;
    Ok(())
}

/// The others' response while the tar runs again and again, and how its guest is.
fn tar(
    measures: &mut Measures,
    site: &Site,
    targets: &[Target],
    job: &Job,
    seconds: Duration,
) -> Result<(), Error> {
    let guest: Vec<Guest> = site.class("job").cloned().collect();
    let Some(Guest { name, .. }) = guest.first() else {
        return Err(Error::Failed("No guest runs it".into()));
    };
    let inside = Inside::read(site, name)?;
    let from = Reading::of(&guest, false);
    let all = Reading::of(site.guests(), false);
    let (worked, answered) = std::thread::scope(|scope| {
        let work = scope.spawn(|| jobs::inside(site, &guest, job, "/var/tmp", TAR_MAX));
        let answered = respond(measures, targets, seconds);
        (work.join(), answered)
    });
    let to = Reading::of(&guest, false);
    let usage = Usage { from: &from, to: &to };
    measures.note("its CPU", "%", usage.rate(|reading| reading.vcpu_s * 100.0));
    measures.note("its CPU wait", "%", usage.rate(|reading| reading.steal_s * 100.0));
    measures.note("its memory on the host", "MiB", to.resident_mib);
    let after = Reading::of(site.guests(), false);
    let usage = Usage { from: &all, to: &after };
    measures.note("host pages in", "1/s", usage.rate(|reading| reading.swap_in));
    measures.note("host pages out", "1/s", usage.rate(|reading| reading.swap_out));
    Inside::read(site, name)?.note_since(&inside, usage.seconds(), measures);
    let worked = worked.map_err(|_| Error::Failed("The tar has ended in a panic".into()))?;
    for rounds in worked? {
        measures.note("a tar", "s", rounds.iter().sum::<f64>() / rounds.len().max(1) as f64);
    }
    answered
}

fn respond(measures: &mut Measures, targets: &[Target], seconds: Duration) -> Result<(), Error> {
    let outcome = jobs::load(measures, targets.to_vec(), PATTERN, seconds)?;
    let all = &outcome.all;
    let asked = all.answered + all.failed_all();
    if asked > 0 {
        let slow = all.at_least(TRIVIAL_US) + all.failed_all();
        let trivial = (asked.saturating_sub(slow)) as f64 / asked as f64 * 100.0;
        measures.note("under 0.2 s", "%", trivial);
    }
    Ok(())
}

fn farm(case: &Case, others: u32) -> String {
    let swap = match case.swap_mib {
        0 => String::new(),
        mib => format!("swap = \"zram:{mib} MiB\"\n"),
    };
    let limit = LIMIT_MIB + others * OTHER_USES_MIB;
    let port = PORTS_FROM + std::process::id() % 300 * PORTS_STEP;
    format!(
        "name = \"swap\"\n[limits]\nmemory = \"{limit} MiB\"\nzram = \"512 MiB\"\n\
         swap = \"512 MiB\"\n\
         [[class]]\nname = \"web\"\ncount = {others}\nimage = \"web\"\ntemplate = true\n\
         memory = \"{OTHER_MIB} MiB\"\nports = [{{ guest = 80, host = {port} }}]\n\
         [[class]]\nname = \"job\"\nimage = \"debian-nginx\"\nmemory = \"{} MiB\"\n{swap}\
         memory_min = \"64 MiB\"\n",
        case.memory_mib
    )
}
