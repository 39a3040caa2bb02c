//! What deserves doing, with its evidence, its command, and what replay says would come of it.

use super::columns::name;
use super::layout::{Page, time_bar};
use crate::app::App;
use crate::extract::Values;
use crate::fault::Fault;
use crate::plot::spark;
use crate::span::{Span, TimeQuery};
use axum::extract::State;
use axum::response::Response;
use base::{duration::DAY_MS, plain};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use why::when::Now;

/// A finding, as `pinhead tune --format json` tells it.
#[derive(Debug, Deserialize)]
struct Finding {
    fault: String,
    guest: String,
    evidence: Vec<(String, String)>,
    series: Vec<u64>,
    command: String,
    gains_bytes: u64,
    gains_cpu_permille: u64,
    gains_met_permille: u64,
    foretold: Option<Foretold>,
}

/// What playing the passes again gave.
#[derive(Debug, Deserialize)]
struct Foretold {
    free_bytes_before: u64,
    free_bytes_after: u64,
    unmet_byte_seconds_before: f64,
    unmet_byte_seconds_after: f64,
    moves_before: u64,
    moves_after: u64,
}

/// The page.
pub(crate) async fn tune(State(app): State<Arc<App>>, Values(time): Values<TimeQuery>) -> Response {
    app.make(move |app| page(app, &time, &app.now())).await
}

fn page(app: &App, time: &TimeQuery, now: &Now) -> Result<Markup, Fault> {
    let usual = TimeQuery { last: Some("1d".into()), ..TimeQuery::default() };
    let is_given = [&time.last, &time.from, &time.to].iter().any(|text| text.is_some());
    let span = Span::of(if is_given { time } else { &usual }, 240, now)?;
    let Some(tune) = &app.sources.tune else {
        return Err(Fault::missing(
            "Nothing is known here of what deserves doing: that takes recordings of this host",
        ));
    };
    // It looks at a year at most, and intervals may make a page's time longer.
    let from_ms = span.from_ms.max(span.to_ms.saturating_sub(365 * DAY_MS));
    let found = tune(from_ms, span.to_ms).map_err(Fault::source);
    let findings: Result<Vec<Finding>, Fault> = found.and_then(|text| {
        serde_json::from_str(&text).map_err(|_| Fault::source("The findings cannot be read"))
    });
    let body = html! {
        h1 { "What deserves doing" }
        (time_bar("/tune", &span, &[], None, now))
        @match &findings {
            Err(fault) => p class="notice" { (fault.message) },
            Ok(all) if all.is_empty() => p {
                "Nothing deserves doing: the guests are as they should be." },
            Ok(all) => @for one in all { (finding(one)) },
        }
    };
    Ok(Page { title: "Tune", place: "/tune", span: Some(&span), body }.whole())
}

fn finding(one: &Finding) -> Markup {
    let tenths = |permille: u64| format!("{}.{} %", permille / 10, permille % 10);
    let mut gains = Vec::new();
    if one.gains_met_permille > 0 {
        gains.push(format!("a need is met in {} of the time", tenths(one.gains_met_permille)));
    }
    if one.gains_bytes > 0 {
        gains.push(format!("{} MiB", one.gains_bytes >> 20));
    }
    if one.gains_cpu_permille > 0 {
        gains.push(format!("{} of a CPU", tenths(one.gains_cpu_permille)));
    }
    let series: Vec<Option<f64>> = one.series.iter().map(|value| Some(*value as f64)).collect();
    let who = if one.guest.is_empty() { "the host".to_owned() } else { name(&one.guest) };
    html! {
        section class="finding" {
            h2 { (who) ": " (plain(&one.fault, 60)) }
            p { "To gain: " b { (gains.join(", ")) } }
            p { (spark(&series, "Over time")) }
            dl { @for (what, value) in &one.evidence { dt { (plain(what, 60)) } dd { (plain(value,
                120)) } } }
            p { code { (plain(&one.command, 400)) } }
            @if let Some(told) = &one.foretold {
                p {
                    "Played again with it: " (told.free_bytes_after >> 20)
                        " MiB free on average instead of "
                    (told.free_bytes_before >> 20) ", "
                    (minutes(told.unmet_byte_seconds_after)) " MiB min not met instead of "
                    (minutes(told.unmet_byte_seconds_before)) ", "
                    (told.moves_after) " moves instead of " (told.moves_before) "."
                }
            }
        }
    }
}

fn minutes(byte_seconds: f64) -> String {
    format!("{:.0}", byte_seconds / 1_048_576.0 / 60.0)
}
