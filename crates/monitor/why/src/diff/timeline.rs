//! Targets of two policies for one guest over time.

use std::collections::VecDeque;
use store::{Decision, Outcome, Policy};

/// Smallest relative difference that counts, as a divisor: 1 %.
const PARTED: u64 = 100;
/// Milliseconds in an hour.
const HOUR: f64 = 3_600_000.0;
const MIB: f64 = (1 << 20) as f64;

/// A target with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Size for the guest.
    pub bytes: u64,
    /// Deciding clause.
    pub clause: String,
    /// Reason of the policy.
    pub reason: String,
}

/// A time in which the sizes of the two policies differ. The targets are those of the moment with
/// the largest difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// Start of the difference.
    pub from_ms: i64,
    /// End of the difference, or of the requested time.
    pub to_ms: i64,
    /// Target of the policy in force.
    pub active: Target,
    /// Target of the shadow policy.
    pub shadow: Target,
}

impl Parting {
    fn apart(&self) -> u64 {
        self.active.bytes.abs_diff(self.shadow.bytes)
    }
}

/// Comparison for one guest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// Differences between the targets for the guest. If there are very many, the list contains
    /// only the first differences.
    pub partings: Vec<Parting>,
    /// Number of all differences.
    pub count: u64,
    /// Total length of all differences.
    pub parted_ms: i64,
    /// Total time in which both targets were known.
    pub known_ms: i64,
    /// Additional memory of the guest under the shadow policy, in MiB times hours. The value is
    /// negative if the guest would have less memory.
    pub mib_hours: f64,
    /// Number of decisions of the policy in force that changed the guest's size.
    pub active_moves: u64,
    /// Number of decisions of the shadow policy that would have changed the guest's size.
    pub shadow_moves: u64,
}

/// The present targets of both policies, and the totals up to now.
#[derive(Debug)]
pub struct Timeline {
    at_ms: i64,
    active: Option<Target>,
    shadow: Option<Target>,
    open: Option<Parting>,
    /// Future steps of a move by the policy in force: time and size.
    steps: VecDeque<(i64, u64)>,
    total: Total,
    most: usize,
}

impl Timeline {
    /// Creates a timeline that starts at a time and lists at most `most` differences.
    pub fn new(at_ms: i64, most: usize) -> Timeline {
        let total = Total::default();
        let steps = VecDeque::new();
        Timeline { at_ms, active: None, shadow: None, open: None, steps, total, most }
    }

    /// Sets a decision that was already in force.
    pub fn begin(&mut self, decision: &Decision) {
        let target = Target {
            bytes: decision.to_bytes,
            clause: decision.clause.to_string(),
            reason: decision.reason(),
        };
        match decision.policy {
            Policy::Active => self.active = Some(target),
            Policy::Shadow => self.shadow = Some(target),
        }
    }

    /// Adds the next decision.
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

    /// Adds the outcomes of a decision. A move in several steps reaches the size of each step in
    /// turn.
    pub fn came(&mut self, decision: &Decision, outcomes: &[Outcome]) {
        if decision.policy == Policy::Active {
            let later = outcomes.iter().skip(1);
            self.steps = later.map(|outcome| (outcome.at_ms, outcome.reached_bytes)).collect();
        }
    }

    /// Marks both targets as unknown from here on.
    pub fn forget(&mut self, at_ms: i64) {
        self.go_to(at_ms);
        self.close();
        (self.active, self.shadow) = (None, None);
    }

    /// Ends the timeline at a time, and returns the comparison.
    pub fn end(mut self, at_ms: i64) -> Total {
        self.go_to(at_ms);
        self.close();
        self.total
    }

    /// Advances to a time. On the way, each step of a move changes the size.
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

    /// Accounts for the time up to `at_ms`. Several decisions of one moment count as one, because
    /// only targets that are in force for some time can differ.
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
            detail: String::new(),
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
