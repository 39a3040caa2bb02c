//! From what was decided to what the journal keeps.

use counters::Bytes;
use policy::arbiter::{Arrival, Decision, Outcome};
use store::{Fate, Policy, Word};

/// A decision as the journal keeps it.
pub(crate) fn decision(
    decision: &Decision,
    policy: Policy,
    acted: bool,
    at_ms: i64,
) -> store::Decision {
    let action = decision.action.told(decision.clause);
    let inputs = decision.inputs.named();
    store::Decision {
        at_ms,
        policy,
        action: Word::Borrowed(action),
        clause: Word::Borrowed(decision.clause.name()),
        reason: decision.why(),
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

/// What came of a decision, as the journal keeps it.
pub(crate) fn outcome(outcome: &Outcome, at_ms: i64) -> store::Outcome {
    store::Outcome {
        at_ms,
        fate: match outcome.result {
            Arrival::Reached => Fate::Reached,
            Arrival::Superseded => Fate::Superseded,
            Arrival::Stuck => Fate::Stuck,
            Arrival::TookBack => Fate::TookBack,
            Arrival::Foreign => Fate::Foreign,
        },
        reached_bytes: outcome.reached.0,
        host_got_bytes: outcome.got_in_all.map(|got| got.0),
    }
}

/// The end of a decision whose guest refused, or went.
pub(crate) fn ended(fate: Fate, actual: Bytes, at_ms: i64) -> store::Outcome {
    store::Outcome { at_ms, fate, reached_bytes: actual.0, host_got_bytes: None }
}
