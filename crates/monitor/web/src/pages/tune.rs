//! Page of findings, with evidence, a command, and the outcome that a replay predicts.

use super::columns::name;
use super::layout::{Page, time_bar};
use crate::app::App;
use crate::extract::Values;
use crate::fault::Fault;
use crate::plot::spark;
use crate::span::{Span, TimeQuery};
use axum::extract::State;
use axum::response::Response;
use base::{chain, duration::DAY_MS, plain};
use maud::{Markup, html};
use std::sync::Arc;
use whatif::backtest::{Advised, Findings};
use whatif::{Finding, Sources, points};
use why::when::Now;

pub(crate) async fn tune(State(app): State<Arc<App>>, Values(time): Values<TimeQuery>) -> Response {
    app.make(move |app| page(app, &time, &app.now())).await
}

fn page(app: &App, time: &TimeQuery, now: &Now) -> Result<Markup, Fault> {
    let usual = TimeQuery { last: Some("1d".into()), ..TimeQuery::default() };
    let is_given = [&time.last, &time.from, &time.to].iter().any(|text| text.is_some());
    let span = Span::of(if is_given { time } else { &usual }, 240, now)?;
    // Findings cover at most a year. The page's range may be longer, because its ends are rounded.
    let from_ms = span.from_ms.max(span.to_ms.saturating_sub(365 * DAY_MS));
    let Some(findings) = app.source.tune((from_ms, span.to_ms)) else {
        return Err(Fault::missing("There are no suggestions: they need recordings of this host"));
    };
    let has_guests = |found: &Findings| found.all.iter().any(|one| !one.finding.guest.is_empty());
    let needs_sources = findings.as_ref().is_ok_and(has_guests);
    let sources = if needs_sources { app.source.guest_sources() } else { Sources::default() };
    let body = html! {
        h1 { "Suggestions" }
        (time_bar("/tune", &span, &[], None, now))
        @match &findings {
            Err(error) => p class="notice" { (chain(error)) },
            Ok(found) => {
                @for one in &found.all { (finding(one, &sources)) }
                @for note in found.notes() { p { (note) } }
            },
        }
    };
    Ok(Page { title: "Tune", place: "/tune", span: Some(&span), body }.whole())
}

fn finding(one: &Advised, sources: &Sources) -> Markup {
    let Finding { fault, guest, evidence, chart, gain, .. } = &one.finding;
    let series: Vec<Option<f64>> =
        points(chart).into_iter().map(|value| Some(value as f64)).collect();
    let who = if guest.is_empty() { "the host".to_owned() } else { name(guest) };
    html! {
        section class="finding" {
            h2 { (who) ": " (fault) }
            p { "Potential gain: " b { (gain) } }
            p { (spark(&series, "Over time")) }
            dl { @for (what, value) in evidence { dt { (what) } dd { (plain(value,
                120)) } } }
            p { code { (plain(&one.finding.command(sources.of(guest)), 400)) } }
            @if let Some(told) = &one.foretold {
                p {
                    "Replay with this change: " (told.after.free.nearest_mib())
                        " MiB free on average instead of "
                    (told.before.free.nearest_mib()) ", "
                    (minutes(told.after.tally.unmet)) " MiB·min of unmet need instead of "
                    (minutes(told.before.tally.unmet)) ", "
                    (told.after.tally.moves()) " moves instead of " (told.before.tally.moves()) "."
                }
            }
        }
    }
}

fn minutes(unmet_byte_ms: u128) -> String {
    format!("{:.0}", unmet_byte_ms as f64 / 1_048_576.0 / 60_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Bytes;
    use whatif::backtest::{Foretold, Outcome};
    use whatif::{Fault, Gain, Remedy, Tally};

    #[test]
    fn finding_shows_gain_command_and_outcome() {
        let outcome = |free, unmet_mib_min: u128| {
            let unmet = (unmet_mib_min * 60_000) << 20;
            let tally = Tally { unmet, grows: 3, ..Tally::default() };
            Outcome { tally, free: Bytes::mib(free) }
        };
        let advised = Advised {
            finding: Finding {
                fault: Fault::TooLarge,
                guest: "g<1>".into(),
                evidence: vec![("holds", "96 MiB".into())],
                chart: vec![90, 96],
                remedy: Remedy::Max(Bytes::mib(64)),
                gain: Gain { memory: Bytes::mib(20), cpu_permille: 35, met_permille: 0 },
            },
            foretold: Some(Foretold { before: outcome(100, 7), after: outcome(120, 5) }),
        };
        let text = finding(&advised, &Sources::default()).into_string();
        let has = |part: &str| assert!(text.contains(part), "{part}: {text}");
        has("<h2>g&lt;1&gt;: too large</h2><p>Potential gain: <b>20 MiB, 3.5 % of a CPU</b></p>");
        has("<dt>holds</dt><dd>96 MiB</dd>");
        has("<code>pinhead set 'g&lt;1&gt;' max &quot;64 MiB&quot;</code>");
        has("Replay with this change: 120 MiB free on average instead of 100, 5 MiB·min of \
             unmet need instead of 7, 3 moves instead of 3.");
    }
}
