//! `bench`: the measurements behind pinhead's figures, each next to its promise.
//!
//! ```text
//!   presets ─► rules file ─┬─► pinheadd ────┐
//!   a tree of links to     ├─► bare preads ─┼─► meter (schedstat, smaps_rollup) ─► stats ─┐
//!   /proc and /sys         └─► the original ┘                                             ▼
//!   presets ─► parse, compile, step, in this process ─► stats ─────────────────────────► table
//! ```
//!
//! Speed is judged as a ratio of two figures that are measured side by side in the same run.
//! Figures of other days or machines cannot be compared with this run.

mod args;
mod baseline;
mod clock;
mod collect;
mod day;
mod error;
mod evaluate;
mod farm;
mod fleet;
mod idle;
mod meter;
mod original;
mod overhead;
mod pages;
mod passes;
mod rivals;
mod scan;
mod scene;
mod sizes;
mod soak;
mod subject;
mod sys;
mod table;
mod top;
mod zvm;

use args::{Args, Part};
use base::chain;
use clap::Parser;
use error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use table::Table;

fn main() -> ExitCode {
    run(&Args::parse()).unwrap_or_else(|error| {
        eprintln!("bench: {}", chain(&error));
        ExitCode::FAILURE
    })
}

/// Runs the requested measurements. A missed promise is only printed; a measurement that is not
/// possible counts as a failure.
fn run(args: &Args) -> Result<ExitCode, Error> {
    if !args.preads.is_empty() {
        return baseline::run(&args.preads);
    }
    if let Some(threads) = args.threads {
        collect::be_guest(threads);
    }
    if args.soak {
        return soak::run();
    }
    let mut table = Table::new();
    if args.collect {
        table.section("collecting of 100 guests", collect::rows());
    } else {
        measure(args, &args::guest_dir()?, &mut table)?;
    }
    print(&table.text())?;
    Ok(if table.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(args: &Args, guest_dir: &Path, table: &mut Table) -> Result<(), Error> {
    match args.only {
        Some(Part::Day) => table.section("a day of 100 guests", day::rows(args.day.as_deref())),
        Some(Part::Scan) => table.section("the scan of tasks", scan::rows(guest_dir)),
        Some(Part::Farm) => {
            table.section("web servers from one template", farm::rows(args));
        }
        Some(Part::Top) => table.section("the live screens", top::rows(args)),
        Some(Part::Zvm) => table.section("a day of z/VM", zvm::rows()),
        Some(Part::Pages) => table.section("the pages in a browser", pages::rows()),
        Some(Part::Fleet) => table.section("a fleet in a browser", fleet::rows()),
        Some(Part::Idle) => {
            table.section("idle guests under a manager", idle::rows(args));
        }
        None => {
            // This section runs before any other process of pinhead starts.
            table.section("evaluation of the default preset, in this process", evaluate::rows());
            table.section("the arbiter in the model of guests", rivals::rows());
            table.section("the stripped daemon's file", sizes::rows(guest_dir));
            // Measured processes inherit this process's only CPU, so all of them share the CPU and
            // its caches.
            let cpu = sys::pin().map_err(Error::Pin)?;
            table.section("the running daemon", overhead::rows(args, guest_dir, cpu));
            table.section("elsewhere", Ok(overhead::elsewhere()));
            table.section("the scan of tasks", scan::rows(guest_dir));
            table.section("collecting of 100 guests", collect::rows());
        }
    }
    Ok(())
}

fn print(text: &str) -> Result<(), Error> {
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::Print)
}
