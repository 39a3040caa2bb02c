//! Several hosts: who is loud, who is silent, and the loudest guests of all of them.

use super::columns::{GUEST, cell, fields, meaning, name, sought};
use super::layout::{Page, hidden, stamp, time_bar};
use super::overview::{Asked, ROWS, address};
use crate::past::{PastHost, Track};
use crate::plot::spark;
use crate::span::Span;
use crate::who::path_of;
use maud::{Markup, html};
use reports::Scope;
use why::when::Now;

/// Who has not been heard of for so long is silent: hosts push every five
/// seconds, unless they are told otherwise.
const SILENT_MS: i64 = 60_000;
/// Of a host.
const HOST: [&str; 6] = [
    "busy_percent",
    "capture_percent",
    "available_mib",
    "psi_cpu_percent",
    "psi_memory_percent",
    "psi_io_percent",
];

/// A host as a row.
struct Row<'a> {
    host: &'a PastHost,
    /// Until when something is known of it.
    last_ms: Option<i64>,
    is_silent: bool,
    values: Vec<Option<f64>>,
}

/// The page.
pub(crate) fn page(hosts: &[PastHost], asked: &Asked, span: &Span, now: &Now) -> Markup {
    let mut rows: Vec<Row<'_>> = hosts.iter().map(|host| row(host, span)).collect();
    // Who is silent before who is loud: that is what somebody has to look at.
    rows.sort_by(|a, b| {
        let busy = |row: &Row<'_>| row.values.first().copied().flatten().unwrap_or(-1.0);
        b.is_silent.cmp(&a.is_silent).then(busy(b).total_cmp(&busy(a)))
    });
    let silent = rows.iter().filter(|row| row.is_silent).count();
    let keep = [("sort", asked.sort.as_str()), ("filter", asked.filter.as_str())];
    let body = html! {
        h1 { "Overview of " (hosts.len()) " hosts" }
        @if silent > 0 {
            p class="notice" role="status" {
                "Nothing is heard of " (silent) " of them: what is shown is what was said last."
            }
        }
        (time_bar("/", span, &keep, None, now))
        h2 { "Hosts" }
        (host_table(&rows, span, now))
        h2 { "Guests of all hosts" }
        form class="row" method="get" action="/" role="search" {
            (hidden(&span.pairs()))
            @if !asked.sort.is_empty() { input type="hidden" name="sort" value=(asked.sort); }
            label { "Name or class" input name="filter" value=(asked.filter); }
            button { "Show" }
        }
        (guest_table(hosts, asked, span))
    };
    Page { title: "Overview", place: "/", span: Some(span), body }.whole()
}

fn row<'a>(host: &'a PastHost, span: &Span) -> Row<'a> {
    let known = host.steps.iter().rev().map(reports::Single::interval);
    let mut known = known.filter(|interval| interval.host.covered_ms > 0);
    let last_ms = known
        .next()
        .map(|interval| interval.from_ms.saturating_add(interval.host.covered_ms.cast_signed()));
    Row {
        host,
        last_ms,
        is_silent: last_ms.is_none_or(|last_ms| span.to_ms - last_ms > SILENT_MS),
        values: HOST.iter().map(|id| host.whole.host(id)).collect(),
    }
}

fn host_table(rows: &[Row<'_>], span: &Span, now: &Now) -> Markup {
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
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" class="label" {
                                a href=(format!("/?{}", span.of_host(&row.host.name).query())) {
                                    (name(&row.host.name))
                                }
                            }
                            td class="label" {
                                @match (row.is_silent, row.last_ms) {
                                    (false, _) => "heard of",
                                    (true, Some(at_ms)) => b {
                                        "silent since " (stamp(at_ms, now))
                                    },
                                    (true, None) => b { "silent" },
                                }
                            }
                            td { (row.host.guests.len()) }
                            @for (field, value) in columns.iter().zip(&row.values) {
                                td { (cell(field, *value)) }
                            }
                            td { (spark(&row.host.host_series("busy_percent"), "CPU, %")) }
                        }
                    }
                }
            }
        }
    }
}

fn guest_table(hosts: &[PastHost], asked: &Asked, span: &Span) -> Markup {
    let columns = fields(Scope::Guest, &GUEST);
    let at = GUEST.iter().position(|id| *id == asked.sort).unwrap_or(0);
    let text = asked.filter.to_lowercase();
    let is_meant =
        |track: &Track| text.is_empty() || sought(&track.name, &track.class).contains(&text);
    let mut all: Vec<(&PastHost, &Track, f64)> = hosts
        .iter()
        .flat_map(|host| host.guests.iter().map(move |track| (host, track)))
        .filter(|(_, track)| is_meant(track))
        .map(|(host, track)| {
            (host, track, host.whole.guest(&track.whole, GUEST[at]).unwrap_or(-1.0))
        })
        .collect();
    all.sort_by(|a, b| {
        b.2.total_cmp(&a.2).then_with(|| (&a.0.name, &a.1.name).cmp(&(&b.0.name, &b.1.name)))
    });
    let rest = all.len().saturating_sub(ROWS);
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
                tbody {
                    @for (host, track, _) in all.iter().take(ROWS) {
                        @let of_host = span.of_host(&host.name);
                        tr {
                            th scope="row" class="label" {
                                a href=(format!("{}?{}", path_of(&track.name, &track.uuid),
                                    of_host.query())) { (name(&track.name)) }
                            }
                            td class="label" { (name(&host.name)) }
                            @for field in &columns {
                                td { (cell(field, host.whole.guest(&track.whole, field.id))) }
                            }
                        }
                    }
                }
            }
        }
        @if rest > 0 { p { "And " (rest) " more, which come later in this order." } }
    }
}
