//! Page of the host and its guests: owners of the memory, and the busiest guests.

use super::columns::{GUEST, HOST, cell, fields, meaning, name, sought, tiles};
use super::layout::{Feed, Local, Page, gaps, hidden, time_bar};
use super::sort::{Asked, ROWS, address};
use crate::app::App;
use crate::extract::Values;
use crate::fault::Fault;
use crate::live::Seen;
use crate::past::{PastHost, raw_guest_fields, read};
use crate::plot::{Canvas, Kind, Plot, spark};
use crate::span::Span;
use crate::visitor::Visitor;
use crate::who::path_of;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::{counted, natural};
use manager::control::GuestRow;
use maud::{Markup, html};
use reports::chart::OWNERS;
use reports::{Scope, Single, mib, shown};
use std::sync::Arc;
use why::when::Now;

/// Number of points of a small line, and of a chart.
const POINTS: i64 = 120;
struct Row {
    /// Number that the manager gave the guest. Several guests may share a name or a UUID.
    id: Option<u64>,
    name: String,
    class: String,
    uuid: String,
    state: &'static str,
    values: Vec<Option<f64>>,
    /// CPU time and memory resident on the host, over time.
    cpu: Vec<Option<f64>>,
    memory: Vec<Option<f64>>,
}

pub(crate) async fn overview(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    Values(asked): Values<Asked>,
) -> Response {
    app.make(move |app| page(app, &visitor, &asked, &app.now())).await
}

fn page(app: &App, visitor: &Visitor, asked: &Asked, now: &Now) -> Result<Markup, Fault> {
    let span = Span::of(&asked.time, POINTS, now)?;
    let all = || app.source.glance(&super::fleet::wanted(asked, &span));
    if let Some(fleet) = span.host.is_none().then(all).flatten().transpose()?
        // A single host gets the page with more details.
        && fleet.hosts.len() > 1
    {
        return super::fleet::page(&*app.source, fleet, asked, &span, now);
    }
    let host_ids: Vec<&str> =
        HOST.iter().chain(OWNERS).copied().chain(["virtual_percent"]).collect();
    let past = read(&*app.source, &span, raw_guest_fields(&GUEST, &host_ids), Vec::new());
    let is_live = span.live.is_some() && app.source.has_manager();
    let looked = is_live.then(|| app.live.now());
    let mut notices: Vec<String> = app.take_said(visitor).into_iter().collect();
    let hosts = match past {
        Ok(hosts) => hosts,
        // A page without recordings still shows current values.
        Err(fault) if matches!(&looked, Some(Ok(_))) => {
            notices.push(fault.message);
            Vec::new()
        }
        Err(fault) => return Err(fault),
    };
    let feed = looked.as_ref().map(|looked| Feed {
        address: "/events".to_owned(),
        trouble: looked.as_ref().err().map(|why| why.to_string()),
    });
    let seen = looked.and_then(Result::ok);
    let none = PastHost::default();
    let host = hosts.first().unwrap_or(&none);
    let now_or_whole: &Single = seen.as_ref().map_or(&host.whole, |seen| &seen.single);
    let mut rows = rows(host, seen.as_deref());
    arrange(&mut rows, asked);
    let found = rows.len();
    if asked.rows != "all" {
        rows.truncate(ROWS);
    }
    let rest = found - rows.len();
    let zone = Local(now);
    let mut canvas = Canvas { span: &span, zone: &zone, count: 0 };
    let keep = [
        ("sort", asked.sort.as_str()),
        ("filter", asked.filter.as_str()),
        ("rows", asked.rows.as_str()),
    ];
    let body = html! {
        h1 { "Overview" @if !host.name.is_empty() { " of " (name(&host.name)) } }
        @for notice in &notices { p class="notice" role="status" { (notice) } }
        (gaps(&host.gaps, now))
        (time_bar("/", &span, &keep, feed.as_ref(), now))
        (host_tiles(now_or_whole))
        @if let Some(seen) = &seen { p { span data-now=(BUDGET) { (budget(seen)) } } }
        (owners(now_or_whole))
        div id="charts" data-fresh="" {
            (canvas.draw(&Plot { title: "CPUs of the host, % of all", kind: Kind::Lines,
                fields: &["busy_percent", "virtual_percent", "steal_percent", "psi_cpu_percent"],
                host, guest: None, marks: &[] }))
            (canvas.draw(&Plot { title: "Memory of the host by owner, MiB", kind: Kind::Stack,
                fields: OWNERS, host, guest: None, marks: &[] }))
        }
        h2 { "Guests" }
        form class="row" method="get" action="/" role="search" {
            (hidden(&span.pairs()))
            @if !asked.sort.is_empty() { input type="hidden" name="sort" value=(asked.sort); }
            label { "Name or class" input id="filter" name="filter" value=(asked.filter); }
            span id="shown" role="status" { (counted(rows.len() as u64, "guest")) }
        }
        (table(&rows, asked, &span, host, rest == 0))
        @if rest > 0 {
            p { (counted(rest as u64, "more guest"))
                @if rest == 1 { " follows" } @else { " follow" } " in this order. "
                a href=(format!("{}&rows=all", address(asked, &span, &asked.sort))) {
                    "Show all guests" } }
        }
        @if app.allow_changes && span.live.is_some() {
            h2 { "Make room for a guest that is about to start" }
            form class="row" method="post" action="/reserve" {
                input type="hidden" name="form_key" value=(visitor.form_key);
                label { "Memory" input name="mib" placeholder="512 MiB, 1G" required; }
                label { "Hold for" input name="hold_s" value="60s"; }
                button { "Reserve" }
            }
        }
    };
    Ok(Page { title: "Overview", place: "/", span: Some(&span), body }.whole())
}

