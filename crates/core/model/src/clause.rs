//! Clauses of the host's policy. The policy's own sentences, `pinhead why`, `pinhead ps` and the
//! man page are generated from one row each.
//!
//! A clause's sentence is printed after a colon. Text in brackets is shown if all of its numbers
//! are known: `[{need} more|more memory]`. Otherwise the part after the bar is shown, if there is
//! one.

use crate::quantity;

/// Values of a decision by the names of its inputs in the journal.
pub type Inputs<'a> = &'a dyn Fn(&str) -> Option<f64>;

struct Row {
    name: &'static str,
    meaning: &'static str,
    present: &'static str,
    past: &'static str,
}

macro_rules! clauses {
    ($($variant:ident $name:literal $meaning:literal $present:literal $past:literal),+ $(,)?) => {
        /// Part of the policy that decided.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Clause { $(#[doc = $meaning] $variant),+ }

        impl Clause {
            /// All clauses.
            pub const ALL: &'static [Clause] = &[$(Clause::$variant),+];

            fn row(self) -> Row {
                let (name, meaning, present, past) = match self {
                    $(Clause::$variant => ($name, $meaning, $present, $past)),+
                };
                Row { name, meaning, present, past }
            }
        }
    };
}

clauses! {
    Need "need"
        "Something in the guest waits for memory, so it gets more."
        "it needs [{need} more|more memory]"
        "[it needed {need} more|something in it waited for memory]",
    Wish "wish"
        "The host has more free memory than it wants, and the guest can use it."
        "[{host_available} are free for guests, ]more than wanted, and it can use some"
        "[{host_available} were free for guests, and {host_set_point} are wanted|more was free \
         than wanted], and it can use more",
    Room "room"
        "The host is not short of memory, so no balloon stands in the guest."
        "the host is not short[ with {host_available} free for guests]"
        "the host was not short[ with {host_available} free for guests]",
    SetPoint "setpoint"
        "The host has less free memory than it wants, so guests give what they can spare."
        "[{host_available} are free for guests, and {host_set_point} are wanted|less is free than \
         wanted]"
        "[{host_available} were free for guests, and {host_set_point} are wanted|less was free \
         than wanted]",
    HostPressure "host-pressure"
        "The host itself swaps or waits for memory, regardless of its available memory."
        "the host itself waits for memory"
        "the host itself waited for memory[, with {host_available} said to be free]",
    Shortage "shortage"
        "Another guest needs memory that this one can spare."
        "another guest needs what it can spare"
        "another guest needed what it had to spare[, with {host_available} free for guests]",
    Refault "refault"
        "Another guest rereads dropped pages, so unused memory goes to that guest."
        "another guest reads again what it had dropped"
        "another guest read again what it had dropped[, with {host_available} free for guests]",
    Emergency "emergency"
        "The host is below its reserve, so every guest gives, down to its minimum."
        "[{host_available} are free for guests, ]less than the reserve[ of {host_reserve}]"
        "[{host_available} were free for guests, and the reserve is {host_reserve}|the host was \
         below its reserve]",
    Reservation "reservation"
        "Memory is reserved for a guest that is about to start."
        "memory is reserved for a guest about to start"
        "memory is reserved for a guest about to start[, with {host_available} free for guests]",
    Rule "rule"
        "One of the operator's rules decided."
        "a rule of the operator's"
        "a rule of the operator's said so",
    Request "request"
        "The guest's own rules asked for this size."
        "its own rules asked for it"
        "its own rules asked for [a size of {guest_request}|it]",
    Limits "limits"
        "The guest was below its minimum or above its maximum."
        "it was outside of its bounds"
        "it was outside of its minimum and maximum",
    Pinned "pinned"
        "The operator gave the guest a fixed size."
        "pinned by the operator"
        "the operator fixed its size",
    Released "released"
        "The operator released the guest: it has its maximum, and is not asked for memory."
        "released by the operator"
        "the operator let it go",
    Strained "strained"
        "Something in the guest waits for memory: such a guest is never shrunk."
        "something in it waits for memory"
        "something in it had waited for memory within 10 s, and such a guest is never shrunk",
    NotSeen "not-seen"
        "The guest reports a need for memory, but the host sees neither its use nor CPU time."
        "it says that it needs memory, and the host does not see it use what it has"
        "it said that it needed memory, and the host did not see it use what it had",
    GroupFull "cgroup"
        "The guest needs more memory than its QEMU's control group has left."
        "it needs more memory, and its control group has no more"
        "it needed more memory, and its control group had no more",
    Boot "boot"
        "The guest has restarted: while it boots, it gets the memory that the host has free."
        "it has started again, and boots"
        "it had started again, and booted",
    Cooling "cooling"
        "The guest was moved in the other direction not long ago, so it rests."
        "it was moved the other way not long ago"
        "it was moved in the other direction not long ago",
    Stale "stale"
        "Data about the guest is too old for a decision, so it is held."
        "what is known of it is too old"
        "its last sample was [{sample_age_ms} old, and it may have run since|too old, or missing]",
    Unusable "unusable"
        "The guest cannot be controlled: it has no balloon, or does not answer."
        "nothing can be asked of it"
        "nothing can be asked of it",
    Stuck "stuck"
        "The guest's balloon does not move; it is tried again later, and may be given more."
        "its balloon does not move"
        "its balloon did not move",
    Foreign "foreign"
        "Another program moves the guest's balloon, so the manager leaves the guest alone."
        "another program moves its balloon"
        "another program moved its balloon",
    NoYield "no-yield"
        "Memory that the guest gave did not reach the host, so it is not asked for more."
        "the host gained nothing from its last shrink, which is tried again later"
        "the host gained nothing from its last shrink",
    Locked "locked"
        "The guest's memory stays in the host: locked, in huge pages, or a device's."
        "its balloon gives the host nothing"
        "its balloon gives the host nothing",
    Moving "moving"
        "The guest is on its way to an earlier target."
        "it is on its way"
        "it was on its way to an earlier target",
    Nothing "nothing-to-spare"
        "The host lacks memory, and the guest has none to spare."
        "it has nothing to spare"
        "it had nothing to spare[ beyond the {guest_comfort} that it is left]",
    Content "content"
        "No other guest needs this guest's memory, and it needs nothing."
        "no demand"
        "it needed nothing, and no other guest needed its memory",
    Blind "blind"
        "The host's memory is unknown, so every guest is held."
        "what the host has is not known"
        "what the host had was not known",
    Mom "mom"
        "The rules of oVirt's MOM decide, by the settings."
        "by the rules of MOM[: {rules_host_permille} of the host is free, and they want 20 %]"
        "by the rules of MOM[: {rules_host_permille} of the host was free, and they want 20 %]",
    Proxmox "proxmox"
        "The rules of Proxmox decide, by the settings."
        "by the rules of Proxmox[: {rules_host_permille} of the host is in use, and they want 80 %]"
        "by the rules of Proxmox[: {rules_host_permille} of the host was in use, and they want \
         80 %]",
    Pi "pi"
        "The PI controller of qemus' containers decides, by the settings."
        "by qemus' PI controller[: {rules_host_permille} of the host is in use, and it wants 80 %]"
        "by qemus' PI controller[: {rules_host_permille} of the host was in use, and it wants \
         80 %]",
    Senpai "senpai"
        "The rules of senpai decide, by the settings."
        "by the rules of senpai[: its tasks waited {rules_stall_ms} since its last change, and \
         they want 10ms]"
        "by the rules of senpai[: its tasks had waited {rules_stall_ms} since its last change, and \
         they want 10ms]",
    Reporting "reporting"
        "By the settings every guest has its maximum, and only page reporting returns memory."
        "page reporting alone gives memory back, by the settings"
        "page reporting alone gave memory back, by the settings",
    NoPolicy "no-policy"
        "By the settings no memory is moved."
        "nothing is moved, by the settings"
        "nothing was moved, by the settings",
}

