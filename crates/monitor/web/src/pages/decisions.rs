//! Page of decisions with their reasons and results, and of the differences of the shadow policy.

use super::columns::name;
use super::layout::{Local, Page, hidden, time_bar};
use crate::app::App;
use crate::extract::Values;
use crate::fault::Fault;
use crate::span::{Span, TimeQuery};
use crate::who::path_of;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use reports::clock_text;
use serde::Deserialize;
use std::sync::Arc;
use store::{Journal, Policy, Range};
use why::when::{self, Now};
use why::{Answer, Question, Time, Told};

/// Maximum number of lines on a page.
const LINES_MAX: usize = 1_000;
/// Number of intervals of the time range. This page does not use the intervals.
const POINTS: i64 = 240;

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Asked {
    #[serde(flatten)]
    time: TimeQuery,
    /// A guest, by name, pattern or UUID.
    #[serde(default)]
    guest: String,
    /// Policy to show. `shadow` shows decisions that were not carried out, and `apart` shows the
    /// differences.
    #[serde(default)]
    policy: String,
}

/// Returns the journal's decisions about a guest in a time range, or the reason why none are shown.
pub(crate) fn answer(
    app: &App,
    guest: &str,
    span: &Span,
    policy: Policy,
    now: &Now,
) -> (Option<Answer>, Option<String>) {
    let Some(path) = app.source.journal() else { return (None, None) };
    let question = Question {
        guest: guest.to_owned(),
        time: Time::Between(Range { from_ms: span.from_ms, to_ms: span.to_ms.saturating_sub(1) }),
        policy,
    };
    let asked = || -> Result<Answer, why::Error> {
        why::answer(&Journal::read_only(&path)?, &question, now.clone())
    };
    match asked() {
        Ok(answer) => (Some(answer), None),
        // A guest without decisions is no error.
        Err(why::Error::Unknown { .. }) => (None, None),
        Err(error) => (None, Some(format!("Decisions are not shown: {}", base::chain(&error)))),
    }
}

pub(crate) async fn decisions(
    State(app): State<Arc<App>>,
    Values(asked): Values<Asked>,
) -> Response {
    app.make(move |app| page(app, &asked, &app.now())).await
}

fn page(app: &App, asked: &Asked, now: &Now) -> Result<Markup, Fault> {
    let span = Span::of(&asked.time, POINTS, now)?;
    if app.source.journal().is_none() {
        return Err(Fault::missing("This server has no journal of decisions"));
    }
    let guest = if asked.guest.trim().is_empty() { "*" } else { asked.guest.trim() };
    let policy = if asked.policy == "shadow" { Policy::Shadow } else { Policy::Active };
    let content = match asked.policy.as_str() {
        "apart" => apart(app, &span, asked.guest.trim(), now)?,
        _ => {
            let (answer, trouble) = answer(app, guest, &span, policy, now);
            let told: Vec<Told<'_>> = answer.as_ref().map(Answer::lines).unwrap_or_default();
            html! {
                @if answer.as_ref().is_some_and(Answer::is_cut) {
                    p class="notice" {
                        "There are more decisions than fit on a page, and the newest are missing: \
                         choose a shorter time."
                    }
                }
                @match &trouble {
                    Some(trouble) => p class="notice" { (trouble) },
                    None => (told_table(&told, LINES_MAX, true, &span, now)),
                }
            }
        }
    };
    let choices = [
        ("", "Active: decisions that were carried out"),
        ("shadow", "Shadow: decisions of another policy, not carried out"),
        ("apart", "Differences between the two policies"),
    ];
    let keep = [("guest", asked.guest.as_str()), ("policy", asked.policy.as_str())];
    let body = html! {
        h1 { "Decisions" }
        (time_bar("/decisions", &span, &keep, None, now))
        form class="row" method="get" action="/decisions" {
            (hidden(&span.pairs()))
            label { "Guest" input name="guest" value=(asked.guest) placeholder="web* or a UUID"; }
            label { "Policy"
                select name="policy" {
                    @for (value, words) in choices {
                        option value=(value) selected[asked.policy == value] { (words) }
                    }
                }
            }
            button { "Show" }
        }
        (content)
    };
    Ok(Page { title: "Decisions", place: "/decisions", span: Some(&span), body }.whole())
}

fn apart(app: &App, span: &Span, guest: &str, now: &Now) -> Result<Markup, Fault> {
    let Some(path) = app.source.journal() else { return Ok(html! {}) };
    let journal = Journal::read_only(&path).map_err(|error| Fault::source(base::chain(&error)))?;
    let last = format!("{}s", (now.ms.saturating_sub(span.from_ms) / 1_000).max(1));
    let guest = Some(guest).filter(|guest| !guest.is_empty());
    let answer = why::diff::answer(&journal, &last, guest, now.clone())
        .map_err(|error| Fault::wrong(base::chain(&error)))?;
    Ok(html! {
        p { "From " (clock_text(span.from_ms, &Local(now))) " until now:" }
        ul { @for line in answer.text().lines().take(LINES_MAX) { li { (line) } } }
    })
}

/// Shows lines of the journal as a table, newest first.
pub(crate) fn told_table(
    told: &[Told<'_>],
    most: usize,
    has_guest: bool,
    span: &Span,
    now: &Now,
) -> Markup {
    html! {
        @if told.is_empty() { p { "There are no decisions in this time." } } @else {
            div class="wide" tabindex="0" role="group" aria-label="Decisions" {
                table class="told" {
                    thead { tr {
                        th scope="col" class="label" { "Time" }
                        @if has_guest { th scope="col" class="label" { "Guest" } }
                        th scope="col" class="label" { "What" }
                        th scope="col" { "Target MiB" }
                        th scope="col" class="label" { "Reason and outcome" }
                    } }
                    tbody {
                        @for one in told.iter().rev().take(most) {
                            tr class=[one.is_earlier.then_some("earlier")] {
                                th scope="row" class="label" { (when::show(one.at_ms, now)) @if
                                    one.is_earlier { " (still in force)" } }
                                @if has_guest {
                                    td class="label" {
                                        @if let Some(guest) = one.guest {
                                            @let minute = one.at_ms - one.at_ms.rem_euclid(60_000);
                                            @let time = span.between(minute, minute + 60_000);
                                            @let path = path_of(&guest.name, &guest.uuid);
                                            a href=(format!("{path}?{time}")) {
                                                (name(&guest.label))
                                            }
                                        } @else { "host" }
                                    }
                                }
                                td class="label" { (base::plain(one.action, 32)) }
                                @if let Some(mib) = one.to_mib {
                                    td class="to" { (mib) }
                                } @else { td { "-" } }
                                td class="label" { (one.text) }
                            }
                        }
                    }
                }
            }
            @if told.len() > most { p { (told.len() - most)
                " older lines are not shown: choose a shorter time." } }
        }
    }
}
