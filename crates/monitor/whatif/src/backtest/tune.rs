//! Findings in recordings, each replayed with its remedy.
//!
//! ```text
//!   recordings ─► Past, Habits ─┐
//!   passes ─► Player ───────────┴─► whatif::tune ─► findings ─► played again with the change
//! ```

use crate::backtest::Error;
use crate::{
    Change, ENOUGH_MS, Finding, GuestHabits, Habits, Known, Options, Past, Player, Remedy,
    SwingWatch, Tally,
};
use base::{Bytes, counted, duration};
use model::GuestField;
use policy::arbiter::{Config, Limits};
use policy::rivals::Kind;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use store::{Pick, Records, Span};

/// Length of a step: recordings have a row a minute.
const STEP_MS: i64 = duration::MINUTE_MS;

/// Findings in a time range, best first.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Findings with a remedy that helps in the replay.
    pub all: Vec<Advised>,
    /// Number of guests that existed at the end and have enough history.
    pub known: usize,
    /// Description of the guests without enough history, if there are some.
    pub too_little: Option<String>,
}

impl Findings {
    /// Returns the reason for an empty list, and a description of the guests that were left out.
    pub fn notes(&self) -> Vec<String> {
        let is_silent = self.known == 0 && self.all.is_empty();
        if let Some(too_little) = self.too_little.as_ref().filter(|_| is_silent) {
            return vec![format!("No suggestions yet: {too_little}.")];
        }
        let guests = counted(self.known as u64, "guest");
        let nothing = self.all.is_empty().then(|| format!("No suggestions for {guests}."));
        let left_out = self.too_little.as_ref().map(|words| format!("Left out: {words}."));
        nothing.into_iter().chain(left_out).collect()
    }
}

/// A finding, and the replayed effect of its remedy, if passes can show the effect.
#[derive(Clone, Debug)]
pub struct Advised {
    pub finding: Finding,
    pub foretold: Option<Foretold>,
}

/// Results of the passes without and with a remedy.
#[derive(Clone, Copy, Debug)]
pub struct Foretold {
    pub before: Outcome,
    pub after: Outcome,
}

/// Result of replayed passes.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Needs of all guests, and moves.
    pub tally: Tally,
    /// Mean free memory of the host.
    pub free: Bytes,
}

impl Foretold {
    /// Returns true if unmet needs fall by a twentieth or free memory rises by a hundredth.
    fn helps(&self) -> bool {
        let (before, after) = (&self.before, &self.after);
        let unmet = (before.tally.unmet, after.tally.unmet);
        let is_met = unmet.1 < unmet.0 && unmet.1 <= unmet.0 / 20 * 19;
        is_met || u128::from(after.free.0) > u128::from(before.free.0 / 100) * 101
    }
}

/// Returns the findings of a time range in milliseconds since 1970. The end is exclusive. A guest
/// with less history than `enough_ms` gets no findings about its size.
pub fn tune(
    records: &Records,
    (from_ms, to_ms): (i64, i64),
    enough_ms: u64,
) -> Result<Findings, Error> {
    let (mut past, habits) = read(records, from_ms, to_ms)?;
    past.retain_present();
    if past.guests().next().is_none() {
        return Err(Error::Nobody);
    }
    let advice = crate::size(&past, &Options { enough_ms, ..Options::USUAL });
    let play = |change: Change| -> Result<Player, Error> {
        let mut player = Player::new(change);
        records.passes(from_ms, to_ms, |pass| {
            player.play(&pass);
            ControlFlow::Continue(())
        })?;
        Ok(player)
    };
    let player = play(Change::default())?;
    let swings = swings(records, &past, &habits, to_ms)?;
    let known = Known {
        past: &past,
        advice: &advice,
        habits: &habits,
        swings: &swings,
        player: Some(&player).filter(|player| player.passes() > 0),
        enough_ms,
    };
    let outcome = |player: Player| Outcome {
        tally: player.total(),
        free: player.host().mean_available().unwrap_or(Bytes::ZERO),
    };
    let mut as_it_was = None;
    let mut all = Vec::new();
    for finding in crate::tune(&known) {
        let foretold = match change_of(&finding, player.kind()).filter(|_| player.passes() > 0) {
            Some(change) => {
                // Both results are estimates of the same kind, so they can be compared. All
                // findings share the result without a change.
                let before = match as_it_was {
                    Some(before) => before,
                    None => {
                        let kind = Some(player.kind());
                        *as_it_was.insert(outcome(play(Change { kind, ..Change::default() })?))
                    }
                };
                Some(Foretold { before, after: outcome(play(change)?) })
            }
            None => None,
        };
        // A remedy that does not help in the replay is not advised.
        if foretold.as_ref().is_none_or(Foretold::helps) {
            all.push(Advised { finding, foretold });
        }
    }
    let known = advice.guests.iter().filter(|guest| guest.has_enough()).count();
    Ok(Findings { all, known, too_little: advice.too_little(enough_ms) })
}

