//! Notes at the foot of a report: reasons for empty columns, and substituted values.

use crate::fields::{Derived, Raw, Scope};
use crate::options::Options;
use crate::report::{Line, LineKind, Report};
use crate::sums::Timeline;
use crate::time::span_text;
use model::{GuestField, Over, ProcessField};
use std::collections::BTreeMap;

/// Excess in percent above which two states of virtual CPUs must count the same time.
const EXCESS_PERCENT: f64 = 0.5;

pub(crate) fn of(
    report: &Report,
    timelines: &[Timeline<'_>],
    options: &Options<'_>,
) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(empty_tables(report));
    notes.extend(empty_columns(report, timelines));
    notes.extend(substitutes(report, timelines));
    if options.pattern.is_some() && uses(report, |field| field.scope == Scope::Host) {
        notes.push("The rows of the host are about all of its guests.".into());
    }
    notes
}

fn end_of_line(line: &Line) -> i64 {
    line.from_ms.saturating_add(i64::try_from(line.length_ms).unwrap_or(i64::MAX))
}

fn uses(report: &Report, is_it: impl Fn(&Derived) -> bool) -> bool {
    report.tables.iter().flat_map(|table| &table.fields).any(|field| is_it(field))
}

fn empty_tables(report: &Report) -> impl Iterator<Item = String> {
    report.tables.iter().filter(|table| table.lines.is_empty()).map(|table| {
        match table.part.scope {
            Scope::Finding => "No rule found anything.".to_owned(),
            Scope::Process => "No processes are recorded in this time: daemons tell of them, \
                               and only of guests that ran."
                .to_owned(),
            _ => format!("{}: none are recorded in this time.", table.part.title),
        }
    })
}

/// Returns notes for columns without values, grouped by the missing raw fields.
fn empty_columns(report: &Report, timelines: &[Timeline<'_>]) -> Vec<String> {
    let mut by_source: BTreeMap<Vec<Raw>, Vec<String>> = BTreeMap::new();
    for table in report.tables.iter().filter(|table| !table.lines.is_empty()) {
        for (column, field) in table.fields.iter().enumerate() {
            if table.lines.iter().any(|line| line.values[column].is_some()) {
                continue;
            }
            let lacks = |raw: &&Raw| !is_recorded(**raw, timelines);
            let missing: Vec<Raw> = field.sources.iter().filter(lacks).copied().collect();
            if missing.is_empty() {
                continue;
            }
            let names = by_source.entry(missing).or_default();
            let heading = field.heading();
            if !names.contains(&heading) {
                names.push(heading);
            }
        }
    }
    let sentence = |(missing, names): (Vec<Raw>, Vec<String>)| {
        let mut sources: Vec<&str> = missing.iter().map(|raw| raw.source()).collect();
        sources.dedup();
        let raws: Vec<&str> = missing.iter().map(|raw| raw.name()).collect();
        format!(
            "{}: -, because {} ({}) {} not recorded here.",
            names.join(", "),
            raws.join(", "),
            sources.join(", "),
            if raws.len() == 1 { "is" } else { "are" }
        )
    };
    by_source.into_iter().map(sentence).collect()
}

fn is_recorded(raw: Raw, timelines: &[Timeline<'_>]) -> bool {
    let any = |field: ProcessField, over: &Over<ProcessField>| over.get(field).is_some();
    timelines.iter().any(|timeline| match raw {
        Raw::Process(field) => timeline.steps.iter().any(|step| {
            let mut all = step.interval.processes.values().flat_map(|of| of.values());
            all.any(|over| any(field, over))
        }),
        Raw::Guest(field) => timeline
            .steps
            .iter()
            .any(|step| step.guests.values().any(|guest| guest.over.get(field).is_some())),
        _ => raw.value(&timeline.total.facts()).is_some(),
    })
}

/// Returns notes for values that stand in for counters that some hosts or guests lack.
fn substitutes(report: &Report, timelines: &[Timeline<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    let guests = || {
        timelines.iter().flat_map(|timeline| &timeline.steps).flat_map(|step| step.guests.values())
    };
    let lacking = |field| {
        guests().any(|guest| {
            guest.over.get(field).is_none() && guest.over.get(GuestField::VcpuRun).is_some()
        })
    };
    let made_of = |raw: GuestField| {
        uses(report, |field| {
            field.sources.contains(&Raw::Guest(raw)) && field.scope != Scope::Finding
        })
    };
    if made_of(GuestField::VcpuGuest) && lacking(GuestField::VcpuGuest) {
        notes.push(
            "Guests under emulation have no guest time: what their virtual CPUs ran for stands \
             for it."
                .into(),
        );
    }
    if made_of(GuestField::HaltWakeups) && lacking(GuestField::HaltWakeups) {
        notes.push("Where halts are not counted, dispatches stand for wake-ups.".into());
    }
    if made_of(GuestField::OwnAnonymous) && lacking(GuestField::OwnAnonymous) {
        notes.push("Working sets are known of guests with a daemon only.".into());
    }
    if uses(report, |field| field.id == "states_percent") {
        let excess =
            |timeline: &Timeline<'_>| Some(timeline.total.guests.added.states?.percent()?.excess);
        let worst = timelines.iter().filter_map(excess).fold(0.0, f64::max);
        if worst > EXCESS_PERCENT {
            notes.push(format!(
                "The states counted {worst:.1} % more than there was time, and were scaled to fit."
            ));
        }
    }
    let parts = |table: &crate::Table| {
        table.lines.iter().any(|line| {
            matches!(line.kind, LineKind::Interval)
                && line.covered_ms.saturating_mul(100) < line.length_ms.saturating_mul(95)
        })
    };
    if report.tables.iter().any(parts) {
        notes.push("~ behind a time: less than 95 % of the interval is known.".into());
    }
    let last = report.tables.iter().flat_map(|table| &table.lines).find(|line| {
        matches!(line.kind, LineKind::Interval) && line.length_ms < report.interval_ms
    });
    if let Some(last) = last.filter(|last| end_of_line(last) == report.to_ms) {
        let length = span_text(last.length_ms);
        notes.push(format!("The last row covers only {length}: its interval is incomplete."));
    }
    notes
}
