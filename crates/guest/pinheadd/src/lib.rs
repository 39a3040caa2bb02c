//! `pinheadd`, the daemon inside a guest: plugs and unplugs CPUs and memory by rules.
//!
//! ```text
//!   /proc /sys ─► procfs ─► History ─► policy::guest::step ─► plug (CPUs, CMM pool)
//!                              rules ──────┘             └──► link (the host's balloon)
//!   Pacer says when; signals, the host and pressure triggers wake it
//! ```
//!
//! The daemon has one thread and no runtime. `daemon` owns everything. `look` samples, decides and
//! acts once in each interval. `pace` computes the time of the next sample, and `sys` has the
//! system calls that the standard library lacks.
//!
//! The writer of records for z/VM's monitor is a separate program, because few guests need it. The
//! daemon's program replaces itself with the writer by exec.

mod alarm;
mod args;
mod balloon;
mod capture;
mod clock;
mod config;
mod cron;
mod daemon;
pub mod guestmon;
mod identity;
mod interface;
mod intervals;
mod link;
mod lock;
mod log;
mod look;
mod machine;
mod meet;
mod memory;
mod monitor;
mod notify;
mod pace;
pub mod plug;
mod pressure;
mod rate;
mod readings;
mod scan;
mod status;
mod sys;
mod system;
mod tally;
mod undo;

pub use alarm::{next_line_ms, timer_ms, times};
pub use cron::{Minute, Times};

use args::{Args, Command};
use clock::Clock;
use daemon::{Daemon, Failed};
use log::Log;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use sys::Signals;

/// Default interval between two records for z/VM's monitor.
const INTERVAL: Duration = Duration::from_secs(60);

/// Runs the daemon's program.
pub fn daemon() -> ExitCode {
    let (program, command) = command();
    match command {
        Command::Help => print(&args::help(&program)),
        Command::Version => print(concat!(
            "pinheadd: rules for CPUs and memory, version ",
            env!("CARGO_PKG_VERSION"),
            "\n"
        )),
        Command::Usage(message) => usage(&program, &message),
        Command::Balloon(run_dir) => match balloon::show(&run_dir, Clock::new().epoch_s()) {
            Ok(text) => print(&text),
            Err(message) => {
                eprintln!("{message}");
                ExitCode::FAILURE
            }
        },
        Command::Run(args) => code(run(args)),
        Command::Monitor(..) => {
            // The program is in the same directory as this one.
            let error = sys::become_program(c"-monwriter");
            eprintln!("Cannot run pinheadd-monwriter: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the program that writes records for z/VM's monitor. The program accepts the daemon's
/// command line.
pub fn monwriter() -> ExitCode {
    match command() {
        (program, Command::Monitor(args, device, every)) => match interval(every) {
            Ok(every) => code(monitor(args, &device, every)),
            Err(message) => usage(&program, message),
        },
        (program, Command::Usage(message)) => usage(&program, &message),
        (program, _) => usage(&program, "This program is for --monwriter"),
    }
}

/// Parses the interval of records.
fn interval(text: Option<OsString>) -> Result<Duration, &'static str> {
    let Some(text) = text else { return Ok(INTERVAL) };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
    let seconds = seconds.ok_or("--interval is a number of seconds, 1 to 86400")?;
    Ok(Duration::from_secs(seconds))
}

fn command() -> (String, Command) {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    (program.to_string_lossy().into_owned(), args::parse(words))
}

fn usage(program: &str, message: &str) -> ExitCode {
    eprintln!("{message}\nTry '{program} --help' for more information.");
    ExitCode::FAILURE
}

fn code(ended: Result<(), Failed>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed(message)) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(args: Args) -> Result<(), Failed> {
    // Signals are blocked first, because a signal must not interrupt the start halfway.
    let signals = Signals::new().map_err(cannot_collect)?;
    let mut lock = lock::take(&args.run_dir, &lock::DAEMON).map_err(Failed)?;
    let foreground = args.foreground;
    let log = Log::new(args.verbose);
    let mut daemon = Daemon::prepare(args, log, signals)?;
    if foreground {
        daemon.start()?;
    } else {
        // Errors up to here are printed on the terminal.
        let starter = detach()?;
        daemon.log().use_syslog();
        let started = daemon.start().and_then(|()| lock.write_pid().map_err(Failed));
        starter.report(u8::from(started.is_err()));
        if let Err(failed) = started {
            return Err(told(daemon.log(), failed));
        }
    }
    let ended = daemon.run();
    ended.map_err(|e| told(daemon.log(), Failed(format!("Cannot wait for events: {e}"))))
}

fn monitor(args: Args, device: &Path, every: Duration) -> Result<(), Failed> {
    let signals = Signals::new().map_err(cannot_collect)?;
    let mut lock = lock::take(&args.run_dir, &lock::MONITOR).map_err(Failed)?;
    let mut log = Log::new(args.verbose);
    let devices = monitor::open(device)?;
    if !args.foreground {
        let starter = detach()?;
        log.use_syslog();
        let written = lock.write_pid();
        starter.report(u8::from(written.is_err()));
        written.map_err(|message| told(&log, Failed(message)))?;
    }
    let last_words = log.another();
    let ended = monitor::run(&args, devices, every, log, signals);
    ended.map_err(|e| told(&last_words, Failed(format!("Cannot continue: {e}"))))
}

/// Logs a failure of a daemon in the background, where no user sees the returned error.
fn told(log: &Log, failed: Failed) -> Failed {
    if !log.is_foreground() {
        log.error(&failed.0);
    }
    failed
}

fn detach() -> Result<sys::Starter, Failed> {
    sys::detach().map_err(|e| Failed(format!("Cannot continue in the background: {e}")))
}

fn cannot_collect(error: io::Error) -> Failed {
    Failed(format!("Cannot collect signals: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_a_number_of_seconds() {
        let of = |text: &str| interval(Some(text.into()));
        assert_eq!((interval(None), of("4")), (Ok(INTERVAL), Ok(Duration::from_secs(4))));
        for text in ["0", "86401", "soon", "-1", "1.5", ""] {
            assert!(of(text).is_err_and(|message| message.contains("1 to 86400")), "{text}");
        }
    }
}
