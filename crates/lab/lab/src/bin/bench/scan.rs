//! The daemon's cost of a scan of all tasks, against bare reads of the same files.
//!
//! The daemon runs on this machine. Its port is a pseudo-terminal, and this process plays the host.
//! The first response is not counted, because the daemon starts without data. CPU time is measured
//! in place of elapsed time, because other processes may run as well.

use crate::clock::{now, sleep_until};
use crate::error::{Error, scratch, write};
use crate::meter;
use crate::subject::Subject;
use crate::sys;
use crate::table::{Row, figure};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wire::{Decoder, Processes, Scan, ToGuest, ToHost, Welcome};

/// The promise, in microseconds for a hundred tasks.
const SCAN_US: f64 = 1000.0;
/// Number of counted responses. The median is the figure.
const ANSWERS: u32 = 3;
/// Interval between two requests. A daemon responds to one request in ten seconds.
const APART: Duration = Duration::from_millis(10_200);
/// Time after a response until the daemon sleeps again.
const SETTLED: Duration = Duration::from_millis(50);
/// Number of turns of the bare loop. It is large, because the kernel counts a running process in
/// ticks.
const TURNS: usize = 100;
/// Time limit for a response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of tasks in a response. It is small, because a terminal buffers less than a port.
const TOP: u8 = 5;
/// Rules that change nothing.
const RULES: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"0\"\nHOTUNPLUG=\"0\"\n\
                     CMM_MIN=\"0\"\nCMM_MAX=\"0\"\nCMM_INC=\"0\"\nMEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\n";

pub fn rows(guest_dir: &Path) -> Result<Vec<Row>, Error> {
    let scratch = scratch("scan")?;
    let (mut scans, tasks) = measure(guest_dir, scratch.path())?;
    scans.sort_unstable_by(f64::total_cmp);
    let mut bare = (0..ANSWERS).map(|_| bare()).collect::<Result<Vec<f64>, Error>>()?;
    bare.sort_unstable_by(f64::total_cmp);
    let middle = |all: &[f64]| all.get(all.len() / 2).copied().unwrap_or(f64::NAN);
    let (scan, bare) = (middle(&scans) * 100.0, middle(&bare) * 100.0);
    let micros = |value| figure(value, 0, " us of CPU");
    Ok(vec![
        Row::promised("scan of 100 tasks", micros(scan), SCAN_US)
            .note(&format!("{tasks} tasks; median of {ANSWERS} responses, {APART:?} apart")),
        Row::plain("bare reads of their schedstat", &micros(bare).text())
            .note(&format!("the daemon takes {:.2} times as long", scan / bare)),
    ])
}

/// Returns the CPU time per task of each response, in microseconds, and the number of tasks.
fn measure(guest_dir: &Path, dir: &Path) -> Result<(Vec<f64>, u64), Error> {
    let program = guest_dir.join("x86_64/pinheadd");
    let (rules, run) = (dir.join("rules.conf"), dir.join("run"));
    write(&rules, RULES)?;
    fs::create_dir(&run).map_err(|e| Error::file(&run, e))?;
    let (mut host, port) = sys::terminal().map_err(|e| Error::file(Path::new("/dev/ptmx"), e))?;
    let mut command = Command::new(&program);
    command.args(["--foreground", "--dry-run", "--pace", "host", "--config"]).arg(&rules);
    command.arg("--run-dir").arg(&run).arg("--port").arg(&port);
    let mut daemon = Subject::start("daemon", &mut command, &dir.join("log"))?;
    let mut decoder = Decoder::new();
    let silent = |what| Error::Content { path: port.clone(), what };
    let hello = |reply| {
        move |m: ToHost| matches!(m, ToHost::Hello(hello) if hello.reply == reply).then_some(())
    };
    until(&mut host, &mut decoder, hello(false)).ok_or(silent("hello of a daemon"))?;
    let welcome = Welcome { memory_pages: 1 << 18, grants: false, paces: true };
    say(&mut host, &ToGuest::Welcome(welcome), &port)?;
    // Before this response the daemon has not loaded its rules, and accepts no other message.
    until(&mut host, &mut decoder, hello(true)).ok_or(silent("answer to a welcome"))?;
    let (mut taken, mut tasks) = (Vec::new(), 0);
    for sequence in 1..=ANSWERS + 1 {
        let (asked, before) = (now(), daemon.used()?);
        say(&mut host, &ToGuest::Scan(Scan { sequence, top: TOP }), &port)?;
        let part = |m| if let ToHost::Processes(part) = m { Some(part) } else { None };
        let part: Processes =
            until(&mut host, &mut decoder, part).ok_or(silent("answer of the daemon"))?;
        let count = part.totals.tasks.filter(|tasks| *tasks > 0);
        let count = count.ok_or(silent("count of tasks"))?;
        // Once the daemon sleeps again, all of its run time is counted.
        sleep_until(now() + SETTLED);
        let used = daemon.used()? - before;
        sleep_until(asked + APART);
        if sequence > 1 {
            taken.push(used.cpu_ns as f64 / 1000.0 / count as f64);
            tasks = count;
        }
    }
    Ok((taken, tasks))
}

fn say(host: &mut File, message: &ToGuest, port: &Path) -> Result<(), Error> {
    let mut frame = Vec::new();
    wire::encode(message, &mut frame);
    host.write_all(&frame).map_err(|e| Error::file(port, e))
}

/// Returns the first matching message, if it arrives in time.
fn until<T>(
    host: &mut File,
    decoder: &mut Decoder<ToHost>,
    wanted: impl Fn(ToHost) -> Option<T>,
) -> Option<T> {
    let deadline = now() + PATIENCE;
    let mut bytes = [0; 4096];
    while now() < deadline {
        while let Some(message) = decoder.next() {
            if let Some(found) = wanted(message) {
                return Some(found);
            }
        }
        match host.read(&mut bytes) {
            Ok(count) => decoder.feed(&bytes[..count]),
            // The daemon has not opened its end of the terminal yet, or has sent nothing.
            Err(error)
                if matches!(Errno::from_io_error(&error), Some(Errno::AGAIN | Errno::IO)) =>
            {
                sleep_until(now() + Duration::from_millis(2));
            }
            Err(_) => return None,
        }
    }
    None
}

/// Reads the same files in a bare loop. Returns the CPU time per task, in microseconds.
fn bare() -> Result<f64, Error> {
    let proc = Path::new("/proc");
    let is_number = |name: &std::ffi::OsStr| {
        name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut files: Vec<PathBuf> = Vec::new();
    for process in fs::read_dir(proc).map_err(|e| Error::file(proc, e))?.flatten() {
        if !is_number(&process.file_name()) {
            continue;
        }
        // A process that has ended meanwhile has no tasks.
        let tasks = fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
        files.extend(tasks.map(|task| task.path().join("schedstat")));
    }
    let us = std::process::id();
    let mut text = [0; 1024];
    let before = meter::used(us)?;
    for path in (0..TURNS).flat_map(|_| &files) {
        if let Ok(mut file) = File::open(path) {
            let _ = file.read(&mut text);
        }
    }
    let used = meter::used(us)? - before;
    match files.len() * TURNS {
        0 => Err(Error::Content { path: proc.into(), what: "tasks" }),
        count => Ok(used.cpu_ns as f64 / 1000.0 / count as f64),
    }
}
