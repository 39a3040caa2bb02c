//! A decision in sentences: action, reason, state of the guest, and outcome.

use base::duration::show as span;
use base::plain;
use model::clause::Clause;
use model::quantity::{self, short, size};
use store::{Decision, Fate, Outcome};

/// Maximum length of a guest's name shown.
pub const NAME_WIDTH: usize = 64;
/// Maximum length of a clause, a bound or another machine name shown.
pub const WORD_WIDTH: usize = 32;
/// Maximum length of a journal text shown.
pub const SENTENCE_WIDTH: usize = 300;
/// Minimum age in milliseconds of a sample for which the age is mentioned. A younger sample counts
/// as current.
const SHOWN_AGE_MS: f64 = 1_000.0;

/// Returns the value of an input, if it was known.
pub fn input(decision: &Decision, name: &str) -> Option<f64> {
    let found = decision.inputs.iter().find(|(known, _)| known == name)?;
    found.1.filter(|value| *value >= 0.0)
}

fn mib(bytes: u64) -> i64 {
    quantity::mib(bytes as f64)
}

/// Returns the action on the guest, done or hypothetical.
pub fn done(name: &str, decision: &Decision) -> String {
    let name = plain(name, NAME_WIDTH);
    // These actions need no order to the hypervisor, so an active manager has done them.
    let needs_no_order = matches!(decision.action.as_ref(), "hold" | "let-go" | "stuck");
    let is_done = decision.acted || needs_no_order && decision.policy == store::Policy::Active;
    let was = if is_done { "was" } else { "would have been" };
    let (from, to) = (mib(decision.from_bytes), mib(decision.to_bytes));
    let moved = format!("from {from} to {to} MiB ({:+})", to - from);
    match decision.action.as_ref() {
        // A size of zero means that the size was unknown.
        "hold" if decision.from_bytes == 0 => format!("{name} {was} left as it is"),
        "hold" => format!("{name} {was} held at {from} MiB"),
        "grow" => format!("{name} {was} grown {moved}"),
        "shrink" => format!("{name} {was} shrunk {moved}"),
        "release" => format!("{name} {was} released {moved}"),
        "let-go" => format!("{name} {was} let go at {from} MiB"),
        "stuck" => format!("{name} {was} given up as stuck at {from} MiB"),
        other => format!("{name}: {} {moved}", plain(other, WORD_WIDTH)),
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
    let was = if last.policy == store::Policy::Active { "was" } else { "would have been" };
    let (least, most) = (mib(bytes.0), mib(bytes.1));
    let size = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let (from, to) = between;
    format!("{name} {was} held at {size} MiB, {times} times from {from} to {to}")
}

/// Returns true if the decision changes nothing.
pub fn is_hold(decision: &Decision) -> bool {
    decision.action == "hold"
}

/// Returns the reason: the clause, and the policy's own text if it adds something.
pub fn why(decision: &Decision) -> String {
    let name = plain(&decision.clause, WORD_WIDTH);
    // Another sentence covers the bounds.
    let reason = decision.reason.split(" (bounded by ").next().unwrap_or_default();
    let (because, is_known) = match Clause::of_name(&decision.clause) {
        Some(clause) => (clause.past(&|name| input(decision, name)), clause.covers(reason)),
        None => ("a clause decided that this pinhead does not know".into(), false),
    };
    if reason.is_empty() || is_known {
        format!("{because} (clause {name})")
    } else {
        format!("{because} (clause {name}: {})", plain(reason, SENTENCE_WIDTH))
    }
}

/// Describes the guest's state as far as the policy knew it.
pub fn state(name: &str, decision: &Decision) -> String {
    let name = plain(name, NAME_WIDTH);
    let get = |input_name| input(decision, input_name);
    let mut parts = Vec::new();
    match (get("guest_available"), get("guest_cold"), get("guest_used")) {
        (Some(available), Some(cold), _) if cold > 0.0 => {
            let (available, cold) = (size(available), size(cold));
            parts.push(format!(
                "{name} had {available} available, {cold} of them free or cold cache"
            ));
        }
        (Some(available), _, _) => parts.push(format!("{name} had {} available", size(available))),
        (None, _, Some(used)) => parts.push(format!("{name} used {}", size(used))),
        (None, _, None) => {}
    }
    match get("psi_permille") {
        Some(0.0) => parts.push("nothing in it waited for memory".into()),
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
        return format!("Nothing was known of the inside of {name}.");
    }
    if let Some(age) = get("sample_age_ms").filter(|age| *age > SHOWN_AGE_MS) {
        parts.push(format!("that was known {} before", span(age as i64)));
    }
    let mut text = parts.join("; ");
    if !text.starts_with(name.as_str())
        && let Some(first) = text.get(..1)
    {
        text = format!("{}{}", first.to_ascii_uppercase(), &text[1..]);
    }
    text + "."
}

/// Describes the bounds that were reached.
pub fn bounds(decision: &Decision) -> Option<String> {
    let names: Vec<String> = decision.bounds.iter().map(|name| plain(name, WORD_WIDTH)).collect();
    match names.len() {
        0 => None,
        1 => Some(format!("Bound: {}.", names[0])),
        _ => Some(format!("Bounds: {}.", names.join(", "))),
    }
}

/// Describes the outcome of a move; `None` if the decision has none.
pub fn came(decision: &Decision, outcomes: &[Outcome]) -> Option<String> {
    if !decision.acted || decision.from_bytes == decision.to_bytes {
        return None;
    }
    let Some(outcome) = outcomes.last() else {
        return Some("What came of it is not in the journal.".into());
    };
    let shrinks = decision.to_bytes < decision.from_bytes;
    let (before, after) = (mib(decision.from_bytes), mib(outcome.reached_bytes));
    let moved = if shrinks { before - after } else { after - before };
    let asked = (before - mib(decision.to_bytes)).abs();
    let took = span(outcome.at_ms.saturating_sub(decision.at_ms));
    let did = if shrinks { "gave back" } else { "got" };
    let text = match outcome.fate {
        Fate::Reached => format!("It {did} {moved} MiB within {took}"),
        Fate::Stuck => {
            format!("Its balloon came to a halt: it {did} {moved} of {asked} MiB within {took}")
        }
        Fate::Refused => format!("It was refused, and has {after} MiB"),
        Fate::Superseded => {
            format!("After {took} and at {after} MiB a later decision took its place")
        }
        Fate::Gone => format!("It was gone within {took}"),
        Fate::TookBack => {
            format!("Its kernel took memory back within {took}, and it has {after} MiB")
        }
        Fate::Foreign => {
            format!("Somebody else moved its balloon within {took}, to {after} MiB")
        }
    };
    let host = match outcome.host_got_bytes {
        Some(got) if shrinks => format!("; the host got {}.", size(got as f64)),
        None if shrinks && outcome.fate == Fate::Reached => {
            "; what the host got was not measured.".into()
        }
        _ => ".".into(),
    };
    Some(text + &host)
}
