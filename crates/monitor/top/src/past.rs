//! Decisions from the journal: made before the display began, or within a recording.

use super::model::{DECISIONS_MAX, Decided};
use crate::Error;
use base::duration::MINUTE_MS;
use model::GuestIdentity;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::path::Path;
use store::{GuestKey, Journal, Policy, Query, Range};

/// Maximum number of decisions read, which limits the time to draw a screen.
const READ_MAX: usize = 200_000;

/// Key that distinguishes new decisions from repeated decisions. The journal contains the decisions
/// of every pass.
type Mark = (String, String, u64);

/// Returns the decisions of a time range, newest first, about guests for which `id_of` returns an
/// id. If equal decisions follow each other, only the first of them is returned.
pub(super) fn decisions(
    journal: &Journal,
    range: Range,
    mut id_of: impl FnMut(&GuestIdentity) -> Option<u64>,
) -> Result<VecDeque<Decided>, Error> {
    let mut known: HashMap<GuestKey, (u64, GuestIdentity)> = HashMap::new();
    for row in journal.guests()? {
        let is_in = row.first_ms <= range.to_ms && row.last_ms >= range.from_ms - MINUTE_MS;
        if is_in && let Some(id) = id_of(&row.guest) {
            known.insert(row.key, (id, row.guest));
        }
    }
    let mut marks: HashMap<GuestKey, Mark> = HashMap::new();
    let mut found = VecDeque::new();
    let mut count = 0;
    let guests = known.keys().copied().collect();
    journal.decisions(&Query { guests, range, policy: Some(Policy::Active) }, |one| {
        count += 1;
        let Some((id, guest)) = known.get(&one.guest) else { return ControlFlow::Continue(()) };
        let decision = one.decision;
        let reason = decision.reason();
        let (action, clause) = (decision.action.into_owned(), decision.clause.into_owned());
        let mark = (action.clone(), clause.clone(), decision.to_bytes);
        if marks.get(&one.guest) != Some(&mark) {
            marks.insert(one.guest, mark);
            found.push_front(Decided {
                at_ms: Some(decision.at_ms),
                id: *id,
                guest: guest.name.clone(),
                class: guest.class.clone(),
                action,
                clause,
                target_bytes: Some(decision.to_bytes),
                reason,
            });
            found.truncate(DECISIONS_MAX);
        }
        if count < READ_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(found)
}

pub(super) fn open(path: &Path) -> Option<Journal> {
    if path.is_file() { Journal::read_only(path).ok() } else { None }
}
