//! Execution of the phases.

use super::{CLAIM, CLAIMS, OLTP, OLTP_DISK, USUAL, Way, case, phase, ways};
use crate::load::job::{Claim, Job};
use crate::promotion::Promotion;
use crate::site::meter::{Reading, Settle, Usage};
use crate::site::{
    DISK_READS, Guest, HOST_DISK, Manager, NO_PAGE_OUT, Settings, Site, has_page_out, jobs,
};
use crate::{Bench, Error, Measures, bench};
use farm::tiers::can_limit_reads;
use std::time::Duration;

const UP_MAX: Duration = Duration::from_secs(900);
const FILL_MAX: Duration = Duration::from_secs(300);
/// Maximum time for a guest to fill its cache, in seconds. On a host that pages to a disk, a full
/// cache may take longer. Each page of the cache may be read back from the disk before it is
/// overwritten.
const FILL_S: u32 = 60;
const CLAIM_MAX: Duration = Duration::from_secs(300);
/// Memory of a database guest, shared by its buffers and its file cache.
const DATABASE_MIB: u64 = 256;
/// Memory of a guest in the cases of a claim, and the part of this memory that programs can touch.
const TOUCHER_MIB: u64 = 192;
const TOUCH_MIB: u64 = 110;
/// Time after which a nearly idle guest counts as asleep. The phases are too short for the
/// manager's default.
const ASLEEP_AFTER: Duration = Duration::from_secs(10);
/// Part of the limit for one QEMU's own memory, which cannot be reclaimed. A QEMU was measured to
/// take 48 to 51 MiB for itself. It also needs page tables, and memory that the kernel cannot
/// reclaim at the moment. With 40 MiB for each QEMU, the kernel killed a QEMU in one of five runs
/// although swap was nearly empty.
const OWN_MIB: u64 = 64;
/// Memory of QEMU itself for a database guest, measured as 76 to 84 MiB. 64 MiB of this memory are
/// the buffer for translated code.
const DATABASE_OWN_MIB: u64 = 96;
/// Memory that a guest uses in the cases of a claim before its programs touch any.
const BASE_MIB: u64 = 40;

/// Wait before a claim until the other guests are at rest. In the study the guests had freed their
/// memory long before the claim. Guests report free pages only two seconds after the pages became
/// free. Without this wait the result depended on this machine's speed: between 0 and 8,300 pages
/// were swapped out during a claim.
const AT_REST: Settle = Settle { step: Duration::from_secs(3), most: Duration::from_secs(30) };

/// Transactions per second of each guest. The rate is about half of the maximum: without a limit
/// six guests on two CPUs did 45 to 63 transactions a second in total. At full speed all CPU time
/// would be used in any case, so the cost of paging would not show.
const RATE: u32 = 4;
/// Time of load before the measurement. In this time a new manager moves most memory, and paged-out
/// parts of programs become resident again.
const WARM_S: u32 = 60;
/// The reason if a case with paging to a disk cannot be run.
const NO_DISK: &str = "this machine cannot limit reads of zram, which needs Linux 6.3 and \
    `blkio` of cgroups of version 1, or `io` delegated in version 2";

/// Number of statements that a transaction reads. The disk has 60,000 statements of one page each,
/// 234 MiB in total. The guest's memory can cache all statements.
const STATEMENTS: usize = 6;