impl Clause {
    /// Returns the name in the journal, which is never reused for another clause.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the clause with this name. Journals of other versions may contain unknown names.
    pub fn of_name(name: &str) -> Option<Clause> {
        Clause::ALL.iter().copied().find(|clause| clause.name() == name)
    }

    /// Returns the meaning as a sentence.
    pub fn meaning(self) -> &'static str {
        self.row().meaning
    }

    /// Returns the reason of a current decision.
    pub fn present(self, inputs: Inputs<'_>) -> String {
        fill(self.row().present, inputs)
    }

    /// Returns the reason of a past decision.
    pub fn past(self, inputs: Inputs<'_>) -> String {
        fill(self.row().past, inputs)
    }

    /// Returns true if a decision's detail says more than the clause's sentence.
    pub fn has_detail(self) -> bool {
        matches!(self, Clause::Stale | Clause::Unusable | Clause::Locked)
    }

    /// Returns the reason of a current decision, with the bounds that limited it.
    pub fn reason(self, detail: &str, bounds: &[&str], inputs: Inputs<'_>) -> String {
        let reason = if self.has_detail() && !detail.is_empty() {
            detail.to_owned()
        } else {
            self.present(inputs)
        };
        match bounds {
            [] => reason,
            bounds => format!("{reason} (bounded by {})", bounds.join(", ")),
        }
    }
}

