//! The running daemon against bare reads of its files, and against the original.
//!
//! ```text
//!   second:     |daemon      |preads      |original    |daemon ...
//!   phase:       0            1/3          2/3
//! ```
//!
//! All processes run on the same CPU once a second, as far apart as possible. Each process
//! therefore finds the CPU's caches as another of these processes left them. The CPU time of all
//! processes is sampled at the same moments. Each window gives one ratio, and the median counts.

use crate::args::{self, Args};
use crate::baseline;
use crate::clock::{now, sleep_until};
use crate::error::Error;
use crate::meter::Used;
use crate::original;
use crate::scene::Scene;
use crate::subject::Subject;
use crate::table::{Row, figure};
use base::Spread;
use pinheadd::plug::Cpus;
use procfs::Root;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The promises.
const PREADS_RATIO: f64 = 1.25;
const ORIGINAL_RATIO: f64 = 0.5;
const BEFORE_RATIO: f64 = 1.0;
const RESIDENT_KIB: f64 = 600.0;
const WAKE_UPS: f64 = 1.05;

/// Length of a window in seconds, which is also its number of intervals.
const WINDOW_S: u64 = 5;
/// Time until the histories of all processes are full, plus a few intervals.
const WARM_UP: Duration = Duration::from_millis(9_850);

/// Returns rows for figures that this machine cannot measure.
pub fn elsewhere() -> Vec<Row> {
    vec![
        Row::skipped("resident memory, s390x", "measured in a guest: docs/benchmarks.md"),
        Row::skipped(
            "the manager's CPU time, 100 idle guests",
            "needs 40 minutes and 15 GiB of memory: `make bench ARGS=\"--only idle\"`",
        ),
        Row::skipped(
            "wake-ups a minute of an idle guest under a host",
            "measured with a guest and its host: `cargo test -p e2e`",
        ),
    ]
}

/// Returns the figures. `cpu` is the CPU on which all processes run.
pub fn rows(args: &Args, guest_dir: &Path, cpu: usize) -> Result<Vec<Row>, Error> {
    let online = Cpus::new(&Root::default()).online().map_err(Error::Cpus)?;
    let scene = &Scene::new(online.len())?;
    let program = guest_dir.join("x86_64/pinheadd");
    let original = args::path("ORIGINAL").map(|path| original::command(&path, &scene.rules()));
    let before = args::path("BEFORE").map(|path| daemon(&path, scene, "run-before"));
    let others = [("the original", original, ORIGINAL_RATIO), ("BEFORE", before, BEFORE_RATIO)];

    let start = now();
    let mut ours = daemon(&program, scene, "run");
    let mut ours = Subject::start("daemon", &mut ours, &scene.path("daemon.log"))?;
    // Each process starts at its own phase of the second, as far from the others as possible.
    let count = 2 + others.iter().filter(|(_, command, _)| command.is_some()).count();
    let apart = Duration::from_secs(1) / count as u32;
    let mut next = start + Duration::from_secs(1) + apart;
    sleep_until(next);
    let root = scene.root();
    let files = ours.open_files(&[Path::new("/proc"), Path::new("/sys"), &root])?;
    let preads =
        Subject::start("preads", &mut baseline::command(&files)?, &scene.path("preads.log"))?;
    let mut subjects = vec![ours, preads];
    let mut started = Vec::new();
    for (name, command, at_most) in others {
        let Some(mut command) = command else { continue };
        next += apart;
        sleep_until(next);
        let subject = Subject::start(name, &mut command, &scene.path(&format!("{name}.log")));
        let place = subject.map(|subject| {
            subjects.push(subject);
            subjects.len() - 1
        });
        started.push((name, place, at_most));
    }
    let windows = watch(&mut subjects, start + WARM_UP, args.seconds / WINDOW_S)?;

    let list = files.iter().map(|f| short(f, &root)).collect::<Vec<_>>().join(" ");
    let row = ratio("CPU time against bare preads", &windows, 1, PREADS_RATIO)?
        .note(&format!("read by both: {list}"))
        .note(&format!("all on CPU {cpu}, at the same time"));
    let mut rows = vec![row];
    if args::path("ORIGINAL").is_none() {
        let why = "ORIGINAL must contain the path of IBM's cpuplugd";
        rows.push(Row::skipped("CPU time against the original", why));
    }
    let resident = figure(subjects[0].resident_kib()? as f64, 0, " KiB");
    let mut memory = vec![Row::promised("resident memory, x86_64", resident, RESIDENT_KIB)];
    for (name, place, at_most) in started {
        let title = format!("CPU time against {name}");
        match place {
            Ok(at) => {
                rows.push(ratio(&title, &windows, at, at_most)?);
                let resident = format!("{} KiB", subjects[at].resident_kib()?);
                memory.push(Row::plain(&format!("resident memory of {name}"), &resident));
            }
            Err(error) => rows.push(Row::failed(&title, &error)),
        }
    }
    rows.extend(memory);
    rows.push(wake_ups(&windows));
    Ok(rows)
}

