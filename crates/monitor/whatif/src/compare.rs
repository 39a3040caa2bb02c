//! Comparison of replayed decisions with the journal.

use crate::replay::Replayed;
use base::Bytes;
use model::SizeAction;
use std::collections::BTreeMap;

/// Difference below which two targets count as equal, in thousandths of the larger target.
const SAME_PERMILLE: u64 = 50;

/// A decision of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The guest's name.
    pub guest: String,
    /// The guest's UUID.
    pub uuid: String,
    /// The action.
    pub action: SizeAction,
    /// Memory before the decision.
    pub from: Bytes,
    /// Target.
    pub to: Bytes,
}

/// A decision that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The guest's name.
    pub guest: String,
    /// Decision of the journal, if any.
    pub recorded: Option<Recorded>,
    /// Replayed decision, if any.
    pub replayed: Option<Replayed>,
}

/// Agreement of a replay with the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Number of decisions in the journal, in the replay or in both.
    pub all: u64,
    /// Number of equal decisions: same guest, same time, same action, and targets within 5 %.
    pub same: u64,
    /// Number of decisions that move memory.
    pub moves: u64,
    /// Number of equal decisions that move memory.
    pub same_moves: u64,
    /// The first differences.
    pub differences: Vec<Difference>,
}

const KEPT: usize = 100;

/// Decisions of the journal and of the replay about the same guest at the same time.
type Both<'a> = (Option<&'a Recorded>, Option<&'a Replayed>);

/// Compares decisions of the same policy over the same time.
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
        let moves = recorded
            .is_some_and(|one| matches!(one.action, SizeAction::Grow | SizeAction::Shrink))
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
