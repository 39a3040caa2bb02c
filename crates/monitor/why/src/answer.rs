//! Answer of `pinhead why`, as sentences and as JSON.

use super::gather::{ENTRIES_MAX, Entry, Gathered, What};
use super::when::{Now, rfc3339, show};
use super::who::Chosen;
use super::words::{
    NAME_WIDTH, SENTENCE_WIDTH, WORD_WIDTH, bounds, came, done, end_bytes, held, state, taken_back,
    why,
};
use base::plain;
use model::clause::Clause;
use model::quantity;
use serde_json::{Map, Value, json};
use store::{Decided, Event, Policy, Range};

/// A question with its results.
#[derive(Debug)]
pub struct Answer {
    /// Selected guests.
    pub chosen: Vec<Chosen>,
    /// Policy of the decisions.
    pub policy: Policy,
    /// Time of the decisions.
    pub range: Range,
    /// Entries found.
    pub gathered: Gathered,
    /// Names of guests with earlier runs in the range. The answer leaves these runs out.
    pub earlier_runs: Vec<String>,
    /// Time and zone of the question.
    pub now: Now,
}

/// A line of an answer, for callers that show lines one by one.
#[derive(Debug)]
pub struct Told<'a> {
    /// Time or start, in milliseconds since 1970.
    pub at_ms: i64,
    /// Guest of the line; `None` for the manager and its host.
    pub guest: Option<&'a Chosen>,
    /// Action of the decision, or kind of the event, as a word.
    pub action: &'a str,
    /// Size that a decision led to, in whole MiB as in the text.
    pub to_mib: Option<i64>,
    /// True for a decision that was made before the requested time, and was in force when that time
    /// began.
    pub is_earlier: bool,
    /// The line in sentences, without the time.
    pub text: String,
}