fn host_tiles(single: &Single) -> Markup {
    let values: Vec<_> = fields(Scope::Host, &HOST)
        .into_iter()
        .map(|field| (field, single.host(field.id)))
        .collect();
    tiles(&values)
}

/// Name of the budget's text among the current values.
pub(crate) const BUDGET: &str = "budget";

/// Returns the text about the budget of all guests, if the budget is less than the host's memory.
pub(crate) fn budget(seen: &Seen) -> String {
    let host = &seen.ps.host;
    let known = (host.budget_bytes, host.available_bytes, host.total_bytes);
    let ((Some(budget), Some(free), Some(total)), Some(available_mib)) =
        (known, seen.single.host("available_mib"))
    else {
        return String::new();
    };
    if (free >> 20) as f64 >= available_mib.floor() {
        return String::new();
    }
    format!(
        "Budget {} MiB, {} free in it; host {} MiB, {} available",
        mib(Some(budget)),
        mib(Some(free)),
        mib(Some(total)),
        shown(Some(available_mib), 0)
    )
}

/// Shows the owners of the memory, as a bar and as text.
fn owners(single: &Single) -> Markup {
    let all = fields(Scope::Host, OWNERS);
    let known: Vec<_> = reports::chart::colours(&all)
        .into_iter()
        .zip(all)
        .filter_map(|(colour, field)| {
            Some((colour, field, single.host(field.id).filter(|mib| *mib > 0.0)?))
        })
        .collect();
    let total: f64 = known.iter().map(|(_, _, mib)| mib).sum();
    if total <= 0.0 {
        return html! {};
    }
    let mut left = 0.0;
    let parts: Vec<_> = known
        .iter()
        .map(|(colour, field, mib)| {
            let (x, width) = (left, mib / total * 1000.0);
            left += width;
            (*colour, *field, *mib, x, width)
        })
        .collect();
    html! {
        figure id="owners" data-fresh="" {
            figcaption { "Memory of the host by owner, MiB" }
            svg class="owners" viewBox="0 0 1000 26" preserveAspectRatio="none" aria-hidden="true" {
                @for (colour, field, _, x, width) in &parts {
                    rect class=(format!("area s{colour}")) x=(format!("{x:.1}")) y="0"
                        width=(format!("{width:.1}")) height="26" { title { (field.words) } }
                }
            }
            ul class="key" {
                @for (colour, field, mib, _, _) in &parts {
                    li title=(field.words) {
                        i class=(format!("s{colour}")) {}
                        (field.heading().replace(" MiB", "")) " "
                        b data-now=(field.id) { (shown(Some(*mib), 0)) }
                    }
                }
            }
        }
    }
}

/// State of a guest that is only in the recording.
const RECORDED: &str = "recorded";

fn rows(host: &PastHost, seen: Option<&Seen>) -> Vec<Row> {
    let lines = |key: (&str, &str)| {
        let track = host.guests.iter().find(|one| (one.name.as_str(), one.uuid.as_str()) == key);
        track.map_or_else(Default::default, |track| {
            (host.guest_series(track, "cpu_percent"), host.guest_series(track, "private_mib"))
        })
    };
    let Some(seen) = seen else {
        let of = |track: &crate::past::Track| Row {
            id: None,
            name: track.name.clone(),
            class: track.class.clone(),
            uuid: track.uuid.clone(),
            state: RECORDED,
            values: GUEST.iter().map(|id| host.whole.guest(&track.whole, id)).collect(),
            cpu: host.guest_series(track, "cpu_percent"),
            memory: host.guest_series(track, "private_mib"),
        };
        return host.guests.iter().map(of).collect();
    };
    let of = |row: &GuestRow| {
        let (cpu, memory) = lines((&row.name, &row.uuid));
        Row {
            id: Some(row.id),
            name: row.name.clone(),
            class: row.class.clone().unwrap_or_default(),
            uuid: row.uuid.clone(),
            state: row.state_name(),
            values: GUEST.iter().map(|id| seen.single.guest(seen.over(row)?, id)).collect(),
            cpu,
            memory,
        }
    };
    seen.ps.guests.iter().map(of).collect()
}

