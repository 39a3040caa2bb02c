//! What is wrong with places, each thing reported once; and what users may cost who are named.
//!
//! Root's own sockets are reported in full. A user can make sockets and guests without end: of
//! them as many are connected to, taken and told as leave the others' history in the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use reactor::Budget;

use crate::{Event, Owner};

/// Troubles that are remembered, so that each is reported once. What comes on top is not told.
const TROUBLES_MAX: usize = 1_024;
/// Connections a second to sockets of one user who is named, and at once.
const CONNECTS_A_SECOND: u64 = 16;
const CONNECTS_AT_ONCE: u64 = 64;
/// What one guest that comes, or one trouble, costs such a user: one each ten seconds, and 32 at
/// once.
const NEWS: u64 = 1_000;
const NEWS_A_SECOND: u64 = 100;
const NEWS_AT_ONCE: u64 = 32 * NEWS;

/// What a trouble is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// Directories that may not be read.
    Search,
    /// Directories that anybody may write.
    Open,
    /// Sockets in this directory may not be opened.
    Rights(PathBuf),
    /// Nobody listens on sockets in this directory.
    Dead(PathBuf),
    /// More sockets of an owner fit this pattern than are looked after.
    Full(String, Owner),
    /// An owner's directories hold more than is looked at for this pattern.
    Cut(String, Owner),
    /// One socket.
    Socket(PathBuf),
}

/// What a user who is named may still cost.
#[derive(Debug)]
struct Allowance {
    connects: Budget,
    news: Budget,
}

/// The troubles that were reported, and what users have left.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    reported: BTreeMap<Trouble, String>,
    allowances: BTreeMap<Owner, Allowance>,
}

impl Troubles {
    /// Reports a trouble, unless it was reported already.
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
            // The words name one socket of many, or a number that changes.
            Trouble::Dead(_) | Trouble::Full(..) | Trouble::Cut(..) => before.is_some(),
            _ => before == Some(&words),
        };
        let is_full = before.is_none() && self.reported.len() >= TROUBLES_MAX;
        if !is_known && !is_full && self.may_come(owner, now_ms) {
            events.push(Event::Trouble(words.clone()));
            self.reported.insert(trouble, words);
        }
    }

    /// Forgets a trouble that is over, so that it is reported when it comes again.
    pub(super) fn over(&mut self, trouble: &Trouble) {
        self.reported.remove(trouble);
    }

    /// Forgets what a search for sockets finds, but for these troubles that are there still.
    pub(super) fn keep(&mut self, still: &BTreeSet<Trouble>) {
        self.reported.retain(|trouble, _| match trouble {
            Trouble::Dead(_) | Trouble::Full(..) | Trouble::Cut(..) => still.contains(trouble),
            Trouble::Search | Trouble::Open | Trouble::Rights(_) | Trouble::Socket(_) => true,
        });
    }

    /// Whether one more connection to a user's sockets is to be tried now.
    pub(super) fn may_connect(&mut self, owner: Owner, now_ms: u64) -> bool {
        self.spend(owner, now_ms, |allowance| (&mut allowance.connects, 1))
    }

    /// Whether one more guest of a user, or one more trouble, is to be reported now.
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
