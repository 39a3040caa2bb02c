//! A program of the host's rules, and its verdicts on a guest.

use crate::program::{Code, Fault, FaultKind, is_true};
use model::counters::{History, HostCounter};

/// A compiled rules file of the host's manager.
#[derive(Clone, Debug, PartialEq)]
pub struct HostProgram {
    /// The values in a row of the history, in slot order.
    pub counters: Vec<HostCounter>,
    /// Number of passes that the rules look back; 0 if they use no history.
    pub intervals: usize,
    pub(crate) shrink_guest: Option<Code>,
    pub(crate) grow_guest: Option<Code>,
    pub(crate) may_shrink: Option<Code>,
    pub(crate) may_grow: Option<Code>,
    pub(crate) shrink_size: Option<Code>,
    pub(crate) grow_size: Option<Code>,
}

/// The verdicts of the rules on one guest in one pass. `None` if the file has no such rule. A fault
/// means that the rule has no value in this pass. A rule without a value is no reason to act.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostWords {
    /// True: the guest should give memory.
    pub shrink_guest: Option<Result<bool, Fault>>,
    /// True: the guest needs memory.
    pub grow_guest: Option<Result<bool, Fault>>,
    /// False: the guest must not give memory now.
    pub may_shrink: Option<Result<bool, Fault>>,
    /// False: the guest must not get memory now.
    pub may_grow: Option<Result<bool, Fault>>,
    /// The size of a step down, rounded down to whole MiB; a negative size counts as 0.
    pub shrink_mib: Option<Result<i64, Fault>>,
    /// The size of a step up, rounded down to whole MiB; a negative size counts as 0.
    pub grow_mib: Option<Result<i64, Fault>>,
}

impl HostProgram {
    /// Returns the verdicts on one guest from its rows; the newest row belongs to this pass.
    pub fn evaluate(&self, history: &History) -> HostWords {
        let truth = |code: &Option<Code>| Some(code.as_ref()?.run(history).map(is_true));
        let size = |code: &Option<Code>| Some(code.as_ref()?.whole(history));
        HostWords {
            shrink_guest: truth(&self.shrink_guest),
            grow_guest: truth(&self.grow_guest),
            may_shrink: truth(&self.may_shrink),
            may_grow: truth(&self.may_grow),
            shrink_mib: size(&self.shrink_size),
            grow_mib: size(&self.grow_size),
        }
    }

    /// Returns true if any rule can keep a guest from giving memory.
    pub fn guards(&self) -> bool {
        self.may_shrink.is_some() || self.shrink_guest.is_some()
    }

    /// Creates a ring of rows of this program's counters, with as many rows as its rules use.
    pub fn history(&self) -> History {
        History::new(self.counters.len(), self.intervals)
    }

    /// Returns the reason why a rule has no value, with the name of a missing counter.
    pub fn reason(&self, fault: &Fault) -> String {
        let FaultKind::Missing { slot, age } = fault.kind else { return fault.to_string() };
        let name = self.counters.get(slot).map_or("A counter", |counter| counter.name());
        match age {
            0 => format!("{name} is not known now"),
            1 => format!("{name} was not known one pass ago"),
            _ => format!("{name} was not known {age} passes ago"),
        }
    }
}