/// Watches the guests' rules in the samples of the last hour, if these rules acted in both
/// directions.
fn swings(
    records: &Records,
    past: &Past,
    habits: &Habits,
    to_ms: i64,
) -> Result<SwingWatch, Error> {
    let mut watch = SwingWatch::default();
    let reverses = |guest: &crate::Guest| {
        habits.guest(&guest.name, &guest.uuid).is_some_and(GuestHabits::reverses)
    };
    if past.guests().any(reverses) {
        let from_ms = to_ms.saturating_sub(ENOUGH_MS.cast_signed());
        records.raw(from_ms, to_ms, |moment| {
            watch.add(moment);
            ControlFlow::Continue(())
        })?;
    }
    Ok(watch)
}

fn read(records: &Records, from_ms: i64, to_ms: i64) -> Result<(Past, Habits), Error> {
    let fields: BTreeSet<GuestField> =
        crate::FIELDS.iter().chain(crate::GUEST_FIELDS).copied().collect();
    let pick = Pick {
        guests: Some(fields.into_iter().collect()),
        tiers: None,
        processes: Some(crate::PROCESS_FIELDS.to_vec()),
    };
    let (mut past, mut habits) = (Past::new(STEP_MS.unsigned_abs()), Habits::default());
    records.visit(Span { from_ms, to_ms, step_ms: STEP_MS }, pick, |interval| {
        past.add(&interval);
        habits.add(&interval);
        ControlFlow::Continue(())
    })?;
    Ok((past, habits))
}

/// Returns the change that represents a remedy in a replay. Returns `None` if passes cannot show
/// the remedy's effect.
fn change_of(finding: &Finding, kind: Kind) -> Option<Change> {
    let who = finding.guest.clone();
    let kind = Some(kind);
    let limited = |change: fn(Limits, Bytes) -> Limits, size: Bytes| Change {
        kind,
        limits: Some(Box::new(
            move |name: &str, limits: Limits| {
                if name == who { change(limits, size) } else { limits }
            },
        )),
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
            plan: Some(Box::new(move |config, _| Config { set_point: size, ..config })),
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
mod tests {
    use super::*;

    #[test]
    fn remedy_helps_if_it_meets_a_need_or_frees_memory() {
        let tally = |unmet: u128| Tally { unmet, ..Tally::default() };
        let outcome = |unmet, free| Outcome { tally: tally(unmet), free: Bytes(free) };
        let told = |unmet: [u128; 2], free: [u64; 2]| Foretold {
            before: outcome(unmet[0], free[0]),
            after: outcome(unmet[1], free[1]),
        };
        assert!(!told([100, 100], [500, 500]).helps(), "as before");
        assert!(!told([100, 99], [500, 501]).helps(), "by a hair");
        assert!(!told([0, 0], [0, 0]).helps(), "nothing at all");
        assert!(told([100, 50], [500, 400]).helps());
        assert!(told([0, 0], [500, 600]).helps());
    }
}
