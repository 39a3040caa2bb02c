//! Execution of the phases.

use super::{Case, USUAL, cases, phase};
use crate::load::{Failure, Job, Pattern, Target};
use crate::promotion::Promotion;
use crate::site::inside::Inside;
use crate::site::meter::{Reading, Usage};
use crate::site::{ASLEEP_AFTER, DISK_READS, Guest, HOST_DISK, Settings, Site, jobs};
use crate::{Bench, Error, Measures, bench, clock};
use farm::tiers::can_limit_reads;
use policy::rivals::Kind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const UP_MAX: Duration = Duration::from_secs(300);
const TAR_MAX: Duration = Duration::from_secs(900);
/// Maximum latency of a trivial response in the study.
const TRIVIAL_US: u64 = 200_000;
/// Requests per second to all other guests together.
const PATTERN: Pattern = Pattern::Open { rate: 5.0, in_flight_max: 1000 };
/// Memory of each other guest, the part of the limit for each other guest, and the rest of the
/// limit. All guests share the limit, which includes the QEMUs' own memory. The limit covers a
/// small guest with its cache, 64 MiB of translated code, and the other guests' active memory. The
/// large guest of the full form alone would use twice as much as the limit.
const OTHER_MIB: u32 = 96;
const OTHER_USES_MIB: u32 = 24;
const LIMIT_MIB: u32 = 176;
/// Size of a file of the tar. The files, the archive and the unpacked copy together take three
/// times as much memory as the files alone.
const FILE_KIB: u32 = 256;
/// First host port, and the number of host ports for one process, as in the experiment `penguins`.
const PORTS_FROM: u32 = 10_000;
const PORTS_STEP: u32 = 32;

/// Common properties of all cases.
struct Host {
    /// Number of guests in addition to the guest with the tar.
    others: u32,
    /// Maximum number of pages read back from swap per second; `None` if the kernel cannot limit
    /// the reads.
    disk_reads: Option<u32>,
}

pub fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    let quick = bench.asked.quick;
    let others = bench.asked.guests.unwrap_or(if quick { 1 } else { 3 });
    let (files, rounds, reads) = if quick { (10, 1, 2) } else { (320, 1, 4) };
    let seconds = Duration::from_secs(if quick { 2 } else { 20 });
    let repetitions = bench.asked.repetitions.unwrap_or(if quick { 1 } else { 6 });
    bench.setting("other guests", others)?;
    bench.setting("limit of all guests, MiB", limit_mib(others))?;
    let disk_reads = can_limit_reads().then_some(DISK_READS);
    let text = disk_reads.map_or("no limit".to_owned(), |reads| reads.to_string());
    bench.setting(HOST_DISK, text)?;
    bench.setting("tar, files of 256 KiB", files)?;
    bench.setting("rounds", rounds)?;
    bench.setting("reads of a round", reads)?;
    let job = Job::Tar { files, kib: FILE_KIB, rounds, reads };
    let cases = cases();
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    let names = bench.choose(&names, &USUAL.map(|case| case.name))?;
    bench.rounds(repetitions, &names, |run| {
        let case = cases.iter().find(|case| case.name == run.name());
        case.map_or(Ok(()), |case| one(run, case, &Host { others, disk_reads }, &job, seconds))
    })
}

fn one(
    run: &mut bench::Case<'_, '_>,
    case: &Case,
    host: &Host,
    job: &Job,
    seconds: Duration,
) -> Result<(), Error> {
    let Some(site) = run.start(&farm(case, host), UP_MAX, |_, _| {})? else { return Ok(()) };
    let manager = match case.rules {
        Some(rules) => {
            let settings = settings(rules, u64::from(limit_mib(host.others)));
            let manager = run.manage(phase::MANAGE, &site, &settings, |_, _| Ok(()))?;
            if manager.is_none() {
                return Ok(());
            }
            manager
        }
        None => None,
    };
    let targets = site.targets("web", 80, "/");
    // The start of the last guests paged out memory of the first guests, which must come back
    // before the measurement.
    run.phase(phase::SETTLE, |measures| {
        respond(measures, &targets, seconds, &AtomicBool::new(false))
    })?;
    run.phase(phase::ALONE, |measures| {
        respond(measures, &targets, seconds, &AtomicBool::new(false))
    })?;
    run.phase(phase::TAR, |measures| {
        let (before, began_s) = (Promotion::of(manager.as_ref())?, clock::seconds());
        let done = tar(measures, &site, &targets, job);
        Promotion::note(before, manager.as_ref(), clock::seconds() - began_s, measures)?;
        done
    })?;
    drop(manager);
    Ok(())
}