fn daemon(program: &Path, scene: &Scene, run_dir: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--foreground", "--dry-run", "--pace", "fixed", "--config"]).arg(scene.rules());
    command.arg("--root").arg(scene.root()).arg("--run-dir").arg(scene.path(run_dir));
    command
}

/// Returns the resources used by each subject in each window.
fn watch(subjects: &mut [Subject], start: Instant, windows: u64) -> Result<Vec<Vec<Used>>, Error> {
    let mut sample = |at: Instant| -> Result<Vec<Used>, Error> {
        sleep_until(at);
        subjects.iter_mut().map(Subject::used).collect()
    };
    let mut before = sample(start)?;
    let mut all = Vec::new();
    for window in 1..=windows {
        let after = sample(start + Duration::from_secs(window * WINDOW_S))?;
        all.push(after.iter().zip(&before).map(|(after, before)| *after - *before).collect());
        before = after;
    }
    Ok(all)
}

/// Returns the ratio of the daemon's CPU time to the CPU time of another process: the median of all
/// windows.
fn ratio(name: &str, windows: &[Vec<Used>], other: usize, at_most: f64) -> Result<Row, Error> {
    let of = |value: &dyn Fn(&[Used]) -> f64| {
        Spread::of(windows.iter().map(|window| value(window)))
            .ok_or_else(|| Error::Content { path: "schedstat".into(), what: "time on a CPU" })
    };
    let micros = |index: usize| {
        of(&move |window: &[Used]| window[index].cpu_ns as f64 / 1e3 / WINDOW_S as f64)
    };
    let Spread { median, low, high, count } =
        of(&|window| window[0].cpu_ns as f64 / window[other].cpu_ns as f64)?;
    let (ours, theirs) = (micros(0)?, micros(other)?);
    Ok(Row::promised(name, figure(median, 2, "x"), at_most)
        .note(&format!("median of {count} windows of {WINDOW_S} s, from {low:.2}x to {high:.2}x"))
        .note(&format!(
            "CPU per interval: the daemon {:.0} µs ({:.0}-{:.0}), the other {:.0} µs ({:.0}-{:.0})",
            ours.median, ours.low, ours.high, theirs.median, theirs.low, theirs.high
        )))
}

fn wake_ups(windows: &[Vec<Used>]) -> Row {
    let intervals = windows.len() as f64 * WINDOW_S as f64;
    let sum = |index: usize, of: fn(&Used) -> u64| {
        windows.iter().map(|window| of(&window[index]) as f64).sum::<f64>() / intervals
    };
    let value = sum(0, |used| used.sleeps);
    let dispatches = sum(0, |used| used.dispatches);
    let bare = sum(1, |used| used.sleeps);
    Row::promised(
        "wake-ups an interval, --pace fixed",
        figure(value, 2, ""),
        WAKE_UPS,
    )
    .note(&format!(
        "mean of {intervals} intervals; dispatches {dispatches:.2}; bare preads: {bare:.2} wake-ups"
    ))
}

/// Returns a file's path without the directory that replaces `/`.
fn short(path: &Path, root: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(below) => format!("{} (a plain file)", below.display()),
        Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    fn used(cpu_ns: u64, dispatches: u64, sleeps: u64) -> Used {
        Used { cpu_ns, dispatches, sleeps }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_windows() {
        let windows = [
            vec![used(500_000, 5, 5), used(500_000, 5, 5)],
            vec![used(600_000, 5, 5), used(500_000, 5, 5)],
            // In this window another process used the CPU.
            vec![used(900_000, 9, 5), used(100_000, 5, 5)],
        ];
        let mut table = Table::new();
        table.section("", Ok(vec![ratio("r", &windows, 1, 1.25).unwrap()]));
        let text = table.text();
        assert!(text.starts_with("r  1.20x  <= 1.25x  PASS\n"), "{text}");
        assert!(text.contains("from 1.00x to 9.00x"), "{text}");
        assert!(text.contains("the daemon 120 µs (100-180), the other 100 µs (20-100)"), "{text}");
    }

    #[test]
    fn a_process_without_cpu_time_was_not_measured() {
        let windows = [vec![used(500_000, 5, 5), used(0, 0, 0)]];
        assert!(ratio("r", &windows, 1, 1.25).is_err());
    }

    #[test]
    fn wake_ups_are_sleeps_and_not_dispatches() {
        let windows = [vec![used(1, 9, 5), used(1, 5, 5)], vec![used(1, 5, 6), used(1, 5, 5)]];
        let mut table = Table::new();
        table.section("", Ok(vec![wake_ups(&windows)]));
        assert!(table.text().contains("1.10  <= 1.05  MISS"), "{}", table.text());
        assert!(table.text().contains("dispatches 1.40"), "{}", table.text());
    }
}
