//! Parts of all pages (frame, navigation and time bar), and the pages for errors and for strangers.

use crate::assets::{script_path, style_path};
use crate::fault::Fault;
use crate::span::{Span, moment};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::{duration, plain};
use maud::{DOCTYPE, Markup, html};
use model::Gap;
use reports::{Zone, clock_text, date_text};
use why::when::{self, Now};

const PLACES: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/decisions", "Decisions"),
    ("/reports", "Reports"),
    ("/tune", "Tune"),
    ("/farms", "Farms"),
    ("/about", "About"),
];

/// Maximum length of the address to return to after a login.
const TO_MAX: usize = 500;

/// Local time zone, for reports and charts.
pub(crate) struct Local<'a>(pub(crate) &'a Now);

impl Zone for Local<'_> {
    fn offset_min(&self, at_ms: i64) -> i64 {
        when::offset_min(at_ms, &self.0.zone)
    }
}

/// Formats a moment with its date.
pub(crate) fn stamp(ms: i64, now: &Now) -> String {
    let zone = Local(now);
    format!("{} {}", date_text(ms, &zone), clock_text(ms, &zone))
}

pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// Address of this page's entry in the navigation.
    pub(crate) place: &'a str,
    /// Time range of the page, if it has one.
    pub(crate) span: Option<&'a Span>,
    pub(crate) body: Markup,
}

impl Page<'_> {
    pub(crate) fn whole(self) -> Markup {
        // Links keep the time range of this page.
        let query = self.span.map(Span::query).filter(|query| query != "last=1h");
        let to = |path: &str| match &query {
            Some(query) if !["/farms", "/about"].contains(&path) => format!("{path}?{query}"),
            _ => path.to_owned(),
        };
        frame(
            self.title,
            html! {
                nav class="bar" aria-label="Pages" {
                    b { "pinhead" }
                    @for (path, name) in PLACES {
                        a href=(to(path)) aria-current=[(self.place == path).then_some("page")] {
                            (name) }
                    }
                }
            },
            self.body,
        )
    }
}

fn frame(title: &str, bar: Markup, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – pinhead" }
                link rel="stylesheet" href=(style_path());
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                script src=(script_path()) defer {}
            }
            body {
                a class="skip" href="#main" { "To the contents" }
                (bar)
                main id="main" { (body) }
            }
        }
    }
}

/// Returns the notice for a failed refresh, which is hidden at first.
pub(crate) fn stale() -> Markup {
    html! {
        p id="stale" class="notice" role="status" hidden {
            "This page could not be refreshed. It shows the values of the last refresh."
        }
    }
}

/// Returns the hidden values of a form.
pub(crate) fn hidden(pairs: &[(&'static str, String)]) -> Markup {
    html! {
        @for (name, value) in pairs { input type="hidden" name=(name) value=(value); }
    }
}

/// Time ranges that can be selected with one click.
const LASTS: [(&str, &str); 5] =
    [("1h", "1 hour"), ("6h", "6 hours"), ("1d", "1 day"), ("7d", "7 days"), ("30d", "30 days")];

/// Address of the events with a page's current values.
pub(crate) struct Feed {
    pub(crate) address: String,
    /// Reason why there are no current values.
    pub(crate) trouble: Option<String>,
}

/// Returns the notice about missing current values. The script shows and hides this notice, so the
/// reason is on the page only once.
fn trouble(feed: &Feed) -> Markup {
    html! {
        p id="trouble" class="notice" role="status" hidden[feed.trouble.is_none()] {
            "No live data: "
            span { (feed.trouble.as_deref().unwrap_or_default()) }
            ". The page shows recordings."
        }
    }
}

/// Returns the bar with the displayed time range, and a form to select another time range. `keep`
/// contains the other values of the address.
pub(crate) fn time_bar(
    path: &str,
    span: &Span,
    keep: &[(&str, &str)],
    feed: Option<&Feed>,
    now: &Now,
) -> Markup {
    let zone = Local(now);
    let host = span.host.as_deref().unwrap_or_default();
    let keep = [keep, &[("host", host)]].concat();
    let kept: String = keep
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("&{name}={}", crate::span::segment(value)))
        .collect();
    html! {
        @if let Some(feed) = feed { (trouble(feed)) }
        div class="time" data-events=[feed.map(|feed| &feed.address)] {
            @if let Some(feed) = feed {
                span id="state" role="status" {
                    @if feed.trouble.is_none() { "Live" } @else { "Not live" } }
                span id="at" { (clock_text(now.ms - now.ms.rem_euclid(1000), &zone)) }
                button type="button" id="pause" hidden { "Hold" }
            } @else if span.live.is_none() {
                span id="state" { "Recorded" }
                span { (stamp(span.from_ms, now)) " to " (stamp(span.to_ms, now)) }
            }
            @for (last, name) in LASTS {
                a href=(format!("{path}?last={last}{kept}"))
                    aria-current=[(span.live.as_deref() == Some(last)).then_some("true")] { (name) }
            }
        }
        form class="row" method="get" action=(path) {
            @for (name, value) in keep.iter().filter(|(_, value)| !value.is_empty()) {
                input type="hidden" name=(name) value=(value);
            }
            label { "From" input name="from" value=(span.live.as_ref().map_or_else(||
                moment(span.from_ms), |_| String::new())) placeholder="14:03 or 3h ago"; }
            label { "To" input name="to" value=(span.live.as_ref().map_or_else(||
                moment(span.to_ms), |_| String::new())) placeholder="now"; }
            button { "Show" }
        }
    }
}

/// Returns one notice about all times without a recording, where charts are empty. The notice
/// contains the last of these times.
pub(crate) fn gaps(gaps: &[Gap], now: &Now) -> Markup {
    let Some(last) = gaps.iter().max_by_key(|gap| gap.to_ms) else { return html! {} };
    let missing_ms = gaps.iter().map(|gap| gap.to_ms.saturating_sub(gap.from_ms)).sum();
    let (from, to) = (stamp(last.from_ms, now), stamp(last.to_ms, now));
    html! {
        p class="notice" {
            "Nothing was recorded "
            @if gaps.len() > 1 {
                (gaps.len()) " times, " (duration::show(missing_ms)) " in total, most recently "
            }
            "from " (from) " to " (to)
            @if !last.reason.is_empty() { ": " (cause(&last.reason)) }
        }
    }
}

/// Returns the reason of a gap in words. Recordings of other versions may contain further reasons.
fn cause(reason: &str) -> String {
    match reason {
        "restart" => "the manager was restarted".to_owned(),
        "late" => "the host was too busy".to_owned(),
        "lost" => "the data could not be written".to_owned(),
        other => plain(other, 80),
    }
}

pub(crate) fn html_response(page: Markup) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], page.into_string()).into_response()
}

