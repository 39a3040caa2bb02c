//! What was decided again beside what the journal has.

use crate::replay::Replayed;
use base::Bytes;
use std::collections::BTreeMap;

/// Targets that differ by less than this part of the larger one are the same, in thousandths.
const SAME_PERMILLE: u64 = 50;

/// A decision that a journal has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The guest's name.
    pub guest: String,
    /// Its UUID.
    pub uuid: String,
    /// `hold`, `grow`, `shrink`.
    pub action: String,
    /// What it had.
    pub from: Bytes,
    /// What it was to have.
    pub to: Bytes,
    /// In a sentence.
    pub reason: String,
}

/// Where two parted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// When.
    pub at_ms: i64,
    /// For whom.
    pub guest: String,
    /// What the journal has, if anything.
    pub recorded: Option<Recorded>,
    /// What was decided again, if anything.
    pub replayed: Option<Replayed>,
}

/// How well they agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Decisions of either.
    pub all: u64,
    /// Those that both have: the same guest and time, the same direction, the target within 5 %.
    pub same: u64,
    /// The same of those that moved memory.
    pub moves: u64,
    /// And of these both have.
    pub same_moves: u64,
    /// The first decisions that are not the same.
    pub differences: Vec<Difference>,
}

/// Differences that are kept.
const KEPT: usize = 100;

/// What the journal has of a moment, and what was decided again.
type Both<'a> = (Option<&'a Recorded>, Option<&'a Replayed>);

/// Compares decisions by the same policy over the same time.
pub fn compare(recorded: &[Recorded], replayed: &[Replayed]) -> Agreement {
    let mut all: BTreeMap<(i64, &str, &str), Both<'_>> = BTreeMap::new();
    for one in recorded {
        all.entry((one.at_ms, &one.guest, &one.uuid)).or_default().0 = Some(one);
    }
    for one in replayed {
        all.entry((one.at_ms, &one.who.name, &one.who.uuid)).or_default().1 = Some(one);
    }
    let mut agreement = Agreement::default();
    for ((at_ms, guest, _), (recorded, replayed)) in all {
        let is_same = recorded.zip(replayed).is_some_and(|(a, b)| is_same(a, b));
        let moves = recorded.is_some_and(|one| ["grow", "shrink"].contains(&&*one.action))
            || replayed.is_some_and(|one| one.moves);
        agreement.all += 1;
        agreement.same += u64::from(is_same);
        agreement.moves += u64::from(moves);
        agreement.same_moves += u64::from(moves && is_same);
        if !is_same && agreement.differences.len() < KEPT {
            agreement.differences.push(Difference {
                at_ms,
                guest: guest.to_owned(),
                recorded: recorded.cloned(),
                replayed: replayed.cloned(),
            });
        }
    }
    agreement
}

fn is_same(recorded: &Recorded, replayed: &Replayed) -> bool {
    let (a, b) = (recorded.to, replayed.to);
    let differs = a.less(b).plus(b.less(a));
    recorded.action == replayed.action.told(replayed.clause)
        && differs <= a.max(b).permille(SAME_PERMILLE)
}
