//! A day of a hundred guests: the size of its recording, and the time of every report over the
//! recording.
//!
//! ```text
//!   recorded guests (raw.db) ─► sim::day ─► Recorder, a moment a second ─► a directory ─► its size
//!                                                                             │
//!                                       `pinhead report` as a process, each report ─► the slowest
//! ```
//!
//! The guests follow real guests that were recorded for some minutes under mixed load, so the
//! numbers vary like a real kernel's. A report is timed like a user's, from the start of the
//! process to its end. The fastest of several runs counts, because other load only slows a run
//! down.

use crate::args;
use crate::clock::now;
use crate::error::{Error, scratch};
use crate::passes::Passes;
use crate::table::{Row, figure};
use model::Moment;
use procfs::USER_HZ;
use procfs::parse::task::{StatField, TaskStat};
use sim::day::Day;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use store::{Keep, PassRecorder, Recorder, Records};

/// Twelve guests recorded for some minutes: the source of the day.
const RECORDED: &[u8] = include_bytes!("../../../../../monitor/store/tests/data/guests-v1/raw.db");
/// Number of these guests that were present all the time.
const FOLLOWED: usize = 11;
const GUESTS: usize = 100;
/// Midnight of 2026-11-21, UTC.
const MIDNIGHT_MS: i64 = 1_795_219_200_000;
const DAY_MS: i64 = 86_400_000;
const SECOND_MS: i64 = 1_000;
/// Promised size of the recording in millions of bytes, and promised time of a report in seconds.
const SIZE_MB: f64 = 60.0;
const REPORT_S: f64 = 1.0;
/// Promised times to replay the day, and to compute sizes of its guests, in seconds of one CPU.
const REPLAY_S: f64 = 10.0;
const SIZE_S: f64 = 30.0;
/// Number of runs of each report. The best run counts.
const TIMES: usize = 3;
/// Formats of the reports, and their steps. `None` is the default step.
const FORMATS: [&str; 4] = ["text", "csv", "json", "html"];
const STEPS: [Option<&str>; 2] = [None, Some("1m")];

/// Returns the figures. If a directory is given, the day is kept there for the next run.
pub fn rows(dir: Option<&Path>) -> Result<Vec<Row>, Error> {
    let scratch = scratch("day")?;
    let made = dir.map_or_else(|| scratch.path().join("day"), Path::to_owned);
    figures(scratch.path(), &made)
}

fn figures(scratch: &Path, dir: &Path) -> Result<Vec<Row>, Error> {
    let rows = dir.join("2026-11-21.db");
    if !rows.exists() {
        record(&recorded(scratch)?, dir, GUESTS, DAY_MS)?;
    }
    let megabytes = |name: &str| -> Result<f64, Error> {
        let path = dir.join(name);
        let found = std::fs::metadata(&path).map_err(|source| Error::file(&path, source))?;
        Ok(found.len() as f64 / 1e6)
    };
    let raw = figure(megabytes("raw.db")?, 1, " MB");
    let size = figure(megabytes("2026-11-21.db")?, 1, " MB");
    let month = figure(megabytes("2026-11.db")?, 1, " MB");
    let most = Keep::USUAL.raw_bytes as f64 / 1e6;
    let mut found = vec![
        Row::promised("a day of 100 guests, by the minute", size, SIZE_MB).note(&format!(
            "the guests repeat {FOLLOWED} recorded guests, in the hours of their classes"
        )),
        Row::promised("its samples of one second, the newest", raw, most),
        Row::plain("the same day by 15 minutes", &month.text()),
    ];
    found.extend(reports(dir)?);
    found.push(Row::plain(
        "inputs of the day's passes",
        &figure(megabytes("passes.db")?, 1, " MB").text(),
    ));
    let program = program()?;
    let whole = ["--from", "2026-11-21", "--to", "2026-11-22"];
    let replay = [["replay"].as_slice(), &whole].concat();
    let other = [&replay[..], &["--policy", "proxmox"]].concat();
    let size = [["size"].as_slice(), &whole].concat();
    for (name, words, most) in [
        ("the day played again, of CPU", replay, REPLAY_S),
        ("the same with another policy beside it, of CPU", other, 2.0 * REPLAY_S),
        ("the sizes of its guests, of CPU", size, SIZE_S),
    ] {
        let (seconds, cpu_s) = best(&program, dir, &words)?;
        let row = Row::promised(name, figure(cpu_s, 2, " s"), most);
        found.push(row.note(&format!("{seconds:.2} s of elapsed time")));
    }
    Ok(found)
}

/// Records the first hour of the day with this many guests.
pub fn hour(scratch: &Path, dir: &Path, guests: usize) -> Result<(), Error> {
    record(&recorded(scratch)?, dir, guests, 3_600 * SECOND_MS)
}

fn recorded(scratch: &Path) -> Result<Vec<Moment>, Error> {
    let dir = scratch.join("guests");
    let path = dir.join("raw.db");
    let written = std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&path, RECORDED));
    written.map_err(|source| Error::file(&path, source))?;
    let mut moments = Vec::new();
    let visit = |moment| {
        moments.push(moment);
        ControlFlow::Continue(())
    };
    Records::open(&dir)
        .and_then(|records| records.raw(i64::MIN, i64::MAX, visit))
        .map_err(Error::Store)?;
    Ok(moments)
}

