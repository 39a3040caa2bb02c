//! Documentation of the reports, generated from the tables that define the reports.

use crate::advice::{RULES, limit_text};
use crate::catalog::{REPORTS, heritage};
use crate::fields::{Derived, Scope, field};
use std::fmt::Write;

const HEAD: &str = include_str!("head.md");

/// Returns the whole page.
pub fn markdown() -> String {
    let mut out = HEAD.to_owned();
    out.push_str("\n## Names from other monitors\n\n| there | here |\n|---|---|\n");
    for (old, new) in heritage() {
        let _ = writeln!(out, "| `{old}` | {} |", new.join(", "));
    }
    for report in REPORTS {
        let _ = writeln!(out, "\n## {}\n\n{}.", report.name, report.title);
        if !report.left_out.is_empty() {
            let _ = writeln!(out, "{}", report.left_out);
        }
        for part in report.parts {
            if part.scope == Scope::Finding {
                continue;
            }
            if report.parts.len() > 1 {
                let _ = writeln!(out, "\n{}:", part.title);
            }
            let _ = writeln!(out, "\n| column | name | unit | what it is | made of |");
            out.push_str("|---|---|---|---|---|\n");
            part.columns.iter().filter_map(|id| field(part.scope, id)).for_each(|field| {
                row(&mut out, field);
            });
        }
        if report.name == "ADV" {
            rules(&mut out);
        }
    }
    out
}

fn row(out: &mut String, field: &Derived) {
    let sources: Vec<String> =
        field.sources.iter().map(|raw| format!("`{}`", raw.name())).collect();
    let _ = writeln!(
        out,
        "| {} | `{}` | {} | {} | {}: {} |",
        field.heading(),
        field.id,
        field.unit.text(),
        field.words,
        field.formula,
        sources.join(", ")
    );
}

fn rules(out: &mut String) {
    out.push_str(
        "\nEach rule checks every interval. A finding shows the share of intervals in which the \
         rule held, the worst interval, and the raw values.\n\n\
         | rule | value | holds if | advice |\n|---|---|---|---|\n",
    );
    for rule in RULES {
        let (name, field, advice) = (rule.name, rule.field, rule.advice);
        let _ = writeln!(out, "| {name} | `{field}` | {} | {advice} |", limit_text(rule));
    }
}
