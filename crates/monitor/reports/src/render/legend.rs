//! Meanings of a report's columns, from the table of fields.

use super::text::wrapped;
use crate::advice::{RULES, limit_text};
use crate::catalog::Definition;
use crate::fields::{Derived, Raw, Scope, field};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Renders the meaning of all columns of a report: the name in CSV and JSON, the unit, the formula
/// and the raw fields. The sources of the raw fields follow. `metric` returns the metric of a raw
/// field.
pub fn legend(
    definition: &Definition,
    metric: &dyn Fn(Raw) -> &'static str,
    width: usize,
) -> String {
    let Definition { name, title, left_out, parts, .. } = definition;
    let mut out = format!("{name}  {title}\n");
    let mut sources: BTreeSet<Raw> = BTreeSet::new();
    for part in *parts {
        let _ = writeln!(out, "\n{}", part.title);
        for field in part.columns.iter().filter_map(|id| field(part.scope, id)) {
            one(&mut out, field, width);
            sources.extend(field.sources.iter().copied());
        }
    }
    if parts.iter().any(|part| part.scope == Scope::Finding) {
        out.push_str("\nRules\n");
        for rule in RULES {
            let when = limit_text(rule);
            let line = format!("  {}: {} {when}: {}", rule.name, rule.field, rule.advice);
            wrapped(&mut out, &line, width);
        }
    }
    if !sources.is_empty() {
        out.push_str("\nSources, and their metrics\n");
    }
    for raw in sources {
        let line = format!("  {} ({}): {}", raw.name(), raw.source(), metric(raw));
        wrapped(&mut out, &line, width);
    }
    if !left_out.is_empty() {
        out.push('\n');
        wrapped(&mut out, left_out, width);
    }
    out
}

fn one(out: &mut String, field: &Derived, width: usize) {
    let unit = match field.unit.text() {
        "" => String::new(),
        unit => format!(", in {unit}"),
    };
    wrapped(out, &format!("  {} ({}{unit})", field.heading(), field.id), width);
    wrapped(out, &format!("      {} ({})", field.words, field.formula), width);
    let names: Vec<&str> = field.sources.iter().map(|raw| raw.name()).collect();
    if !names.is_empty() {
        wrapped(out, &format!("      from {}", names.join(", ")), width);
    }
}