impl Answer {
    /// Returns the lines, oldest first.
    pub fn lines(&self) -> Vec<Told<'_>> {
        let before = self.gathered.before.iter().map(|entry| (entry, true));
        let entries = self.gathered.entries.iter().map(|entry| (entry, false));
        before.chain(entries).map(|(entry, is_earlier)| self.one(entry, is_earlier)).collect()
    }

    fn one<'a>(&'a self, entry: &'a Entry, is_earlier: bool) -> Told<'a> {
        let (action, to_mib): (&str, _) = match &entry.what {
            What::Decision(decided) | What::Holds { last: decided, .. } => {
                (&decided.decision.action, Some(quantity::mib(end_bytes(decided) as f64)))
            }
            What::Event(event) => (&event.kind, None),
        };
        Told {
            at_ms: entry.at_ms,
            guest: entry.guest.and_then(|at| self.chosen.get(at)),
            action,
            to_mib,
            is_earlier,
            text: self.told(entry),
        }
    }

    /// Returns true if there were too many entries, so the newest entries are missing.
    pub fn is_cut(&self) -> bool {
        self.gathered.is_cut
    }

    /// Returns the answer as text, with a line for each event.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for entry in &self.gathered.before {
            lines.push(format!("earlier: {}", self.line(entry)));
        }
        lines.extend(self.gathered.entries.iter().map(|entry| self.line(entry)));
        let has_decisions =
            self.gathered.entries.iter().any(|entry| !matches!(entry.what, What::Event(_)));
        if !has_decisions {
            lines.push(self.nothing());
        }
        if !self.earlier_runs.is_empty() {
            lines.push(format!(
                "Earlier runs of {} are not shown: use --last SPAN or --at TIME to see them.",
                few(&self.earlier_runs)
            ));
        }
        if self.gathered.is_cut {
            lines.push(format!(
                "Only the first {ENTRIES_MAX} lines are shown: choose a shorter time, or fewer \
                 guests."
            ));
        }
        lines.join("\n") + "\n"
    }

    /// Returns a sentence for a time without decisions, with the range of the existing decisions.
    fn nothing(&self) -> String {
        let names: Vec<String> = self.chosen.iter().map(|guest| guest.label.clone()).collect();
        let names = few(&names);
        let policy = self.policy.name();
        let show = |ms| show(ms, &self.now);
        let Range { from_ms, to_ms } = self.range;
        match self.gathered.span {
            None => format!("The journal has no decision of the {policy} policy about {names}."),
            Some(span) => format!(
                "The {policy} policy decided nothing about {names} between {} and {}. The journal \
                 contains decisions of this policy from {} to {}.",
                show(from_ms),
                show(to_ms),
                show(span.from_ms),
                show(span.to_ms)
            ),
        }
    }

    fn line(&self, entry: &Entry) -> String {
        format!("{}  {}", show(entry.at_ms, &self.now), self.told(entry))
    }

    fn told(&self, entry: &Entry) -> String {
        let at = show(entry.at_ms, &self.now);
        match &entry.what {
            What::Decision(decided) => sentences(&done(self.label(entry), decided), decided),
            What::Holds { times, bytes, took_back, last } => {
                let until = show(last.decision.at_ms, &self.now);
                let (label, between) = (self.label(entry), (at.as_str(), until.as_str()));
                let done = match times {
                    1 => done(label, last),
                    _ => held(label, &last.decision, *bytes, *times, between),
                };
                sentences(&done, last) + &taken_back(*took_back)
            }
            What::Event(event) => self.event(entry, event),
        }
    }

    /// Returns an event's sentence. If the event has no sentence, returns the event's kind.
    fn event(&self, entry: &Entry, event: &Event) -> String {
        let kind = plain(&event.kind, WORD_WIDTH).replace('-', " ");
        let text = match plain(&event.text, SENTENCE_WIDTH) {
            text if text.is_empty() => kind,
            text => text,
        };
        match entry.guest {
            Some(_) => format!("{}: {text}", plain(self.label(entry), NAME_WIDTH)),
            None => text,
        }
    }

    fn label(&self, entry: &Entry) -> &str {
        let guest = entry.guest.and_then(|at| self.chosen.get(at));
        guest.map_or("the host", |guest| &guest.label)
    }

    /// Returns the answer as JSON.
    pub fn json(&self) -> Value {
        let guests: Vec<Value> = self
            .chosen
            .iter()
            .map(|guest| json!({"name": guest.name, "uuid": guest.uuid}))
            .collect();
        let all = |entries: &[Entry]| entries.iter().map(|e| self.entry(e)).collect::<Vec<_>>();
        json!({
            "guests": guests,
            "policy": self.policy.name(),
            "from": rfc3339(self.range.from_ms, &self.now),
            "to": rfc3339(self.range.to_ms, &self.now),
            "before": all(&self.gathered.before),
            "entries": all(&self.gathered.entries),
            "cut": self.gathered.is_cut,
            "earlier_runs": self.earlier_runs,
            "first": self.gathered.span.and_then(|span| rfc3339(span.from_ms, &self.now)),
            "last": self.gathered.span.and_then(|span| rfc3339(span.to_ms, &self.now)),
        })
    }

    fn entry(&self, entry: &Entry) -> Value {
        let guest = entry.guest.and_then(|at| self.chosen.get(at));
        let mut value = match &entry.what {
            What::Decision(decided) => decision(decided),
            What::Holds { times, bytes, took_back, last } => {
                let mut value = decision(last);
                value["times"] = json!(times);
                value["took_back"] = json!(took_back);
                value["until"] = json!(rfc3339(last.decision.at_ms, &self.now));
                value["until_ms"] = json!(last.decision.at_ms);
                value["held_bytes"] = json!([bytes.0, bytes.1]);
                value
            }
            What::Event(event) => json!({"event": event.kind, "text": event.text}),
        };
        value["at"] = json!(rfc3339(entry.at_ms, &self.now));
        value["at_ms"] = json!(entry.at_ms);
        value["guest"] = json!(guest.map(|guest| &guest.name));
        value["uuid"] = json!(guest.map(|guest| &guest.uuid));
        value["told"] = json!(self.line(entry));
        value
    }
}

/// Lists the names. Of three or more names, lists the first two and the number of the others.
fn few(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| plain(name, NAME_WIDTH)).collect();
    match names.as_slice() {
        [one, two, _, rest @ ..] => format!("{one}, {two} and {} more", rest.len() + 1),
        few => few.join(" and "),
    }
}

/// Returns a decision in sentences. The first sentence begins with the action.
fn sentences(done: &str, decided: &Decided) -> String {
    let decision = &decided.decision;
    let mut text = format!("{done}: {}.", why(decided));
    let more = [Some(state(decision)), bounds(decision), came(decided)];
    for sentence in more.into_iter().flatten() {
        text.push(' ');
        text.push_str(&sentence);
    }
    text
}

fn decision(decided: &Decided) -> Value {
    let decision = &decided.decision;
    let inputs: Map<String, Value> =
        decision.inputs.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    let outcomes: Vec<Value> = decided
        .outcomes
        .iter()
        .map(|outcome| {
            json!({
                "at_ms": outcome.at_ms,
                "result": outcome.fate.name(),
                "reached_bytes": outcome.reached_bytes,
                "host_got_bytes": outcome.host_got_bytes,
            })
        })
        .collect();
    json!({
        "decision": decided.id.0,
        "action": decision.action,
        "clause": decision.clause,
        "clause_means": Clause::of_name(&decision.clause).map(Clause::meaning),
        "reason": decision.reason(),
        "from_bytes": decision.from_bytes,
        "to_bytes": decision.to_bytes,
        "bounds": decision.bounds,
        "inputs": inputs,
        "acted": decision.acted,
        "outcomes": outcomes,
    })
}
