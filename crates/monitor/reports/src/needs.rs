//! Fields of a recording that a report needs. A source can skip the other fields.

use crate::advice::RULES;
use crate::catalog::Definition;
use crate::fields::{Raw, Scope, field};
use model::{GuestField, ProcessField};

/// Raw fields that reports need. Fields of the host and of tiers are few and always read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Fields of guests.
    pub guests: Vec<GuestField>,
    /// Fields of processes; empty if no processes are shown.
    pub processes: Vec<ProcessField>,
}

/// Fields needed for every guest in any report: CPU time, wake-ups, the guest's count of its CPU
/// time, and the states of its virtual CPUs.
const ALWAYS: &[GuestField] = {
    use GuestField as G;
    &[
        G::VcpuRun,
        G::VcpuDelay,
        G::VcpuDispatches,
        G::VcpuGuest,
        G::VcpuBlockIo,
        G::Vcpus,
        G::OtherRun,
        G::HaltPoll,
        G::HaltWait,
        G::HaltWakeups,
        G::Throttled,
        G::PsiMemory,
        G::RunThen,
        G::OwnRun,
        G::OwnBusy,
    ]
};

/// Returns the fields that the given reports need.
pub fn needs(definitions: &[&Definition]) -> Needs {
    let mut needs = Needs { guests: ALWAYS.to_vec(), processes: Vec::new() };
    let mut take = |scope, id: &str| {
        let sources = field(scope, id).map_or(&[][..], |field| field.sources);
        for source in sources {
            match source {
                Raw::Guest(field) => needs.guests.push(*field),
                Raw::Process(field) => needs.processes.push(*field),
                Raw::Host(_) | Raw::Tier(_) => {}
            }
        }
    };
    for part in definitions.iter().flat_map(|definition| definition.parts) {
        part.columns.iter().for_each(|id| take(part.scope, id));
        if part.scope == Scope::Finding {
            RULES.iter().for_each(|rule| take(rule.scope, rule.field));
        }
    }
    needs.guests.sort_unstable();
    needs.guests.dedup();
    needs.processes.sort_unstable();
    needs.processes.dedup();
    needs
}

#[cfg(test)]
mod tests;
