//! A report as JSON. Keys are the names of fields, with their units, and stand in the order
//! of the table; a value that is missing is null.

use crate::build::{Line, Report, Table};
use crate::header::HostHeader;
use crate::time::{Zone, rfc3339};
use std::fmt::Write;

/// Digits that a value is rounded to: more are the noise of binary fractions.
const DIGITS: i32 = 6;

/// Prints a report.
pub fn json(report: &Report, zone: &dyn Zone) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "{{\n\"report\":{},\"title\":{},\"from\":{},\"to\":{},\"interval_s\":{},\"by\":{},\
         \"guests\":{},\n\"hosts\":[",
        string(report.definition.name),
        string(report.definition.title),
        string(&rfc3339(report.from_ms, zone)),
        string(&rfc3339(report.to_ms, zone)),
        number(Some(report.interval_ms as f64 / 1000.0)),
        string(report.by.name()),
        string(if report.pattern.is_empty() { "*" } else { &report.pattern }),
    );
    list(&mut out, &report.hosts, |out, host| host_of(out, host, zone));
    out.push_str("],\n\"tables\":[");
    list(&mut out, &report.tables, |out, table| table_of(out, table, zone));
    out.push_str("],\n\"notes\":[");
    list(&mut out, &report.notes, |out, note| out.push_str(&string(note)));
    out.push_str("]\n}\n");
    out
}

fn list<T>(out: &mut String, items: &[T], mut one: impl FnMut(&mut String, &T)) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(",\n");
        }
        one(out, item);
    }
}

fn host_of(out: &mut String, host: &HostHeader, zone: &dyn Zone) {
    let _ = write!(out, "{{\"host\":{},\"facts\":{{", string(&host.name));
    for (at, (what, how)) in host.facts.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{}:{}", string(what), string(how));
    }
    let _ = write!(
        out,
        "}},\"own_cpu_ms_per_min\":{},\"own_mib\":{},\"shed_readings\":{},\
         \"missed_moments\":{},\"missing_s\":{},\"gaps\":[",
        number(host.own_ms_per_min),
        number(host.own_mib),
        number(host.shed_readings.map(|count| count as f64)),
        number(host.missed_moments.map(|count| count as f64)),
        number(Some(host.missing_ms as f64 / 1000.0)),
    );
    list(out, &host.gaps, |out, gap| {
        let _ = write!(
            out,
            "{{\"from\":{},\"to\":{},\"reason\":{}}}",
            string(&rfc3339(gap.from_ms, zone)),
            string(&rfc3339(gap.to_ms, zone)),
            string(&gap.reason)
        );
    });
    out.push_str("]}");
}

fn table_of(out: &mut String, table: &Table, zone: &dyn Zone) {
    let _ = write!(out, "{{\"table\":{},\"columns\":[", string(table.part.id));
    list(out, &table.fields, |out, field| {
        let _ = write!(
            out,
            "{{\"name\":{},\"title\":{},\"unit\":{},\"words\":{}}}",
            string(field.id),
            string(&field.heading()),
            string(field.unit.text()),
            string(field.words)
        );
    });
    out.push_str("],\n\"rows\":[");
    list(out, &table.lines, |out, line| line_of(out, table, line, zone));
    out.push_str("]}");
}

fn line_of(out: &mut String, table: &Table, line: &Line, zone: &dyn Zone) {
    let to_ms = line.from_ms.saturating_add(i64::try_from(line.length_ms).unwrap_or(i64::MAX));
    let _ = write!(
        out,
        "{{\"row\":{},\"from\":{},\"to\":{},\"covered_s\":{}",
        string(line.kind.name()),
        string(&rfc3339(line.from_ms, zone)),
        string(&rfc3339(to_ms, zone)),
        number(Some(line.covered_ms as f64 / 1000.0)),
    );
    for (label, text) in table.labels.iter().zip(&line.labels) {
        let _ = write!(out, ",{}:{}", string(label), string(text));
    }
    for (field, value) in table.fields.iter().zip(&line.values) {
        let _ = write!(out, ",{}:{}", string(field.id), number(*value));
    }
    out.push('}');
}

/// A number, rounded, or null. What is there and rounds to nothing is kept as it is.
fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "null".into() };
    let scale = 10_f64.powi(DIGITS);
    let rounded = (value * scale).round() / scale;
    if rounded == 0.0 && value != 0.0 { format!("{value:e}") } else { format!("{rounded}") }
}

fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_of_json() {
        assert_eq!(string("a\"\\\n\u{7f}é"), "\"a\\\"\\\\\\u000a\\u007fé\"");
        assert_eq!(number(Some(0.1 + 0.2)), "0.3");
        assert_eq!(number(Some(1e-9)), "1e-9");
        assert_eq!(number(Some(f64::INFINITY)), "null");
        assert_eq!(number(Some(0.0)), "0");
    }
}
