//! The manager of many idle guests: its cost, and the wake-ups that it causes.
//!
//! ```text
//!   pinhead up ── QEMU x 100 ──┬─ a minute alone ───────────────┐
//!        six rounds            └─ a minute under pinhead host, ─┴─► run time and wake-ups
//!                                 next to bare reads of its files   of all virtual CPUs
//! ```
//!
//! The same work takes several times the CPU time when a machine is slow or its caches are cold.
//! Each minute under a manager therefore also has a process of known work: [`crate::baseline`]
//! reads the files that the manager keeps open.
//!
//! This measurement is too expensive for a run with other parts, and runs only on request.

use crate::args::{self, Args};
use crate::baseline;
use crate::clock::{now, sleep_until};
use crate::error::{Error, scratch, write};
use crate::meter::{self, Used};
use crate::subject::Subject;
use crate::table::{Row, figure};
use base::Spread;
use procfs::children;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Promised maximum of CPU use in percent of a core, and of wake-ups relative to wake-ups without a
/// manager.
const CPU_PERCENT: f64 = 0.5;
const WAKE_UPS_RATIO: f64 = 1.05;

/// Guests are settled when two windows of this length differ by little.
const SETTLE_WINDOW: Duration = Duration::from_secs(15);
/// Maximum difference of two windows, as a part of the larger one.
const SETTLED: f64 = 0.1;
/// Part of all cores above which the guests are still booting or settling.
const BUSY: f64 = 0.75;
/// Time limit until the guests have settled. A hundred guests boot on two cores in about five
/// minutes, and settle in five more minutes.
const PATIENCE: Duration = Duration::from_secs(1500);
/// Time for the effects of a manager's start or end to settle.
const CALM: Duration = Duration::from_secs(75);
/// Memory of a guest, as an argument of the command line.
const MEMORY_MIB: &str = "128";

/// Writes settings of a host with enough memory, so that the manager moves nothing.
fn settings(dir: &Path, up: u32) -> Result<PathBuf, Error> {
    let path = dir.join("host.toml");
    let mut places = vec![format!("\"/run/pinhead/up/{up}/*.qmp\"")];
    if let Ok(session) = std::env::var("XDG_RUNTIME_DIR") {
        places.push(format!("\"{session}/pinhead/up/{up}/*.qmp\""));
    }
    let text = format!(
        "[host]\nset_point = \"256 MiB\"\nhysteresis = \"64 MiB\"\nreserve = \"128 MiB\"\n\
         [sources]\nqmp = [{}]\nlibvirt = []\n[ksm]\nmode = \"leave\"\n\
         [journal]\npath = \"{dir}/journal.db\"\n[control]\nsocket = \"{dir}/host.sock\"\n",
        places.join(", "),
        dir = dir.display()
    );
    write(&path, &text)?;
    Ok(path)
}

/// A window without a manager, followed by a window with one.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// The virtual CPUs of all guests, without a manager.
    alone: Used,
    /// The virtual CPUs of all guests, with a manager.
    managed: Used,
    /// The manager.
    manager: Used,
    /// The bare reads, in the manager's window.
    reads: Used,
}

/// Returns the figures.
pub fn rows(args: &Args) -> Result<Vec<Row>, Error> {
    let program = args::program()?;
    let scratch = scratch("idle")?;
    let guests = args.guests;
    let mut up = Command::new(&program);
    up.args(["up", "--idle", "--cpus", "1", "--memory", MEMORY_MIB, "--format", "json"]);
    up.args(["--no-manager", "--guests", &guests.to_string()]);
    let mut up = Subject::start("pinhead up", &mut up, &scratch.path().join("up"))?;
    let qemus = settled(&mut up, guests)?;
    let window = Duration::from_secs(args.seconds.max(60));
    let config = settings(scratch.path(), up.id())?;

    let mut rounds = Vec::new();
    let mut resident_kib = 0;
    for _ in 0..Spread::ENOUGH {
        let alone = over(window, || used(&qemus))?;
        let mut host = Command::new(&program);
        host.arg("host").arg("--config").arg(&config);
        let mut host = Subject::start("pinhead host", &mut host, &scratch.path().join("host"))?;
        sleep_until(now() + CALM);
        let files = host.open_files(&[Path::new("/proc"), Path::new("/sys")])?;
        let log = scratch.path().join("preads");
        let mut reads = Subject::start("preads", &mut baseline::command(&files)?, &log)?;
        let before = (host.used()?, reads.used()?);
        let managed = over(window, || used(&qemus))?;
        let (manager, reads) = (host.used()? - before.0, reads.used()? - before.1);
        resident_kib = host.resident_kib()?;
        rounds.push(Round { alone, managed, manager, reads });
        drop(host);
        sleep_until(now() + CALM);
    }
    let mut rows = figures(&rounds, window.as_secs_f64(), f64::from(guests))?;
    rows.push(Row::plain("the manager's memory", &format!("{resident_kib} KiB")));
    Ok(rows)
}