/// Returns an error page.
pub(crate) fn fault(fault: &Fault) -> Response {
    let page = Page {
        title: "Not possible",
        place: "",
        span: None,
        body: html! {
            h1 { "Not possible" }
            p class="notice" role="alert" { (fault.message) }
            p { a href="/" { "Back to the overview" } }
        },
    };
    (fault.status, html_response(page.whole())).into_response()
}

/// Returns the login page. After a login the browser is redirected to the requested page.
pub(crate) fn stranger(status: StatusCode, why: &str, to: &str, has_password: bool) -> Response {
    let body = html! {
        h1 { "Sign in" }
        @if !why.is_empty() { p class="notice" role="alert" { (why) } }
        @if has_password {
            form class="row" method="post" action="/login" {
                input type="hidden" name="to" value=(plain(to, TO_MAX));
                label { "Password" input type="password" name="password"
                    autocomplete="current-password" required; }
                button { "Log in" }
            }
        } @else {
            p { "Open the address that " code { "pinhead web" } " printed last, or type the \
                token in it. A token opens the pages once, within ten minutes. A new address is \
                printed by " code { "kill -USR1" } " with the PID of the process, or by "
                code { "systemctl kill -s USR1 pinhead-web" } "." }
            form class="row" method="get" action="/" {
                label { "Token" input name="token" autocomplete="off" required; }
                button { "Open" }
            }
        }
    };
    let page =
        frame("Sign in", html! { nav class="bar" aria-label="Pages" { b { "pinhead" } } }, body);
    (status, html_response(page)).into_response()
}

/// Responds to an unknown address.
pub(crate) async fn nowhere() -> Response {
    fault(&Fault::missing("There is no such page"))
}

/// Responds to a method that the address does not support.
pub(crate) async fn not_so() -> Response {
    fault(&Fault::new(StatusCode::METHOD_NOT_ALLOWED, "This address does not support this method"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn gaps_share_one_notice_with_count_and_last() {
        let now = Now { ms: 0, zone: TimeZone::UTC };
        let gap = |at: i64| Gap {
            from_ms: at * 60_000,
            to_ms: at * 60_000 + 30_000,
            reason: "<restart>".into(),
        };
        assert_eq!(gaps(&[], &now).into_string(), "");
        let one = gaps(&[gap(1)], &now).into_string();
        let last = "from 1970-01-01 00:01 to 1970-01-01 00:01:30: &lt;restart&gt;";
        assert!(one.contains(&format!("Nothing was recorded {last}")), "{one}");
        let many: Vec<Gap> = (-8..=1).map(gap).collect();
        let many = gaps(&many, &now).into_string();
        assert_eq!(many.matches("<p").count(), 1, "{many}");
        assert!(
            many.contains(&format!("10 times, 5 min in total, most recently {last}")),
            "{many}"
        );
        let known = gaps(&[Gap { reason: "restart".into(), ..gap(1) }], &now).into_string();
        assert!(known.contains(": the manager was restarted<"), "{known}");
    }
}
