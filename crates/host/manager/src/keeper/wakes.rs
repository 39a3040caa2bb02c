//! The schedule for waking parked guests, and the results. This module does no I/O.
//!
//! If only the manager knew the parked guests, their virtual CPUs would stay stopped after the
//! manager's death. The keeper resumes these guests. A guest that already runs is not resumed. But
//! the manager's last request to stop the guest may still be on its way, so the guest is watched
//! for a while.

use super::Held;
use hypervisor::RunState;
use std::collections::BTreeMap;

/// Time after which the last request of an ended manager has taken effect.
const SURE_MS: u64 = 6_000;

/// A guest that must run again.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// Name of the guest, for messages.
    name: String,
    /// True if the guest was observed stopped, so the manager's request has taken effect.
    stood: bool,
    /// Time since which the guest was observed running, without a stop before.
    runs_since_ms: Option<u64>,
}

/// The parked guests of an ended manager.
#[derive(Clone, Debug, Default)]
pub struct Wakes {
    waiting: BTreeMap<u64, Waiting>,
    /// Names of guests that could not be resumed, with the reasons, by id.
    failed: BTreeMap<u64, (String, String)>,
    awake: usize,
}

impl Wakes {
    /// Returns the schedule for these guests.
    pub fn new<'a>(parked: impl Iterator<Item = &'a Held>) -> Wakes {
        let waiting = |held: &Held| Waiting { name: held.name.clone(), ..Waiting::default() };
        let waiting = parked.map(|held| (held.id, waiting(held))).collect();
        Wakes { waiting, ..Wakes::default() }
    }

    /// Handles a guest's run state. Returns true if the guest must be resumed. The caller then
    /// reports the result.
    pub fn is_in(&mut self, id: u64, state: RunState, now_ms: u64) -> bool {
        let Some(guest) = self.waiting.get_mut(&id) else { return false };
        match state {
            RunState::Paused(_) => {
                guest.stood = true;
                return true;
            }
            RunState::Running if guest.stood => self.runs(id),
            RunState::Running => _ = guest.runs_since_ms.get_or_insert(now_ms),
            // The guest's memory is on its way to another host, or no longer matters.
            RunState::Migrating | RunState::Dead => self.gone(id),
        }
        false
    }

    /// Updates the time.
    pub fn step(&mut self, now_ms: u64) {
        let due = |(_, guest): &(&u64, &Waiting)| guest.sure_ms().is_some_and(|ms| ms <= now_ms);
        let sure: Vec<u64> = self.waiting.iter().filter(due).map(|(id, _)| *id).collect();
        sure.into_iter().for_each(|id| self.runs(id));
    }

    /// Returns the time of the next check.
    pub fn next_ms(&self) -> u64 {
        self.waiting.values().filter_map(Waiting::sure_ms).min().unwrap_or(u64::MAX)
    }

    fn runs(&mut self, id: u64) {
        self.awake += usize::from(self.waiting.remove(&id).is_some());
    }

    /// Notes that a guest is gone or was replaced.
    pub fn gone(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// Notes that the guest's hypervisor refused to resume the guest.
    pub fn stays(&mut self, id: u64, why: &str) {
        if let Some(guest) = self.waiting.remove(&id) {
            self.failed.insert(id, (guest.name, format!("its hypervisor refused: {why}")));
        }
    }

    /// Returns true if nothing is left to do.
    pub fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of resumed guests, and the names of the others with the reasons.
    pub fn outcomes(self) -> (usize, Vec<(String, String)>) {
        let silent = |guest: Waiting| (guest.name, "its hypervisor does not respond".to_owned());
        let silent = self.waiting.into_values().map(silent);
        (self.awake, self.failed.into_values().chain(silent).collect())
    }

    /// Returns true for a guest that may still be stopped.
    pub fn is_left(&self, id: u64) -> bool {
        self.waiting.contains_key(&id) || self.failed.contains_key(&id)
    }
}

impl Waiting {
    /// Returns the time from which a guest that runs now is certain to keep running.
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
    fn stopped_guest_is_woken_once_and_running_guest_left_alone() {
        let parked: Vec<Held> = (1..6).map(held).collect();
        let mut wakes = Wakes::new(parked.iter());
        assert!(wakes.is_in(1, STANDS, 0));
        assert!(!wakes.is_in(1, RunState::Running, 0));
        assert!(!wakes.is_in(1, STANDS, 0), "another program has stopped the guest");
        assert!(!wakes.is_in(2, RunState::Running, 0), "another program has resumed the guest");
        assert_eq!(wakes.next_ms(), 6_000);
        wakes.step(6_000);
        assert!(!wakes.is_in(2, STANDS, 6_000), "another program has stopped the guest");
        assert!(!wakes.is_in(9, STANDS, 0), "the guest was not parked");
        wakes.gone(3);
        assert!(wakes.is_in(4, STANDS, 0));
        wakes.stays(4, "no");
        assert!(!wakes.is_over());
        let (awake, failed) = wakes.outcomes();
        let failed: Vec<String> =
            failed.into_iter().map(|(name, why)| name + ": " + &why).collect();
        assert_eq!(awake, 2);
        assert_eq!(
            failed,
            ["g4: its hypervisor refused: no", "g5: its hypervisor does not respond"]
        );
    }

    #[test]
    fn guest_stopped_late_by_an_ended_manager_is_woken() {
        let parked = [held(1)];
        let mut wakes = Wakes::new(parked.iter());
        assert!(!wakes.is_in(1, RunState::Running, 0));
        wakes.step(5_999);
        assert!(!wakes.is_over(), "the guest may still be stopped");
        assert!(wakes.is_in(1, STANDS, 5_999));
        assert!(!wakes.is_in(1, RunState::Running, 6_010));
        assert!(wakes.is_over());
        assert_eq!(wakes.outcomes().0, 1);
    }
}
