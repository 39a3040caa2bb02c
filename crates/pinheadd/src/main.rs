//! `pinheadd`, the daemon inside a guest: plugs and unplugs CPUs and memory by rules.
//!
//! ```text
//!   /proc /sys ─► procfs ─► History ─► policy::guest::step ─► plug (CPUs, CMM pool)
//!                              rules ──────┘             └──► link (the host's balloon)
//!   Pacer says when; signals, the host and pressure triggers wake it
//! ```
//!
//! One thread, no runtime. `daemon` owns everything; `look` is one interval; `pace`
//! is pure; `sys` has the system calls that the standard library lacks.

mod alarm;
mod args;
mod balloon;
mod capture;
mod clock;
mod config;
mod cron;
mod daemon;
mod identity;
mod interface;
mod intervals;
mod link;
mod lock;
mod log;
mod look;
mod meet;
mod memory;
mod notify;
mod pace;
mod pressure;
mod rate;
mod readings;
mod scan;
mod status;
mod sys;
mod system;
mod tally;
mod undo;

use args::{Args, Command};
use clock::Clock;
use daemon::{Daemon, Failed};
use log::Log;
use std::io::Write;
use std::process::ExitCode;
use sys::Signals;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let program = program.to_string_lossy();
    match args::parse(words) {
        Command::Help => print(&args::help(&program)),
        Command::Version => print(concat!(
            "pinheadd: rules for CPUs and memory, version ",
            env!("CARGO_PKG_VERSION"),
            "\n"
        )),
        Command::Usage(message) => {
            eprintln!("{message}\nTry '{program} --help' for more information.");
            ExitCode::FAILURE
        }
        Command::Balloon(run_dir) => match balloon::show(&run_dir, Clock::new().epoch_s()) {
            Ok(text) => print(&text),
            Err(message) => {
                eprintln!("{message}");
                ExitCode::FAILURE
            }
        },
        Command::Run(args) => match run(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failed(message)) => {
                eprintln!("{message}");
                ExitCode::FAILURE
            }
        },
    }
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(args: Args) -> Result<(), Failed> {
    // From the first moment on: a signal during the start must not leave half of it.
    let signals = Signals::new().map_err(|e| Failed(format!("Cannot collect signals: {e}")))?;
    let mut lock = lock::take(&args.run_dir).map_err(Failed)?;
    let foreground = args.foreground;
    let log = Log::new(args.verbose);
    let mut daemon = Daemon::prepare(args, log, signals)?;
    if foreground {
        daemon.start()?;
    } else {
        // Errors up to here were shown on the terminal.
        let starter = sys::detach().map_err(|e| Failed(format!("Cannot go on alone: {e}")))?;
        daemon.log().use_syslog();
        let started = daemon.start().and_then(|()| lock.write_pid().map_err(Failed));
        starter.report(u8::from(started.is_err()));
        if let Err(Failed(message)) = started {
            daemon.log().error(&message);
            return Err(Failed(message));
        }
    }
    daemon.run().map_err(|e| Failed(format!("Cannot wait for anything: {e}")))
}