pub fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    let quick = bench.asked.quick;
    let guests = u64::from(bench.asked.guests.unwrap_or(if quick { 2 } else { 6 }));
    let seconds = if quick { 3 } else { 60 };
    let repetitions = bench.asked.repetitions.unwrap_or(if quick { 1 } else { 6 });
    bench.setting("guests", guests)?;
    bench.setting("transactions, s", seconds)?;
    bench.setting("transactions a guest, 1/s", RATE)?;
    bench.setting("transactions before, s", seconds.min(WARM_S))?;
    bench.setting("a claim waits for memory at rest, steps of s", AT_REST.step.as_secs())?;
    bench.setting("statements a transaction", STATEMENTS as u64)?;
    bench.setting(HOST_DISK, DISK_READS)?;
    bench.setting("reads of its own disk a guest there, 1/s", own_disk_reads(guests))?;
    let all = ways();
    let named = |what| all.iter().map(move |way| (case(what, way.name), what, way));
    let cases: Vec<(String, &str, &Way)> =
        named(CLAIM).chain(named(OLTP_DISK)).chain(named(OLTP)).collect();
    let names: Vec<&str> = cases.iter().map(|(name, ..)| name.as_str()).collect();
    let is_usual = |what: &str, way: &Way| what != OLTP_DISK && USUAL.contains(way);
    let usual = cases.iter().filter(|(_, what, way)| is_usual(what, way));
    let usual = usual.map(|(name, ..)| name.as_str());
    let names = bench.choose(&names, &usual.collect::<Vec<_>>())?;
    let needs_page_out =
        |name: &str| cases.iter().any(|(case, _, way)| case == name && way.page_out);
    let is_impossible = |name: &str| needs_page_out(name) && !has_page_out();
    let names = bench.leave_out(names, is_impossible, NO_PAGE_OUT);
    let needs_disk =
        |name: &str| cases.iter().any(|(case, what, _)| case == name && *what == OLTP_DISK);
    let is_impossible = |name: &str| needs_disk(name) && !can_limit_reads();
    let names = bench.leave_out(names, is_impossible, NO_DISK);
    bench.rounds(repetitions, &names, |run| {
        match cases.iter().find(|(name, ..)| name == run.name()) {
            Some((_, OLTP, way)) => oltp(run, way, None, guests, seconds),
            Some((_, OLTP_DISK, way)) => oltp(run, way, Some(DISK_READS), guests, seconds),
            Some((_, _, way)) => claim(run, way, guests),
            None => Ok(()),
        }
    })
}

/// Starts a farm, and its manager if this way has one.
fn start(
    run: &mut bench::Case<'_, '_>,
    way: &Way,
    farm: &str,
    limit_mib: u64,
) -> Result<Option<(Site, Option<Manager>)>, Error> {
    let site = run.start(farm, UP_MAX, |site, measures| {
        measures.note("limit", "MiB", way.limited.then_some(limit_mib as f64));
        Reading::of(site.guests(), false).note(measures);
    })?;
    let Some(site) = site else { return Ok(None) };
    let Some(rules) = way.rules else { return Ok(Some((site, None))) };
    let settings = Settings {
        rules,
        budget_mib: limit_mib,
        set_point_mib: limit_mib / 10,
        leaves_ksm: true,
        page_out_after: way.page_out.then_some(ASLEEP_AFTER),
    };
    let manager = run.manage(phase::MANAGE, &site, &settings, |_, _| Ok(()))?;
    Ok(manager.map(|manager| (site, Some(manager))))
}

fn oltp(
    run: &mut bench::Case<'_, '_>,
    way: &Way,
    disk_reads: Option<u32>,
    guests: u64,
    seconds: u32,
) -> Result<(), Error> {
    // The host has half of the memory that the guests see, plus memory for the QEMUs themselves.
    let limit_mib = guests * (DATABASE_MIB / 2 + DATABASE_OWN_MIB);
    let farm = format!(
        "name = \"oltp\"\n{}[[class]]\nname = \"db\"\ncount = {guests}\n\
         image = \"debian-postgres\"\nmemory = \"{DATABASE_MIB} MiB\"\nmemory_min = \"96 MiB\"\n\
         cpus = 2\npage_reporting = {}\nargs = [\"pinhead.shared_mib=48\"]\n\
         disk_cache = \"none\"\n{}",
        limits(way, limit_mib, disk_reads),
        way.reporting,
        disk_reads
            .map(|_| format!("disk_reads = {}\n", own_disk_reads(guests)))
            .unwrap_or_default()
    );
    let Some((site, manager)) = start(run, way, &farm, limit_mib)? else { return Ok(()) };
    // The guest's file cache then fills the remaining memory, as on a server that has run for a
    // long time.
    run.phase(phase::FILL, |measures| {
        let fill = format!(
            "timeout {FILL_S} dd if=/dev/vda of=/dev/null bs=1M count=220 2> /dev/null \
             || [ $? -eq 124 ]"
        );
        everywhere(&site, |_| fill.clone(), FILL_MAX)?;
        Reading::of(site.guests(), false).note(measures);
        Ok(())
    })?;
    // In one round, the transactions of all ways use the same rows in the same order.
    let seed = run.seed();
    let warm = run.phase(phase::WARM, |measures| {
        let mut latencies_ms = transactions(&site, seed, seconds.min(WARM_S))?;
        note_latencies(measures, &mut latencies_ms);
        Ok(())
    })?;
    if warm.is_none() {
        return Ok(());
    }
    run.phase(phase::LOAD, |measures| {
        let before = Promotion::of(manager.as_ref())?;
        let from = Reading::of(site.guests(), false);
        let mut latencies_ms = transactions(&site, seed, seconds)?;
        let to = Reading::of(site.guests(), false);
        note_latencies(measures, &mut latencies_ms);
        let done = latencies_ms.len() as f64;
        measures.note("transactions", "1/s", done / f64::from(seconds));
        let asked = f64::from(RATE * seconds) * site.guests().len() as f64;
        measures.note("done of those asked for", "%", done / asked * 100.0);
        let cpu_ms = (to.cpu_s - from.cpu_s) * 1000.0;
        measures.note("CPU a transaction", "ms", (done > 0.0).then(|| cpu_ms / done));
        let usage = Usage { from: &from, to: &to };
        usage.note(measures);
        Promotion::note(before, manager.as_ref(), usage.seconds(), measures)?;
        note_balloon(measures, manager.as_ref())
    })?;
    Ok(())
}

