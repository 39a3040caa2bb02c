//! The phases, carried out.

use super::{CLAIM, CLAIMS, OLTP, USUAL, Way, case, phase, ways};
use crate::site::meter::{Reading, Usage};
use crate::site::{Guest, Manager, NO_PAGE_OUT, Settings, Site, has_page_out, jobs};
use crate::{Bench, Error, Measures, bench};
use load::job::{Claim, Job};
use std::time::Duration;

const UP_MAX: Duration = Duration::from_secs(900);
const FILL_MAX: Duration = Duration::from_secs(300);
const CLAIM_MAX: Duration = Duration::from_secs(300);
/// Memory of a database guest, of which its buffers have a part and its file cache the rest.
const DATABASE_MIB: u64 = 256;
/// Memory of a guest of the claim, and what of it can be touched beside its kernel.
const TOUCHER_MIB: u64 = 192;
const TOUCH_MIB: u64 = 110;
/// A guest that has hardly run for so long sleeps: phases are shorter than the manager's default.
const ASLEEP_AFTER: Duration = Duration::from_secs(10);
/// What a QEMU has of its own, which nobody can take: 48 to 51 are measured, and a few of page
/// tables and what the kernel cannot take at the moment. With 40 it killed one, once in five runs,
/// while its swap was nearly empty.
const OWN_MIB: u64 = 64;
/// What of a claimed guest's memory is in use before anything is touched.
const BASE_MIB: u64 = 40;

/// One transaction, as an application server makes it; the line goes to pgbench.
const SCRIPT: &str = "\\set aid random(1, 200000)\n\\set delta random(-5000, 5000)\nBEGIN;\n\
    UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
    SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\
    INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
    VALUES (1, 1, :aid, :delta, CURRENT_TIMESTAMP);\nEND;\n";

/// Runs it.
pub fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    let quick = bench.asked.quick;
    let guests = u64::from(bench.asked.guests.unwrap_or(if quick { 2 } else { 6 }));
    let seconds = if quick { 3 } else { 30 };
    let repetitions = bench.asked.repetitions.unwrap_or(if quick { 1 } else { 6 });
    bench.setting("guests", guests)?;
    bench.setting("transactions, s", seconds)?;
    let all = ways();
    let named = |what| all.iter().map(move |way| (case(what, way.name), what, way));
    let cases: Vec<(String, &str, &Way)> = named(CLAIM).chain(named(OLTP)).collect();
    let names: Vec<&str> = cases.iter().map(|(name, ..)| name.as_str()).collect();
    let is_usual = |way: &Way| USUAL.contains(way);
    let usual = cases.iter().filter(|(.., way)| is_usual(way)).map(|(name, ..)| name.as_str());
    let names = bench.choose(&names, &usual.collect::<Vec<_>>())?;
    let needs_page_out =
        |name: &str| cases.iter().any(|(case, _, way)| case == name && way.page_out);
    let is_impossible = |name: &str| needs_page_out(name) && !has_page_out();
    let names = bench.leave_out(names, is_impossible, NO_PAGE_OUT);
    bench.rounds(repetitions, &names, |run| {
        match cases.iter().find(|(name, ..)| name == run.name()) {
            Some((_, OLTP, way)) => oltp(run, way, guests, seconds),
            Some((_, _, way)) => claim(run, way, guests),
            None => Ok(()),
        }
    })
}

