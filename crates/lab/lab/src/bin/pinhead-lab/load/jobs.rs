//! Jobs inside guests: `pinhead-lab load claim`, `tar` and `build`.

use super::args::{BuildArgs, ClaimArgs, GuestArgs, Summary, TarArgs};
use super::farm::Farm;
use super::screen::Screen;
use crate::Error;
use base::{chain, counted, padded, plain};
use lab::load::Job;
use lab::load::job::{self, Claim, Report};
use pinhead::args::Format;
use pinhead::escape;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// Maximum number of characters of the reason for a guest's failure.
const REASON_WIDTH: usize = 200;
/// Maximum number of characters of a name. Longer names are truncated.
const NAME_WIDTH: usize = 16;

pub(super) fn claim(args: &ClaimArgs) -> Result<Summary, Error> {
    let claim = if args.hold { Claim::Held } else { Claim::Passing };
    let job = match args.mib {
        Some(mib) => Job::Claim { mib, claim },
        None => Job::Release,
    };
    run(&args.guests, &job, "/")
}

pub(super) fn tar(args: &TarArgs) -> Result<Summary, Error> {
    let TarArgs { files, kib, rounds, .. } = *args;
    run(&args.guests, &Job::Tar { files, kib, rounds, reads: 1 }, &args.dir)
}

pub(super) fn build(args: &BuildArgs) -> Result<Summary, Error> {
    let BuildArgs { units, parallel, rounds, .. } = *args;
    run(&args.guests, &Job::Build { units, parallel, rounds }, &args.dir)
}

fn run(args: &GuestArgs, job: &Job, dir: &str) -> Result<Summary, Error> {
    job.check()?;
    let farm = Farm::ask(args.farm.as_deref())?;
    let guests = farm.names(&args.guests, &args.class)?;
    let timeout = Duration::from_secs(args.timeout);
    let mut screen = Screen::new();
    let mut watch = |job::Progress { elapsed, ended }| {
        let what = format!("{ended} of {} done", counted(guests.len() as u64, "guest"));
        screen.show(elapsed, &what, Some((ended as u64, guests.len() as u64)));
    };
    let reports = job::run(&farm, &guests, job, dir, timeout, &mut watch)?;
    drop(screen);
    let failed = reports.iter().filter(|report| report.rounds_s.is_err()).count();
    let text = match args.format {
        Format::Json => {
            let guests: Vec<Value> = reports.iter().map(to_json).collect();
            escape::json(&json!({ "guests": guests, "failed": failed }))?
        }
        Format::Text => to_text(&reports),
    };
    Ok(Summary { text, failed: failed as u64 })
}

fn to_json(report: &Report) -> Value {
    match &report.rounds_s {
        Ok(rounds) => json!({ "name": report.guest, "rounds_s": rounds }),
        Err(failure) => json!({ "name": report.guest, "error": chain(failure) }),
    }
}

fn to_text(reports: &[Report]) -> String {
    let mut text = format!(
        "{:<NAME_WIDTH$} {:>7} {:>10} {:>10} {:>10}\n",
        "GUEST", "ROUNDS", "AVG S", "MIN S", "MAX S"
    );
    for report in reports {
        let name = plain(&report.guest, NAME_WIDTH);
        let _ = match &report.rounds_s {
            Ok(rounds) => writeln!(text, "{}", row(&name, rounds)),
            Err(failure) => {
                let reason = plain(&chain(failure), REASON_WIDTH);
                writeln!(text, "{}  {reason}", padded(&name, NAME_WIDTH))
            }
        };
    }
    let all: Vec<f64> = reports.iter().flat_map(|r| r.rounds_s.iter().flatten()).copied().collect();
    if reports.len() > 1 && !all.is_empty() {
        let _ = writeln!(text, "{}", row("all", &all));
    }
    text
}

fn row(name: &str, rounds: &[f64]) -> String {
    let sum: f64 = rounds.iter().sum();
    let average = sum / rounds.len().max(1) as f64;
    let min = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let max = rounds.iter().copied().fold(0.0, f64::max);
    let count = rounds.len();
    let name = padded(name, NAME_WIDTH);
    format!("{name} {count:>7} {average:>10.2} {min:>10.2} {max:>10.2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::load::job::JobFailure;

    #[test]
    fn failed_guests_are_listed_with_their_reason() {
        let failure = JobFailure::Status { code: 1, text: "dd: \u{1b}[2J no space".to_owned() };
        let reports = [
            Report { guest: "g1".to_owned(), rounds_s: Ok(vec![1.0, 2.0]) },
            Report { guest: "g2".to_owned(), rounds_s: Err(failure) },
        ];
        let text = to_text(&reports);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "g1                     2       1.50       1.00       2.00");
        assert!(lines[2].contains("status 1") && !text.contains('\u{1b}'), "{text}");
        assert!(lines[3].starts_with("all                    2"), "{text}");
        assert_eq!(to_json(&reports[0]), json!({ "name": "g1", "rounds_s": [1.0, 2.0] }));
    }
}
