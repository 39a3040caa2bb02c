//! A decision in sentences: action, reason, state of the guest, and outcome.

use base::duration::show as span;
use base::plain;
use model::clause::Clause;
use model::quantity::{self, short, size};
use model::{Bound, SizeAction};
use std::borrow::Cow;
use store::{Decided, Decision, Fate, Outcome, Policy};

/// Maximum length of a guest's name shown.
pub const NAME_WIDTH: usize = 64;
/// Maximum length of a clause, a bound or another machine name shown.
pub const WORD_WIDTH: usize = 32;
/// Maximum length of a journal text shown.
pub const SENTENCE_WIDTH: usize = 300;
/// Minimum age in milliseconds of a sample for which the age is mentioned. A younger sample counts
/// as current.
const SHOWN_AGE_MS: f64 = 1_000.0;

pub fn mib(bytes: u64) -> i64 {
    quantity::mib(bytes as f64)
}

/// A move in several steps, begun by one decision.
struct Run {
    steps: usize,
    /// Size after the last step that succeeded.
    to_bytes: u64,
    took_ms: i64,
}

/// Returns the steps of a move, or `None` for a move in one step.
fn run(decision: &Decision, outcomes: &[Outcome]) -> Option<Run> {
    let arrived =
        |outcome: &&Outcome| matches!(outcome.fate, Fate::Reached | Fate::Stuck | Fate::Superseded);
    let last = outcomes.iter().rfind(arrived).filter(|_| decision.acted && outcomes.len() > 1)?;
    Some(Run {
        steps: outcomes.len(),
        to_bytes: last.reached_bytes,
        took_ms: last.at_ms.saturating_sub(decision.at_ms),
    })
}

/// Returns the size that a decision led to: the size of the last step, or the target.
pub fn end_bytes(decided: &Decided) -> u64 {
    let run = run(&decided.decision, &decided.outcomes);
    run.map_or(decided.decision.to_bytes, |run| run.to_bytes)
}

/// Describes the action on the guest, as done or as hypothetical.
pub fn done(name: &str, decided: &Decided) -> String {
    let (name, decision) = (plain(name, NAME_WIDTH), &decided.decision);
    let action = decision.action();
    // These actions need no command to the hypervisor, so an active manager has always carried them
    // out.
    let needs_no_order =
        matches!(action, Some(SizeAction::Hold | SizeAction::LetGo | SizeAction::Stuck));
    let is_done = decision.acted || needs_no_order && decision.policy == Policy::Active;
    let was = if is_done { "was" } else { "would have been" };
    let (from, to) = (mib(decision.from_bytes), mib(end_bytes(decided)));
    let mut moved = format!("from {from} to {to} MiB ({:+})", to - from);
    if let Some(Run { steps, took_ms, .. }) = run(decision, &decided.outcomes) {
        moved = format!("in {steps} steps {moved} within {}", span(took_ms));
    }
    match action {
        // A size of zero means that the size was unknown.
        Some(SizeAction::Hold) if from == 0 => format!("{name} {was} left unchanged"),
        Some(SizeAction::Hold) => format!("{name} {was} held at {from} MiB"),
        Some(SizeAction::Grow) => format!("{name} {was} grown {moved}"),
        Some(SizeAction::Shrink) => format!("{name} {was} shrunk {moved}"),
        Some(SizeAction::Release) => format!("{name} {was} released {moved}"),
        Some(SizeAction::LetGo) => format!("{name} {was} left to another manager at {from} MiB"),
        Some(SizeAction::Stuck) => format!("{name} {was} left at {from} MiB with a stuck balloon"),
        None => format!("{name}: {} {moved}", plain(&decision.action, WORD_WIDTH)),
    }
}

/// Describes merged holds: number, times, and smallest and largest size.
pub fn held(
    name: &str,
    last: &Decision,
    bytes: (u64, u64),
    times: u64,
    between: (&str, &str),
) -> String {
    let name = plain(name, NAME_WIDTH);
    let was = if last.policy == Policy::Active { "was" } else { "would have been" };
    let (from, to) = between;
    match (mib(bytes.0), mib(bytes.1)) {
        (least, most) if least == most => {
            format!("{name} {was} held at {most} MiB, {times} times from {from} to {to}")
        }
        // An earlier target or the guest's kernel moved the balloon meanwhile.
        (least, most) => format!(
            "{name} {was} held {times} times from {from} to {to}, while its size was {least} to \
             {most} MiB"
        ),
    }
}

/// Returns true if the decision changes nothing.
pub fn is_hold(decision: &Decision) -> bool {
    decision.action() == Some(SizeAction::Hold)
}

/// Returns the reason: the clause, and the detail of the decision if there is one. For a move in
/// several steps, the numbers are those of the first step.
pub fn why(decided: &Decided) -> String {
    let decision = &decided.decision;
    let when = match run(decision, &decided.outcomes) {
        Some(_) => "at the first step ",
        None => "",
    };
    let name = plain(&decision.clause, WORD_WIDTH);
    let because = match Clause::of_name(&decision.clause) {
        Some(clause) => clause.past(&|name| decision.input(name)),
        None => "this version of pinhead does not know the reason".into(),
    };
    match plain(&decision.detail, SENTENCE_WIDTH) {
        detail if detail.is_empty() => format!("{when}{because} (clause {name})"),
        detail => format!("{when}{because} (clause {name}: {detail})"),
    }
}

