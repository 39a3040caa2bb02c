//! Many real web servers from one template: the times until all have answered and until all have
//! ended, their memory, and their idle CPU time.
//!
//! The figures come from two cases of the experiment `penguins`: servers that share equal pages,
//! and servers that are squeezed. These cases take too long to run with the other parts, and run
//! only on request.

use crate::args::{self, Args};
use crate::error::{Error, scratch};
use crate::table::{Row, figure};
use lab::site::Tools;
use lab::{Asked, Bench, Outcome, catalog, outcome};
use std::path::Path;

/// The promises.
const ANSWER_S: f64 = 30.0;
const SHARED_MB: f64 = 35.0;
const SQUEEZED_MB: f64 = 18.0;
const IDLE_PERCENT: f64 = 0.2;
const DOWN_S: f64 = 5.0;

const SHARED: &str = "sharing";
const SQUEEZED: &str = "squeezed";
/// Directory of the farms' sockets if root runs `pinhead up`. Only root can limit guests.
const FARMS: &str = "/run/pinhead/up";
/// Factor from MiB, the unit of experiments, to millions of bytes, the unit of promises.
const MB: f64 = 1.048_576;

pub fn rows(args: &Args) -> Result<Vec<Row>, Error> {
    let scratch = scratch("farm")?;
    let outcome = penguins(args.guests, scratch.path())?;
    let of = |case, phase, measure| {
        let missing = || Error::Usage(format!("{measure}: {}", outcome.failures().join("; ")));
        outcome.median(case, phase, measure).ok_or_else(missing)
    };
    let shared = |phase, measure| of(SHARED, phase, measure);
    let squeezed = |phase, measure| of(SQUEEZED, phase, measure);
    let held = "memory a guest, shared";
    let started_ms = shared("start", "CPU to start one")? * 1000.0;
    let unshared_mb = shared("start", held)? * MB;
    let (cpu, own) =
        (shared("idle", "CPU a guest")?, shared("idle", "CPU of pinhead up, a guest")?);
    let dispatches = shared("idle", "wake-ups of its QEMU")? / 60.0;
    let page_ms = |phase| Ok::<f64, Error>(squeezed(phase, "average")? * 1000.0);
    let (first, second) = (page_ms("first wipe")?, page_ms("second wipe")?);
    let row = |name: &str, value, digits, unit, at_most| {
        Row::promised(name, figure(value, digits, unit), at_most)
    };
    let answered = format!("{} web servers have answered", args.guests);
    Ok(vec![
        row(&answered, shared("start", "all answer after")?, 1, " s", ANSWER_S).note(&format!(
            "since the start of the command; starting a guest took {started_ms:.0} ms of CPU"
        )),
        row("host memory a guest, shared", shared("idle", held)? * MB, 1, " MB", SHARED_MB)
            .note(&format!("proportional size; {unshared_mb:.1} MB right after the start")),
        row("idle CPU a guest, with pinhead's own", cpu + own, 3, " %", IDLE_PERCENT).note(
            &format!(
                "of one core: QEMU {cpu:.3} %, pinhead {own:.3} %; {dispatches:.2} dispatches/s"
            ),
        ),
        row(
            "resident memory a guest, squeezed",
            squeezed("idle after", held)? * MB,
            1,
            " MB",
            SQUEEZED_MB,
        )
        .note(&format!(
            "under a memory limit, with compressed memory. Then each server was requested \
             twice: a page took {first:.0} ms the first time, {second:.0} ms the second"
        )),
        row("time until all guests have ended", shared("end", "took")?, 2, " s", DOWN_S),
    ])
}

/// Runs the experiment. The result of a phase is printed as soon as the phase is over.
fn penguins(guests: u32, out: &Path) -> Result<Outcome, Error> {
    let asked = Asked {
        quick: false,
        guests: Some(guests),
        repetitions: Some(1),
        requests: None,
        sizes: None,
        cases: [SHARED, SQUEEZED].map(str::to_owned).to_vec(),
        out: out.to_path_buf(),
        tools: Tools { program: args::program()?, farms: FARMS.into() },
    };
    let head = Outcome {
        format: outcome::FORMAT,
        experiment: catalog::PENGUINS.name.to_owned(),
        ..Outcome::default()
    };
    let mut say = |line: &str| eprintln!("{line}");
    let mut bench = Bench::new(asked, head, catalog::PENGUINS.view, &mut say);
    (catalog::PENGUINS.run)(&mut bench)?;
    Ok(bench.outcome().clone())
}