/// Returns the figures of rounds with windows of this many seconds.
fn figures(rounds: &[Round], seconds: f64, guests: f64) -> Result<Vec<Row>, Error> {
    let of = |value: &dyn Fn(&Round) -> f64| {
        Spread::interval(rounds.iter().map(value))
            .ok_or_else(|| Error::Content { path: "schedstat".into(), what: "time on a CPU" })
    };
    let text = |spread: Spread, digits: usize| {
        let Spread { median, low, high, .. } = spread;
        format!("{median:.digits$} ({low:.digits$} to {high:.digits$})")
    };
    let percent = |used: &Used| used.cpu_ns as f64 / 1e7 / seconds;
    let each = |count: u64| count as f64 / seconds / guests;
    let cpu = of(&|round| percent(&round.manager))?;
    let reads = of(&|round| percent(&round.reads))?;
    let against = of(&|round| round.manager.cpu_ns as f64 / round.reads.cpu_ns as f64)?;
    let dispatches = of(&|round| round.manager.dispatches as f64 / seconds)?;
    // Dispatches of the guests are not used, because they also count preemptions by other
    // processes.
    let ratio = of(&|round| round.managed.sleeps as f64 / round.alone.sleeps as f64)?;
    let name = format!("the manager's CPU time, {guests} idle guests");
    let windows = format!("median and interval of {} windows of {seconds} s", rounds.len());
    Ok(vec![
        Row::promised(&name, figure(cpu.median, 2, " %"), CPU_PERCENT)
            .note(&format!("of one core: {}; {windows}", text(cpu, 2)))
            .note(&format!("dispatches a second: {}", text(dispatches, 1)))
            .note(&format!(
                "bare reads of its files once a second, in the same windows: {} %; the manager \
                 takes {} times as much",
                text(reads, 2),
                text(against, 2)
            )),
        Row::promised(
            "wake-ups of their virtual CPUs, against no manager",
            figure(ratio.median, 2, "x"),
            WAKE_UPS_RATIO,
        )
        .note(&format!("{}; windows with and without a manager in turn", text(ratio, 2)))
        .note(&format!(
            "wake-ups a second of a guest: {} without, {} with a manager",
            text(of(&|round| each(round.alone.sleeps))?, 3),
            text(of(&|round| each(round.managed.sleeps))?, 3)
        ))
        .note(&format!(
            "CPU time of all guests: {} % without, {} % with a manager",
            text(of(&|round| percent(&round.alone))?, 1),
            text(of(&|round| percent(&round.managed))?, 1)
        )),
    ])
}

/// Waits until all guests run and have settled, and returns their processes.
fn settled(up: &mut Subject, guests: u32) -> Result<Vec<u32>, Error> {
    let deadline = now() + PATIENCE;
    let mut before: Option<f64> = None;
    loop {
        up.used()?;
        let qemus = children(up.id()).map_err(|e| Error::file(Path::new("/proc"), e))?;
        let window = over(SETTLE_WINDOW, || used(&qemus))?;
        let rate = window.cpu_ns as f64;
        let is_calm = before.is_some_and(|b| (b - rate).abs() <= SETTLED * b.max(rate));
        // On a saturated machine the CPU use is always steady, also while guests boot.
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let idles = rate / 1e9 < SETTLE_WINDOW.as_secs_f64() * cores * BUSY;
        if is_calm && idles && qemus.len() == guests as usize {
            return Ok(qemus);
        }
        if now() >= deadline {
            let said = format!("{} of {guests} guests run, and do not come to rest", qemus.len());
            return Err(Error::Usage(said));
        }
        before = (qemus.len() == guests as usize).then_some(rate);
    }
}

/// Returns the growth of a reading over a time.
fn over<T: std::ops::Sub<Output = T>>(
    window: Duration,
    mut read: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let start = now();
    let before = read()?;
    sleep_until(start + window);
    Ok(read()? - before)
}

/// Returns the resources used by the virtual CPUs of all guests.
fn used(qemus: &[u32]) -> Result<Used, Error> {
    qemus.iter().map(|pid| meter::used_beside_main(*pid)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    fn used(cpu_ns: u64, sleeps: u64) -> Used {
        Used { cpu_ns, dispatches: 3 * sleeps, sleeps }
    }

    #[test]
    fn figures_are_medians_of_rounds_with_their_ranges() {
        let round = |manager, sleeps| Round {
            alone: used(1_200_000_000, 6_000),
            managed: used(1_200_000_000, sleeps),
            manager: used(manager, 100),
            reads: used(100_000_000, 60),
        };
        let rounds =
            [round(200_000_000, 6_000), round(240_000_000, 6_600), round(900_000_000, 9_000)];
        let mut table = Table::new();
        table.section("", figures(&rounds, 60.0, 100.0));
        let text = table.text();
        for part in
            ["0.40 (0.33 to 1.50)", "2.40 (2.00 to 9.00) times", "2.0 (2.0 to 2.0) % without"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("1.10x   <= 1.05x  MISS"), "{text}");
        assert!(
            text.contains("1.000 (1.000 to 1.000) without, 1.100 (1.000 to 1.500) with"),
            "{text}"
        );
    }
}
