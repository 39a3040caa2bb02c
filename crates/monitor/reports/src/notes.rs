//! Notes at the foot of a report: reasons for empty columns, and substituted values.

use crate::fields::{Derived, Raw, Scope};
use crate::gather::UNREPORTED_MS;
use crate::options::Options;
use crate::report::{Line, LineKind, Report, Table};
use crate::sums::Timeline;
use crate::time::span_text;
use model::GuestField;

/// Limit of the excess of the states' times over the available time, in percent. Above this limit,
/// two states must count the same time.
const EXCESS_PERCENT: f64 = 0.5;
/// Limit of the ratio of the listed processes' CPU time to the CPU time of all processes. Above
/// this limit, some processes are counted twice.
const TWICE: f64 = 1.02;
/// Maximum number of guests that a note names as not present the whole time.
const PARTS_SHOWN: usize = 4;

pub(crate) fn of(
    report: &Report,
    timelines: &[Timeline<'_>],
    options: &Options<'_>,
) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(empty_tables(report));
    notes.extend(empty_columns(report));
    notes.extend(report.tables.iter().find_map(counted_twice));
    notes.extend(report.tables.iter().find_map(partly_there));
    notes.extend(substitutes(report, timelines));
    if options.pattern.is_some() && uses(report, |field| field.scope == Scope::Host) {
        notes.push("The host's rows cover all of its guests, not only the selected guests.".into());
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
    report.tables.iter().filter(|table| !table.has_values()).map(|table| match table.part.scope {
        Scope::Finding => "No rule found anything.".to_owned(),
        Scope::Process => "No processes are recorded in this time: only guests with a \
                               daemon report processes, and only while the guests run."
            .to_owned(),
        _ => format!("{}: no values are recorded in this time.", table.part.title),
    })
}

/// Returns a note that names the columns without values.
fn empty_columns(report: &Report) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for table in report.tables.iter().filter(|table| table.has_values()) {
        let shown = table.columns_shown();
        for (column, field) in table.fields.iter().enumerate() {
            let heading = field.heading();
            if !shown.contains(&column) && !names.contains(&heading) {
                names.push(heading);
            }
        }
    }
    let name = report.definition.name;
    (!names.is_empty()).then(|| {
        format!(
            "Columns without values: {}. `pinhead report {name} --legend` lists their sources.",
            names.join(", ")
        )
    })
}

/// Returns a note if processes are counted twice: once by themselves, and after their end once more
/// by their parents.
fn counted_twice(table: &Table) -> Option<String> {
    let column = table.fields.iter().position(|field| field.id.starts_with("cpu_"))?;
    let sum = |kind| {
        let lines = table.lines.iter().filter(move |line| line.kind == kind);
        lines.filter_map(|line| line.values[column]).sum::<f64>()
    };
    let (listed, all) = (sum(LineKind::Whole), sum(LineKind::All));
    (table.part.scope == Scope::Process && all > 0.0 && listed > all * TWICE).then(|| {
        "Processes that ended count in their own rows, and once more in the rows of their parents."
            .to_owned()
    })
}

/// Returns a note with the names of guests that were not present the whole time.
fn partly_there(table: &Table) -> Option<String> {
    let all = table.lines.iter().filter(|line| line.kind == LineKind::All);
    let most_ms = all.map(|line| line.covered_ms).max()?;
    let is_part = |line: &&Line| {
        let is_guest = line.kind == LineKind::Whole && table.part.scope == Scope::Guest;
        is_guest && line.covered_ms.saturating_add(UNREPORTED_MS) < most_ms
    };
    let part: Vec<&Line> = table.lines.iter().filter(is_part).collect();
    let name = |line: &&Line| {
        let name = line.labels.get(1).or(line.labels.first())?;
        Some(format!("{name} {}", span_text(line.covered_ms)))
    };
    let mut names: Vec<String> = part.iter().take(PARTS_SHOWN).filter_map(name).collect();
    if part.len() > PARTS_SHOWN {
        names.push(format!("{} more", part.len() - PARTS_SHOWN));
    }
    (!names.is_empty()).then(|| {
        format!(
            "Guests that existed for only a part of the time: {}. Their rows cover only the stated \
             time, and so do their shares of the sums.",
            names.join(", ")
        )
    })
}

/// Returns notes about values that replace missing counters of some hosts or guests.
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
            "Guests under emulation have no guest time: the run time of their virtual CPUs \
             replaces the guest time."
                .into(),
        );
    }
    if made_of(GuestField::HaltWakeups) && lacking(GuestField::HaltWakeups) {
        notes.push("If halts of a guest are not counted, its dispatches count as wake-ups.".into());
    }
    if made_of(GuestField::OwnAnonymous) && lacking(GuestField::OwnAnonymous) {
        notes.push("Working sets are known only for guests with a daemon.".into());
    }
    if uses(report, |field| field.id == "states_percent") {
        let excess =
            |timeline: &Timeline<'_>| Some(timeline.total.guests.added.states?.percent()?.excess);
        let worst = timelines.iter().filter_map(excess).fold(0.0, f64::max);
        if worst > EXCESS_PERCENT {
            notes.push(format!(
                "The sum of all states exceeded the time by {worst:.1} %, and was scaled to 100 %."
            ));
        }
    }
    let mut intervals = report.tables.iter().flat_map(|table| &table.lines);
    if intervals.any(|line| line.kind == LineKind::Interval && line.is_partial()) {
        notes.push("~ after a time: less than 95 % of the interval is known.".into());
    }
    let last = report.tables.iter().flat_map(|table| &table.lines).find(|line| {
        matches!(line.kind, LineKind::Interval) && line.length_ms < report.interval_ms
    });
    if let Some(last) = last.filter(|last| end_of_line(last) == report.to_ms) {
        let length = span_text(last.length_ms);
        notes.push(format!("The newest row covers only {length}: its interval is incomplete."));
    }
    notes
}
