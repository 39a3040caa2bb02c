//! Guests that were started again. A guest may get a new UUID at each start, but its reader sees
//! one guest.

use crate::gather::{GuestId, Measured};
use std::collections::BTreeMap;

/// Identity of a guest's last run, by the identities of the earlier runs.
pub(crate) type Successors = BTreeMap<GuestId, GuestId>;

/// Finds guests of one name and class that ran one after the other. Guests that ran at the same
/// time are different guests. `steps` has the guests of each interval, and the covered time of
/// their host.
pub(crate) fn successors<'a>(steps: &[(&'a BTreeMap<GuestId, Measured<'_>>, u64)]) -> Successors {
    let mut spans: BTreeMap<&'a GuestId, (usize, usize)> = BTreeMap::new();
    for (at, (guests, _)) in steps.iter().enumerate() {
        for id in guests.keys() {
            spans.entry(id).and_modify(|(_, last)| *last = at).or_insert((at, at));
        }
    }
    // Guests are sorted by name and class.
    let spans: Vec<(&GuestId, (usize, usize))> = spans.into_iter().collect();
    let mut found = Successors::new();
    for runs in spans.chunk_by(|(a, _), (b, _)| a.name == b.name && a.class == b.class) {
        let mut runs = runs.to_vec();
        runs.sort_by_key(|(_, span)| *span);
        let follows = |pair: &[(&GuestId, (usize, usize))]| {
            let (last, first) = (pair[0].1.1, pair[1].1.0);
            last < first || (last == first && is_in_turn(steps[last], &runs))
        };
        let Some(((last, _), earlier)) = runs.split_last() else { continue };
        if runs.windows(2).all(follows) {
            found.extend(earlier.iter().map(|(id, _)| ((*id).clone(), (*last).clone())));
        }
    }
    found
}

/// Returns true if these runs can have followed each other within one interval.
fn is_in_turn(
    (guests, whole_ms): (&BTreeMap<GuestId, Measured<'_>>, u64),
    runs: &[(&GuestId, (usize, usize))],
) -> bool {
    let present = runs.iter().filter_map(|(id, _)| guests.get(*id));
    let covered_ms = present.fold(0_u64, |sum, run| sum.saturating_add(run.over.covered_ms));
    // Without any covered time, the guests may have run at the same time.
    whole_ms > 0 && covered_ms <= whole_ms
}

/// Joins the earlier runs of an interval's guests with their last runs.
pub(crate) fn joined<'a>(
    guests: BTreeMap<GuestId, Measured<'a>>,
    successors: &Successors,
) -> BTreeMap<GuestId, Measured<'a>> {
    if !guests.keys().any(|id| successors.contains_key(id)) {
        return guests;
    }
    let mut found: BTreeMap<GuestId, Measured<'a>> = BTreeMap::new();
    for (id, guest) in guests {
        let id = successors.get(&id).cloned().unwrap_or(id);
        match found.get_mut(&id) {
            Some(other) => other.then(&guest),
            None => {
                found.insert(id, guest);
            }
        }
    }
    found
}
