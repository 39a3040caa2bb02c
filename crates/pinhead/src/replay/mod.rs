//! `pinhead replay` and `pinhead simulate`: recorded passes decided again, as they were, by another
//! policy, or in another world.
//!
//! ```text
//!   passes.db ─► whatif::Player (as recorded) ─┬─► beside the journal: the same decisions?
//!            └─► whatif::Player (changed) ─────┴─► beside each other: needs, moves, memory × time
//! ```

mod fit;
mod show;

use crate::Error;
use crate::args::Format;
use crate::why::{journal_of, time_between};
use base::{Bytes, duration, glob, parse_size};
use clap::Args;
use manager::config::{Place, Settings};
use model::GuestIdentity;
use policy::rivals::Kind;
use settings::Share;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use store::{GuestKey, Journal, Policy, Query, Range, Records};
use whatif::{Agreement, Change, Player, Recorded, Replayed};
use why::when::Now;

/// How far back is played if nothing is said.
const USUAL_MS: i64 = 60 * duration::MINUTE_MS;
/// Guests in one question to the journal.
const GUESTS_MAX: usize = 10_000;
/// A journal knows when a guest was seen last to so much.
const LAST_SEEN_MS: i64 = duration::MINUTE_MS;
/// So much is played before the time that is asked for: what a policy remembers is then as it was.
const WARM_MS: i64 = 15 * duration::MINUTE_MS;
/// Decisions of another policy that are kept: they part much sooner.
const DECISIONS_MAX: usize = 100_000;

/// Which recording, and which time of it.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// The recordings, if not those that the manager makes by itself
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// From when: 14:03, "2026-11-21 14:03", 2026-11-21, "3h ago"; an hour before the end if it is
    /// not given
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Until when; now if it is not given
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// `pinhead replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Another policy beside the one that ran: pinhead, mom, proxmox, pi, senpai, reporting, none,
    /// or a file of the manager's settings
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// The memory of the host, or what guests may use together, instead of what it was
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub host: Option<Bytes>,
    /// The journal with the decisions that were made, if not the manager's own
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
}

/// `pinhead simulate`
#[derive(Debug, Args)]
pub struct SimulateArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Another policy: pinhead, mom, proxmox, pi, senpai, reporting, none, or a file of the
    /// manager's settings
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// The memory of the host, or what guests may use together, instead of what it was
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub host: Option<Bytes>,
    /// So much more than they used does each guest use
    #[arg(long, value_name = "PERCENT", value_parser = growth)]
    pub grow: Option<u64>,
    /// So many more guests like those of --like, which do at each moment what they did
    #[arg(long, value_name = "N", requires = "like",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub more: Option<u32>,
    /// How many more guests like those of --like fit, until a need is not met that was met
    #[arg(long, requires = "like", conflicts_with = "more")]
    pub fit: bool,
    /// A pattern of guests' names, such as 'web*'
    #[arg(long, value_name = "PATTERN")]
    pub like: Option<String>,
}

fn size(text: &str) -> Result<Bytes, String> {
    parse_size(text).map_err(|bad| bad.help)
}

fn growth(text: &str) -> Result<u64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| base::thousandths(number, 1));
    let permille =
        number.map(|thousandths| thousandths / 100).filter(|permille| *permille <= 10_000);
    permille.ok_or_else(|| "say a part up to \"1000%\", at most to a tenth: \"3%\"".to_owned())
}

/// What is played, and when.
struct Source {
    records: Records,
    from_ms: i64,
    to_ms: i64,
}

impl Source {
    fn of(args: &SourceArgs, now: &Now) -> Result<Source, Error> {
        let (from_ms, to_ms) =
            time_between(args.from.as_deref(), args.to.as_deref(), USUAL_MS, now)?;
        let path = crate::why::recordings(args.dir.as_deref())?;
        Ok(Source { records: Records::open(&path)?, from_ms, to_ms })
    }

    /// Plays all of it, and a while before it that does not count. Of what was decided as many are
    /// kept.
    fn play(&self, change: Change, most: usize) -> Result<Played, Error> {
        let mut player = Player::new(change);
        let mut decisions = Vec::new();
        let (mut first_ms, mut last_ms) = (None, None);
        let warm_ms = self.from_ms.saturating_sub(WARM_MS);
        self.records.passes(warm_ms, self.to_ms, |pass| {
            if pass.at_ms < self.from_ms {
                player.play(&pass);
                return ControlFlow::Continue(());
            }
            if first_ms.is_none() {
                first_ms = Some(pass.at_ms);
                player.count_from_here();
            }
            last_ms = Some(pass.at_ms);
            let room = most.saturating_sub(decisions.len());
            decisions.extend(player.play(&pass).into_iter().take(room));
            ControlFlow::Continue(())
        })?;
        let Some((from_ms, to_ms)) = first_ms.zip(last_ms) else {
            return Err(Error::Message(
                "No passes were recorded in this time. `pinhead host` records them beside its \
                 samples of a second, and keeps them as long; what was recorded before it did so \
                 cannot be replayed"
                    .into(),
            ));
        };
        Ok(Played { player, decisions, from_ms, to_ms })
    }
}

/// What came of playing a recording.
struct Played {
    player: Player,
    decisions: Vec<Replayed>,
    from_ms: i64,
    to_ms: i64,
}

