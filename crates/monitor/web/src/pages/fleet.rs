//! Page of several hosts: busy hosts, silent hosts, and the busiest guests of all hosts.
//!
//! The metrics server computes the sums, so the page works even for a thousand hosts.

use super::columns::{GUEST, cell, fields, meaning, name};
use super::layout::{Page, hidden, stale, stamp, time_bar};
use super::sort::{Asked, ROWS, address};
use crate::fault::Fault;
use crate::past::raw_guest_fields;
use crate::plot::spark;
use crate::source::Source;
use crate::span::Span;
use crate::who::path_of;
use maud::{Markup, html};
use metrics::fleet::{Fleet, Glance, Host, Loudest, Steps};
use model::{GuestField as G, GuestIdentity, HostField as H};
use reports::fleet::{BUSY, busy_percent, glanced, is_silent, silent_then_busy};
use reports::{Scope, Single};
use std::collections::BTreeMap;
use why::when::Now;

/// Maximum number of hosts on a page.
const HOSTS: usize = 100;
/// Refresh interval of a live page, in seconds. Each refresh costs the metrics server work, so the
/// page is refreshed less often than hosts push.
const AGAIN: u32 = 30;
/// Number of points of a small line.
const POINTS: i64 = 24;
/// Fields of a host that are shown.
const HOST: [&str; 7] = [
    "busy_percent",
    "capture_percent",
    "spare_mib",
    "set_point_mib",
    "psi_cpu_percent",
    "psi_memory_percent",
    "psi_io_percent",
];
/// Further raw fields, from which the fields of [`HOST`] are computed.
const OTHERS: [H; 5] = [H::Spare, H::SetPoint, H::PsiCpuSome, H::PsiMemorySome, H::PsiIoSome];

/// Raw fields by which a metrics server ranks guests, one for each column of [`GUEST`].
const RANKS: [&[G]; 10] = [
    &[G::VcpuRun, G::OtherRun],
    &[G::VcpuDelay],
    &[G::Memory],
    &[G::Actual],
    // The working set is `Actual` minus the available memory, so `Actual` is its upper bound.
    &[G::Actual],
    &[G::Private],
    &[G::Compressed],
    &[G::Swapped],
    &[G::OwnPsiSome],
    &[G::VcpuDispatches],
];

struct Row {
    name: String,
    host: Host,
    /// Fields of the host, including the sums over its guests.
    single: Single,
    is_silent: bool,
    values: Vec<Option<f64>>,
}

/// Returns the column by which guests are sorted.
fn sorted_by(asked: &Asked) -> usize {
    GUEST.iter().position(|id| *id == asked.sort).unwrap_or(0)
}

/// Returns the query to the metrics server for the page.
pub(crate) fn wanted(asked: &Asked, span: &Span) -> Glance {
    Glance {
        from_ms: span.from_ms,
        to_ms: span.to_ms,
        hosts: [&BUSY[..], &OTHERS].concat(),
        // Each field is summed over the guests of a host, for the guests' share of the host's CPU
        // time.
        together: vec![G::VcpuRun, G::OtherRun],
        loudest: Loudest {
            most: ROWS,
            of_each: false,
            by: RANKS[sorted_by(asked)].to_vec(),
            like: asked.filter.clone(),
            fields: raw_guest_fields(&GUEST, &[]),
        },
    }
}

pub(crate) fn page(
    source: &dyn Source,
    fleet: Fleet,
    asked: &Asked,
    span: &Span,
    now: &Now,
) -> Result<Markup, Fault> {
    let mut rows: Vec<Row> = fleet.hosts.into_iter().map(|host| row(host, span)).collect();
    rows.sort_by(|a, b| silent_then_busy((a.is_silent, &a.single), (b.is_silent, &b.single)));
    let silent = rows.iter().filter(|row| row.is_silent).count();
    let shown = if asked.rows == "all" { rows.len() } else { rows.len().min(HOSTS) };
    let lines = lines(source, &rows[..shown], span)?;
    let keep = [
        ("sort", asked.sort.as_str()),
        ("filter", asked.filter.as_str()),
        ("rows", asked.rows.as_str()),
    ];
    let body = html! {
        h1 id="count" data-fresh="" { "Overview of " (rows.len()) " hosts" }
        div id="silent" data-fresh="" {
            @if silent > 0 {
                p class="notice" role="status" {
                    "Silent hosts: " (silent)
                        ". The page shows the last values of these hosts."
                }
            }
        }
        (stale())
        (time_bar("/", span, &keep, None, now))
        h2 { "Hosts" }
        (host_table(&rows[..shown], &lines, span, now))
        @if rows.len() > shown {
            p {
                "And " (rows.len() - shown) " more hosts, further down in this order. "
                a href=(format!("{}&rows=all", address(asked, span, &asked.sort))) { "All hosts" }
            }
        }
        h2 { "Guests of all hosts" }
        form class="row" method="get" action="/" role="search" {
            (hidden(&span.pairs()))
            @if !asked.sort.is_empty() { input type="hidden" name="sort" value=(asked.sort); }
            label { "Name or class" input name="filter" value=(asked.filter); }
            button { "Show" }
        }
        (guest_table(&rows, fleet.found, asked, span))
    };
    Ok(Page { title: "Overview", place: "/", span: Some(span), body }.whole())
}

