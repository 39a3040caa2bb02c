//! `bench`: the measurements behind our figures, each beside its promise.
//!
//! ```text
//!   presets ─► rules file ─┬─► pinheadd ────┐
//!   a tree of links to     ├─► bare preads ─┼─► meter (schedstat, smaps_rollup) ─► stats ─┐
//!   /proc and /sys         └─► the original ┘                                             ▼
//!   presets ─► parse, compile, step, in this process ─► stats ─────────────────────────► table
//! ```
//!
//! Speed is judged as a ratio of two things measured side by side in the same run: a
//! figure from another day or another machine says nothing about this one.

mod args;
mod baseline;
mod clock;
mod collect;
mod day;
mod error;
mod evaluate;
mod farm;
mod idle;
mod meter;
mod original;
mod overhead;
mod rivals;
mod scan;
mod scene;
mod sizes;
mod soak;
mod stats;
mod subject;
mod sys;
mod table;
mod top;

use args::{Args, Command, Part};
use base::chain;
use error::Error;
use std::io::Write;
use std::process::ExitCode;
use table::Table;

fn main() -> ExitCode {
    let outcome = match args::parse(std::env::args_os().skip(1)) {
        Ok(Command::Help(text)) => print(&text).map(|()| ExitCode::SUCCESS),
        Ok(Command::Preads(files)) => baseline::run(&files).map(|()| ExitCode::SUCCESS),
        Ok(Command::Collect) => only_collecting(),
        Ok(Command::Threads(count)) => collect::be_guest(count).map(|()| ExitCode::SUCCESS),
        Ok(Command::Soak) => soak::run(),
        Ok(Command::Measure(args)) => measure(&args),
        Err(error) => Err(error),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("bench: {}", chain(&error));
        ExitCode::FAILURE
    })
}

/// A promise that is missed is printed; only what cannot be measured is a failure.
fn measure(args: &Args) -> Result<ExitCode, Error> {
    let mut table = Table::new();
    if let Some(part) = args.only {
        match part {
            Part::Day => {
                table.section("a day of 100 guests", day::rows(args.day.as_deref()));
            }
            Part::Scan => table.section("the scan of tasks", scan::rows(&args.guest_dir)),
            Part::Farm => farm::measure(args, &mut table),
            Part::Top => table.section("the live screens", top::rows(args)),
            Part::Idle => idle::measure(args, &mut table),
        }
        print(&table.text())?;
        return Ok(if table.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    // First, while nothing of ours runs beside it.
    table.section("evaluation of the default preset, in this process", evaluate::rows());
    table.section("the arbiter in the model of guests", rivals::rows());
    table.section("the stripped daemon's file", sizes::rows(&args.guest_dir));
    // What is measured inherits the place, and so shares a CPU and its caches.
    let cpu = sys::pin().map_err(Error::Pin)?;
    overhead::measure(args, cpu, &mut table);
    table.section("the scan of tasks", scan::rows(&args.guest_dir));
    table.section("collecting of 100 guests", collect::rows());
    print(&table.text())?;
    Ok(if table.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn only_collecting() -> Result<ExitCode, Error> {
    let mut table = Table::new();
    table.section("collecting of 100 guests", collect::rows());
    print(&table.text())?;
    Ok(if table.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(text: &str) -> Result<(), Error> {
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::Print)
}
