//! Two policies' targets for one guest, followed through time.

use std::collections::VecDeque;
use store::{Decision, Outcome, Policy};

/// Targets that differ by more than one part in so many have parted: 1 %.
const PARTED: u64 = 100;
/// Milliseconds in an hour.
const HOUR: f64 = 3_600_000.0;
const MIB: f64 = (1 << 20) as f64;

/// A target and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The size that the guest is to have.
    pub bytes: u64,
    /// The clause that decided.
    pub clause: String,
    /// The policy's reason.
    pub reason: String,
}

/// A time in which the two policies would have the guest at another size, shown by the moment
/// at which they were furthest apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// When it began.
    pub from_ms: i64,
    /// When it ended, or the end of the time that was asked for.
    pub to_ms: i64,
    /// What the policy in force wanted.
    pub active: Target,
    /// What its shadow wanted.
    pub shadow: Target,
}

impl Parting {
    fn apart(&self) -> u64 {
        self.active.bytes.abs_diff(self.shadow.bytes)
    }
}

/// All about one guest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// When its targets were apart; the first ones, if there are very many.
    pub partings: Vec<Parting>,
    /// How many there were.
    pub count: u64,
    /// For how long in all.
    pub parted_ms: i64,
    /// For how long both targets were known.
    pub known_ms: i64,
    /// How much more memory the shadow would have had the guest hold, in MiB times hours;
    /// below 0 for less.
    pub mib_hours: f64,
    /// Decisions of the policy in force that moved the guest.
    pub active_moves: u64,
    /// The same of its shadow.
    pub shadow_moves: u64,
}

/// The two targets so far.
#[derive(Debug)]
pub struct Timeline {
    at_ms: i64,
    active: Option<Target>,
    shadow: Option<Target>,
    open: Option<Parting>,
    /// Steps of movements of the policy in force that are still to come: when, and to where.
    steps: VecDeque<(i64, u64)>,
    total: Total,
    most: usize,
}

impl Timeline {
    /// Begins at a time, and lists at most so many partings.
    pub fn new(at_ms: i64, most: usize) -> Timeline {
        let total = Total::default();
        let steps = VecDeque::new();
        Timeline { at_ms, active: None, shadow: None, open: None, steps, total, most }
    }

    /// What was in force already.
    pub fn begin(&mut self, decision: &Decision) {
        let target = Target {
            bytes: decision.to_bytes,
            clause: decision.clause.to_string(),
            reason: decision.reason.clone(),
        };
        match decision.policy {
            Policy::Active => self.active = Some(target),
            Policy::Shadow => self.shadow = Some(target),
        }
    }

    /// The next decision.
    pub fn decide(&mut self, decision: &Decision) {
        self.go_to(decision.at_ms);
        if decision.policy == Policy::Active {
            self.steps.clear();
        }
        self.begin(decision);
        if decision.from_bytes != decision.to_bytes {
            match decision.policy {
                Policy::Active => self.total.active_moves += 1,
                Policy::Shadow => self.total.shadow_moves += 1,
            }
        }
    }

    /// What came of it: one that went on in steps has led to the size of each in turn.
    pub fn came(&mut self, decision: &Decision, outcomes: &[Outcome]) {
        if decision.policy == Policy::Active {
            let later = outcomes.iter().skip(1);
            self.steps = later.map(|outcome| (outcome.at_ms, outcome.reached_bytes)).collect();
        }
    }

    /// From here on neither target is known.
    pub fn forget(&mut self, at_ms: i64) {
        self.go_to(at_ms);
        self.close();
        (self.active, self.shadow) = (None, None);
    }

    /// The end of the time.
    pub fn end(mut self, at_ms: i64) -> Total {
        self.go_to(at_ms);
        self.close();
        self.total
    }

    /// Goes on to here, by the steps on the way.
    fn go_to(&mut self, at_ms: i64) {
        while let Some((step_ms, bytes)) = self.steps.front().copied()
            && step_ms <= at_ms
        {
            self.steps.pop_front();
            self.account(step_ms);
            if let Some(active) = &mut self.active {
                active.bytes = bytes;
            }
        }
        self.account(at_ms);
    }

    /// Accounts for the time up to here. Decisions of the same moment count together: only
    /// what stood for a while has parted.
    fn account(&mut self, at_ms: i64) {
        let (from_ms, long) = (self.at_ms, at_ms.saturating_sub(self.at_ms));
        if long <= 0 {
            return;
        }
        self.at_ms = at_ms;
        let (Some(active), Some(shadow)) = (&self.active, &self.shadow) else {
            self.close();
            return;
        };
        self.total.known_ms += long;
        let apart = active.bytes.abs_diff(shadow.bytes);
        if apart <= active.bytes.max(shadow.bytes) / PARTED {
            self.close();
            return;
        }
        self.total.parted_ms += long;
        let more = shadow.bytes as f64 - active.bytes as f64;
        self.total.mib_hours += more / MIB * (long as f64 / HOUR);
        let open = self.open.get_or_insert_with(|| Parting {
            from_ms,
            to_ms: at_ms,
            active: active.clone(),
            shadow: shadow.clone(),
        });
        open.to_ms = at_ms;
        if apart > open.apart() {
            (open.active, open.shadow) = (active.clone(), shadow.clone());
        }
    }

    fn close(&mut self) {
        let Some(parting) = self.open.take() else { return };
        self.total.count += 1;
        if self.total.partings.len() < self.most {
            self.total.partings.push(parting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Fate, Word};

    fn decision(at_ms: i64, policy: Policy, from_bytes: u64, to_bytes: u64) -> Decision {
        Decision {
            at_ms,
            policy,
            action: Word::Borrowed("shrink"),
            clause: Word::Borrowed("setpoint"),
            reason: String::new(),
            from_bytes,
            to_bytes,
            bounds: Vec::new(),
            inputs: Vec::new(),
            acted: policy == Policy::Active,
        }
    }

    #[test]
    fn the_steps_of_a_movement_are_targets_as_its_first_one_is() {
        let size = |mib: u64| mib << 20;
        let mut timeline = Timeline::new(0, 10);
        timeline.decide(&decision(0, Policy::Shadow, size(800), size(400)));
        let active = decision(0, Policy::Active, size(800), size(600));
        timeline.decide(&active);
        let came = |at_ms, mib| Outcome {
            at_ms,
            fate: Fate::Reached,
            reached_bytes: size(mib),
            host_got_bytes: None,
        };
        timeline.came(&active, &[came(1_000, 600), came(2_000, 500), came(3_000, 400)]);
        let total = timeline.end(10_000);
        assert_eq!((total.known_ms, total.parted_ms), (10_000, 3_000));
    }
}