/// Sorts and filters the rows. By default the busiest guest is first.
fn arrange(rows: &mut Vec<Row>, asked: &Asked) {
    let text = asked.filter.to_lowercase();
    rows.retain(|row| text.is_empty() || sought(&row.name, &row.class).contains(&text));
    rows.sort_by(|a, b| natural(&a.name, &b.name).then_with(|| a.uuid.cmp(&b.uuid)));
    match asked.sort.as_str() {
        "name" => {}
        "class" => rows.sort_by(|a, b| natural(&a.class, &b.class)),
        "state" => rows.sort_by_key(|row| row.state),
        other => {
            let at = GUEST.iter().position(|id| *id == other).unwrap_or(0);
            let value = |row: &Row| row.values.get(at).copied().flatten().unwrap_or(-1.0);
            rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
        }
    }
}

fn table(rows: &[Row], asked: &Asked, span: &Span, host: &PastHost, is_whole: bool) -> Markup {
    let sorted = if asked.sort.is_empty() { GUEST[0] } else { asked.sort.as_str() };
    let link = |id: &str| address(asked, span, id);
    let direction = |id: &str, first: &'static str| (sorted == id).then_some(first);
    let columns = fields(Scope::Guest, &GUEST);
    html! {
        div class="wide" tabindex="0" role="group" aria-label="Guests" {
            table class="guests" data-whole=[is_whole.then_some("")] {
                thead { tr {
                    @for (id, head) in [("name", "Guest"), ("class", "Class"), ("state", "State")] {
                        th scope="col" class="label" aria-sort=[direction(id, "ascending")] {
                            a href=(link(id)) data-sort=(id) { (head) }
                        }
                    }
                    @for field in &columns {
                        th scope="col" aria-sort=[direction(field.id, "descending")]
                            title=(meaning(field)) {
                            a href=(link(field.id)) data-sort=(field.id) { (field.heading()) }
                        }
                    }
                    th scope="col" { "CPU over time" }
                    th scope="col" { "Memory over time" }
                } }
                tbody id="guests" data-fresh="" {
                    @for row in rows {
                        tr data-key=[row.id] data-names=(sought(&row.name, &row.class)) {
                            th scope="row" class="label" {
                                a href=(format!("{}?{}", path_of(&row.name, &row.uuid),
                                    span.query())) {
                                    (name(&row.name))
                                }
                            }
                            td class="label" { (name(&row.class)) }
                            td class="label" data-c="state" { (row.state) }
                            @for (field, value) in columns.iter().zip(&row.values) {
                                td data-c=(field.id) { (cell(field, *value)) }
                            }
                            td { (spark(&row.cpu, "CPU, % of one")) }
                            td { (spark(&row.memory, "MiB in the host")) }
                        }
                    }
                }
            }
        }
        @if rows.is_empty() && !host.name.is_empty() { p {
            "No guest matches, or there are no guests." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manager::control::{HostRow, Ps};
    use model::{HostField, Interval, Over, Row};

    #[test]
    fn budget_is_shown_only_if_it_is_the_bound() {
        let named = |budget_mib: Option<u64>, free_mib: u64| {
            let mut row = Row::default();
            row.set(HostField::Available, Some(23_130 << 20));
            let host = Over { covered_ms: 1_000, row };
            let interval = Interval { length_ms: 1_000, host, ..Interval::default() };
            let host = HostRow {
                total_bytes: Some(24_105 << 20),
                available_bytes: Some(free_mib << 20),
                budget_bytes: budget_mib.map(|mib| mib << 20),
                ..HostRow::default()
            };
            let ps = Ps { host, ksm: Default::default(), guests: Vec::new() };
            budget(&Seen { single: Single::new(interval, None), ps })
        };
        let bound = "Budget 480 MiB, 0 free in it; host 24105 MiB, 23130 available";
        assert_eq!(named(Some(480), 0), bound);
        assert_eq!(named(Some(24_000), 23_130), "");
        assert_eq!(named(None, 23_130), "");
    }
}
