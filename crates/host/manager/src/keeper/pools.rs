//! Release of z/VM users' CMM pools by the keeper.
//!
//! The users' memory is not memory of this host. If z/VM has too little memory, it pages. All users
//! therefore get all of their memory at once, independent of this host's free memory.

use super::{Book, Place};
use hypervisor::ZvmRelease;
use reactor::PollSet;
use std::collections::BTreeMap;

/// Key of the pools' descriptors in a rescue's poll set. The keys of sources start at 0.
const OWNER: u64 = u64::MAX;

/// Releases of pools, one for each program that sends messages.
#[derive(Debug)]
pub(super) struct Pools(Vec<ZvmRelease>);

impl Pools {
    pub(super) fn of(book: &Book, now_ms: u64) -> Pools {
        let mut users: BTreeMap<&str, Vec<(u64, String)>> = BTreeMap::new();
        for held in book.guests() {
            if let Place::Messages { program } = &held.place {
                users.entry(program).or_default().push((held.id, held.name.clone()));
            }
        }
        let release = |(program, users): (&str, Vec<(u64, String)>)| {
            let release = ZvmRelease::of(program.into(), users);
            // A manager that ended in order has also ended its message programs.
            if book.is_asked_for() { release } else { release.and_again(now_ms) }
        };
        Pools(users.into_iter().map(release).collect())
    }

    pub(super) fn are_over(&self) -> bool {
        self.0.iter().all(ZvmRelease::is_over)
    }

    pub(super) fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        let set = set.owner(OWNER);
        self.0.iter().for_each(|release| release.fds(set));
    }

    pub(super) fn next_ms(&self) -> u64 {
        self.0.iter().map(ZvmRelease::next_ms).min().unwrap_or(u64::MAX)
    }

    pub(super) fn turn(&mut self, now_ms: u64) {
        self.0.iter_mut().for_each(|release| release.turn(now_ms));
    }

    /// Logs the outcome if there was a pool. Returns true if every user got its message.
    pub(super) fn report(&self, log: &mut dyn FnMut(&str)) -> bool {
        let mut are_all_told = true;
        for release in &self.0 {
            let (given, failed) = release.outcomes();
            let users = base::counted(given as u64, "user");
            log(&format!("z/VM: {users} received the message to take all memory back"));
            for (name, why) in failed {
                are_all_told = false;
                let why = why.escape_debug();
                log(&format!(
                    "{name} could not receive the message to take its memory back: {why}"
                ));
            }
        }
        are_all_told
    }
}
