//! `pinhead size`: how large guests should be, by what was recorded of them.
//!
//! ```text
//!   recordings, minute by minute ─► backtest::Sizes ─┬─► table, CSV, JSON
//!                                                    └─► settings, virsh, a manager
//! ```

mod apply;
mod show;

use crate::Error;
use crate::manage::SocketArg;
use crate::why::time_between;
use backtest::{MINUTES_MS, Question, Sizes};
use clap::{Args, ValueEnum};
use settings::Share;
use std::path::PathBuf;
use whatif::Options;
use why::when::{self, Now};

/// `pinhead size`
#[derive(Debug, Args)]
pub struct SizeArgs {
    /// Guests, by their names or patterns of them, such as 'web*'; all that were recorded if none
    /// is given
    pub guests: Vec<String>,
    /// From when: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"; three days before the end if it
    /// is not given
    ///
    /// A longer time is looked at by the quarter of an hour, and not by the minute.
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Until when; now if it is not given
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// A guest is to have what it needed in so many of its minutes
    #[arg(long, value_name = "PERCENT", default_value = "99.9%", value_parser = part)]
    pub percentile: u64,
    /// And so much of it more
    ///
    /// A guest whose peak has grown within the time gets as much as it grew, up to a half.
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = part)]
    pub headroom: u64,
    /// With less history than this nothing is said of a guest's size: 90m, 3h, 1d
    #[arg(long, value_name = "SPAN", default_value = "3h")]
    pub enough: String,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: SizeFormat,
    /// Say it as settings or as commands, or do it, instead
    ///
    /// Guests without enough history are left out.
    #[arg(long, value_enum, value_name = "HOW", conflicts_with = "format")]
    pub apply: Option<Apply>,
    /// The recordings, if not those that the manager makes by itself
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// How to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SizeFormat {
    /// For people
    Text,
    /// For spreadsheets: a row a guest, sizes in bytes
    Csv,
    /// For programs
    Json,
}

/// What to make of the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Apply {
    /// Classes for the manager's file of settings
    Settings,
    /// Commands for guests of libvirt, which count from their next start
    Virsh,
    /// Set them in the manager that runs, until it ends
    Manager,
}

/// A part of a hundred, in thousandths.
fn part(text: &str) -> Result<u64, String> {
    let help = || "write a part from \"0%\" to \"100%\", at most to a tenth: \"99.5%\"".to_owned();
    match Share::parse(text) {
        Ok(Share::Permille(permille)) => Ok(permille),
        Ok(Share::Bytes(_)) | Err(_) => Err(help()),
    }
}

/// What is asked, read from what was typed.
fn question(args: &SizeArgs, now: &Now) -> Result<Question, Error> {
    let (from_ms, to_ms) = time_between(args.from.as_deref(), args.to.as_deref(), MINUTES_MS, now)?;
    let options = Options {
        percentile_permille: args.percentile,
        headroom_permille: args.headroom,
        enough_ms: when::span(&args.enough)?.unsigned_abs(),
    };
    Ok(Question::new(from_ms, to_ms, options)?)
}

/// Advises, or does what is advised.
pub fn run(args: &SizeArgs) -> Result<String, Error> {
    let now = ::why::now();
    let answer = answer(args, &now)?;
    match args.apply {
        None => show::show(&answer, args.format, &now),
        Some(how) => apply::apply(&answer, how, &args.socket),
    }
}

fn answer(args: &SizeArgs, now: &Now) -> Result<Sizes, Error> {
    let question = question(args, now)?;
    let path = crate::why::recordings(args.dir.as_deref())?;
    Ok(Sizes::of(&path, question, &args.guests)?)
}

#[cfg(test)]
mod tests;
