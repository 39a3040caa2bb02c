//! Clauses of the host's policy, one row each. All sentences about the policy in `pinhead why`, in
//! `pinhead ps` and in the man page come from these rows.
//!
//! A clause's sentence is printed after a colon. A part in brackets is shown only if all numbers in
//! the brackets are known: `[{need} more|more memory]`. Otherwise the text after the bar is shown,
//! if there is a bar.

use crate::quantity;

/// Function that takes the name of a decision's input, as in the journal, and returns the input's
/// value.
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
        "A task in the guest waits for memory, so the guest gets more."
        "the guest needs [{need} more|more memory]"
        "[the guest needed {need} more|a task in the guest waited for memory]",
    Wish "wish"
        "The host has more free memory than its set point, and the guest can use some of it."
        "[the host has {host_available} free for guests, above its set point|the host has more \
         free memory than its set point], and the guest can use some"
        "[the host had {host_available} free for guests, and its set point was \
         {host_set_point}|the host had more free memory than its set point], and the guest could \
         use more",
    Room "room"
        "The host is not short of memory, so no balloon stays in the guest."
        "the host is not short of memory[, with {host_available} free for guests]"
        "the host was not short of memory[, with {host_available} free for guests]",
    SetPoint "setpoint"
        "The host has less free memory than its set point, so guests give what they can spare."
        "[the host has {host_available} free for guests, and its set point is \
         {host_set_point}|the host has less free memory than its set point]"
        "[the host had {host_available} free for guests, and its set point was \
         {host_set_point}|the host had less free memory than its set point]",
    HostPressure "host-pressure"
        "The host itself swaps or waits for memory, whatever it reports as available."
        "the host itself swaps or waits for memory"
        "the host itself swapped or waited for memory[, but reported {host_available} as free]",
    Shortage "shortage"
        "Another guest needs memory that this guest can spare."
        "another guest needs memory that this guest can spare"
        "another guest needed memory that this guest could spare[, and the host had \
         {host_available} free for guests]",
    Refault "refault"
        "Another guest reads dropped pages again, and can use this guest's spare memory."
        "another guest reads dropped pages again, and can use this guest's spare memory"
        "another guest read dropped pages again, and could use this guest's spare memory[, and \
         the host had {host_available} free for guests]",
    Emergency "emergency"
        "The host has less free memory than its reserve, so every guest shrinks, to its minimum \
         if needed."
        "[{host_available} are free for guests, less than the reserve of {host_reserve}|the host \
         has less free memory than its reserve]"
        "[{host_available} were free for guests, less than the reserve of {host_reserve}|the host \
         had less free memory than its reserve]",
    Reservation "reservation"
        "Memory is reserved for a guest that is about to start."
        "memory is reserved for a guest that is about to start"
        "memory was reserved for a guest that was about to start[, and the host had \
         {host_available} free for guests]",
    Rule "rule"
        "One of the operator's rules decided."
        "one of the operator's rules decided"
        "one of the operator's rules decided",
    Request "request"
        "The guest's own rules requested this size."
        "the guest's own rules requested this size"
        "the guest's own rules requested [a size of {guest_request}|this size]",
    Limits "limits"
        "The guest was below its minimum or above its maximum."
        "the guest was below its minimum or above its maximum"
        "the guest was below its minimum or above its maximum",
    Pinned "pinned"
        "The operator gave the guest a fixed size."
        "the operator gave the guest a fixed size"
        "the operator gave the guest a fixed size",
    Released "released"
        "The operator released the guest: it has its maximum, and no memory is requested from it."
        "the operator released the guest"
        "the operator released the guest",
    Strained "strained"
        "A task in the guest waits for memory, and such a guest is never shrunk."
        "a task in the guest waits for memory"
        "a task in the guest had waited for memory within 10 s, and such a guest is never shrunk",
    NotSeen "not-seen"
        "The guest reports a need for memory, but the host sees it use neither memory nor CPU time."
        "the guest reports a need for memory that the host cannot confirm"
        "the guest reported a need for memory that the host could not confirm",
    GroupFull "cgroup"
        "The guest needs more memory than its QEMU's control group has left."
        "the guest needs more memory than its control group has left"
        "the guest needed more memory than its control group had left",
    Boot "boot"
        "The guest has restarted. While it boots, it gets the memory that the host has free."
        "the guest has restarted, and is booting"
        "the guest had restarted, and was booting",
    Cooling "cooling"
        "The guest was resized in the other direction a short time ago, so its size stays."
        "the guest was resized in the other direction a short time ago"
        "the guest had been resized in the other direction a short time before",
    Stale "stale"
        "The data about the guest is too old for a decision, so the guest keeps its size."
        "the data about the guest is too old"
        "the guest's last sample was [{sample_age_ms} old, and the guest may have run since|too \
         old, or missing]",
    Unusable "unusable"
        "The guest cannot be controlled: it has no balloon, or does not respond."
        "the guest cannot be controlled"
        "the guest could not be controlled",
    Stuck "stuck"
        "The guest's balloon does not move. The manager retries later, and the guest may grow."
        "the guest's balloon does not move"
        "the guest's balloon did not move",
    Foreign "foreign"
        "Another program moves the guest's balloon, so the manager leaves the guest alone."
        "another program moves the guest's balloon"
        "another program moved the guest's balloon",
    NoYield "no-yield"
        "Memory that the guest gave did not reach the host, so the guest is not shrunk further."
        "the host gained nothing from the guest's last shrink, so the next shrink comes later"
        "the host gained nothing from the guest's last shrink",
    Locked "locked"
        "The guest cannot return memory: its memory is locked, in huge pages, or used by a device."
        "the guest's balloon frees nothing on the host"
        "the guest's balloon freed nothing on the host",
    Moving "moving"
        "The guest's balloon is still on its way to an earlier target."
        "the guest's balloon is still on its way to an earlier target"
        "the guest's balloon was still on its way to an earlier target",
    Nothing "nothing-to-spare"
        "The host lacks memory, but the guest has none to spare."
        "the guest has no memory to spare"
        "the guest had no memory to spare[ beyond its headroom of {guest_comfort}]",
    Content "content"
        "The guest needs no memory, and no other guest needs this guest's memory."
        "no demand"
        "the guest needed no memory, and no other guest needed its memory",
    Blind "blind"
        "The host's memory is unknown, so every guest keeps its size."
        "the host's memory is unknown"
        "the host's memory was unknown",
    Mom "mom"
        "The rules of oVirt's MOM decide, by the settings."
        "by the rules of MOM[: {rules_host_permille} of the host is free, and their target is 20 %]"
        "by the rules of MOM[: {rules_host_permille} of the host was free, and their target is \
         20 %]",
    Proxmox "proxmox"
        "The rules of Proxmox decide, by the settings."
        "by the rules of Proxmox[: {rules_host_permille} of the host is in use, and their target \
         is 80 %]"
        "by the rules of Proxmox[: {rules_host_permille} of the host was in use, and their target \
         is 80 %]",
    Pi "pi"
        "The PI controller of qemus' containers decides, by the settings."
        "by qemus' PI controller[: {rules_host_permille} of the host is in use, and its target is \
         80 %]"
        "by qemus' PI controller[: {rules_host_permille} of the host was in use, and its target is \
         80 %]",
    Senpai "senpai"
        "The rules of senpai decide, by the settings."
        "by the rules of senpai[: the guest's tasks waited {rules_stall_ms} since the last change, \
         and the rules' target is 10ms]"
        "by the rules of senpai[: the guest's tasks had waited {rules_stall_ms} since the last \
         change, and the rules' target is 10ms]",
    Reporting "reporting"
        "By the settings, every guest has its maximum, and only page reporting returns memory."
        "by the settings, only page reporting returns memory"
        "by the settings, only page reporting returned memory",
    NoPolicy "no-policy"
        "By the settings, no memory is moved."
        "by the settings, no memory is moved"
        "by the settings, no memory was moved",
}

