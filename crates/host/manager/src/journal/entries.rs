//! Conversion of decisions and outcomes to journal entries.

use base::Bytes;
use model::Fate;
use policy::arbiter::{Decision, Outcome};
use store::{Policy, Word};

pub(crate) fn decision(
    decision: &Decision,
    policy: Policy,
    acted: bool,
    at_ms: i64,
) -> store::Decision {
    let inputs = decision.inputs.named();
    store::Decision {
        at_ms,
        policy,
        action: Word::Borrowed(decision.action.told(decision.clause).name()),
        clause: Word::Borrowed(decision.clause.name()),
        detail: if decision.clause.has_detail() { decision.detail.into() } else { String::new() },
        from_bytes: decision.from.0,
        to_bytes: decision.to.0,
        bounds: decision.bounds.iter().map(|bound| Word::Borrowed(bound.name())).collect(),
        inputs: inputs
            .into_iter()
            .map(|(name, value)| (Word::Borrowed(name), value.map(|value| value as f64)))
            .collect(),
        acted: acted && decision.command.is_some(),
    }
}

pub(crate) fn outcome(outcome: &Outcome, at_ms: i64) -> store::Outcome {
    store::Outcome {
        at_ms,
        fate: outcome.result,
        reached_bytes: outcome.reached.0,
        host_got_bytes: outcome.got_in_all.map(|got| got.0),
    }
}

/// Returns the journal entry for a move that ended because the guest refused or is gone.
pub(crate) fn ended(fate: Fate, actual: Bytes, at_ms: i64) -> store::Outcome {
    store::Outcome { at_ms, fate, reached_bytes: actual.0, host_got_bytes: None }
}
