//! A decision in sentences: action, reason, state of the guest, and outcome.

use base::duration::show as span;
use base::plain;
use model::SizeAction;
use model::clause::Clause;
use model::quantity::{self, short, size};
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

fn mib(bytes: u64) -> i64 {
    quantity::mib(bytes as f64)
}

/// A movement of several steps, which one decision began.
struct Run {
    steps: usize,
    /// Size after the last step that arrived.
    to_bytes: u64,
    took_ms: i64,
}

/// Returns the steps of a movement; `None` for a move in one step.
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

/// Returns the size that a decision led to: that of the last step, or the target.
pub fn end_bytes(decided: &Decided) -> u64 {
    let run = run(&decided.decision, &decided.outcomes);
    run.map_or(decided.decision.to_bytes, |run| run.to_bytes)
}

/// Returns the action on the guest, done or hypothetical.
pub fn done(name: &str, decided: &Decided) -> String {
    let (name, decision) = (plain(name, NAME_WIDTH), &decided.decision);
    let action = decision.action();
    // These actions need no order to the hypervisor, so an active manager has done them.
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
        Some(SizeAction::Hold) if from == 0 => format!("{name} {was} left as it is"),
        Some(SizeAction::Hold) => format!("{name} {was} held at {from} MiB"),
        Some(SizeAction::Grow) => format!("{name} {was} grown {moved}"),
        Some(SizeAction::Shrink) => format!("{name} {was} shrunk {moved}"),
        Some(SizeAction::Release) => format!("{name} {was} released {moved}"),
        Some(SizeAction::LetGo) => format!("{name} {was} let go at {from} MiB"),
        Some(SizeAction::Stuck) => format!("{name} {was} given up as stuck at {from} MiB"),
        None => format!("{name}: {} {moved}", plain(&decision.action, WORD_WIDTH)),
    }
}

/// Describes folded holds: number, times, and smallest and largest size.
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
        // Its own balloon moved, by an earlier target or by the guest's kernel.
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

/// Returns the reason: the clause, and the policy's own words if it has some.
pub fn why(decision: &Decision) -> String {
    let name = plain(&decision.clause, WORD_WIDTH);
    let because = match Clause::of_name(&decision.clause) {
        Some(clause) => clause.past(&|name| decision.input(name)),
        None => "a clause decided that this pinhead does not know".into(),
    };
    match plain(&decision.detail, SENTENCE_WIDTH) {
        detail if detail.is_empty() => format!("{because} (clause {name})"),
        detail => format!("{because} (clause {name}: {detail})"),
    }
}

/// Describes the guest's state as far as the policy knew it.
pub fn state(decision: &Decision) -> String {
    let get = |input_name| decision.input(input_name);
    let mut parts = Vec::new();
    match (get("guest_available"), get("guest_cold"), get("guest_used")) {
        (Some(available), Some(cold), _) if cold > 0.0 => {
            let (available, cold) = (size(available), size(cold));
            parts.push(format!("it had {available} available, {cold} of them free or cold cache"));
        }
        (Some(available), _, _) => parts.push(format!("it had {} available", size(available))),
        (None, _, Some(used)) => parts.push(format!("it used {}", size(used))),
        (None, _, None) => {}
    }
    match get("psi_permille") {
        Some(0.0) if get("strained") == Some(1.0) => {
            parts.push("something in it had waited for memory just before".into());
        }
        Some(0.0) => parts.push("nothing in it waited at its last sample".into()),
        Some(waited) => {
            let waited = short(waited / 10.0);
            parts.push(format!("something in it waited for memory {waited} % of the time"));
        }
        None => {}
    }
    let rates = [
        ("swap_in_pages_s", "it swapped in"),
        ("swap_out_pages_s", "it swapped out"),
        ("refault_pages_s", "it read cache again that it had dropped,"),
        ("stalls_s", "its processes had to free memory themselves,"),
    ];
    for (name, says) in rates {
        if let Some(rate) = get(name).filter(|rate| *rate > 0.0) {
            parts.push(format!("{says} {}", quantity::input(name, rate)));
        }
    }
    if parts.is_empty() {
        return "Its own numbers were not known.".into();
    }
    let mut text = parts.join("; ") + ".";
    if let Some(first) = text.get(..1).map(str::to_ascii_uppercase) {
        text.replace_range(..1, &first);
    }
    text + &age(decision).unwrap_or_default()
}

/// Describes an old sample, and the reason why it still counted. The clause of a sample that was
/// too old has its own sentence.
fn age(decision: &Decision) -> Option<String> {
    let is_too_old = Clause::of_name(&decision.clause) == Some(Clause::Stale);
    let age_ms = decision.input("sample_age_ms").filter(|ms| *ms > SHOWN_AGE_MS && !is_too_old)?;
    let age = span(age_ms as i64);
    Some(match decision.input("asleep") {
        Some(asleep) if asleep > 0.0 => {
            format!(" These numbers were {age} old: it was asleep, so they were unchanged since.")
        }
        _ => format!(" These numbers were {age} old."),
    })
}

/// Describes how often the guest's kernel deflated the balloon during holds; empty if never.
pub fn taken_back(times: usize) -> String {
    match times {
        0 => String::new(),
        1 => " Its kernel took memory back from the balloon meanwhile.".into(),
        _ => format!(" Its kernel took memory back from the balloon {times} times meanwhile."),
    }
}

/// Describes the bounds that were reached.
pub fn bounds(decision: &Decision) -> Option<String> {
    let names: Vec<String> = decision.bounds.iter().map(|name| plain(name, WORD_WIDTH)).collect();
    (!names.is_empty()).then(|| format!("Limited by: {}.", names.join(", ")))
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
        // The first sentence has the size and the time of a run.
        Fate::Reached if has_run => String::new(),
        Fate::Reached => format!("It {did} {moved} MiB within {took}"),
        Fate::Stuck if has_run => "Its balloon came to a halt".into(),
        Fate::Stuck => {
            format!("Its balloon came to a halt: it {did} {moved} of {asked} MiB within {took}")
        }
        Fate::Refused => format!("It was refused, and has {after} MiB"),
        Fate::Superseded if has_run => "A later decision took its place".into(),
        Fate::Superseded => {
            format!("After {took} and at {after} MiB a later decision took its place")
        }
        Fate::Gone => format!("It ended within {took}"),
        Fate::TookBack => {
            format!("Its kernel took memory back within {took}, and it has {after} MiB")
        }
        Fate::Foreign => {
            format!("Another program moved its balloon within {took}, to {after} MiB")
        }
    };
    let host = match outcome.host_got_bytes {
        Some(got) if shrinks => format!("the host got {}", size(got as f64)),
        None if shrinks && outcome.fate == Fate::Reached => {
            "the gain of the host was not measured".into()
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
