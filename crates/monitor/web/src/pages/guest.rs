//! Page of a guest: the time of its vCPUs, its memory, the decisions about it, and its processes.

use super::columns::{GUEST, NAME_WIDTH, cell, fields, meaning, name, tiles};
use super::decisions::told_table;
use super::layout::{Feed, Local, Page, gaps, time_bar};
use crate::app::App;
use crate::extract::{Name, Values};
use crate::fault::Fault;
use crate::live::Seen;
use crate::past::{PastHost, Track, raw_guest_fields, raw_process_fields, read};
use crate::plot::{Canvas, Kind, Plot};
use crate::span::{Span, TimeQuery, segment};
use crate::visitor::Visitor;
use crate::who::{key_in, key_of, path_of, uuid_of};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::plain;
use manager::control::GuestRow;
use maud::{Markup, html};
use reports::chart::{Mark, STATES};
use reports::{Derived, Scope, mib};
use std::sync::Arc;
use store::Policy;
use why::when::Now;
use why::{Chosen, Told};

/// Number of points of a chart.
const POINTS: i64 = 240;
/// Maximum number of decisions and of processes on a page.
const TOLD_MAX: usize = 200;
const PROCESSES_MAX: usize = 20;

/// Fields of memory: limit, actual size, working set, and private memory on the host.
const MEMORY: &[&str] = &["memory_mib", "actual_mib", "working_set_mib", "private_mib"];
/// Fields of other memory: shared, compressed, swapped and merged memory, and the hypervisor's own
/// memory.
const TIERS: &[&str] =
    &["together_mib", "compressed_mib", "swapped_mib", "merged_mib", "hypervisor_mib"];
const PAGING: &[&str] = &[
    "host_faults_per_s",
    "own_swap_in_pages_per_s",
    "own_swap_out_pages_per_s",
    "own_faults_per_s",
];
const WAKES: &[&str] = &["wakes_per_min"];
const PROCESS: [&str; 5] =
    ["cpu_ms_per_min", "of_guest_percent", "wakes_per_min", "resident_mib", "threads"];

/// Returns the guest's values of the last second.
pub(crate) fn values_now(seen: &Seen, key: &str) -> Vec<(&'static Derived, Option<f64>)> {
    let over = seen.row(key).and_then(|row| seen.over(row));
    let value = |field: &Derived| seen.single.guest(over?, field.id);
    fields(Scope::Guest, &GUEST).into_iter().map(|field| (field, value(field))).collect()
}

pub(crate) async fn guest(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    Name(key): Name,
    Values(time): Values<TimeQuery>,
) -> Response {
    app.make(move |app| page(app, &visitor, key_in(&key), &time, &app.now())).await
}

fn page(
    app: &App,
    visitor: &Visitor,
    key: &str,
    time: &TimeQuery,
    now: &Now,
) -> Result<Markup, Fault> {
    let span = Span::of(time, POINTS, now)?;
    let all: Vec<&str> = [&GUEST[..], STATES, MEMORY, TIERS, PAGING, WAKES].concat();
    let past = read(&*app.source, &span, raw_guest_fields(&all, &[]), raw_process_fields(&PROCESS));
    let is_live = span.live.is_some() && app.source.has_manager();
    let mut notices: Vec<String> = app.take_said(visitor).into_iter().collect();
    let looked = is_live.then(|| app.live.now());
    let trouble_of_live = looked.as_ref().and_then(|looked| looked.as_ref().err()).cloned();
    let seen = looked.and_then(Result::ok);
    let row = seen.as_ref().and_then(|seen| seen.row(key));
    let hosts = match past {
        Ok(hosts) => hosts,
        Err(fault) if row.is_some() => {
            notices.push(fault.message);
            Vec::new()
        }
        Err(fault) => return Err(fault),
    };
    let found = hosts.iter().find_map(|host| Some((host, host.guest(key)?)));
    let (title, uuid) = match (row, found) {
        (Some(row), _) => (row.name.clone(), row.uuid.clone()),
        (None, Some((_, track))) => (track.name.clone(), track.uuid.clone()),
        (None, None) => {
            let shown = plain(key, NAME_WIDTH);
            return Err(Fault::missing(format!(
                "There is no guest {shown}, neither now nor in the recordings of this time"
            )));
        }
    };
    let asked = key_of(&title, &uuid);
    let (answer, trouble) = super::decisions::answer(app, asked, &span, Policy::Active, now);
    let is_told = trouble.is_none();
    notices.extend(trouble);
    let mut told: Vec<Told<'_>> = answer.as_ref().map(why::Answer::lines).unwrap_or_default();
    told.retain(|one| one.guest.is_none_or(|guest| is_about(guest, asked, &title)));
    let path = path_of(&title, &uuid);
    let feed = is_live.then(|| Feed {
        address: format!("/events?guest={}", segment(asked)),
        trouble: trouble_of_live.map(|why| why.to_string()),
    });
    let uuid = uuid_of(&title, &uuid).unwrap_or_default();
    let class = row.and_then(|row| row.class.clone()).or_else(|| Some(found?.1.class.clone()));
    let body = html! {
        h1 { (name(&title)) }
        @for notice in &notices { p class="notice" role="status" { (notice) } }
        @if let Some((host, _)) = found { (gaps(&host.gaps, now)) }
        p {
            @if let Some(class) = class.filter(|class| !class.is_empty()) { "Class " b {
                (name(&class)) } " · " }
            @if !uuid.is_empty() { "UUID " (name(uuid)) }
            @if let Some(row) = row {
                " · found at " (base::plain(&row.source, 200))
                " · " b data-now="state" { (row.state_name()) }
            }
        }
        (time_bar(&path, &span, &[], feed.as_ref(), now))
        (tiles(&values(seen.as_deref(), key, found)))
        @if let Some(row) = row { div id="wanted" data-fresh="" { (wanted(row)) } }
        @if let Some((host, track)) = found { (charts(host, track, &span, &told, now)) }
        (links(&title, &span))
        @if app.allow_changes && row.is_some() { (controls(&path, visitor)) }
        h2 id="decisions" { "Decisions" }
        @if is_told {
            div id="decided" data-fresh="" { (told_table(&told, TOLD_MAX, false, &span, now)) }
        }
        @if let Some((host, track)) = found { (processes(host, track)) }
    };
    Ok(Page { title: &name(&title), place: "", span: Some(&span), body }.whole())
}