/// A farm that is up, and its manager if this way has one.
fn start(
    run: &mut bench::Case<'_, '_>,
    way: &Way,
    farm: &str,
    limit_mib: u64,
) -> Result<Option<(Site, Option<Manager>)>, Error> {
    let site = run.start(farm, UP_MAX, |site, measures| {
        measures.note("limit", "MiB", limit_mib as f64);
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

fn oltp(run: &mut bench::Case<'_, '_>, way: &Way, guests: u64, seconds: u32) -> Result<(), Error> {
    // Twice overcommitted: half of what the guests think they have.
    let limit_mib = guests * (DATABASE_MIB / 2 + OWN_MIB);
    let farm = format!(
        "name = \"oltp\"\n{}[[class]]\nname = \"db\"\ncount = {guests}\n\
         image = \"debian-postgres\"\nmemory = \"{DATABASE_MIB} MiB\"\nmemory_min = \"96 MiB\"\n\
         cpus = 2\npage_reporting = {}\nargs = [\"pinhead.shared_mib=48\"]\n",
        limits(limit_mib),
        way.reporting
    );
    let Some((site, manager)) = start(run, way, &farm, limit_mib)? else { return Ok(()) };
    // The file cache fills what the buffers leave, as it does on a server that lives long.
    run.phase(phase::FILL, |measures| {
        let fill = "dd if=/dev/vda of=/dev/null bs=1M count=220 2> /dev/null";
        everywhere(&site, fill, FILL_MAX)?;
        Reading::of(site.guests(), false).note(measures);
        Ok(())
    })?;
    // The same rows in the same order for all ways of a round.
    let seed = run.seed();
    run.phase(phase::LOAD, |measures| {
        let script: Vec<String> = SCRIPT.lines().map(base::shell_word).collect();
        let line = format!(
            "printf '%s\\n' {} > /tmp/oltp.sql && \
             PGPASSWORD=$(cat /run/pinhead/database-password) \
             $(ls -d /usr/lib/postgresql/*/bin /usr/lib/pinhead/postgres-bin 2> /dev/null | \
             while read d; do [ -x $d/pgbench ] && echo $d/pgbench && break; done) \
             -n -c 2 -T {seconds} --random-seed={seed} \
             -f /tmp/oltp.sql -h 127.0.0.1 -U pinhead pinhead 2>&1",
            script.join(" ")
        );
        let from = Reading::of(site.guests(), false);
        let outputs = everywhere(&site, &line, Duration::from_secs(u64::from(seconds) + 120))?;
        let to = Reading::of(site.guests(), false);
        let rates: Vec<f64> = outputs.iter().filter_map(|text| rate(text)).collect();
        if rates.len() < site.guests().len() {
            return Err(Error::Failed(format!(
                "{} of {} guests reported a rate; the output of one: {}",
                rates.len(),
                site.guests().len(),
                outputs.first().map_or("", |text| text.trim_end())
            )));
        }
        measures.note("transactions", "1/s", rates.iter().sum::<f64>());
        measures.note("the slowest guest", "1/s", rates.iter().copied().fold(f64::MAX, f64::min));
        Usage { from: &from, to: &to }.note(measures);
        note_balloon(measures, manager.as_ref())
    })?;
    Ok(())
}

fn claim(run: &mut bench::Case<'_, '_>, way: &Way, guests: u64) -> Result<(), Error> {
    // All that the guests have when they have touched it, and the one that claims at rest.
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
        limits(limit_mib),
        class("toucher", guests, TOUCHER_MIB),
        class("claimer", 1, TOUCHER_MIB + 64)
    );
    let Some((site, manager)) = start(run, way, &farm, limit_mib)? else { return Ok(()) };
    let touchers: Vec<Guest> = site.class("toucher").cloned().collect();
    let claimers: Vec<Guest> = site.class("claimer").cloned().collect();
    let job = |guests, job, limit| jobs::inside(&site, guests, &job, "/tmp", limit);
    for (size, mib) in CLAIMS {
        // Each claim finds the others as the first did: all of their memory touched, and free.
        let touched = run.phase(phase::FILL, |measures| {
            job(&touchers, Job::Claim { mib: TOUCH_MIB, claim: Claim::Held }, FILL_MAX)?;
            job(&touchers, Job::Release, FILL_MAX)?;
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

/// Runs a line in all guests at once and gives their outputs.
fn everywhere(site: &Site, line: &str, limit: Duration) -> Result<Vec<String>, Error> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = site
            .guests()
            .iter()
            .map(|guest| scope.spawn(move || site.sh(&guest.name, line, limit)))
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().map_err(|_| Error::Failed("A command has ended in a panic".into()))?
        });
        joined.collect()
    })
}

/// Transactions a second, as pgbench prints them.
fn rate(text: &str) -> Option<f64> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("tps = "))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn note_balloon(measures: &mut Measures, manager: Option<&Manager>) -> Result<(), Error> {
    if let Some(manager) = manager {
        measures.note("left by the balloon, a guest", "MiB", manager.left_mib()?);
    }
    Ok(())
}

fn limits(limit_mib: u64) -> String {
    format!("[limits]\nmemory = \"{limit_mib} MiB\"\nzram = \"1 GiB\"\nswap = \"2 GiB\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_the_output_of_pgbench() {
        let text = "number of transactions actually processed: 12\nlatency average = 3.1 ms\n\
                    tps = 123.456 (without initial connection time)\n";
        assert_eq!(rate(text), Some(123.456));
        assert_eq!(rate("tps = many\n"), None);
        assert_eq!(rate(""), None);
    }
}
