//! `pinhead host diff`: differences between the policy in force and its shadow.
//!
//! Each policy's targets are steps in time, because a target is in force until the next decision.
//! The comparison of the targets shows when the sizes differ, by how much memory, and for how long.
//! While no manager runs, both targets are unknown.

mod answer;
mod timeline;

pub use answer::Answer;
pub use timeline::{Parting, Total};

use crate::Error;
use crate::when::{self, Now};
use crate::who::{self, Chosen};
use std::collections::HashMap;
use std::ops::ControlFlow;
use store::{GuestKey, Journal, Policy, Query, Range, kinds};
use timeline::Timeline;

/// Maximum number of events searched for ends of the manager and of guests.
const EVENTS_MAX: u32 = 100_000;
/// Maximum number of differences listed per guest. The sums include all differences.
const PARTINGS_MAX: usize = 1_000;

/// Compares both policies from a journal, for a time up to now, for one guest or all guests.
pub fn answer(
    journal: &Journal,
    last: &str,
    guest: Option<&str>,
    now: Now,
) -> Result<Answer, Error> {
    let range = when::last(last, &now)?;
    let rows = journal.guests()?;
    let chosen = match guest {
        Some(guest) => who::choose(guest, &rows)?,
        None => who::guests(&rows),
    };
    let timelines = follow(journal, &chosen, range)?;
    let guests =
        chosen.into_iter().zip(timelines.into_iter().map(|timeline| timeline.end(range.to_ms)));
    Ok(Answer { guests: guests.collect(), range, now })
}

/// Follows both policies through the time, guest by guest.
fn follow(journal: &Journal, chosen: &[Chosen], range: Range) -> Result<Vec<Timeline>, Error> {
    let whose = who::places(chosen);
    let keys: Vec<GuestKey> = chosen.iter().flat_map(|guest| guest.keys.clone()).collect();
    let mut timelines: Vec<Timeline> =
        chosen.iter().map(|_| Timeline::new(range.from_ms, PARTINGS_MAX)).collect();
    let ends = Range { from_ms: i64::MIN, to_ms: range.to_ms };
    let mut ends = journal.events(&keys, ends, EVENTS_MAX)?;
    ends.retain(|found| is_end(&found.event.kind));
    begin(journal, chosen, &mut timelines, range, &ends, &whose)?;
    let mut ends = ends.into_iter().filter(|found| found.event.at_ms >= range.from_ms).peekable();
    journal.decisions(&Query { guests: keys, range, policy: None }, |decided| {
        let at_ms = decided.decision.at_ms;
        while let Some(end) = ends.next_if(|end| end.event.at_ms <= at_ms) {
            forget(&mut timelines, end.guest.map(|key| whose.get(&key)), end.event.at_ms);
        }
        if let Some(guest) = whose.get(&decided.guest) {
            timelines[*guest].decide(&decided.decision);
            timelines[*guest].came(&decided.decision, &decided.outcomes);
        }
        ControlFlow::Continue(())
    })?;
    for end in ends {
        forget(&mut timelines, end.guest.map(|key| whose.get(&key)), end.event.at_ms);
    }
    Ok(timelines)
}

/// Reads the decisions in force at the start. A decision is left out if the manager or the guest
/// has ended after it.
fn begin(
    journal: &Journal,
    chosen: &[Chosen],
    timelines: &mut [Timeline],
    range: Range,
    ends: &[store::Found],
    whose: &HashMap<GuestKey, usize>,
) -> Result<(), Error> {
    let until = range.from_ms.saturating_sub(1);
    for (at, guest) in chosen.iter().enumerate() {
        let concerns = |found: &&store::Found| {
            found.event.at_ms <= until && found.guest.is_none_or(|key| whose.get(&key) == Some(&at))
        };
        let end = ends.iter().rev().find(concerns).map(|found| found.event.at_ms);
        for policy in [Policy::Active, Policy::Shadow] {
            let found = journal.in_force(&guest.keys, policy, until)?;
            let decided = found.filter(|found| end.is_none_or(|end| found.decision.at_ms >= end));
            if let Some(decided) = decided {
                timelines[at].begin(&decided.decision);
            }
        }
    }
    Ok(())
}

/// Returns true if targets are unknown after an event of this kind until the next decision. A
/// manager's start is such an event: if the previous manager was killed, the start is the only
/// trace of its end.
fn is_end(kind: &str) -> bool {
    [kinds::MANAGER_START, kinds::MANAGER_STOP, kinds::GONE].contains(&kind)
}

/// Clears the targets of one guest, or of all guests for an event without a guest.
fn forget(timelines: &mut [Timeline], whose: Option<Option<&usize>>, at_ms: i64) {
    match whose {
        None => timelines.iter_mut().for_each(|timeline| timeline.forget(at_ms)),
        Some(Some(guest)) => timelines[*guest].forget(at_ms),
        Some(None) => {}
    }
}