/// Returns true if a line is about the guest of the page. For a guest unknown to the journal, `why`
/// treats the name as a pattern, and may return lines about other guests.
fn is_about(guest: &Chosen, key: &str, name: &str) -> bool {
    key_of(&guest.name, &guest.uuid) == key || guest.name == name
}

/// Returns the guest's current values, or its values over the whole time range.
fn values(
    seen: Option<&Seen>,
    key: &str,
    found: Option<(&PastHost, &Track)>,
) -> Vec<(&'static Derived, Option<f64>)> {
    match (seen, found) {
        (Some(seen), _) => values_now(seen, key),
        (None, Some((host, track))) => fields(Scope::Guest, &GUEST)
            .into_iter()
            .map(|field| (field, host.whole.guest(&track.whole, field.id)))
            .collect(),
        (None, None) => Vec::new(),
    }
}

/// Shows the guest's limits and its last decision.
fn wanted(row: &GuestRow) -> Markup {
    html! {
        p {
            "Between " b { (mib(Some(row.min_bytes))) } " and " b { (mib(Some(row.max_bytes))) }
            " MiB, " b { (row.shares) } " shares, " (row.mode.name()) "."
            @if let Some(reason) = &row.reason { " Last decision: " (plain(reason, 300)) "." }
            @if let Some(why) = &row.unusable { " Its memory cannot be changed: " (plain(why, 300))
                "." }
        }
    }
}

/// Returns the mark of a decision in the chart of the memory. The marks' colours follow the colours
/// of the chart's lines.
fn mark(one: &Told<'_>) -> Option<Mark> {
    let (place, kind) = match one.action {
        "grow" => (0, "Decision: grow"),
        "shrink" => (1, "Decision: shrink"),
        "stuck" | "let-go" | "release" => (2, "Decision: release, or the balloon is stuck"),
        _ => return None,
    };
    Some(Mark { at_ms: one.at_ms, colour: MEMORY.len() + place, kind, text: one.text.clone() })
}

