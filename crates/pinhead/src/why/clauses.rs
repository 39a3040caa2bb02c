//! What the clauses of the policy mean, in one table: the sentences of `pinhead why` and those
//! of the documentation come from it.

use super::words::quantity;
use store::Decision;

/// A clause of the policy, for people.
#[derive(Clone, Copy, Debug)]
pub struct Clause {
    /// Its name in the journal.
    pub name: &'static str,
    /// What it means, for the documentation.
    pub means: &'static str,
    /// Why it decided, to stand behind a colon. A name in braces stands for an input; if one
    /// of them is missing, `plain` is said instead.
    told: &'static str,
    /// The same without numbers.
    plain: &'static str,
}

const fn row(
    name: &'static str,
    means: &'static str,
    told: &'static str,
    plain: &'static str,
) -> Clause {
    Clause { name, means, told, plain }
}

const CLAUSES: &[Clause] = &[
    row(
        "need",
        "Something in the guest waits for memory, so it gets more.",
        "it needed {need} more",
        "something in it waited for memory",
    ),
    row(
        "wish",
        "The host has more free memory than it wants, and the guest can use it.",
        "the host had {host_available} free and wants {host_set_point}, and it can use more",
        "the host had more free than it wants, and it can use more",
    ),
    row(
        "setpoint",
        "The host has less free memory than it wants, so guests give what they can spare.",
        "the host had {host_available} free and wants {host_set_point}",
        "the host had less free than it wants",
    ),
    row(
        "host-pressure",
        "The host itself swaps or waits for memory, whatever it says is available.",
        "the host itself waited for memory, with {host_available} said to be free",
        "the host itself waited for memory",
    ),
    row(
        "shortage",
        "Another guest needs what this one has to spare.",
        "another guest needed what it had to spare, and the host had {host_available} free",
        "another guest needed what it had to spare",
    ),
    row(
        "emergency",
        "The host is below its reserve, so every guest gives, down to its minimum.",
        "the host had {host_available} free, and its reserve is {host_reserve}",
        "the host was below its reserve",
    ),
    row(
        "reservation",
        "Memory is reserved for a guest that is about to start.",
        "memory is reserved for a guest about to start, and the host had {host_available} free",
        "memory is reserved for a guest about to start",
    ),
    row(
        "rule",
        "A rule of the operator's decided.",
        "a rule of the operator's said so",
        "a rule of the operator's said so",
    ),
    row(
        "request",
        "The guest's own rules asked for this size.",
        "its own rules asked for a size of {guest_request}",
        "its own rules asked for it",
    ),
    row(
        "limits",
        "The guest was below its minimum or above its maximum.",
        "it was outside of its minimum and maximum",
        "it was outside of its minimum and maximum",
    ),
    row(
        "minimum",
        "The guest is at its minimum, which is never crossed.",
        "it may not go below its minimum",
        "it may not go below its minimum",
    ),
    row(
        "maximum",
        "The guest is at its maximum.",
        "it may not go above its maximum",
        "it may not go above its maximum",
    ),
    row(
        "pinned",
        "The operator gave the guest a fixed size.",
        "the operator fixed its size",
        "the operator fixed its size",
    ),
    row(
        "released",
        "The operator let the guest go: it has its maximum, and nothing is asked of it.",
        "the operator let it go",
        "the operator let it go",
    ),
    row(
        "strained",
        "Something in the guest waits for memory: such a guest is never shrunk.",
        "something in it waited for memory, and such a guest is never shrunk",
        "something in it waited for memory, and such a guest is never shrunk",
    ),
    row(
        "cooling",
        "The guest was moved in the other direction not long ago, so it rests.",
        "it was moved in the other direction not long ago",
        "it was moved in the other direction not long ago",
    ),
    row(
        "stale",
        "What is known of the guest is too old to decide anything, so it is held.",
        "what was known of it was {sample_age_ms} old, too old to decide anything",
        "what was known of it was too old, or not there",
    ),
    row(
        "unusable",
        "Nothing can be asked of the guest: it has no balloon, or does not answer.",
        "nothing can be asked of it",
        "nothing can be asked of it",
    ),
    row(
        "stuck",
        "The guest's balloon does not move; it is left out and tried again later.",
        "its balloon did not move",
        "its balloon did not move",
    ),
    row(
        "foreign",
        "Somebody else moves the guest's balloon, so it was let go.",
        "somebody else moves its balloon",
        "somebody else moves its balloon",
    ),
    row(
        "no-yield",
        "What the guest gave did not reach the host, so it is not asked for more.",
        "what it gave did not reach the host",
        "what it gave did not reach the host",
    ),
    row(
        "took-back",
        "The guest's kernel took memory back by itself: it was in want.",
        "its kernel had taken memory back",
        "its kernel had taken memory back",
    ),
    row(
        "moving",
        "The guest is on its way to an earlier target.",
        "it was on its way to an earlier target",
        "it was on its way to an earlier target",
    ),
    row(
        "nothing-to-spare",
        "The host lacks memory, and the guest has none to spare.",
        "it had nothing to spare beyond the {guest_comfort} that it is left",
        "it had nothing to spare",
    ),
    row(
        "content",
        "Nobody needs anything of the guest, and it needs nothing.",
        "it needed nothing, and nobody needed anything of it",
        "it needed nothing, and nobody needed anything of it",
    ),
    row(
        "none",
        "Nothing called for a change.",
        "nothing called for a change",
        "nothing called for a change",
    ),
    row(
        "blind",
        "What the host has is not known, so every guest is held.",
        "what the host had was not known",
        "what the host had was not known",
    ),
    row(
        "idle-gain",
        "The guest left memory idle, and idle memory is taxed.",
        "it left memory idle, and idle memory is taxed",
        "it left memory idle, and idle memory is taxed",
    ),
    row(
        "lease",
        "The manager that had set the guest's size is gone, so the guest got its memory back.",
        "the manager that had set its size was gone",
        "the manager that had set its size was gone",
    ),
];