/// Records a day, or its beginning, from samples a second apart.
fn record(recorded: &[Moment], dir: &Path, guests: usize, length_ms: i64) -> Result<(), Error> {
    let wrong = || Error::Content { path: "recordings".into(), what: "guests to follow" };
    let mut day = Day::new(recorded, guests, MIDNIGHT_MS).ok_or_else(wrong)?;
    let mut recorder = Recorder::new(dir, Keep::USUAL);
    let mut pass_recorder = PassRecorder::new(dir, i64::MAX, u64::MAX);
    let mut passes = Passes::default();
    for number in 0..=length_ms / SECOND_MS {
        let moment = day.at(MIDNIGHT_MS + number * SECOND_MS);
        let pass = passes.next(&moment, (number * SECOND_MS).unsigned_abs());
        if recorder.record(&moment).or(pass_recorder.record(&pass)).is_some() {
            return Err(Error::Content { path: dir.into(), what: "all moments" });
        }
    }
    recorder.close().and(pass_recorder.close()).map_err(Error::Store)
}

struct Took {
    seconds: f64,
    cpu_s: f64,
    name: String,
}

/// Returns the path of `pinhead` in the directory of this program.
pub fn program() -> Result<PathBuf, Error> {
    Ok(args::this_program()?.with_file_name("pinhead"))
}

fn reports(dir: &Path) -> Result<Vec<Row>, Error> {
    let program = program()?;
    let mut rows = Vec::new();
    for step in STEPS {
        let mut all = Vec::new();
        for report in reports::REPORTS {
            for format in FORMATS {
                all.push(took(&program, dir, report.name, format, step)?);
            }
        }
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let Some(slowest) = all.first() else { continue };
        let sum: f64 = all.iter().map(|took| took.seconds).sum();
        let figure = figure(slowest.seconds, 2, " s");
        let name = match step {
            None => "the slowest report over the day",
            Some(_) => "the slowest report by the minute",
        };
        let words = |took: &Took| {
            format!("{} {:.2} s ({:.2} s of CPU)", took.name, took.seconds, took.cpu_s)
        };
        let worst: Vec<String> = all.iter().take(3).map(words).collect();
        let mean = sum / all.len() as f64;
        let cpu_s = all.iter().map(|took| took.cpu_s).fold(0.0, f64::max);
        let count = all.len();
        rows.push(Row::promised(name, figure, REPORT_S).note(&worst.join(", ")).note(&format!(
            "{count} reports, the best of {TIMES} runs each: {mean:.2} s on average, at most \
             {cpu_s:.2} s of CPU"
        )));
    }
    Ok(rows)
}

fn took(
    program: &PathBuf,
    dir: &Path,
    report: &str,
    format: &str,
    step: Option<&str>,
) -> Result<Took, Error> {
    let mut words = vec!["report", report, "--format", format];
    words.extend(["--from", "2026-11-21", "--to", "2026-11-22"]);
    words.extend(step.map(|step| ["--interval", step]).into_iter().flatten());
    let (seconds, cpu_s) = best(program, dir, &words)?;
    Ok(Took { seconds, cpu_s, name: format!("{report} {format}") })
}

/// Runs a command over recordings several times. Returns the shortest duration and the shortest CPU
/// time.
fn best(program: &PathBuf, dir: &Path, words: &[&str]) -> Result<(f64, f64), Error> {
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TIMES {
        let mut command = Command::new(program);
        command.args(words).arg("--dir").arg(dir);
        command.env("TZ", "UTC").stdin(Stdio::null()).stdout(Stdio::null());
        let (start, before_s) = (now(), children_s()?);
        let status = command.status();
        let seconds = now().duration_since(start).as_secs_f64();
        let cpu_s = children_s()? - before_s;
        let status = status.map_err(|source| Error::Start { program: program.clone(), source })?;
        if !status.success() {
            let said = words.join(" ");
            return Err(Error::Ended { name: "pinhead", status: status.to_string(), said });
        }
        best = (best.0.min(seconds), best.1.min(cpu_s));
    }
    Ok(best)
}

/// Returns the CPU time of all children that have ended, in seconds, to a hundredth.
pub fn children_s() -> Result<f64, Error> {
    let path = Path::new("/proc/self/stat");
    let text = std::fs::read(path).map_err(|source| Error::file(path, source))?;
    let stat = TaskStat::parse(&text);
    let ticks =
        stat.and_then(|s| s.numbers([StatField::ChildUserTicks, StatField::ChildSystemTicks]));
    let [user, system] =
        ticks.ok_or_else(|| Error::Content { path: path.into(), what: "CPU time of children" })?;
    Ok((user + system) as f64 / USER_HZ)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Span;

    /// Number of quarters of an hour in a day. A quarter takes more than its share of a day's
    /// bytes, because each file contains all names.
    const PART: u64 = 96;

    #[test]
    fn a_day_of_recorded_guests_is_small() {
        let scratch = scratch("day").expect("a directory");
        let moments = recorded(scratch.path()).expect("read");
        assert!(moments.len() > 200, "{}", moments.len());
        let day = Day::new(&moments, GUESTS, MIDNIGHT_MS).expect("enough to follow");
        assert_eq!(day.followed(), FOLLOWED);
        let dir = scratch.join("day");
        record(&moments, &dir, GUESTS, DAY_MS / 96).expect("recorded");
        let rows = std::fs::metadata(dir.join("2026-11-21.db")).expect("there").len();
        let records = Records::open(&dir).expect("opened");
        let span = Span { from_ms: MIDNIGHT_MS, to_ms: MIDNIGHT_MS + DAY_MS, step_ms: 60_000 };
        let mut minutes = 0;
        let visit = |interval: model::Interval| {
            minutes += 1;
            assert_eq!(interval.guests.len(), GUESTS, "in minute {minutes}");
            ControlFlow::Continue(())
        };
        records.visit(span, model::Parts::ALL, visit).expect("read");
        assert_eq!(minutes, 15);
        println!("{rows} bytes in 1/{PART} of a day");
        assert!(rows * PART <= 60_000_000, "{rows} bytes in 1/{PART} of a day");
    }
}
