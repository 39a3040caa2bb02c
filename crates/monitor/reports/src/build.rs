//! Building of a report from recorded intervals.
//!
//! ```text
//!   HostData ─► gather: guests ─► sums: of all, over time ─► Facts ─► lines ─► Report ─► render
//! ```
//!
//! No stage depends on a later stage.

use crate::catalog::{Definition, Part};
use crate::fields::{Derived, Scope, field};
use crate::gather::{HostData, end_of};
use crate::lines::TableInput;
use crate::options::Options;
use crate::pattern::Pattern;
use crate::plain::plain;
use crate::report::{Report, Table};
use crate::sums::Timeline;
use crate::{Error, advice, header, notes, processes};

/// Maximum number of intervals. With more intervals, a report is unreadable, and several intervals
/// share a dot of a chart.
const INTERVALS_MAX: usize = 20_000;

/// Builds a report of one or more hosts.
pub fn build(
    definition: &'static Definition,
    hosts: &[HostData],
    options: &Options<'_>,
) -> Result<Report, Error> {
    for host in hosts {
        let count = host.intervals.len();
        if count > INTERVALS_MAX {
            return Err(Error::TooManyIntervals { count, most: INTERVALS_MAX });
        }
    }
    let needs = |scope| definition.parts.iter().any(|part| part.scope == scope);
    let of = |pattern| hosts.iter().map(|host| Timeline::of(&host.intervals, pattern)).collect();
    // The host's own rows cover all of its guests, even if a pattern selects only some guests.
    let all: Vec<Timeline<'_>> = match options.pattern {
        Some(_) if needs(Scope::Host) => of(None),
        _ => Vec::new(),
    };
    let chosen: Vec<Timeline<'_>> = of(options.pattern);
    let whole = if all.is_empty() { &chosen } else { &all };
    let headers = header::headers(hosts, whole);
    let mut tables = Vec::new();
    for part in definition.parts {
        let timelines = if part.scope == Scope::Host { whole } else { &chosen };
        tables.push(table(part, hosts, timelines, options));
    }
    let intervals = || hosts.iter().flat_map(|host| &host.intervals);
    let from_ms = intervals().map(|one| one.from_ms).min().unwrap_or(0);
    let mut report = Report {
        definition,
        hosts: headers,
        from_ms,
        to_ms: intervals().map(end_of).max().unwrap_or(from_ms),
        interval_ms: intervals().map(|one| one.length_ms).max().unwrap_or(0),
        by: options.by,
        pattern: options.pattern.map(|pattern| plain(pattern.text())).unwrap_or_default(),
        is_guest: options.pattern.is_some_and(Pattern::is_name),
        tables,
        notes: Vec::new(),
    };
    report.notes = notes::of(&report, &chosen, options);
    Ok(report)
}

fn table(
    part: &'static Part,
    hosts: &[HostData],
    timelines: &[Timeline<'_>],
    options: &Options<'_>,
) -> Table {
    let fields: Vec<&'static Derived> =
        part.columns.iter().filter_map(|id| field(part.scope, id)).collect();
    let input = TableInput { part, fields: &fields, hosts, timelines, options };
    let (labels, lines) = match part.scope {
        Scope::Host => (vec!["host"], input.of_hosts()),
        Scope::Guest => (input.guest_labels(), input.of_guests()),
        Scope::Tier => (vec!["host", "tier"], input.of_tiers()),
        Scope::Process => (input.process_labels(), processes::lines(&input)),
        Scope::Finding => (advice::LABELS.to_vec(), advice::lines(&input)),
    };
    Table { part, labels, fields, lines }
}