impl Clause {
    /// Returns the clause's name in the journal. The name is never reused for another clause.
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

    /// Returns true if a decision's detail contains more than the clause's sentence.
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

/// Splits a sentence into the parts outside and inside of brackets.
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
    fn every_clause_has_one_row_and_is_found_by_its_name() {
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
    fn present_and_past_sentence_show_the_same_number() {
        assert_eq!(Clause::Need.present(&known), "the guest needs 50 MiB more");
        assert_eq!(Clause::Need.past(&known), "the guest needed 50 MiB more");
        assert_eq!(
            Clause::Emergency.past(&known),
            "50 MiB were free for guests, less than the reserve of 50 MiB"
        );
        assert_eq!(
            Clause::Stale.past(&known),
            "the guest's last sample was 2.3 s old, and the guest may have run since"
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
        assert_eq!(Clause::Need.present(&none), "the guest needs more memory");
        assert_eq!(Clause::Emergency.past(&none), "the host had less free memory than its reserve");
    }

    #[test]
    fn reason_is_the_detail_or_the_sentence_with_its_bounds() {
        let reason =
            |clause: Clause, detail, bounds: &[&str]| clause.reason(detail, bounds, &known);
        assert_eq!(reason(Clause::Need, "", &["max", "host"]), {
            "the guest needs 50 MiB more (bounded by max, host)"
        });
        assert_eq!(reason(Clause::Need, "it is locked", &[]), "the guest needs 50 MiB more");
        assert_eq!(reason(Clause::Locked, "its memory is locked", &[]), "its memory is locked");
        assert_eq!(
            reason(Clause::Locked, "", &[]),
            "the guest's balloon frees nothing on the host"
        );
    }
}