fn claim(run: &mut bench::Case<'_, '_>, way: &Way, guests: u64) -> Result<(), Error> {
    // The limit covers all memory touched by the guests, and the claiming guest at rest.
    let limit_mib = guests * (BASE_MIB + TOUCH_MIB + OWN_MIB) + BASE_MIB + OWN_MIB;
    let class = |class: &str, count: u64, memory: u64| {
        format!(
            "[[class]]\nname = \"{class}\"\ncount = {count}\nimage = \"tiny\"\n\
             memory = \"{memory} MiB\"\nmemory_min = \"64 MiB\"\npage_reporting = {}\n",
            way.reporting
        )
    };
    let farm = format!(
        "name = \"claim\"\n{}{}{}",
        limits(way, limit_mib, None),
        class("toucher", guests, TOUCHER_MIB),
        class("claimer", 1, TOUCHER_MIB + 64)
    );
    let Some((site, manager)) = start(run, way, &farm, limit_mib)? else { return Ok(()) };
    let touchers: Vec<Guest> = site.class("toucher").cloned().collect();
    let claimers: Vec<Guest> = site.class("claimer").cloned().collect();
    let job = |guests, job, limit| jobs::inside(&site, guests, &job, "/tmp", limit);
    for (size, mib) in CLAIMS {
        // Before each claim the other guests are in the same state: all of their memory was
        // touched, and is free.
        let touched = run.phase(phase::FILL, |measures| {
            job(&touchers, Job::Claim { mib: TOUCH_MIB, claim: Claim::Held }, FILL_MAX)?;
            job(&touchers, Job::Release, FILL_MAX)?;
            AT_REST.wait(site.guests());
            Reading::of(site.guests(), false).note(measures);
            Ok(())
        })?;
        if touched.is_none() {
            continue;
        }
        run.phase(size, |measures| {
            let from = Reading::of(site.guests(), false);
            let times = job(&claimers, Job::Claim { mib, claim: Claim::Held }, CLAIM_MAX)?;
            let to = Reading::of(site.guests(), false);
            measures.note("claim", "s", times.iter().flatten().sum::<f64>());
            measures.note("pages out", "", to.swap_out - from.swap_out);
            note_balloon(measures, manager.as_ref())?;
            job(&claimers, Job::Release, CLAIM_MAX)?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns a pgbench script with one transaction of an application server.
fn script() -> String {
    let accounts: String =
        (0..STATEMENTS).map(|n| format!("\\set s{n} random(1, 60000)\n")).collect();
    let list: Vec<String> = (0..STATEMENTS).map(|n| format!(":s{n}")).collect();
    format!(
        "\\set aid random(1, 200000)\n\\set delta random(-5000, 5000)\n{accounts}BEGIN;\n\
         UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
         SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\
         SELECT sum(length(lines)) FROM statements WHERE aid IN ({});\n\
         INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
         VALUES (1, 1, :aid, :delta, CURRENT_TIMESTAMP);\nEND;\n",
        list.join(", ")
    )
}

/// Runs transactions in all guests at their rate for this long. Returns the latency of each
/// transaction in ms, measured from its due time.
fn transactions(site: &Site, seed: u64, seconds: u32) -> Result<Vec<f64>, Error> {
    let script: Vec<String> = script().lines().map(base::shell_word).collect();
    let line = |guest: usize| {
        // With equal seeds all guests would work and rest at the same moments.
        let seed = seed.wrapping_add(guest as u64);
        format!(
            "rm -f /tmp/oltp.*; printf '%s\\n' {} > /tmp/oltp.sql && \
             PGPASSWORD=$(cat /run/pinhead/database-password) \
             $(ls -d /usr/lib/postgresql/*/bin /usr/lib/pinhead/postgres-bin 2> /dev/null | \
             while read d; do [ -x $d/pgbench ] && echo $d/pgbench && break; done) \
             -n -c 2 -T {seconds} --rate={RATE} --random-seed={seed} --log \
             --log-prefix=/tmp/oltp.log -f /tmp/oltp.sql -h 127.0.0.1 -U pinhead pinhead \
             > /tmp/oltp.out 2>&1 || {{ cat /tmp/oltp.out; exit 1; }}; cat /tmp/oltp.log*",
            script.join(" ")
        )
    };
    let outputs = everywhere(site, line, Duration::from_secs(u64::from(seconds) + 120))?;
    let mut all_ms = Vec::new();
    for (guest, output) in site.guests().iter().zip(&outputs) {
        let of_guest = output.lines().map(latency_ms).collect::<Option<Vec<f64>>>();
        match of_guest.filter(|of_guest| !of_guest.is_empty()) {
            Some(of_guest) => all_ms.extend(of_guest),
            None => {
                let said = output.trim_end().chars().take(400).collect::<String>();
                return Err(Error::Failed(format!("{} logged no latencies: {said}", guest.name)));
            }
        }
    }
    Ok(all_ms)
}

/// Runs a command line in all guests at once, and returns their outputs. `line` depends on the
/// guest's index.
fn everywhere(
    site: &Site,
    line: impl Fn(usize) -> String,
    limit: Duration,
) -> Result<Vec<String>, Error> {
    std::thread::scope(|scope| {
        let run = |(at, guest): (usize, &'_ Guest)| {
            let (name, line) = (guest.name.clone(), line(at));
            scope.spawn(move || site.sh(&name, &line, limit))
        };
        let threads: Vec<_> = site.guests().iter().enumerate().map(run).collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().map_err(|_| Error::Failed("A command has ended in a panic".into()))?
        });
        joined.collect()
    })
}

/// Returns a transaction's latency in ms, from the third field of a line of pgbench's log, in us.
fn latency_ms(line: &str) -> Option<f64> {
    let us: u64 = line.split_ascii_whitespace().nth(2)?.parse().ok()?;
    Some(us as f64 / 1000.0)
}

fn note_latencies(measures: &mut Measures, all_ms: &mut [f64]) {
    all_ms.sort_by(f64::total_cmp);
    let at = |part: f64| all_ms.get((all_ms.len() as f64 * part) as usize).copied();
    let mean = all_ms.iter().sum::<f64>() / all_ms.len() as f64;
    measures.note("average", "ms", mean);
    measures.note("p50", "ms", at(0.5));
    measures.note("p95", "ms", at(0.95));
}

fn note_balloon(measures: &mut Measures, manager: Option<&Manager>) -> Result<(), Error> {
    if let Some(manager) = manager {
        measures.note("left by the balloon, a guest", "MiB", manager.left_mib()?);
    }
    Ok(())
}

/// Returns the limit of reads per second for one guest's disk. If the host pages to a disk, the
/// disks of all guests together have the same limit as the host's disk.
fn own_disk_reads(guests: u64) -> u64 {
    u64::from(DISK_READS) / guests
}

/// Returns the farm's limits. If the host pages to a disk, `disk_reads` limits the number of pages
/// that it reads back per second.
fn limits(way: &Way, limit_mib: u64, disk_reads: Option<u32>) -> String {
    if !way.limited {
        return String::new();
    }
    let swap = match disk_reads {
        None => "zram = \"1 GiB\"\nswap = \"2 GiB\"".to_owned(),
        Some(reads) => format!("zram = \"3 GiB\"\nzram_reads = {reads}"),
    };
    format!("[limits]\nmemory = \"{limit_mib} MiB\"\n{swap}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_read_from_the_log_of_pgbench() {
        assert_eq!(latency_ms("0 12 48250 0 1790123456 123456 17"), Some(48.25));
        assert_eq!(latency_ms("pgbench: error: connection failed"), None);
        let mut measures = Measures::default();
        note_latencies(&mut measures, &mut (1..=100).rev().map(f64::from).collect::<Vec<_>>());
        let found: Vec<(&str, f64)> =
            measures.0.iter().map(|one| (one.name.as_str(), one.value)).collect();
        assert_eq!(found, [("average", 50.5), ("p50", 51.0), ("p95", 96.0)]);
    }
}
