//! `pinhead size`: recommended sizes of guests, from recordings.
//!
//! ```text
//!   recordings, minute by minute ─► backtest::Sizes ─┬─► table, CSV, JSON
//!                                                    └─► settings, virsh, a manager
//! ```

mod apply;
mod args;
mod show;

pub use args::{Apply, SizeArgs, SizeFormat};

use crate::Error;
use crate::tune::present;
use crate::waiting::Task;
use crate::why::recorded_between;
use reports::recorded;
use whatif::backtest::{MINUTES_MS, Question, Sizes};
use whatif::{Options, Sources};
use why::when::{self, Now};

fn question(args: &SizeArgs, now: &Now) -> Result<Question, Error> {
    let (from_ms, to_ms) = recorded_between(&args.from, &args.to, MINUTES_MS, &args.dir, now)?;
    let options = Options {
        percentile_permille: args.percentile,
        headroom_permille: args.headroom,
        enough_ms: when::span(&args.enough)?.unsigned_abs(),
    };
    Ok(Question::new(from_ms, to_ms, options)?)
}

/// Prints the recommended sizes, or applies them.
pub fn run(args: &SizeArgs) -> Result<String, Error> {
    let now = ::why::now();
    let answer = answer(args, &now)?;
    match args.apply {
        None => show::show(&answer, args.format, &now),
        Some(how) => {
            // Recordings of another host have other guests.
            let sources = if args.dir.is_none() {
                present(args.socket.socket.as_deref())
            } else {
                Sources::default()
            };
            apply::apply(&answer, how, &sources, &args.socket)
        }
    }
}

fn answer(args: &SizeArgs, now: &Now) -> Result<Sizes, Error> {
    let question = question(args, now)?;
    let path = recorded::dir(args.dir.as_deref())?;
    let _task = Task::new("reading the recordings");
    Ok(Sizes::of(&path, question, &args.guests)?)
}

#[cfg(test)]
mod tests;
