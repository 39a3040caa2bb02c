//! Reports as JSON. Keys are field names with their units, in the order of the table. A missing
//! value is null.

use crate::header::HostHeader;
use crate::number::put_scaled;
use crate::report::{Line, Report, Table};
use crate::time::{Spans, Zone, rfc3339};
use std::fmt::Write;

/// Significant decimals; further digits are noise of binary fractions.
const DIGITS: i32 = 6;
/// Limit below which numbers have at most fifteen digits, so that no two numbers share a float.
const EXACT_MAX: f64 = 1e15;

/// Renders a report.
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
    let key = |name: &str| format!(",{}:", string(name));
    let labels: Vec<String> = table.labels.iter().map(|label| key(label)).collect();
    let ids: Vec<String> = table.fields.iter().map(|field| key(field.id)).collect();
    let mut times = Spans::new(zone);
    list(out, &table.lines, |out, line| line_of(out, line, &labels, &ids, &mut times));
    out.push_str("]}");
}

fn line_of(
    out: &mut String,
    line: &Line,
    labels: &[String],
    ids: &[String],
    times: &mut Spans<'_>,
) {
    let (from, to) = times.of(line.from_ms, line.length_ms);
    out.push_str("{\"row\":");
    put_string(out, line.kind.name());
    out.push_str(",\"from\":");
    put_string(out, from);
    out.push_str(",\"to\":");
    put_string(out, to);
    out.push_str(",\"covered_s\":");
    put_number(out, Some(line.covered_ms as f64 / 1000.0));
    for (label, text) in labels.iter().zip(&line.labels) {
        out.push_str(label);
        put_string(out, text);
    }
    for (id, value) in ids.iter().zip(&line.values) {
        out.push_str(id);
        put_number(out, *value);
    }
    out.push('}');
}

fn number(value: Option<f64>) -> String {
    let mut out = String::new();
    put_number(&mut out, value);
    out
}

/// Writes a rounded number, or null. A value that would round to zero is written in full.
fn put_number(out: &mut String, value: Option<f64>) {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        out.push_str("null");
        return;
    };
    let scale = 10_f64.powi(DIGITS);
    let scaled = (value * scale).round();
    // A number with so few digits is already the shortest form of its float.
    if (1.0..EXACT_MAX).contains(&scaled.abs()) {
        if scaled < 0.0 {
            out.push('-');
        }
        put_scaled(out, scaled.abs() as u64, DIGITS as usize);
        let digits = out.trim_end_matches('0').trim_end_matches('.').len();
        out.truncate(digits);
        return;
    }
    let rounded = scaled / scale;
    // Writing to a string does not fail.
    let _ = match rounded == 0.0 && value != 0.0 {
        true => write!(out, "{value:e}"),
        false => write!(out, "{rounded}"),
    };
}

fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    put_string(&mut out, text);
    out
}

fn put_string(out: &mut String, text: &str) {
    out.push('"');
    // The fast path covers nearly all names; a report contains a hundred thousand of them.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        out.push_str(text);
        out.push('"');
        return;
    }
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
        assert_eq!(number(Some(-1200.0)), "-1200");
        for value in [0.000_001, 0.5, 7.25, 123_456_789.123_456, 99.999_999_6, 1e14, 3e20, -0.07] {
            let rounded = (value * 1e6_f64).round() / 1e6;
            assert_eq!(number(Some(value)), format!("{rounded}"));
        }
    }
}