/// Describes the guest's state at the decision, as far as it was known.
pub fn state(decision: &Decision) -> String {
    let get = |input_name| decision.input(input_name);
    let mut parts = Vec::new();
    match (get("guest_available"), get("guest_cold"), get("guest_used")) {
        (Some(available), Some(cold), _) if cold > 0.0 => {
            let (available, cold) = (size(available), size(cold));
            parts.push(format!(
                "the guest had {available} available, {cold} of them free or cold cache"
            ));
        }
        (Some(available), _, _) => {
            parts.push(format!("the guest had {} available", size(available)));
        }
        (None, _, Some(used)) => parts.push(format!("the guest used {}", size(used))),
        (None, _, None) => {}
    }
    match get("psi_permille") {
        Some(0.0) if get("strained") == Some(1.0) => {
            parts.push("a task in the guest had waited for memory just before".into());
        }
        Some(0.0) => parts.push("no task in the guest waited for memory".into()),
        Some(waited) => {
            let waited = short(waited / 10.0);
            parts.push(format!("a task in the guest waited for memory {waited} % of the time"));
        }
        None => {}
    }
    let rates = [
        ("swap_in_pages_s", "the guest swapped in"),
        ("swap_out_pages_s", "the guest swapped out"),
        ("refault_pages_s", "the guest read pages again that its cache had dropped,"),
        ("stalls_s", "processes in the guest had to free memory themselves,"),
    ];
    for (name, says) in rates {
        if let Some(rate) = get(name).filter(|rate| *rate > 0.0) {
            parts.push(format!("{says} {}", quantity::input(name, rate)));
        }
    }
    if parts.is_empty() {
        return "The guest's own state was unknown.".into();
    }
    let mut text = parts.join("; ") + ".";
    if let Some(first) = text.get(..1).map(str::to_ascii_uppercase) {
        text.replace_range(..1, &first);
    }
    text + &age(decision).unwrap_or_default()
}

/// Describes the age of an old sample, and the reason why the sample still counted. If the sample
/// was too old, the clause already contains the age.
fn age(decision: &Decision) -> Option<String> {
    let is_too_old = Clause::of_name(&decision.clause) == Some(Clause::Stale);
    let age_ms = decision.input("sample_age_ms").filter(|ms| *ms > SHOWN_AGE_MS && !is_too_old)?;
    let age = span(age_ms as i64);
    Some(match decision.input("asleep") {
        Some(asleep) if asleep > 0.0 => {
            format!(" This sample was {age} old, but still valid, because the guest was asleep.")
        }
        _ => format!(" This sample was {age} old."),
    })
}

/// Describes how often the guest's kernel deflated the balloon during holds. The text is empty if
/// the guest's kernel never did this.
pub fn taken_back(times: usize) -> String {
    match times {
        0 => String::new(),
        1 => " The guest's kernel took memory back from the balloon meanwhile.".into(),
        _ => format!(
            " The guest's kernel took memory back from the balloon {times} times meanwhile."
        ),
    }
}

/// Describes the bounds that were reached.
pub fn bounds(decision: &Decision) -> Option<String> {
    // A later version may have other bounds.
    let words = |name: &Cow<str>| match Bound::from_name(name) {
        Some(bound) => bound.words().to_owned(),
        None => plain(name, WORD_WIDTH),
    };
    let names: Vec<String> = decision.bounds.iter().map(words).collect();
    (!names.is_empty()).then(|| format!("Limited by {}.", names.join(", and by ")))
}

/// Describes the outcome of a move; `None` if the decision has none.
pub fn came(decided: &Decided) -> Option<String> {
    let Decided { decision, outcomes, .. } = decided;
    if !decision.acted || decision.from_bytes == decision.to_bytes {
        return None;
    }
    let Some(outcome) = outcomes.last() else {
        return Some("The outcome is not in the journal.".into());
    };
    let shrinks = decision.to_bytes < decision.from_bytes;
    let (before, after) = (mib(decision.from_bytes), mib(outcome.reached_bytes));
    let moved = if shrinks { before - after } else { after - before };
    let asked = (before - mib(decision.to_bytes)).abs();
    let took = span(outcome.at_ms.saturating_sub(decision.at_ms));
    let did = if shrinks { "gave back" } else { "got" };
    let has_run = run(decision, outcomes).is_some();
    let text = match outcome.fate {
        // For a move in several steps, the first sentence already contains the size and the time.
        Fate::Reached if has_run => String::new(),
        Fate::Reached => format!("The guest {did} {moved} MiB within {took}"),
        Fate::Stuck if has_run => "The balloon then stopped".into(),
        Fate::Stuck => {
            format!(
                "The guest {did} {moved} of {asked} MiB within {took}; then the balloon stopped"
            )
        }
        Fate::Refused => format!("The change was refused, and the guest has {after} MiB"),
        Fate::Superseded if has_run => "A later decision replaced this one".into(),
        Fate::Superseded => {
            format!("A later decision replaced this one after {took}, at {after} MiB")
        }
        Fate::Gone => format!("The guest ended within {took}"),
        Fate::TookBack => {
            format!("The guest's kernel took memory back within {took}, up to {after} MiB")
        }
        Fate::Foreign => {
            format!("Another program moved the guest's balloon within {took}, to {after} MiB")
        }
    };
    let host = match outcome.host_got_bytes {
        Some(got) if shrinks => format!("the host got {}", size(got as f64)),
        None if shrinks && outcome.fate == Fate::Reached => {
            "the host's gain was not measured".into()
        }
        _ => String::new(),
    };
    Some(match (text.is_empty(), host.is_empty()) {
        (false, true) => text + ".",
        (false, false) => format!("{text}; {host}."),
        (true, false) => format!("{}{}.", host[..1].to_ascii_uppercase(), &host[1..]),
        (true, true) => return None,
    })
}