fn row((name, host): (String, Host), span: &Span) -> Row {
    let times_ms = (span.from_ms, span.to_ms);
    let single = glanced(times_ms, host.over.clone(), host.together.clone(), host.guests);
    Row {
        is_silent: is_silent(span.to_ms, host.last_ms, host.spacing_ms()),
        values: HOST.iter().map(|id| single.host(id)).collect(),
        single,
        name,
        host,
    }
}

/// Returns the CPU use of the hosts over time.
fn lines(
    source: &dyn Source,
    rows: &[Row],
    span: &Span,
) -> Result<BTreeMap<String, Vec<Option<f64>>>, Fault> {
    if rows.is_empty() {
        return Ok(BTreeMap::new());
    }
    let Span { from_ms, to_ms, .. } = *span;
    let steps = Steps { from_ms, to_ms, step_ms: ((to_ms - from_ms) / POINTS).max(60_000) };
    let hosts: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let lines = source.lines(steps, &hosts, &BUSY)?;
    let line =
        |(host, line): (String, Vec<_>)| (host, line.into_iter().map(busy_percent).collect());
    Ok(lines.into_iter().map(line).collect())
}

fn host_table(
    rows: &[Row],
    lines: &BTreeMap<String, Vec<Option<f64>>>,
    span: &Span,
    now: &Now,
) -> Markup {
    let columns = fields(Scope::Host, &HOST);
    html! {
        div class="wide" tabindex="0" role="group" aria-label="Hosts" {
            table class="guests" {
                thead { tr {
                    th scope="col" class="label" { "Host" }
                    th scope="col" class="label" { "State" }
                    th scope="col" { "Guests" }
                    @for field in &columns {
                        th scope="col" title=(meaning(field)) {
                            (field.heading())
                        }
                    }
                    th scope="col" { "CPU over time" }
                } }
                tbody id="hosts" data-fresh="" data-again=[span.live.as_ref().map(|_| AGAIN)] {
                    @for row in rows {
                        tr {
                            th scope="row" class="label" {
                                a href=(format!("/?{}", span.of_host(&row.name).query())) {
                                    (name(&row.name))
                                }
                            }
                            td class="label" {
                                @if row.is_silent {
                                    b { "silent since " (stamp(row.host.last_ms, now)) }
                                } @else { "live" }
                            }
                            td { (row.host.guests) }
                            @for (field, value) in columns.iter().zip(&row.values) {
                                td { (cell(field, *value)) }
                            }
                            td {
                                @if let Some(line) = lines.get(&row.name) {
                                    (spark(line, "CPU, %"))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn guest_table(rows: &[Row], found: u64, asked: &Asked, span: &Span) -> Markup {
    let columns = fields(Scope::Guest, &GUEST);
    let at = sorted_by(asked);
    let mut all: Vec<(&Row, &GuestIdentity, Vec<Option<f64>>)> = rows
        .iter()
        .flat_map(|row| row.host.loudest.iter().map(move |(who, over)| (row, who, over)))
        .map(|(row, who, over)| {
            (row, who, GUEST.iter().map(|id| row.single.guest(over, id)).collect())
        })
        .collect();
    all.sort_by(|a, b| {
        let value = |values: &[Option<f64>]| values[at].unwrap_or(-1.0);
        let who = |one: &(&Row, &GuestIdentity, _)| (one.0.name.clone(), one.1.name.clone());
        value(&b.2).total_cmp(&value(&a.2)).then_with(|| who(a).cmp(&who(b)))
    });
    let rest = found.saturating_sub(all.len() as u64);
    html! {
        div class="wide" tabindex="0" role="group" aria-label="Guests of all hosts" {
            table class="guests" {
                thead { tr {
                    th scope="col" class="label" { "Guest" }
                    th scope="col" class="label" { "Host" }
                    @for (number, field) in columns.iter().enumerate() {
                        th scope="col" aria-sort=[(number == at).then_some("descending")]
                            title=(meaning(field)) {
                            a href=(address(asked, span, field.id)) { (field.heading()) }
                        }
                    }
                } }
                tbody id="guests" data-fresh="" {
                    @for (row, who, values) in &all {
                        @let of_host = span.of_host(&row.name);
                        tr {
                            th scope="row" class="label" {
                                a href=(format!("{}?{}", path_of(&who.name, &who.uuid),
                                    of_host.query())) { (name(&who.name)) }
                            }
                            td class="label" { (name(&row.name)) }
                            @for (field, value) in columns.iter().zip(values) {
                                td { (cell(field, *value)) }
                            }
                        }
                    }
                }
            }
        }
        @if rest > 0 { p { (rest) " more guests follow in this order." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reports::{Raw, field};

    #[test]
    fn guests_are_ranked_by_the_fields_of_their_columns() {
        for (id, by) in GUEST.iter().zip(RANKS) {
            let sources = field(Scope::Guest, id).unwrap().sources;
            for one in by {
                let is_one = |raw: &Raw| matches!(raw, Raw::Guest(field) if field == one);
                assert!(sources.iter().any(is_one), "{id}");
            }
        }
    }
}
