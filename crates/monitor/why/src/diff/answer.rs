//! Answer of `pinhead host diff`, as sentences and as JSON.

use super::timeline::{Parting, Target, Total};
use crate::when::{Now, rfc3339, show};
use crate::who::Chosen;
use crate::words::{NAME_WIDTH, SENTENCE_WIDTH, WORD_WIDTH, mib};
use base::duration::show as span;
use base::plain;
use serde_json::{Value, json};
use std::fmt::Write as _;
use store::Range;

/// Answer to a question: the times in which the two policies differ.
#[derive(Debug)]
pub struct Answer {
    /// Guests with their differences.
    pub guests: Vec<(Chosen, Total)>,
    /// Time of the comparison.
    pub range: Range,
    /// Time and zone of the question.
    pub now: Now,
}

impl Answer {
    /// Returns the answer as text: the times with different targets, and a summary.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let known: Vec<&(Chosen, Total)> =
            self.guests.iter().filter(|(_, total)| total.known_ms > 0).collect();
        if known.is_empty() {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(
                out,
                "Between {} and {} no guest has decisions of both policies: set a second policy as \
                 `shadow` in the settings.",
                show(self.range.from_ms, &self.now),
                show(self.range.to_ms, &self.now)
            );
            return out;
        }
        let mut all: Vec<(&Chosen, &Parting)> = known
            .iter()
            .flat_map(|(guest, total)| total.partings.iter().map(move |parting| (guest, parting)))
            .collect();
        all.sort_by_key(|(_, parting)| parting.from_ms);
        for (guest, parting) in all {
            let _ = writeln!(out, "{}", self.parting(guest, parting));
        }
        for (guest, total) in &known {
            let _ = writeln!(out, "{}", summary(guest, total));
        }
        out
    }

    fn parting(&self, guest: &Chosen, parting: &Parting) -> String {
        let Parting { from_ms, to_ms, active, shadow } = parting;
        let target = |target: &Target| {
            let clause = plain(&target.clause, WORD_WIDTH);
            let reason = plain(&target.reason, SENTENCE_WIDTH);
            let why = if reason.is_empty() { clause } else { format!("{clause}: {reason}") };
            format!("{} MiB ({why})", mib(target.bytes))
        };
        format!(
            "{} to {}  {}: active {}, shadow {}, difference at most {:+} MiB, for {}",
            show(*from_ms, &self.now),
            show(*to_ms, &self.now),
            plain(&guest.label, NAME_WIDTH),
            target(active),
            target(shadow),
            mib(shadow.bytes) - mib(active.bytes),
            span(to_ms - from_ms)
        )
    }

    /// Returns the answer as JSON.
    pub fn json(&self) -> Value {
        let guests: Vec<Value> = self
            .guests
            .iter()
            .map(|(guest, total)| {
                let partings: Vec<Value> =
                    total.partings.iter().map(|parting| self.parting_json(parting)).collect();
                json!({
                    "name": guest.name,
                    "uuid": guest.uuid,
                    "partings": partings,
                    "count": total.count,
                    "parted_ms": total.parted_ms,
                    "known_ms": total.known_ms,
                    "mib_hours": total.mib_hours,
                    "active_moves": total.active_moves,
                    "shadow_moves": total.shadow_moves,
                })
            })
            .collect();
        json!({
            "from": rfc3339(self.range.from_ms, &self.now),
            "to": rfc3339(self.range.to_ms, &self.now),
            "guests": guests,
        })
    }

    fn parting_json(&self, parting: &Parting) -> Value {
        let target = |target: &Target| {
            json!({
                "bytes": target.bytes,
                "clause": target.clause,
                "reason": target.reason,
            })
        };
        json!({
            "from": rfc3339(parting.from_ms, &self.now),
            "to": rfc3339(parting.to_ms, &self.now),
            "from_ms": parting.from_ms,
            "to_ms": parting.to_ms,
            "active": target(&parting.active),
            "shadow": target(&parting.shadow),
        })
    }
}

fn summary(guest: &Chosen, total: &Total) -> String {
    let name = plain(&guest.label, NAME_WIDTH);
    let moves = format!("moves: active {}, shadow {}", total.active_moves, total.shadow_moves);
    let known = span(total.known_ms);
    if total.count == 0 {
        return format!("{name}: the targets agreed for {known}; {moves}");
    }
    let unlisted = total.count - total.partings.len() as u64;
    let unlisted = if unlisted > 0 { format!(" ({unlisted} not listed)") } else { String::new() };
    let times = if total.count == 1 { "once".into() } else { format!("{} times", total.count) };
    format!(
        "{name}: the targets differed {times}{unlisted}, for {} of {known}; the shadow policy \
         would change the guest's memory by {:+.1} MiB·h; {moves}",
        span(total.parted_ms),
        total.mib_hours
    )
}