struct Part<'a> {
    text: &'a str,
    is_optional: bool,
}

/// Returns the parts of a sentence outside of brackets and inside.
fn parts(sentence: &str) -> impl Iterator<Item = Part<'_>> {
    let all = sentence.split(['[', ']']).enumerate();
    all.map(|(at, text)| Part { text, is_optional: at % 2 == 1 })
}

fn fill(sentence: &str, inputs: Inputs<'_>) -> String {
    let shown = |part: Part<'_>| match part.is_optional {
        true => {
            let (with, without) = part.text.split_once('|').unwrap_or((part.text, ""));
            numbers(with, inputs).unwrap_or_else(|| without.to_owned())
        }
        false => part.text.to_owned(),
    };
    parts(sentence).map(shown).collect()
}

/// Replaces each name in braces by its number. Returns `None` if a number is missing.
fn numbers(text: &str, inputs: Inputs<'_>) -> Option<String> {
    let mut pieces = text.split(['{', '}']);
    let mut out = pieces.next()?.to_owned();
    while let (Some(name), Some(after)) = (pieces.next(), pieces.next()) {
        out.push_str(&quantity::input(name, inputs(name)?));
        out.push_str(after);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn known(name: &str) -> Option<f64> {
        Some(if name.ends_with("_ms") { 2_300.0 } else { 49.6 * f64::from(1 << 20) })
    }

    #[test]
    fn every_clause_has_its_row_once_and_is_found_by_its_name() {
        let names: BTreeSet<&str> = Clause::ALL.iter().map(|clause| clause.name()).collect();
        assert_eq!(names.len(), Clause::ALL.len());
        for clause in Clause::ALL {
            assert_eq!(Clause::of_name(clause.name()), Some(*clause));
            assert!(clause.meaning().ends_with('.'));
            for sentence in [clause.row().present, clause.row().past] {
                let outside = parts(sentence).filter(|part| !part.is_optional);
                assert!(outside.map(|part| part.text).all(|text| !text.contains(['{', '|'])));
                assert_eq!(sentence.matches('[').count(), sentence.matches(']').count());
            }
        }
        assert_eq!(Clause::of_name("moon-phase"), None);
    }

    #[test]
    fn both_sentences_show_the_same_number() {
        assert_eq!(Clause::Need.present(&known), "it needs 50 MiB more");
        assert_eq!(Clause::Need.past(&known), "it needed 50 MiB more");
        assert_eq!(
            Clause::Emergency.past(&known),
            "50 MiB were free for guests, and the reserve is 50 MiB"
        );
        assert_eq!(
            Clause::Stale.past(&known),
            "its last sample was 2.3 s old, and it may have run since"
        );
    }

    #[test]
    fn unknown_inputs_are_not_shown() {
        let none = |_: &str| None;
        for clause in Clause::ALL {
            for sentence in [clause.present(&none), clause.past(&none)] {
                assert!(!sentence.is_empty() && !sentence.contains(['{', '[', '|', '.']));
            }
        }
        assert_eq!(Clause::Need.present(&none), "it needs more memory");
        assert_eq!(Clause::Emergency.past(&none), "the host was below its reserve");
    }

    #[test]
    fn reason_is_detail_or_sentence_with_its_bounds() {
        let reason =
            |clause: Clause, detail, bounds: &[&str]| clause.reason(detail, bounds, &known);
        assert_eq!(reason(Clause::Need, "", &["max", "host"]), {
            "it needs 50 MiB more (bounded by max, host)"
        });
        assert_eq!(reason(Clause::Need, "its memory is locked", &[]), "it needs 50 MiB more");
        assert_eq!(reason(Clause::Locked, "its memory is locked", &[]), "its memory is locked");
        assert_eq!(reason(Clause::Locked, "", &[]), "its balloon gives the host nothing");
    }
}
