//! The manager next to many idle guests: its cost, and the wake-ups that it causes.
//!
//! ```text
//!   pinhead up ── QEMU x 100 ──┬─ a minute alone ───────────► run time and wake-ups
//!                              └─ a minute under pinhead host ► of all virtual CPUs
//! ```
//!
//! This measurement is too expensive for a run with other parts, and runs only on request.

use crate::args::{self, Args};
use crate::clock::{now, sleep_until};
use crate::error::{Error, scratch, write};
use crate::meter::{self, Used};
use crate::subject::Subject;
use crate::table::{Row, figure};
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
/// Time for the effects of the manager's first requests to settle.
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

    let alone = over(window, || used(&qemus))?;
    let mut host = Command::new(&program);
    host.arg("host").arg("--config").arg(settings(scratch.path(), up.id())?);
    let mut host = Subject::start("pinhead host", &mut host, &scratch.path().join("host"))?;
    sleep_until(now() + CALM);
    let before = host.used()?;
    let managed = over(window, || used(&qemus))?;
    let manager = host.used()? - before;
    let resident_kib = host.resident_kib()?;

    let seconds = window.as_secs_f64();
    let each = |count: u64| count as f64 / seconds / f64::from(guests);
    let percent = |ns: u64| ns as f64 / 1e7 / seconds;
    // Dispatches are not used, because they also count preemptions by other processes.
    let ratio = managed.sleeps as f64 / (alone.sleeps as f64).max(1.0);
    let cpu = percent(manager.cpu_ns);
    let name = format!("the manager's CPU time, {guests} idle guests");
    Ok(vec![
        Row::promised(&name, figure(cpu, 2, " %"), CPU_PERCENT).note(&format!(
            "of one core, in {seconds} s; {:.1} dispatches a second",
            manager.dispatches as f64 / seconds
        )),
        Row::promised(
            "wake-ups of their virtual CPUs, against no manager",
            figure(ratio, 2, "x"),
            WAKE_UPS_RATIO,
        )
        .note(&format!(
            "per guest and second, without and with the manager: wake-ups {:.2} and {:.2}, \
             dispatches {:.2} and {:.2}; CPU time of all guests: {:.1} % and {:.1} %",
            each(alone.sleeps),
            each(managed.sleeps),
            each(alone.dispatches),
            each(managed.dispatches),
            percent(alone.cpu_ns),
            percent(managed.cpu_ns)
        )),
        Row::plain("the manager's memory", &format!("{resident_kib} KiB")),
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
