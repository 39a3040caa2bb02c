//! The scripts of the jobs, run by this machine's shell instead of a guest's.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use lab::load::job::{self, Claim, Exec, ExecError, Job, JobFailure, Report};
use std::process::{Command, Stdio};
use std::time::Duration;
use vm::Output;

const LIMIT: Duration = Duration::from_secs(60);

/// An executor in which a guest's name selects the result of its commands.
struct Shell;

impl Exec for Shell {
    fn exec(&self, guest: &str, line: &str, _: Duration) -> Result<Output, ExecError> {
        if guest == "gone" {
            return Err("there is no such guest".into());
        }
        let output = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output()?;
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().unwrap_or(255);
        Ok(Output { code, text: text.into_owned() })
    }
}

fn run(guests: &[String], job: &Job, dir: &str) -> Result<Vec<Report>, lab::load::Error> {
    job::run(&Shell, guests, job, dir, LIMIT, &mut |_| {})
}

fn seconds(job: Job, dir: &str) -> Vec<f64> {
    let guests = ["g1".to_owned()];
    let mut reports = run(&guests, &job, dir).unwrap();
    reports.remove(0).rounds_s.unwrap()
}

#[test]
fn each_job_runs_its_rounds_and_leaves_nothing() {
    // The name contains a blank and a quote, and the scripts must treat it as one word.
    let dir = std::env::temp_dir().join(format!("pinhead load's {}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let name = dir.to_str().unwrap();
    assert_eq!(seconds(Job::Claim { mib: 8, claim: Claim::Passing }, name).len(), 1);
    assert_eq!(seconds(Job::Tar { files: 20, kib: 16, rounds: 3, reads: 2 }, name).len(), 3);
    assert_eq!(seconds(Job::Build { units: 6, parallel: 4, rounds: 2 }, name).len(), 2);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    std::fs::remove_dir(&dir).unwrap();
}

#[test]
fn a_guest_that_fails_does_not_take_the_others_with_it() {
    let guests = ["g1", "gone", "g3"].map(str::to_owned);
    let job = Job::Build { units: 2, parallel: 1, rounds: 1 };
    let dir = std::env::temp_dir().join(format!("pinhead-load-some-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    // Only one guest runs a build, because builds in the same directory would conflict.
    let reports = run(&guests[1..2], &job, "/").unwrap();
    assert!(matches!(reports[0].rounds_s, Err(JobFailure::Exec(_))));
    let claim = Job::Claim { mib: 1, claim: Claim::Passing };
    let mut ended = Vec::new();
    let reports =
        job::run(&Shell, &guests, &claim, "/", LIMIT, &mut |now| ended.push(now.ended)).unwrap();
    let names: Vec<&str> = reports.iter().map(|report| report.guest.as_str()).collect();
    assert_eq!(names, ["g1", "gone", "g3"]);
    let came: Vec<bool> = reports.iter().map(|report| report.rounds_s.is_ok()).collect();
    assert_eq!(came, [true, false, true]);
    assert!(ended.is_sorted() && ended.last() == Some(&3), "{ended:?}");
    let nowhere = dir.join("file");
    std::fs::write(&nowhere, "").unwrap();
    let reports = run(&guests[..1], &job, nowhere.to_str().unwrap()).unwrap();
    assert!(matches!(reports[0].rounds_s, Err(JobFailure::Status { code: 1, .. })));
    assert!(run(&guests, &job, "here").is_err());
    std::fs::remove_dir_all(dir).unwrap();
}
