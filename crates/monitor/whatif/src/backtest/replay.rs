//! Replay of recorded passes.

use crate::backtest::Error;
use crate::{Agreement, Change, Player, Recorded, Replayed};
use base::{Bytes, duration, glob};
use manager::config::{Place, Settings};
use model::{GuestIdentity, SizeAction};
use policy::arbiter::Clause;
use policy::rivals::Kind;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use store::{GuestKey, Journal, Policy, Query, Range, Records};

/// Maximum number of guests in one query of the journal.
const GUESTS_MAX: usize = 10_000;
/// Precision of the journal's time at which a guest was last seen.
const LAST_SEEN_MS: i64 = duration::MINUTE_MS;
/// Time that may be missing at the start and the end of a full history.
const STEP_MS: u64 = 60_000;
/// Time that is replayed before the requested range, so that the policy reaches its recorded state.
const WARM_MS: i64 = 15 * duration::MINUTE_MS;

/// A recording, and the range of time to replay.
#[derive(Debug)]
pub struct Replay {
    records: Records,
    from_ms: i64,
    to_ms: i64,
    enough_ms: u64,
}

/// The result of a replay.
pub struct Played {
    /// Player with the results.
    pub player: Player,
    /// Decisions, in their order.
    pub decisions: Vec<Replayed>,
    /// Time of the first pass.
    pub from_ms: i64,
    /// Time of the last pass.
    pub to_ms: i64,
}

impl Replay {
    /// Opens the recordings of a directory for a time range in milliseconds since 1970. The end is
    /// exclusive.
    pub fn open(dir: &Path, from_ms: i64, to_ms: i64) -> Result<Replay, Error> {
        Ok(Replay { records: Records::open(dir)?, from_ms, to_ms, enough_ms: 0 })
    }

    /// Sets the minimum recorded time for a search of further guests.
    pub fn with_enough(self, enough_ms: u64) -> Replay {
        Replay { enough_ms, ..self }
    }

    /// Returns an error if the recorded time is too short.
    pub(crate) fn must_last(&self, played: &Played) -> Result<(), Error> {
        let has_ms = played.player.host().ms;
        if has_ms.saturating_add(STEP_MS) >= self.enough_ms {
            return Ok(());
        }
        let show = |ms: u64| duration::show(i64::try_from(ms).unwrap_or(i64::MAX));
        Err(Error::TooLittle { has: show(has_ms), needs: show(self.enough_ms) })
    }

    /// Replays the whole range and keeps at most `most` decisions. A warm-up before the range does
    /// not count.
    pub fn play(&self, change: Change, most: usize) -> Result<Played, Error> {
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
        let (from_ms, to_ms) = first_ms.zip(last_ms).ok_or(Error::NoPasses)?;
        Ok(Played { player, decisions, from_ms, to_ms })
    }

    /// Returns the agreement of the replayed decisions with a journal, or `None` if the journal has
    /// no decisions in the range.
    pub fn agreement(journal: &Path, played: &Played) -> Result<Option<Agreement>, Error> {
        let journal = Journal::read_only(journal)?;
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
            // The manager's actions when a guest appears or ends are not decisions of the policy.
            // Releases are left out as well, because the manager or the operator made some of them.
            if let Some(who) = guests.get(&decided.guest)
                && let Some(action) = decision.action().filter(|one| *one != SizeAction::Release)
            {
                recorded.push(Recorded {
                    at_ms: decision.at_ms,
                    guest: who.name.clone(),
                    uuid: who.uuid.clone(),
                    action,
                    from: Bytes(decision.from_bytes),
                    to: Bytes(decision.to_bytes),
                });
            }
            ControlFlow::Continue(())
        })?;
        let decisions = played.decisions.iter().filter(|one| one.clause != Clause::Released);
        let replayed: Vec<Replayed> = decisions.cloned().collect();
        Ok((!recorded.is_empty()).then(|| crate::compare(&recorded, &replayed)))
    }
}

impl Played {
    /// Refuses a pattern that matches no guest's name.
    pub fn must_have(&self, pattern: &str) -> Result<(), Error> {
        if self.player.guests().any(|(name, _)| glob::matches(pattern, name)) {
            return Ok(());
        }
        Err(Error::no_guest(pattern, self.player.guests().map(|(name, _)| name)))
    }
}

/// Returns the changes of a policy, by its name or by a file of settings.
pub fn policy(name: &str) -> Result<Change, Error> {
    if let Some(kind) = Kind::from_name(name) {
        return Ok(Change { kind: Some(kind), ..Change::default() });
    }
    let path = Path::new(name);
    if !path.exists() {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let name = base::plain(name, 100);
        return Err(Error::NoPolicy { name, names: names.join(", ") });
    }
    let loaded = manager::config::load(Some(path), &Place::of_this_process(None))?;
    let settings = loaded.settings;
    if settings.policy.rules.is_some() {
        return Err(Error::Rules { path: path.into() });
    }
    Ok(change_of(settings))
}

fn change_of(settings: Settings) -> Change {
    let (for_plan, kind) = (settings.clone(), settings.policy.kind);
    Change {
        kind: Some(kind),
        plan: Some(Box::new(move |_, total| for_plan.arbiter(total))),
        limits: Some(Box::new(move |name, limits| settings.limits(name, limits.max).0)),
        ..Change::default()
    }
}
