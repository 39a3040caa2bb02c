//! Which parked guests are to run again, and what became of it: pure.
//!
//! A guest whose virtual CPUs stood still would never run again, if nobody but the manager knew
//! that they are to. One that somebody else has let run meanwhile is left alone.

use super::Held;
use hypervisor::RunState;
use std::collections::BTreeMap;

/// The parked guests of a manager that is no more.
#[derive(Clone, Debug, Default)]
pub struct Wakes {
    /// Their names, for messages.
    waiting: BTreeMap<u64, String>,
    failed: Vec<(String, String)>,
    awake: usize,
}

impl Wakes {
    /// Of these guests.
    pub fn new<'a>(parked: impl Iterator<Item = &'a Held>) -> Wakes {
        let waiting = parked.map(|held| (held.id, held.name.clone())).collect();
        Wakes { waiting, ..Wakes::default() }
    }

    /// How a guest is. Whether it is to be let run: then somebody is to tell what came of it.
    pub fn is_in(&mut self, id: u64, state: RunState) -> bool {
        match state {
            RunState::Paused => return self.waiting.contains_key(&id),
            RunState::Running => self.awake += usize::from(self.waiting.remove(&id).is_some()),
            // Its memory is on its way, or is of no use to anybody any more.
            RunState::Migrating | RunState::Dead => self.gone(id),
        }
        false
    }

    /// A guest is gone, or is another one.
    pub fn gone(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// Its hypervisor refused.
    pub fn stays(&mut self, id: u64, why: &str) {
        if let Some(name) = self.waiting.remove(&id) {
            self.failed.push((name, format!("its hypervisor refused: {why}")));
        }
    }

    /// Whether nothing more can be done.
    pub fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many run again, and who does not and why.
    pub fn outcomes(self) -> (usize, Vec<(String, String)>) {
        let silent = |name: String| (name, "its hypervisor is silent".to_owned());
        let silent = self.waiting.into_values().map(silent);
        (self.awake, self.failed.into_iter().chain(silent).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::Place;

    fn held(id: u64) -> Held {
        Held {
            id,
            name: format!("g{id}"),
            place: Place::Qmp("/a".into()),
            owner: 0,
            uuid: [0; 16],
            process: None,
            restore: 1,
            held: 1,
            taken: 0,
        }
    }

    #[test]
    fn who_stands_still_is_woken_once_and_who_runs_is_left_alone() {
        let parked: Vec<Held> = (1..6).map(held).collect();
        let mut wakes = Wakes::new(parked.iter());
        assert!(wakes.is_in(1, RunState::Paused));
        assert!(!wakes.is_in(1, RunState::Running));
        assert!(!wakes.is_in(1, RunState::Paused), "somebody else has stopped it now");
        assert!(!wakes.is_in(2, RunState::Running), "somebody else has let it run");
        assert!(!wakes.is_in(9, RunState::Paused), "nobody has parked it");
        wakes.gone(3);
        assert!(wakes.is_in(4, RunState::Paused));
        wakes.stays(4, "no");
        assert!(!wakes.is_over());
        let (awake, failed) = wakes.outcomes();
        let failed: Vec<String> =
            failed.into_iter().map(|(name, why)| name + ": " + &why).collect();
        assert_eq!(awake, 2);
        assert_eq!(failed, ["g4: its hypervisor refused: no", "g5: its hypervisor is silent"]);
    }
}
