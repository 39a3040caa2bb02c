//! Release of all pools after the end of the manager.

use super::messages::Messages;
use super::name::UserId;
use crate::Id;
use reactor::PollSet;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Time after which no message of a killed manager can arrive. The program that sends the manager's
/// messages may outlive the manager.
const SURE_MS: u64 = 6_000;

/// Release of the pools of some users. After a killed manager each pool is emptied a second time,
/// when that manager's messages can no longer arrive.
#[derive(Debug)]
pub struct ZvmRelease {
    messages: Messages,
    users: BTreeMap<Id, UserId>,
    /// Result of the last message to each user.
    outcomes: BTreeMap<Id, Result<(), String>>,
    /// Time at which all messages are sent once more, if a second release is scheduled.
    again_ms: Option<u64>,
    /// Number of expected answers.
    open: usize,
}

impl ZvmRelease {
    /// Starts the release for users with these names, by their ids. An invalid name has no pool and
    /// is skipped.
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

    /// Schedules a second release, for a manager that was killed just now.
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

    /// Returns true if nothing is left to do.
    pub fn is_over(&self) -> bool {
        self.again_ms.is_none() && self.open == 0
    }

    /// Adds the descriptors to poll.
    pub fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        self.messages.fds(set);
    }

    /// Returns the time of the next turn.
    pub fn next_ms(&self) -> u64 {
        let waits = self.again_ms.filter(|_| self.open == 0);
        self.messages.next_ms().min(waits.unwrap_or(u64::MAX))
    }

    /// Handles answers, and starts the second release when it is due.
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

    /// Returns the number of users with all their memory, and the other users, each with the
    /// reason.
    pub fn outcomes(&self) -> (usize, Vec<(String, String)>) {
        let why = |id: &Id| match self.outcomes.get(id) {
            Some(Ok(())) => None,
            Some(Err(why)) => Some(why.clone()),
            None => Some("the time was not sufficient".to_owned()),
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
    fn pool_is_emptied_at_once_and_again_after_pending_messages() {
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
    fn unreachable_user_is_reported_with_the_reason() {
        let mut release = ZvmRelease::of("/nonexistent".into(), [(1, "A".to_owned())]);
        assert_eq!(release.outcomes().1, [("A".into(), "the time was not sufficient".into())]);
        release.turn(0);
        let (given, failed) = release.outcomes();
        assert!(given == 0 && failed[0].1.contains("cannot be started"), "{failed:?}");
    }
}