/// A policy by its name or by a file of settings: what it changes.
fn policy_of(name: &str) -> Result<Change, Error> {
    if let Some(kind) = Kind::from_name(name) {
        return Ok(Change { kind: Some(kind), ..Change::default() });
    }
    let path = Path::new(name);
    if !path.exists() {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        return Err(Error::Message(format!(
            "{} is neither a policy nor a file: say one of {}, or a file of the manager's settings",
            base::plain(name, 100),
            names.join(", ")
        )));
    }
    let loaded = manager::config::load(Some(path), &Place::of_this_process(None))?;
    let settings = loaded.settings;
    if settings.policy.rules.is_some() {
        return Err(Error::Message(format!(
            "{} has rules of an operator ([policy] rules), which cannot be replayed: they ask for \
             more than a pass records",
            path.display()
        )));
    }
    Ok(change_of(settings))
}

fn change_of(settings: Settings) -> Change {
    let (for_plan, kind) = (settings.clone(), settings.policy.kind);
    Change {
        kind: Some(kind),
        plan: Some(Box::new(move |total| for_plan.arbiter(total))),
        limits: Some(Box::new(move |name, most| settings.limits(name, most).0)),
        ..Change::default()
    }
}

/// Plays what was recorded, and another policy beside it.
pub fn run(args: &ReplayArgs) -> Result<String, Error> {
    let now = ::why::now();
    replay(args, &now)
}

fn replay(args: &ReplayArgs, now: &Now) -> Result<String, Error> {
    let mut change = args.policy.as_deref().map(policy_of).transpose()?;
    if args.host.is_some() {
        change.get_or_insert_default().total = args.host;
    }
    let source = Source::of(&args.source, now)?;
    let played = source.play(Change::default(), usize::MAX)?;
    let agreement = agreement(args, &played)?;
    let other = match change {
        Some(change) => {
            let name = args.policy.clone().unwrap_or_else(|| "another host".into());
            Some((name, source.play(change, DECISIONS_MAX)?))
        }
        None => None,
    };
    show::replay(&played, agreement.as_ref(), other.as_ref(), args.source.format, now)
}

/// How well what was decided again agrees with the journal. `None` where there is no journal that
/// has any of it.
fn agreement(args: &ReplayArgs, played: &Played) -> Result<Option<Agreement>, Error> {
    let usual = || journal_of(args.source.dir.as_deref());
    let path = args.journal.clone().unwrap_or_else(usual);
    if args.journal.is_none() && !path.exists() {
        return Ok(None);
    }
    let journal = Journal::read_only(&path)?;
    let guests = journal.guests()?.into_iter().filter(|guest| {
        guest.last_ms + LAST_SEEN_MS >= played.from_ms && guest.first_ms <= played.to_ms
    });
    let guests: HashMap<GuestKey, GuestIdentity> =
        guests.take(GUESTS_MAX).map(|guest| (guest.key, guest.guest)).collect();
    let query = Query {
        guests: guests.keys().copied().collect(),
        range: Range { from_ms: played.from_ms, to_ms: played.to_ms },
        policy: Some(Policy::Active),
    };
    let mut recorded = Vec::new();
    journal.decisions(&query, |decided| {
        let decision = decided.decision;
        // What the manager itself did at a guest's coming and going is no decision of the policy.
        if let Some(who) = guests.get(&decided.guest)
            && ["hold", "grow", "shrink"].contains(&&*decision.action)
        {
            recorded.push(Recorded {
                at_ms: decision.at_ms,
                guest: who.name.clone(),
                uuid: who.uuid.clone(),
                action: decision.action.into_owned(),
                from: Bytes(decision.from_bytes),
                to: Bytes(decision.to_bytes),
                reason: decision.reason,
            });
        }
        ControlFlow::Continue(())
    })?;
    Ok((!recorded.is_empty()).then(|| whatif::compare(&recorded, &played.decisions)))
}

/// Plays another world beside the one that was.
pub fn simulate(args: &SimulateArgs) -> Result<String, Error> {
    simulate_at(args, &::why::now())
}

fn simulate_at(args: &SimulateArgs, now: &Now) -> Result<String, Error> {
    let changed = || -> Result<Change, Error> {
        let mut change = args.policy.as_deref().map_or_else(|| Ok(Change::default()), policy_of)?;
        change.total = args.host;
        change.growth_permille = args.grow.unwrap_or(0);
        change.more = args.more.zip(args.like.clone());
        Ok(change)
    };
    if changed()?.is_none() && !args.fit {
        return Err(Error::Message(
            "Say what is to be different: --host, --grow, --more with --like, --policy, or --fit"
                .into(),
        ));
    }
    let source = Source::of(&args.source, now)?;
    let played = source.play(Change::default(), usize::MAX)?;
    if let Some(pattern) = &args.like {
        let fits = |name: &str| glob::matches(pattern, name);
        if !played.player.guests().any(|(name, _)| fits(name)) {
            let pattern = base::plain(pattern, 60);
            return Err(Error::Message(format!("No guest {pattern} was recorded in this time")));
        }
    }
    if let (true, Some(like)) = (args.fit, &args.like) {
        let play = |count: u32| {
            let mut change = changed()?;
            change.more = Some((count, like.clone())).filter(|_| count > 0);
            // The same estimate with and without more guests.
            change.kind = change.kind.or(Some(played.player.kind()));
            source.play(change, 0)
        };
        let fit = fit::search(&play)?;
        return show::fit(&fit, like, args.source.format);
    }
    let other = source.play(changed()?, 0)?;
    show::simulate(&played, &other, args.source.format, now)
}

/// A part, as people write it.
pub(super) fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        whole => {
            let permille = u128::from(part) * 1000 / u128::from(whole);
            Share::Permille(u64::try_from(permille).unwrap_or(u64::MAX)).to_string()
        }
    }
}

#[cfg(test)]
mod tests;
