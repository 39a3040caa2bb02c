//! Reports by guest, class or host, as a page, CSV or JSON.

use super::layout::{Local, Page, hidden, time_bar};
use crate::app::App;
use crate::extract::{Name, Values};
use crate::fault::Fault;
use crate::span::{Span, TimeQuery, segment};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped, html};
use reports::recorded::Wanted;
use reports::{By, Definition, Detail, Options, Pattern, REPORTS, Report};
use serde::Deserialize;
use std::sync::Arc;
use why::when::Now;

/// Number of points of a chart.
const POINTS: i64 = 96;
/// Default and maximum number of rows, not counting the sums.
const ROWS: usize = 50;
const ROWS_MAX: usize = 10_000;

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Asked {
    #[serde(flatten)]
    time: TimeQuery,
    /// Grouping of rows: guest, class or host.
    #[serde(default)]
    by: String,
    /// Pattern for the guests' name or class.
    #[serde(default)]
    class: String,
    /// Name of the only guest.
    #[serde(default)]
    guest: String,
    /// Maximum number of rows.
    #[serde(default)]
    top: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Page,
    Csv,
    Json,
}

pub(crate) async fn reports(
    State(app): State<Arc<App>>,
    Values(time): Values<TimeQuery>,
) -> Response {
    app.make(move |app| {
        let now = app.now();
        let span = Span::of(&time, POINTS, &now)?;
        let body = html! {
            h1 { "Reports" }
            (time_bar("/reports", &span, &[], None, &now))
            dl {
                @for report in REPORTS {
                    dt { a href=(format!("/report/{}?{}", report.name, span.query())) {
                        (report.name) } }
                    dd { (report.title) @if !report.heritage.is_empty() { " ("
                        (report.heritage.join(", ")) ")" } }
                }
            }
        };
        Ok(Page { title: "Reports", place: "/reports", span: Some(&span), body }.whole())
    })
    .await
}

pub(crate) async fn report(
    State(app): State<Arc<App>>,
    Name(path): Name,
    Values(asked): Values<Asked>,
) -> Response {
    let (name, form) = match path.rsplit_once('.') {
        Some((name, "csv")) => (name.to_owned(), Form::Csv),
        Some((name, "json")) => (name.to_owned(), Form::Json),
        _ => (path, Form::Page),
    };
    let made = app.read(move |app| answer(app, &name, form, &asked, &app.now()));
    match made.await {
        Ok((kind, text)) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(fault) => super::fault(&fault),
    }
}

fn answer(
    app: &App,
    name: &str,
    form: Form,
    asked: &Asked,
    now: &Now,
) -> Result<(&'static str, String), Fault> {
    let found = reports::find(name).map_err(|error| Fault::missing(error.to_string()))?;
    let definition = *found.first().ok_or_else(|| Fault::missing("This report does not exist"))?;
    let span = Span::of(&asked.time, POINTS, now)?;
    let by = match asked.by.as_str() {
        "" | "guest" => By::Guest,
        "class" => By::Class,
        "host" => By::Host,
        other => {
            let other = base::plain(other, 20);
            return Err(Fault::wrong(format!("`by` must be guest, class or host, not {other}")));
        }
    };
    let pattern = match (asked.guest.as_str(), asked.class.trim()) {
        ("", "") => None,
        ("", class) => Some(Pattern::new(class)),
        (guest, "") => Some(Pattern::guest(guest)),
        _ => return Err(Fault::wrong("Only one of `guest` and `class` may be given")),
    };
    let pattern = pattern.transpose().map_err(|error| Fault::wrong(error.to_string()))?;
    let top = match asked.top.trim() {
        "" => ROWS,
        text => text.parse().ok().filter(|top| (1..=ROWS_MAX).contains(top)).ok_or_else(|| {
            Fault::wrong(format!("`top` must be a number of rows from 1 to {ROWS_MAX}"))
        })?,
    };
    let Span { from_ms, to_ms, step_ms, .. } = span;
    let wanted = Wanted { from_ms, to_ms, step_ms, needs: reports::needs(&[definition]) };
    let hosts = app.source.recorded(span.host.as_deref(), &wanted)?;
    let zone = Local(now);
    let detail = if form == Form::Page { Detail::Sums } else { Detail::Each };
    let options = Options { by, pattern: pattern.as_ref(), top, detail, zone: &zone };
    reports::must_be_found(&hosts, &options).map_err(missing)?;
    let report = reports::build(definition, &hosts, &options)
        .map_err(|error| Fault::wrong(error.to_string()))?;
    Ok(match form {
        Form::Csv => ("text/csv; charset=utf-8", reports::csv(&report, &zone)),
        Form::Json => ("application/json", reports::json(&report, &zone)),
        Form::Page => {
            let page = page(definition, &report, asked, &span, now);
            ("text/html; charset=utf-8", page.into_string())
        }
    })
}

/// Returns the fault of a time or a guest that is not recorded.
fn missing(error: reports::Error) -> Fault {
    // The hint ends with options of `pinhead report`, which the pages do not have.
    let text = error.to_string();
    Fault::missing(text.strip_suffix(" with --from and --to").unwrap_or(&text))
}

fn page(definition: &Definition, report: &Report, asked: &Asked, span: &Span, now: &Now) -> Markup {
    let path = format!("/report/{}", definition.name);
    let Asked { by, class, guest, top, .. } = asked;
    let keep = [("by", by), ("class", class), ("guest", guest), ("top", top)]
        .map(|(name, value)| (name, value.as_str()));
    let more: String = keep
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("&{name}={}", segment(value)))
        .collect();
    let body = html! {
        (time_bar(&path, span, &keep, None, now))
        form class="row" method="get" action=(path) {
            (hidden(&span.pairs()))
            label { "By"
                select name="by" {
                    @for one in ["guest", "class", "host"] {
                        option value=(one) selected[by == one] { (one) }
                    }
                }
            }
            @if guest.is_empty() {
                label { "Name or class" input name="class" value=(class) placeholder="web*"; }
            } @else {
                label { "Guest" input name="guest" value=(guest); }
            }
            label { "Rows" input name="top" value=(top) placeholder=(ROWS)
                inputmode="numeric"; }
            button { "Show" }
            span {
                a href=(format!("{path}.csv?{}{more}", span.query())) { "CSV" } " "
                a href=(format!("{path}.json?{}{more}", span.query())) { "JSON" }
            }
        }
        (PreEscaped(reports::html_body(report, &Local(now))))
    };
    Page { title: definition.name, place: "/reports", span: Some(span), body }.whole()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_on_a_page_names_no_options() {
        let hint = "The recording covers a day; choose a part with --from and --to".to_owned();
        let fault = missing(reports::Error::NothingRecorded { hint });
        let text = "Nothing is recorded in this time. The recording covers a day; choose a part";
        assert_eq!((fault.status.as_u16(), fault.message.as_str()), (404, text));
    }
}
