//! Moves that a dry run decides and does not carry out, for the summary at its end.

use base::{Bytes, counted, plain};
use std::collections::BTreeMap;

/// Maximum number of guests in the summary.
const SHOWN_MAX: usize = 20;
/// Maximum number of guests with counted moves.
const GUESTS_MAX: usize = 2_000;
/// Maximum length of a guest's name in the summary.
const NAME_MAX: usize = 60;

#[derive(Debug)]
struct Moves {
    count: u64,
    first: Bytes,
    last: Bytes,
    taken: Bytes,
    given: Bytes,
}

/// Moves of all guests, by name.
#[derive(Debug, Default)]
pub(crate) struct DryRun(BTreeMap<String, Moves>);

impl DryRun {
    pub(super) fn count(&mut self, guest: &str, from: Bytes, to: Bytes) {
        if self.0.len() >= GUESTS_MAX && !self.0.contains_key(guest) {
            return;
        }
        let new =
            || Moves { count: 0, first: from, last: to, taken: Bytes::ZERO, given: Bytes::ZERO };
        let moves = self.0.entry(guest.to_owned()).or_insert_with(new);
        moves.count += 1;
        moves.last = to;
        moves.taken = moves.taken.plus(from.less(to));
        moves.given = moves.given.plus(to.less(from));
    }

    /// Returns a line for all guests, and a line for each of the guests with the largest moves.
    pub(crate) fn summary(&self, guests: usize) -> Vec<String> {
        let of = counted(guests as u64, "guest");
        if self.0.is_empty() {
            return vec![format!("Dry run: the manager would have changed none of {of}")];
        }
        let mut all: Vec<(&String, &Moves)> = self.0.iter().collect();
        all.sort_by_key(|(_, moves)| std::cmp::Reverse(moves.taken.plus(moves.given)));
        let count = counted(all.iter().map(|(_, moves)| moves.count).sum(), "move");
        let mut lines = vec![format!(
            "Dry run: the manager would have changed {} of {of}, in {count}",
            all.len()
        )];
        lines.extend(all.iter().take(SHOWN_MAX).map(|(name, moves)| {
            format!(
                "{}: {} -> {} MiB in {}: {} MiB taken, {} MiB given",
                plain(name, NAME_MAX),
                moves.first.nearest_mib(),
                moves.last.nearest_mib(),
                counted(moves.count, "move"),
                moves.taken.nearest_mib(),
                moves.given.nearest_mib(),
            )
        }));
        let rest = all.len().saturating_sub(SHOWN_MAX);
        lines.extend(
            (rest > 0).then(|| format!("and {} with smaller moves", counted(rest as u64, "guest"))),
        );
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_counts_and_sizes_by_guest() {
        let mut dry = DryRun::default();
        assert_eq!(dry.summary(30), ["Dry run: the manager would have changed none of 30 guests"]);
        dry.count("g2", Bytes::mib(100), Bytes::mib(110));
        dry.count("g1\x1b", Bytes::mib(256), Bytes::mib(200));
        dry.count("g1\x1b", Bytes::mib(200), Bytes::mib(220));
        let lines = dry.summary(3);
        assert_eq!(lines[0], "Dry run: the manager would have changed 2 of 3 guests, in 3 moves");
        assert!(lines[1].ends_with(": 256 -> 220 MiB in 2 moves: 56 MiB taken, 20 MiB given"));
        assert!(!lines[1].contains('\x1b'), "{}", lines[1]);
        assert_eq!(lines[2], "g2: 100 -> 110 MiB in 1 move: 0 MiB taken, 10 MiB given");
        (0..30).for_each(|n| dry.count(&format!("h{n}"), Bytes::mib(2), Bytes::mib(1)));
        let lines = dry.summary(32);
        assert_eq!(lines.len(), 1 + SHOWN_MAX + 1);
        assert_eq!(lines[21], "and 12 guests with smaller moves");
    }
}
