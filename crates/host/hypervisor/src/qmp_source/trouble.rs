//! Problems with sockets and directories, and limits on the cost of named users. Each problem is
//! reported once.
//!
//! Problems with root's own sockets are all reported. Another user can create any number of sockets
//! and guests. The limits prevent such a user from exhausting connections and filling the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use reactor::Budget;

use crate::{Event, Owner};

/// Maximum number of stored problems, each of which is reported only once. Problems beyond this
/// limit are not reported.
const TROUBLES_MAX: usize = 1_024;
/// Maximum number of connections to one named user's sockets, per second and at once.
const CONNECTS_A_SECOND: u64 = 16;
const CONNECTS_AT_ONCE: u64 = 64;
/// Cost of one new guest or one problem for a named user. The limit is one guest or problem per ten
/// seconds, and 32 at once.
const NEWS: u64 = 1_000;
const NEWS_A_SECOND: u64 = 100;
const NEWS_AT_ONCE: u64 = 32 * NEWS;

/// Subject of a problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    Search,
    /// Directories that any user may write to.
    Open,
    /// Sockets in this directory may not be opened.
    Rights(PathBuf),
    /// No process listens on sockets in this directory.
    Dead(PathBuf),
    /// An owner has more sockets for this pattern than are managed.
    Full(String, Owner),
    /// An owner's directories have more entries than are read for this pattern.
    Cut(String, Owner),
    Socket(PathBuf),
}

/// Remaining allowance of a named user.
#[derive(Debug)]
struct Allowance {
    connects: Budget,
    news: Budget,
}

/// Reported problems, and the allowances of users.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    reported: BTreeMap<Trouble, String>,
    allowances: BTreeMap<Owner, Allowance>,
}

impl Troubles {
    /// Reports a problem unless it was reported before.
    pub(super) fn report(
        &mut self,
        owner: Owner,
        trouble: Trouble,
        words: String,
        now_ms: u64,
        events: &mut Vec<Event>,
    ) {
        let before = self.reported.get(&trouble);
        let is_known = match trouble {
            // These messages name one socket of many, or a number that changes.
            Trouble::Dead(_) | Trouble::Full(..) | Trouble::Cut(..) => before.is_some(),
            _ => before == Some(&words),
        };
        let is_full = before.is_none() && self.reported.len() >= TROUBLES_MAX;
        if !is_known && !is_full && self.may_come(owner, now_ms) {
            events.push(Event::Trouble(words.clone()));
            self.reported.insert(trouble, words);
        }
    }

    /// Returns the first of the problems that persist, in the order of [`Trouble`].
    pub(super) fn first(&self) -> Option<&str> {
        self.reported.values().next().map(String::as_str)
    }

    /// Forgets a solved problem, so that it is reported when it occurs again.
    pub(super) fn over(&mut self, trouble: &Trouble) {
        self.reported.remove(trouble);
    }

    /// Forgets the problems found by searches, except those that persist.
    pub(super) fn keep(&mut self, still: &BTreeSet<Trouble>) {
        self.reported.retain(|trouble, _| match trouble {
            Trouble::Dead(_) | Trouble::Full(..) | Trouble::Cut(..) => still.contains(trouble),
            Trouble::Search | Trouble::Open | Trouble::Rights(_) | Trouble::Socket(_) => true,
        });
    }

    /// Returns true if one more connection to a user's sockets is allowed now.
    pub(super) fn may_connect(&mut self, owner: Owner, now_ms: u64) -> bool {
        self.spend(owner, now_ms, |allowance| (&mut allowance.connects, 1))
    }

    /// Returns true if one more guest or problem of a user may be reported now.
    pub(super) fn may_come(&mut self, owner: Owner, now_ms: u64) -> bool {
        self.spend(owner, now_ms, |allowance| (&mut allowance.news, NEWS))
    }

    fn spend(
        &mut self,
        owner: Owner,
        now_ms: u64,
        of: impl Fn(&mut Allowance) -> (&mut Budget, u64),
    ) -> bool {
        if owner.is_trusted() {
            return true;
        }
        let allowance = self.allowances.entry(owner).or_insert_with(|| Allowance {
            connects: Budget::new(CONNECTS_A_SECOND, CONNECTS_AT_ONCE, now_ms),
            news: Budget::new(NEWS_A_SECOND, NEWS_AT_ONCE, now_ms),
        });
        let (budget, cost) = of(allowance);
        budget.refill(now_ms);
        let may = budget.left() >= cost;
        if may {
            budget.spend(cost);
        }
        may
    }
}