fn charts(host: &PastHost, track: &Track, span: &Span, told: &[Told<'_>], now: &Now) -> Markup {
    let zone = Local(now);
    let mut canvas = Canvas { span, zone: &zone, count: 0 };
    let marks: Vec<Mark> = told.iter().filter_map(mark).collect();
    let plots = [
        ("Virtual CPUs, % of their time", Kind::Stack, STATES),
        ("Memory, MiB: limit, actual, used, on the host; decisions below", Kind::Lines, MEMORY),
        ("Memory elsewhere, MiB", Kind::Lines, TIERS),
        ("Paging, pages and faults a second", Kind::Lines, PAGING),
        ("Wake-ups a minute", Kind::Lines, WAKES),
    ];
    html! {
        div id="charts" data-fresh="" {
            @for (title, kind, fields) in plots {
                @let marks = if fields == MEMORY { &marks[..] } else { &[] };
                (canvas.draw(&Plot { title, kind, fields, host, guest: Some(track), marks }))
            }
        }
    }
}

/// Returns links to the reports for this guest and time range.
fn links(guest: &str, span: &Span) -> Markup {
    let guest = segment(guest);
    html! {
        p {
            "Reports of this time: "
            @for report in ["GUEST1", "GUEST2", "STATE", "QUEUE", "STORE2", "PAGE", "GIO", "PROC",
                "IDLE", "LNXS"] {
                a href=(format!("/report/{report}?{}&guest={guest}", span.query())) { (report) } " "
            }
        }
    }
}

fn controls(path: &str, visitor: &Visitor) -> Markup {
    html! {
        h2 { "Change" }
        form class="row" method="post" action=(format!("{path}/set")) {
            input type="hidden" name="form_key" value=(visitor.form_key);
            label { "What"
                select name="what" {
                    @for (what, words) in super::changes::WHATS { option value=(what) { (words) } }
                }
            }
            label { "Value" input name="value" placeholder="512 MiB, 25%, or shares"; }
            button { "Change" }
        }
    }
}

/// Returns the table of the guest's processes, busiest first.
fn processes(host: &PastHost, track: &Track) -> Markup {
    let columns = fields(Scope::Process, &PROCESS);
    let mut rows: Vec<(String, u32, Vec<Option<f64>>)> = track
        .processes
        .iter()
        .map(|(who, over)| {
            let values = columns
                .iter()
                .map(|field| host.whole.process(&track.whole, over, field.id))
                .collect();
            (name(&who.name), who.pid, values)
        })
        .collect();
    rows.sort_by(|a, b| {
        let of = |values: &[Option<f64>]| values.first().copied().flatten().unwrap_or(-1.0);
        of(&b.2).total_cmp(&of(&a.2))
    });
    html! {
        @if !rows.is_empty() {
            h2 { "Processes" }
            div class="wide" tabindex="0" role="group" aria-label="Processes" {
                table {
                    thead { tr {
                        th scope="col" class="label" { "Process" }
                        th scope="col" { "PID" }
                        @for field in &columns {
                            th scope="col" title=(meaning(field)) {
                                (field.heading()) }
                        }
                    } }
                    tbody {
                        @for (name, pid, values) in rows.iter().take(PROCESSES_MAX) {
                            tr {
                                th scope="row" class="label" { (name) }
                                td { @if *pid == 0 { "-" } @else { (pid) } }
                                @for (field, value) in columns.iter().zip(values) { td {
                                    (cell(field, *value)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{GuestField as G, Over, ProcessField as P, ProcessName, Row};

    #[test]
    fn processes_are_ordered_by_own_and_childrens_time() {
        let row = |times: [u64; 3]| {
            let fields = [P::User, P::System, P::ChildUser];
            let mut row = Row::default();
            row.extend(fields.into_iter().zip(times.map(|ms| Some(ms * 1_000_000))));
            Over { covered_ms: 60_000, row }
        };
        let process = |name: &str, times| (ProcessName { name: name.into(), pid: 0 }, row(times));
        let mut whole = Over { covered_ms: 60_000, ..Over::default() };
        for field in [G::VcpuRun, G::RunThen, G::OwnRun] {
            whole.row.set(field, Some(2_000_000_000));
        }
        let processes = [
            process("idle", [1, 1, 0]),
            process("nginx", [500, 200, 0]),
            process("sh", [1, 1, 800]),
        ];
        let track = Track { whole, processes: processes.into(), ..Track::default() };
        let page = super::processes(&PastHost::default(), &track).into_string();
        let place = |name: &str| page.find(&format!(">{name}<")).expect(name);
        assert!(place("sh") < place("nginx") && place("nginx") < place("idle"), "{page}");
        assert!(page.contains("<td>802.0</td>"), "{page}");
    }

    #[test]
    fn marks_of_decisions_have_colours_of_their_own() {
        let lines = reports::chart::colours(&fields(Scope::Guest, MEMORY));
        let told = |action| Told {
            at_ms: 0,
            guest: None,
            action,
            to_mib: None,
            is_earlier: false,
            text: String::new(),
        };
        let marks = ["grow", "shrink", "stuck", "hold"].map(|action| mark(&told(action)));
        let colours: Vec<usize> = marks.iter().flatten().map(|mark| mark.colour).collect();
        assert_eq!(colours, [4, 5, 6], "hold has no mark");
        assert!(lines.iter().all(|line| !colours.contains(line)), "{lines:?}");
    }

    #[test]
    fn a_guest_named_like_a_pattern_shows_only_its_decisions() {
        let chosen = |name: &str, uuid: &str| Chosen {
            name: name.into(),
            uuid: uuid.into(),
            label: name.into(),
            keys: Vec::new(),
        };
        assert!(is_about(&chosen("web*", ""), "web*", "web*"));
        assert!(!is_about(&chosen("web1", ""), "web*", "web*"));
        // The UUID identifies the guest even under another name.
        assert!(is_about(&chosen("before", "12-34"), "12-34", "now"));
    }
}
