//! `pinhead replay` and `pinhead simulate`: repeat recorded passes, unchanged, with another policy,
//! or with other hosts and guests.
//!
//! ```text
//!   passes ─► backtest::Replay (as recorded) ─┬─► and the journal: the same decisions?
//!         └─► backtest::Replay (changed) ─────┴─► compared: needs, moves, memory × time
//! ```

mod show;

use crate::args::Format;
use crate::quantities::span;
use crate::waiting::Task;
use crate::why::recorded_between;
use crate::{Error, RecordingsError};
use base::{Bad, Bytes, counted, duration, parse_percent, parse_size};
use clap::Args;
use reports::recorded;
use std::cell::Cell;
use std::path::PathBuf;
use whatif::backtest::{self, Played, Replay, World};
use whatif::{Agreement, Change};
use why::when::{self, Now};

const USUAL_MS: i64 = 60 * duration::MINUTE_MS;
/// Maximum number of another policy's decisions that are kept. The policies diverge much sooner.
const DECISIONS_MAX: usize = 100_000;

/// Maximum growth, in thousandths of the recorded use.
const GROWTH_MAX: u64 = 10_000;

/// Recordings and their time.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// Directory of recordings instead of the manager's
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Start time: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"
    ///
    /// The default is an hour before the end; two hours for `simulate --fit`.
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End time; default: now, or the end of the recordings in --dir
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// `pinhead replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Policy to compare with the recorded policy, or a settings file
    ///
    /// Policies: pinhead, mom, proxmox, pi, senpai, reporting, none.
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// Assumed memory of the host, or of all guests together
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub host: Option<Bytes>,
    /// Journal file with the recorded decisions, instead of the manager's
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
}

/// `pinhead simulate`
#[derive(Debug, Args)]
pub struct SimulateArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Policy to simulate, or a settings file
    ///
    /// Policies: pinhead, mom, proxmox, pi, senpai, reporting, none.
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// Assumed memory of the host, or of all guests together
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub host: Option<Bytes>,
    /// Percentage by which every guest uses more memory
    #[arg(long, value_name = "PERCENT", value_parser = growth)]
    pub grow: Option<u64>,
    /// Number of additional guests with the load of those of --like
    #[arg(long, value_name = "N", requires = "like",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub more: Option<u32>,
    /// Find how many more guests like those of --like fit
    ///
    /// The additional guests fit under two conditions. The host is below its reserve for no longer
    /// than without them. And the needs of all guests exceed the free memory by no more than
    /// without them.
    #[arg(long, requires = "like", conflicts_with = "more")]
    pub fit: bool,
    /// Pattern of guest names, such as 'web*'
    #[arg(long, value_name = "PATTERN")]
    pub like: Option<String>,
    /// Minimum history for --fit: 90m, 3h, 1d
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = span)]
    pub enough: String,
}

fn growth(text: &str) -> Result<u64, Bad> {
    parse_percent(text, GROWTH_MAX)
}

fn source(args: &SourceArgs, usual_ms: i64, now: &Now) -> Result<Replay, Error> {
    let (from_ms, to_ms) = recorded_between(&args.from, &args.to, usual_ms, &args.dir, now)?;
    let path = recorded::dir(args.dir.as_deref())?;
    Ok(Replay::open(&path, from_ms, to_ms)?)
}

/// Replays the recording. If another policy or host is given, replays the recording with this
/// change, too, and compares both.
pub fn run(args: &ReplayArgs) -> Result<String, Error> {
    let now = ::why::now();
    replay(args, &now)
}

fn replay(args: &ReplayArgs, now: &Now) -> Result<String, Error> {
    let world = World { policy: args.policy.clone(), host: args.host, ..World::default() };
    let change = world.change()?;
    let task = Task::new("reading the passes");
    let source = source(&args.source, USUAL_MS, now)?;
    task.is_now("replaying the passes".into());
    let played = source.play(Change::default(), usize::MAX)?;
    task.is_now("comparing the decisions with the journal".into());
    let agreement = agreement(args, &played)?;
    let other = match change.is_none() {
        false => {
            let name = args.policy.clone().unwrap_or_else(|| "another host".into());
            task.is_now(format!("replaying the passes with {}", base::plain(&name, 40)));
            Some((name, source.play(change, DECISIONS_MAX)?))
        }
        true => None,
    };
    drop(task);
    show::replay(&played, agreement.as_ref(), other.as_ref(), args.source.format, now)
}

/// Compares the replayed decisions with the journal. Returns `None` if no journal covers the time
/// span.
fn agreement(args: &ReplayArgs, played: &Played) -> Result<Option<Agreement>, Error> {
    let usual = || recorded::journal_of(args.source.dir.as_deref());
    let path = args.journal.clone().unwrap_or_else(usual);
    if args.journal.is_none() && !path.exists() {
        return Ok(None);
    }
    Ok(Replay::agreement(&path, played)?)
}

/// Replays the recording with another policy, host or guests, and compares the result with the
/// original.
pub fn simulate(args: &SimulateArgs) -> Result<String, Error> {
    simulate_at(args, &::why::now())
}

fn simulate_at(args: &SimulateArgs, now: &Now) -> Result<String, Error> {
    let world = World {
        policy: args.policy.clone(),
        host: args.host,
        growth_permille: args.grow.unwrap_or(0),
        more: args.more.zip(args.like.clone()),
    };
    let change = world.change()?;
    if change.is_none() && !args.fit {
        return Err(RecordingsError::NoChange.into());
    }
    // A search needs an hour of passes. The last hour may lack some passes at both ends.
    let usual_ms = if args.fit { 2 * USUAL_MS } else { USUAL_MS };
    let task = Task::new("reading the passes");
    let source = source(&args.source, usual_ms, now)?;
    if let (true, Some(like)) = (args.fit, &args.like) {
        let source = source.with_enough(when::span(&args.enough)?.unsigned_abs());
        let tries = Cell::new(0_u32);
        let fit = backtest::search(&source, &world, like, &|guests| {
            task.is_now(tried(&tries, guests));
        })?;
        return show::fit(&fit, like, args.source.format);
    }
    task.is_now("replaying the passes".into());
    let played = source.play(Change::default(), 0)?;
    args.like.as_deref().map_or(Ok(()), |pattern| played.must_have(pattern))?;
    show::simulate(&played, &source.play(change, 0)?, args.source.format, now)
}

/// Counts a try of a search, and returns its description.
fn tried(tries: &Cell<u32>, guests: u32) -> String {
    tries.set(tries.get() + 1);
    format!("try {}: {}", tries.get(), counted(guests.into(), "more guest"))
}

#[cfg(test)]
mod tests;