fn settings(rules: Kind, limit_mib: u64) -> Settings {
    Settings {
        rules,
        budget_mib: limit_mib,
        set_point_mib: limit_mib / 10,
        leaves_ksm: true,
        page_out_after: (rules == Kind::Pinhead).then_some(ASLEEP_AFTER),
    }
}

/// Measures the other guests' responses while the tar runs, and the state of the guest with the
/// tar.
fn tar(measures: &mut Measures, site: &Site, targets: &[Target], job: &Job) -> Result<(), Error> {
    let guest: Vec<Guest> = site.class("job").cloned().collect();
    let Some(Guest { name, .. }) = guest.first() else {
        return Err(Error::Failed("No guest runs the tar".into()));
    };
    let inside = Inside::read(site, name)?;
    let from = Reading::of(&guest, false);
    let all = Reading::of(site.guests(), false);
    let is_over = AtomicBool::new(false);
    let (worked, answered) = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let worked = jobs::inside(site, &guest, job, "/var/tmp", TAR_MAX);
            is_over.store(true, Ordering::Relaxed);
            worked
        });
        let answered = respond(measures, targets, TAR_MAX, &is_over);
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

fn respond(
    measures: &mut Measures,
    targets: &[Target],
    longest: Duration,
    is_over: &AtomicBool,
) -> Result<(), Error> {
    let outcome = jobs::load_until(measures, targets.to_vec(), PATTERN, longest, is_over)?;
    let all = &outcome.all;
    let asked = all.answered + all.failed_all();
    if asked > 0 {
        // A timeout has a latency. Other failures have no latency, and count as slow.
        let others = all.failed_all() - all.failed(Failure::Timeout);
        let slow = all.at_least(TRIVIAL_US) + others;
        let trivial = (asked.saturating_sub(slow)) as f64 / asked as f64 * 100.0;
        measures.note("under 0.2 s", "%", trivial);
    }
    Ok(())
}

fn limit_mib(others: u32) -> u32 {
    LIMIT_MIB + others * OTHER_USES_MIB
}

fn farm(case: &Case, host: &Host) -> String {
    let others = host.others;
    let disk = match host.disk_reads {
        None => "zram = \"512 MiB\"\nswap = \"512 MiB\"".to_owned(),
        Some(reads) => format!("zram = \"1 GiB\"\nzram_reads = {reads}"),
    };
    let swap = match case.swap_mib {
        0 => String::new(),
        mib => format!("swap = \"zram:{mib} MiB\"\n"),
    };
    let limit = limit_mib(others);
    let port = PORTS_FROM + std::process::id() % 300 * PORTS_STEP;
    format!(
        "name = \"swap\"\n[limits]\nmemory = \"{limit} MiB\"\n{disk}\n\
         [[class]]\nname = \"web\"\ncount = {others}\nimage = \"web\"\ntemplate = true\n\
         memory = \"{OTHER_MIB} MiB\"\nports = [{{ guest = 80, host = {port} }}]\n\
         [[class]]\nname = \"job\"\nimage = \"debian-nginx\"\nmemory = \"{} MiB\"\n{swap}\
         memory_min = \"64 MiB\"\n",
        case.memory_mib
    )
}

#[cfg(test)]
mod tests {
    use super::super::{LARGE, SMALL};
    use super::*;

    #[test]
    fn full_form_host_is_short_of_the_large_guests_cache() {
        let (others, files) = (3, 320);
        assert!(limit_mib(others) < 250);
        // The factor is for the files, the archive and the unpacked copy.
        let cache_mib = 3 * files * FILE_KIB / 1024;
        assert!(cache_mib < LARGE.memory_mib, "the large guest keeps all of them");
        assert!(cache_mib > limit_mib(others) - others * OTHER_USES_MIB, "the host cannot");
        assert!(cache_mib > SMALL.memory_mib, "the small one does not");
        let file = farm(&LARGE, &Host { others, disk_reads: None });
        assert!(file.contains("memory = \"248 MiB\"\nzram"), "{file}");
    }
}
