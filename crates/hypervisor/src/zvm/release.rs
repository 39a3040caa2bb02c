//! Giving pools back when the manager is no more.

use super::messages::Messages;
use super::name::UserId;
use crate::Id;
use reactor::{PollFlags, PollSet};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a manager that is no more had begun to send is sent by then: its program may outlive it.
const SURE_MS: u64 = 6_000;

/// Empties the pools of some users: after a manager that was killed each a second time, when
/// nothing of that manager's can come any more.
#[derive(Debug)]
pub struct ZvmRelease {
    messages: Messages,
    users: BTreeMap<Id, UserId>,
    /// Why the last message to a user was not sent; `None` where it was.
    outcomes: BTreeMap<Id, Result<(), String>>,
    /// When all are to be sent once more, if they are.
    again_ms: Option<u64>,
    /// How many answers are still to come.
    open: usize,
}

impl ZvmRelease {
    /// Of users of these names, by their numbers. What is no name of a user has no pool.
    pub fn of(program: PathBuf, users: impl IntoIterator<Item = (u64, String)>) -> ZvmRelease {
        let users = users.into_iter().filter_map(|(id, name)| Some((Id(id), UserId::of(&name)?)));
        let mut release = ZvmRelease {
            messages: Messages::by(program),
            users: users.collect(),
            outcomes: BTreeMap::new(),
            again_ms: None,
            open: 0,
        };
        release.send();
        release
    }

    /// The same, of a manager that was killed just now.
    #[must_use]
    pub fn and_again(self, now_ms: u64) -> ZvmRelease {
        let again_ms = (!self.users.is_empty()).then_some(now_ms.saturating_add(SURE_MS));
        ZvmRelease { again_ms, ..self }
    }

    fn send(&mut self) {
        for (id, user) in &self.users {
            self.messages.put(*id, user.clone(), 0);
        }
        self.open = self.users.len();
    }

    /// Whether nothing is left to do.
    pub fn is_over(&self) -> bool {
        self.again_ms.is_none() && self.open == 0
    }

    /// Adds what it waits for.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        if let Some(descriptor) = self.messages.fd() {
            set.add(0, descriptor, PollFlags::IN);
        }
    }

    /// When it wants its next turn.
    pub fn next_ms(&self) -> u64 {
        let waits = self.again_ms.filter(|_| self.open == 0);
        self.messages.next_ms().min(waits.unwrap_or(u64::MAX))
    }

    /// Goes on.
    pub fn turn(&mut self, now_ms: u64) {
        for answer in self.messages.turn(now_ms) {
            self.open = self.open.saturating_sub(1);
            self.outcomes.insert(answer.guest, answer.sent);
        }
        if self.open == 0 && self.again_ms.is_some_and(|again_ms| now_ms >= again_ms) {
            self.again_ms = None;
            self.send();
        }
    }

    /// How many have all their memory, and who has not and why.
    pub fn outcomes(&self) -> (usize, Vec<(String, String)>) {
        let why = |id: &Id| match self.outcomes.get(id) {
            Some(Ok(())) => None,
            Some(Err(why)) => Some(why.clone()),
            None => Some("there was no time for it".to_owned()),
        };
        let failed = self.users.iter();
        let failed = failed.filter_map(|(id, user)| Some((user.as_str().to_owned(), why(id)?)));
        let failed: Vec<(String, String)> = failed.collect();
        (self.users.len() - failed.len(), failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pool_is_emptied_at_once_and_again_when_nothing_can_come_any_more() {
        let users =
            [(1, "LINUX01".to_owned()), (2, "no name".to_owned()), (3, "LINUX03".to_owned())];
        let mut release = ZvmRelease::of("true".into(), users).and_again(0);
        let settle = |release: &mut ZvmRelease, now_ms: u64| {
            release.turn(now_ms);
            while release.open > 0 {
                let mut set = PollSet::new();
                release.fds(&mut set);
                set.wait(30_000).unwrap();
                release.turn(now_ms);
            }
        };
        settle(&mut release, 0);
        assert_eq!(release.outcomes(), (2, Vec::new()));
        assert_eq!((release.is_over(), release.next_ms()), (false, SURE_MS));
        release.turn(SURE_MS);
        assert_eq!(release.open, 2);
        settle(&mut release, SURE_MS);
        assert!(release.is_over() && release.next_ms() == u64::MAX);
        assert!(ZvmRelease::of("true".into(), []).and_again(0).is_over());
    }

    #[test]
    fn who_cannot_be_reached_is_told_with_the_reason() {
        let mut release = ZvmRelease::of("/nonexistent".into(), [(1, "A".to_owned())]);
        assert_eq!(release.outcomes().1, [("A".into(), "there was no time for it".into())]);
        release.turn(0);
        let (given, failed) = release.outcomes();
        assert!(given == 0 && failed[0].1.contains("cannot be started"), "{failed:?}");
    }
}
