//! `pinhead size`: how large guests should be, by what was recorded of them.
//!
//! ```text
//!   recordings, minute by minute ─► whatif::Past ─► whatif::size ─┬─► table, CSV, JSON
//!                                                                 └─► settings, virsh, a manager
//! ```

mod apply;
mod show;

use crate::Error;
use crate::why::time_between;
use base::{duration, glob};
use clap::{Args, ValueEnum};
use model::Parts;
use settings::Share;
use std::ops::ControlFlow;
use std::path::PathBuf;
use store::{Pick, Records, STEPS_MAX, Span};
use whatif::{Advice, Options, Past};
use why::when::{self, Now};

use crate::manage::SocketArg;

/// Rows of a minute are kept for so long, if nothing else is set. Longer times are read by the
/// quarter of an hour, of which there are rows for longer.
const USUAL_MS: i64 = 3 * 1440 * duration::MINUTE_MS;
const QUARTER_MS: i64 = 15 * duration::MINUTE_MS;

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
#[derive(Debug)]
struct Question {
    span: Span,
    options: Options,
}

impl Question {
    fn of(args: &SizeArgs, now: &Now) -> Result<Question, Error> {
        let (from_ms, to_ms) =
            time_between(args.from.as_deref(), args.to.as_deref(), USUAL_MS, now)?;
        let step_ms = match to_ms.saturating_sub(from_ms) > USUAL_MS {
            true => QUARTER_MS,
            false => duration::MINUTE_MS,
        };
        if to_ms.saturating_sub(from_ms) / step_ms > STEPS_MAX {
            return Err(Error::Message("--from is at most 200 days before --to".into()));
        }
        let options = Options {
            percentile_permille: args.percentile,
            headroom_permille: args.headroom,
            enough_ms: when::span(&args.enough)?.unsigned_abs(),
        };
        // Quarters begin on round times, as their rows do.
        let from_ms = from_ms - from_ms.rem_euclid(step_ms);
        Ok(Question { span: Span { from_ms, to_ms, step_ms }, options })
    }
}

/// What was recorded, and what it comes to.
#[derive(Debug)]
struct Answer {
    question: Question,
    /// When the first step began.
    from_ms: i64,
    past: Past,
    advice: Advice,
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

fn answer(args: &SizeArgs, now: &Now) -> Result<Answer, Error> {
    let question = Question::of(args, now)?;
    let path = crate::why::recordings(args.dir.as_deref())?;
    let pick = Pick {
        guests: Some(whatif::FIELDS.to_vec()),
        processes: None,
        ..Pick::from(Parts { guests: true, tiers: false, processes: false })
    };
    let mut past = Past::new(question.span.step_ms.unsigned_abs());
    let mut first_ms = None;
    Records::open(&path)?.visit_fields(question.span, &pick, |interval| {
        first_ms.get_or_insert(interval.from_ms);
        past.add(&interval);
        ControlFlow::Continue(())
    })?;
    let fits = |name: &str| args.guests.iter().any(|pattern| glob::matches(pattern, name));
    if let Some(nobody) =
        args.guests.iter().find(|p| !past.guests().any(|guest| glob::matches(p, &guest.name)))
    {
        let names = past.guests().map(|guest| guest.name.as_str());
        let near = match base::nearest(nobody, names).first() {
            Some(name) => format!("; did you mean {}?", base::plain(name, 60)),
            None => String::new(),
        };
        return Err(Error::Message(format!(
            "No guest {} was recorded in this time{near}",
            base::plain(nobody, 60)
        )));
    }
    past.retain(|guest| args.guests.is_empty() || fits(&guest.name));
    if past.guests().next().is_none() {
        let message = "No guest was recorded in this time: `pinhead report MAIN --from` says what \
                       there is of another";
        return Err(Error::Message(message.into()));
    }
    let advice = whatif::size(&past, &question.options);
    Ok(Answer { question, from_ms: first_ms.unwrap_or(now.ms), past, advice })
}

#[cfg(test)]
mod tests;