/// All clauses, for the documentation.
pub fn clauses() -> &'static [Clause] {
    CLAUSES
}

/// What a clause means, in a sentence; `None` if this pinhead does not know it.
pub fn meaning(name: &str) -> Option<&'static str> {
    CLAUSES.iter().find(|clause| clause.name == name).map(|clause| clause.means)
}

/// Why a decision was taken, to stand behind a colon.
pub fn because(decision: &Decision) -> String {
    let Some(clause) = CLAUSES.iter().find(|clause| clause.name == decision.clause) else {
        return "a clause decided that this pinhead does not know".into();
    };
    fill(clause.told, decision).unwrap_or_else(|| clause.plain.into())
}

/// The text with each name in braces replaced by that input; `None` if one is missing.
fn fill(text: &str, decision: &Decision) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, name, after)) = piece(rest) {
        out.push_str(before);
        out.push_str(&quantity(name, super::words::input(decision, name)?));
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

fn piece(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_clause_of_the_policy_has_its_sentences_once() {
        let names: BTreeSet<&str> = CLAUSES.iter().map(|clause| clause.name).collect();
        assert_eq!(names.len(), CLAUSES.len());
        for clause in policy::arbiter::Clause::ALL {
            assert!(names.contains(clause.name()), "{} has no sentence", clause.name());
        }
    }

    #[test]
    fn sentences_are_told_from_inputs_that_the_policy_has() {
        let known = policy::arbiter::Inputs::default().named().map(|(name, _)| name);
        for clause in CLAUSES {
            assert!(clause.means.ends_with('.') && !clause.plain.contains(['{', '.']));
            let mut rest = clause.told;
            while let Some((_, name, after)) = piece(rest) {
                assert!(known.contains(&name), "{}: {name}", clause.name);
                rest = after;
            }
        }
    }
}
