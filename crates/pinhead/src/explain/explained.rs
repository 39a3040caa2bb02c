//! The explanation of a rules file, as text and as JSON.

use crate::args::Format;
use crate::rulesfile::RulesText;
use crate::{Error, escape};
use model::counters::HostCounter;
use rules::{Explanation, Piece, Span, Value};
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// The explanation of a file.
pub struct Explained {
    pub(super) rules: RulesText,
    pub(super) explanation: Explanation,
    /// The newest readings for host rules, which have units of their own. Empty for a guest's
    /// rules.
    pub(super) counters: Vec<(HostCounter, Option<f64>)>,
    pub(super) verdicts: Vec<String>,
    pub(super) seen: String,
}

impl Explained {
    /// Formats the explanation.
    pub fn show(&self, format: Format) -> Result<String, Error> {
        match format {
            Format::Text => Ok(self.text()),
            Format::Json => escape::json(&self.json()),
        }
    }

    fn piece_text(&self, span: Span) -> String {
        let text = self.rules.text.get(span.start as usize..span.end as usize).unwrap_or_default();
        base::plain(&String::from_utf8_lossy(text), 200)
    }

    fn text(&self) -> String {
        let mut out = format!("{} on {}\n\nVariables\n", self.rules.name, self.seen);
        for (name, piece) in &self.explanation.variables {
            let _ = writeln!(out, "  {name} = {}", show(piece.value));
            let _ = writeln!(out, "      {}", self.piece_text(piece.span));
        }
        if !self.counters.is_empty() {
            out.push_str("\nCounters\n");
        }
        for (counter, value) in &self.counters {
            let (unit, doc) = (counter.unit().name(), counter.doc());
            let value = value.map_or("not known".into(), |value| show(Value::Number(value)));
            let _ = writeln!(out, "  {} = {value} ({unit}: {doc})", counter.name());
        }
        out.push_str("\nRules\n");
        for (name, piece) in &self.explanation.rules {
            let _ = writeln!(out, "  {} = {}", name.name(), show(piece.value));
            self.tree(&mut out, piece, 2);
        }
        out.push_str("\nNow\n");
        for verdict in &self.verdicts {
            let _ = writeln!(out, "  {verdict}");
        }
        out
    }

    fn tree(&self, out: &mut String, piece: &Piece, depth: usize) {
        let indent = "  ".repeat(depth);
        let _ = writeln!(out, "{indent}{} = {}", self.piece_text(piece.span), show(piece.value));
        for part in &piece.pieces {
            self.tree(out, part, depth + 1);
        }
    }

    fn json(&self) -> Json {
        let piece = |name: &str, piece: &Piece| {
            let mut value = self.piece_json(piece);
            value["name"] = json!(name);
            value
        };
        let variables = self.explanation.variables.iter().map(|(n, p)| piece(n, p));
        let rules = self.explanation.rules.iter().map(|(n, p)| piece(n.name(), p));
        let mut out = json!({
            "file": self.rules.name,
            "machine": self.seen,
            "variables": variables.collect::<Vec<_>>(),
            "rules": rules.collect::<Vec<_>>(),
            "now": self.verdicts,
        });
        if !self.counters.is_empty() {
            let counters = self.counters.iter().map(|(counter, value)| {
                json!({ "name": counter.name(), "unit": counter.unit().name(), "value": value })
            });
            out["counters"] = counters.collect();
        }
        out
    }

    fn piece_json(&self, piece: &Piece) -> Json {
        let (value, fault) = match piece.value {
            Value::Number(number) => (json!(number), Json::Null),
            Value::Truth(truth) => (json!(truth), Json::Null),
            Value::Fault(fault) => (Json::Null, json!(fault.to_string())),
            Value::Unread => (Json::Null, Json::Null),
        };
        let pieces: Vec<Json> = piece.pieces.iter().map(|p| self.piece_json(p)).collect();
        json!({
            "text": self.piece_text(piece.span),
            "value": value,
            "fault": fault,
            "pieces": pieces,
        })
    }
}

fn show(value: Value) -> String {
    match value {
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            format!("{number:.0}")
        }
        Value::Number(number) => format!("{number:.6}"),
        Value::Truth(true) => "TRUE".into(),
        Value::Truth(false) => "false".into(),
        Value::Fault(fault) => format!("no value: {fault}"),
        Value::Unread => "not read: its group is off".into(),
    }
}
