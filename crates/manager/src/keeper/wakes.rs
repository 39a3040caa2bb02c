//! Which parked guests are to run again, and what became of it: pure.
//!
//! A guest whose virtual CPUs stood still would never run again, if nobody but the manager knew
//! that they are to. One that somebody else has let run meanwhile is left alone; but that may be
//! one that the manager's last word has yet to reach, so that it is watched for a while.

use super::Held;
use hypervisor::RunState;
use std::collections::BTreeMap;

/// What a manager that is no more has asked for is done by then.
const SURE_MS: u64 = 6_000;

/// A guest that is to run.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// For messages.
    name: String,
    /// It was seen to stand still: the manager's word has reached it.
    stood: bool,
    /// It has been seen to run from then on, and did not stand still before.
    runs_since_ms: Option<u64>,
}

/// The parked guests of a manager that is no more.
#[derive(Clone, Debug, Default)]
pub struct Wakes {
    waiting: BTreeMap<u64, Waiting>,
    /// By id: the name, and the reason.
    failed: BTreeMap<u64, (String, String)>,
    awake: usize,
}

impl Wakes {
    /// Of these guests.
    pub fn new<'a>(parked: impl Iterator<Item = &'a Held>) -> Wakes {
        let waiting = |held: &Held| Waiting { name: held.name.clone(), ..Waiting::default() };
        let waiting = parked.map(|held| (held.id, waiting(held))).collect();
        Wakes { waiting, ..Wakes::default() }
    }

    /// How a guest is. Whether it is to be let run: then somebody is to tell what came of it.
    pub fn is_in(&mut self, id: u64, state: RunState, now_ms: u64) -> bool {
        let Some(guest) = self.waiting.get_mut(&id) else { return false };
        match state {
            RunState::Paused(_) => {
                guest.stood = true;
                return true;
            }
            RunState::Running if guest.stood => self.runs(id),
            RunState::Running => _ = guest.runs_since_ms.get_or_insert(now_ms),
            // Its memory is on its way, or is of no use to anybody any more.
            RunState::Migrating | RunState::Dead => self.gone(id),
        }
        false
    }

    /// Time has passed.
    pub fn step(&mut self, now_ms: u64) {
        let due = |(_, guest): &(&u64, &Waiting)| guest.sure_ms().is_some_and(|ms| ms <= now_ms);
        let sure: Vec<u64> = self.waiting.iter().filter(due).map(|(id, _)| *id).collect();
        sure.into_iter().for_each(|id| self.runs(id));
    }

    /// When to look again.
    pub fn next_ms(&self) -> u64 {
        self.waiting.values().filter_map(Waiting::sure_ms).min().unwrap_or(u64::MAX)
    }

    fn runs(&mut self, id: u64) {
        self.awake += usize::from(self.waiting.remove(&id).is_some());
    }

    /// A guest is gone, or is another one.
    pub fn gone(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// Its hypervisor refused.
    pub fn stays(&mut self, id: u64, why: &str) {
        if let Some(guest) = self.waiting.remove(&id) {
            self.failed.insert(id, (guest.name, format!("its hypervisor refused: {why}")));
        }
    }

    /// Whether nothing more can be done.
    pub fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many run again, and who does not and why.
    pub fn outcomes(self) -> (usize, Vec<(String, String)>) {
        let silent = |guest: Waiting| (guest.name, "its hypervisor is silent".to_owned());
        let silent = self.waiting.into_values().map(silent);
        (self.awake, self.failed.into_values().chain(silent).collect())
    }

    /// Returns true for a guest that still stands.
    pub fn is_left(&self, id: u64) -> bool {
        self.waiting.contains_key(&id) || self.failed.contains_key(&id)
    }
}

impl Waiting {
    /// When it is certain that it runs, if it does.
    fn sure_ms(&self) -> Option<u64> {
        self.runs_since_ms.map(|since_ms| since_ms.saturating_add(SURE_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypervisor::Pause;

    const STANDS: RunState = RunState::Paused(Pause::ByHand);

    fn held(id: u64) -> Held {
        Held::example(id, 1, 1, 0)
    }

    #[test]
    fn who_stands_still_is_woken_once_and_who_runs_is_left_alone() {
        let parked: Vec<Held> = (1..6).map(held).collect();
        let mut wakes = Wakes::new(parked.iter());
        assert!(wakes.is_in(1, STANDS, 0));
        assert!(!wakes.is_in(1, RunState::Running, 0));
        assert!(!wakes.is_in(1, STANDS, 0), "somebody else has stopped it now");
        assert!(!wakes.is_in(2, RunState::Running, 0), "somebody else has let it run");
        assert_eq!(wakes.next_ms(), 6_000);
        wakes.step(6_000);
        assert!(!wakes.is_in(2, STANDS, 6_000), "somebody else has stopped it now");
        assert!(!wakes.is_in(9, STANDS, 0), "nobody has parked it");
        wakes.gone(3);
        assert!(wakes.is_in(4, STANDS, 0));
        wakes.stays(4, "no");
        assert!(!wakes.is_over());
        let (awake, failed) = wakes.outcomes();
        let failed: Vec<String> =
            failed.into_iter().map(|(name, why)| name + ": " + &why).collect();
        assert_eq!(awake, 2);
        assert_eq!(failed, ["g4: its hypervisor refused: no", "g5: its hypervisor is silent"]);
    }

    #[test]
    fn who_is_stopped_by_the_managers_last_word_is_woken_however_late_that_comes() {
        let parked = [held(1)];
        let mut wakes = Wakes::new(parked.iter());
        assert!(!wakes.is_in(1, RunState::Running, 0));
        wakes.step(5_999);
        assert!(!wakes.is_over(), "it may be stopped yet");
        assert!(wakes.is_in(1, STANDS, 5_999));
        assert!(!wakes.is_in(1, RunState::Running, 6_010));
        assert!(wakes.is_over());
        assert_eq!(wakes.outcomes().0, 1);
    }
}
