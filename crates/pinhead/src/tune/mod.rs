//! `pinhead tune`: what deserves doing, by what was recorded.
//!
//! ```text
//!   recordings ─► Past, Habits ─┐
//!   passes ─► Player ───────────┴─► whatif::tune ─► findings ─► played again with the change
//! ```

mod found;
mod show;

use crate::Error;
use crate::args::Format;
use crate::why::time_between;
use base::{Bytes, duration};
use clap::Args;
use found::{Advised, Foretold, Found};
use model::{GuestField, Parts};
use policy::arbiter::{Config, Limits};
use policy::rivals::Kind;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use store::{Pick, Records, Span};
use whatif::{Advice, Change, Finding, Habits, Known, Options, Past, Player, Remedy};
use why::when::{self, Now};

/// How far back is looked if nothing is said.
const USUAL_MS: i64 = 1440 * duration::MINUTE_MS;
/// Recordings have a row a minute.
const STEP_MS: i64 = duration::MINUTE_MS;
/// A year of minutes would take more memory than it is worth.
const SPAN_MS_MAX: i64 = 366 * USUAL_MS;

/// `pinhead tune`
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// From when: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"; a day before the end if it is
    /// not given
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Until when; now if it is not given
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// When something was done: tell what was found before it, and what came of that
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// With less history than this nothing is said of a guest's size: 90m, 3h, 1d
    #[arg(long, value_name = "SPAN", default_value = TuneArgs::ENOUGH)]
    pub enough: String,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// The recordings, if not those that the manager makes by itself
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl TuneArgs {
    /// With less history than this nothing is said of a guest's size.
    pub const ENOUGH: &'static str = "3h";
}

/// Tells what deserves doing.
pub fn run(args: &TuneArgs) -> Result<String, Error> {
    tune(args, &::why::now())
}

fn tune(args: &TuneArgs, now: &Now) -> Result<String, Error> {
    let (from_ms, to_ms) = time_between(args.from.as_deref(), args.to.as_deref(), USUAL_MS, now)?;
    if to_ms.saturating_sub(from_ms) > SPAN_MS_MAX {
        return Err(Error::Message("--from is at most a year before --to".into()));
    }
    let since_ms = args.since.as_deref().map(|text| when::begin(text, now)).transpose()?;
    // A minute in which it was done is of neither.
    let minute_ms = since_ms.map(|since_ms| since_ms - since_ms.rem_euclid(STEP_MS));
    if minute_ms.is_some_and(|minute_ms| minute_ms <= from_ms || minute_ms + STEP_MS >= to_ms) {
        return Err(Error::Message(
            "--since lies between --from and --to, more than a minute from either".into(),
        ));
    }
    let path = crate::why::recordings(args.dir.as_deref())?;
    let records = Records::open(&path)?;
    let enough_ms = when::span(&args.enough)?.unsigned_abs();
    let Some((since_ms, minute_ms)) = since_ms.zip(minute_ms) else {
        let found = found(&records, (from_ms, to_ms), enough_ms)?;
        return show::show(&found, args.format);
    };
    let before = found(&records, (from_ms, minute_ms), enough_ms)?;
    let after = found(&records, (minute_ms + STEP_MS, to_ms), enough_ms)?;
    show::since(&before, &after, since_ms, args.format, now)
}

fn found(records: &Records, (from_ms, to_ms): (i64, i64), enough_ms: u64) -> Result<Found, Error> {
    let (past, habits) = read(records, from_ms, to_ms)?;
    let guests = past.guests().count();
    if guests == 0 {
        return Err(Error::Message("No guest was recorded in this time".into()));
    }
    let advice: Advice = whatif::size(&past, &Options { enough_ms, ..Options::USUAL });
    let play = |change: Change| -> Result<Player, Error> {
        let mut player = Player::new(change);
        records.passes(from_ms, to_ms, |pass| {
            player.play(&pass);
            ControlFlow::Continue(())
        })?;
        Ok(player)
    };
    let player = play(Change::default())?;
    let known = Known {
        past: &past,
        advice: &advice,
        habits: &habits,
        player: Some(&player).filter(|player| player.passes() > 0),
    };
    let sums = |player: Player| (player.total(), mean_free(&player));
    let mut as_it_was = None;
    let mut advised = Vec::new();
    for finding in whatif::tune(&known) {
        let foretold = match change_of(&finding, player.kind()).filter(|_| player.passes() > 0) {
            Some(change) => {
                // Both are estimates of the same kind, so that they can be compared. The one
                // without a change is the same for all findings.
                let before = match as_it_was {
                    Some(before) => before,
                    None => {
                        let kind = Some(player.kind());
                        *as_it_was.insert(sums(play(Change { kind, ..Change::default() })?))
                    }
                };
                Some(Foretold { before, after: sums(play(change)?) })
            }
            None => None,
        };
        // What does not help when it is played is not advised.
        if foretold.as_ref().is_none_or(Foretold::helps) {
            advised.push(Advised { finding, foretold });
        }
    }
    Ok(Found { advised, guests })
}

fn mean_free(player: &Player) -> u128 {
    let host = player.host();
    host.available.checked_div(u128::from(host.ms)).unwrap_or(0)
}

fn read(records: &Records, from_ms: i64, to_ms: i64) -> Result<(Past, Habits), Error> {
    let fields: BTreeSet<GuestField> =
        whatif::FIELDS.iter().chain(whatif::GUEST_FIELDS).copied().collect();
    let pick = Pick {
        guests: Some(fields.into_iter().collect()),
        processes: Some(whatif::PROCESS_FIELDS.to_vec()),
        ..Pick::from(Parts { guests: true, tiers: false, processes: true })
    };
    let (mut past, mut habits) = (Past::new(STEP_MS.unsigned_abs()), Habits::default());
    records.visit_fields(Span { from_ms, to_ms, step_ms: STEP_MS }, &pick, |interval| {
        past.add(&interval);
        habits.add(&interval);
        ControlFlow::Continue(())
    })?;
    Ok((past, habits))
}

/// What a remedy changes of the passes; `None` for one that no pass knows of.
fn change_of(finding: &Finding, kind: Kind) -> Option<Change> {
    let who = finding.guest.clone();
    let kind = Some(kind);
    let limited = |change: fn(Limits, Bytes) -> Limits, size: Bytes| Change {
        kind,
        adjust: Some(Box::new(move |name: &str, limits: Limits| match name == who {
            true => change(limits, size),
            false => limits,
        })),
        ..Change::default()
    };
    match finding.remedy {
        Remedy::Max(size) => Some(limited(
            |limits, size| Limits { max: size.min(limits.max).max(limits.min), ..limits },
            size,
        )),
        Remedy::Min(size) => Some(limited(
            |limits, size| Limits { min: size.max(limits.min).min(limits.max), ..limits },
            size,
        )),
        Remedy::SetPoint(size) => Some(Change {
            kind,
            replan: Some(Box::new(move |config: Config| Config { set_point: size, ..config })),
            ..Change::default()
        }),
        Remedy::Memory(_)
        | Remedy::Stop(_)
        | Remedy::Slower
        | Remedy::NoKsm
        | Remedy::NoPageOut => None,
    }
}

#[cfg(test)]
mod tests;
